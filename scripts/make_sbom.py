"""Add a software bill of materials (CycloneDX) to a wheel, in the directory `.dist-info/sboms/` (PEP 770).

    python scripts/make_sbom.py WHEEL…

The bill of materials lists the package, the native files with their hashes, the libraries compiled
into them, and the required packages. For the same wheel, its bytes are always the same.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import sys
import uuid
import zipfile
from email.parser import HeaderParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # uuid.NAMESPACE_URL
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;.*?extra == ['\"](\w+)['\"].*)?")
NATIVE = (".so", ".pyd", ".dylib")


def add_sbom(wheel: Path) -> str:
    """Add a bill of materials to a wheel, and list it in the file RECORD. Return its path in the wheel.

    An existing bill of materials is replaced.
    """
    with zipfile.ZipFile(wheel) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    names = {info.filename: data for info, data in entries}
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    folder = record.rpartition("/")[0]
    target = f"{folder}/sboms/kafkafmt.cdx.json"
    kept = [(info, data) for info, data in entries if info.filename not in (record, target)]
    bill = (
        json.dumps(make_bill({info.filename: data for info, data in kept}, folder), indent=1, sort_keys=True).encode()
        + b"\n"
    )
    lines = [
        line
        for line in names[record].decode().splitlines()
        if line.rpartition(",")[0].rpartition(",")[0] not in (record, target)
    ]
    digest = base64.urlsafe_b64encode(hashlib.sha256(bill).digest()).decode().rstrip("=")
    lines += [f"{target},sha256={digest},{len(bill)}", f"{record},,"]
    info = next(info for info, _ in entries if info.filename == record)
    scratch = wheel.with_suffix(".new")
    with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as archive:
        for old, data in kept:
            archive.writestr(old, data)
        for name, data in ((target, bill), (record, "\n".join(lines).encode() + b"\n")):
            made = zipfile.ZipInfo(name, info.date_time)
            made.external_attr, made.compress_type = info.external_attr, zipfile.ZIP_DEFLATED
            archive.writestr(made, data)
    shutil.move(scratch, wheel)
    return target


def make_bill(files: dict[str, bytes], folder: str) -> dict[str, Any]:
    """Return a bill of materials for the files in a wheel."""
    metadata = HeaderParser().parsestr(files[f"{folder}/METADATA"].decode())
    me = f"pkg:generic/{metadata['Name']}@{metadata['Version']}"
    native = {name: data for name, data in files.items() if name.endswith(NATIVE)}
    components: list[dict[str, Any]] = [
        {"type": "file", "bom-ref": f"file:{name}", "name": name, "hashes": [_sha256(data)]}
        for name, data in sorted(native.items())
    ]
    if native:
        cython = version("Cython")
        components.append(
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/cython@{cython}",
                "name": "Cython",
                "version": cython,
                "purl": f"pkg:pypi/cython@{cython}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "description": "its utility code is compiled into the native core",
            }
        )
    required = list(_required(metadata.get_all("Requires-Dist") or []))
    components += required
    digest = hashlib.sha256(
        "\n".join(f"{n} {hashlib.sha256(files[n]).hexdigest()}" for n in sorted(files)).encode()
    ).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, digest)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": me,
                "name": metadata["Name"],
                "version": metadata["Version"],
                "description": metadata["Summary"],
                "purl": me,
                "licenses": [{"license": {"id": metadata["License-Expression"]}}],
            },
            "tools": {"components": [{"type": "application", "name": "kafkafmt scripts/make_sbom.py"}]},
        },
        "components": components,
        "dependencies": [{"ref": me, "dependsOn": [c["bom-ref"] for c in components]}],
    }


def _required(requirements: list[str]) -> list[dict[str, Any]]:
    """Return a CycloneDX component for each package that the wheel requires.

    Packages of extras are marked as optional. Packages for development are omitted.
    """
    found: dict[str, dict[str, Any]] = {}
    for text in requirements:
        match = REQUIREMENT.fullmatch(text)
        if match is None:
            raise SystemExit(f"{text!r} is not a requirement that make_sbom.py can parse")
        name, versions, extra = match.groups()
        if extra in ("dev", "docs"):
            continue
        component = found.setdefault(
            name.lower(),
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name.lower()}",
                "name": name,
                "purl": f"pkg:pypi/{name.lower()}",
                "scope": "optional",
                "properties": [],
            },
        )
        if extra is None:
            component["scope"] = "required"
        value = f"{name}{versions}" + (f" (extra {extra})" if extra else "")
        component["properties"].append({"name": "python:requirement", "value": value})
    return list(found.values())


def _sha256(data: bytes) -> dict[str, str]:
    return {"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(f"{path}: {add_sbom(Path(path))}")
