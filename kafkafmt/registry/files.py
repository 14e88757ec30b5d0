"""Read schemas from files, and save the schemas of a registry as files.

A schema file is named after its subject: ``orders-value.avsc``, ``.json`` or ``.proto``. Saved
registries also contain the file `INDEX`, which has the ids, versions and references.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import StructureError
from ..log.storage import is_file, list_directory, read_text
from ..support.paths import Location
from .models import (
    AVRO,
    DEFAULT_CONTEXT,
    JSON,
    NO_ID,
    PROTOBUF,
    RegisteredSchema,
    schema_error,
    schema_guid,
    split_subject,
)
from .registry import SchemaFinding, SchemaRegistry
from .topic import schema_of

INDEX = "schemas.json"
SUFFIXES = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
MOST_FILES = 10_000


def schema_files(place: Location) -> list[Location]:
    """Return the schema files at a path: the file itself, or those in a directory and its subdirectories."""
    if is_file(place):
        return [place] if _suffix(place) in SUFFIXES else []
    found: list[Location] = []
    pending = [place]
    while pending:
        folder = pending.pop()
        directories, names = list_directory(folder)
        found += (folder / name for name in names if os.path.splitext(name)[1].lower() in SUFFIXES)
        pending += (folder / name for name in directories)
        if len(found) + len(pending) > MOST_FILES:
            raise StructureError(f"{place}: more than {MOST_FILES} files and directories; specify one directory")
    return sorted(found, key=str)


def read_files(place: Location, files: list[Location]) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return the schemas in files, and findings about files that could not be used."""
    index = next((f for f in files if f.name == INDEX), None)
    if index is not None:
        return _read_index(index)
    versions, findings = [], []
    for file in files:
        try:
            text = read_text(file)
        except StructureError as error:
            findings.append(SchemaFinding(None, "unreadable", f"{file}: {error.message}"))
            continue
        name = _subject(place, file)
        kind = SUFFIXES[_suffix(file)]
        error_code = schema_error(kind, text or "", None, None)
        if error_code:
            findings.append(SchemaFinding(None, error_code, f"{file}: it is not JSON"))
        versions.append(
            RegisteredSchema(
                NO_ID, schema_guid(text or "", (), None, None), name, 1, kind, text or "", error=error_code
            )
        )
    return versions, findings


def save_registry(registry: SchemaRegistry, folder: Path, deleted: bool) -> list[Path]:
    """Write each version to a file, and `INDEX`. Return the paths. The directory must not exist, or be empty."""
    content = registry.to_dict(deleted)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder}: the directory is not empty")
    suffixes = {kind: suffix for suffix, kind in SUFFIXES.items()}
    written = []
    for subject in content["subjects"]:
        for entry in subject["versions"]:
            version = registry.get_version(subject["subject"], entry["version"])
            context, name = split_subject(version.subject)
            parts = [] if context == DEFAULT_CONTEXT else [quote(context, safe="")]
            path = folder.joinpath(
                *parts, _file_name(name), f"{version.version}{suffixes.get(version.schema_type, '.txt')}"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(version.schema, encoding="utf-8", newline="")
            written.append(path)
            entry["file"] = path.relative_to(folder).as_posix()
            entry |= {"metadata": version.metadata, "ruleSet": version.rules}
    del content["findings"]
    (folder / INDEX).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return [*written, folder / INDEX]


def _read_index(index: Location) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    versions, findings = [], []
    try:
        content: Any = json.loads(read_text(index) or "")
        entries = [(subject, entry) for subject in content["subjects"] for entry in subject["versions"]]
    except (LookupError, TypeError, ValueError, StructureError):
        return [], [SchemaFinding(None, "invalid_index", f"{index}: it does not list subjects and versions")]
    for subject, entry in entries:
        try:
            text = read_text(index.parent.joinpath(*entry["file"].split("/")))
            if text is None:
                raise LookupError(f"there is no file {entry['file']}")
            found = schema_of(
                {**entry, "schemaType": entry["type"], "schema": text}, subject["subject"], entry["version"]
            )
            versions.append(replace(found, compatibility=subject.get("compatibility")))
        except (AttributeError, LookupError, TypeError, ValueError, StructureError) as error:
            findings.append(SchemaFinding(None, "invalid_index", f"{index}: a version cannot be read: {error}"))
    return versions, findings


def _subject(place: Location, file: Location) -> str:
    """Return the subject of a file: its path below `place`, without the suffix."""
    text, start = str(file), str(place)
    name = text[len(start) :].lstrip("/\\") if text != start else file.name
    return os.path.splitext(name)[0].replace(os.sep, "/")


def _suffix(path: Location) -> str:
    return os.path.splitext(path.name)[1].lower()


def _file_name(subject: str) -> str:
    """Return a name for a directory, from which the subject can be recognized."""
    name = quote(subject, safe=" ")
    return name.replace(".", "%2E") if name.strip(".") == "" else name
