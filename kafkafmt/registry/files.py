"""Read schemas from files, and save the schemas of a registry as files.

A saved registry also has the file `INDEX`, which contains everything but the texts of the schemas.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import StructureError
from ..log.storage import is_file, list_directory, read_bytes
from ..support.paths import Location
from ..support.text import shown
from .models import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    integer_of,
    member,
    parse_json,
    schema_error,
    schema_guid,
    schema_of,
    text_of,
)
from .registry import SchemaFinding, SchemaRegistry

INDEX = "kafkafmt-schemas.json"
SUFFIXES = {".avsc": AVRO, ".json": JSON, ".proto": PROTOBUF}
DESCRIPTOR_SETS = (".desc", ".pb", ".binpb")
NO_DESCRIPTORS = "it is not a set of Protobuf descriptors"
MOST_FILES = 10_000
LONGEST_NAME = 100
"""Largest number of characters of a subject in the name of a directory."""


def schema_files(place: Location) -> list[Location]:
    """Return the schema files at a path: the file itself, or those in a directory and its subdirectories."""
    if is_file(place):
        return [place] if _suffix(place.name) in (*SUFFIXES, *DESCRIPTOR_SETS) else []
    found: list[Location] = []
    pending = [place]
    while pending:
        folder = pending.pop()
        directories, names = list_directory(folder)
        found += (folder / name for name in names if _suffix(name) in (*SUFFIXES, *DESCRIPTOR_SETS))
        pending += (folder / name for name in directories if not name.startswith("."))
        if len(found) + len(pending) > MOST_FILES:
            raise StructureError(f"{place}: more than {MOST_FILES} files and directories; specify one directory")
    return sorted(found, key=str)


def read_files(place: Location, files: list[Location]) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return the schemas in files, and findings about files that cannot be used."""
    if len(files) == 1 and files[0].name == INDEX:
        return read_index(files[0])
    versions, findings = [], []
    for file in files:
        name = str(file).removeprefix(str(place)).lstrip("/") or file.name
        subject, suffix = os.path.splitext(name)
        try:
            content = _content(file)
            if suffix.lower() in DESCRIPTOR_SETS:
                versions += _in_descriptor_set(subject, content)
            else:
                text = content.decode().removeprefix("\ufeff")
                versions.append(_unregistered(subject, SUFFIXES[suffix.lower()], text))
        except ValueError as error:
            findings.append(SchemaFinding(None, "unreadable", f"{file}: {error}"))
    return versions, findings


def save_registry(registry: SchemaRegistry, folder: Path) -> int:
    """Write all versions to files in a new or empty directory, and then `INDEX`. Return the number of versions."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder}: the directory is not empty")
    suffixes = {kind: suffix for suffix, kind in SUFFIXES.items()}
    entries = []
    for version in registry:
        path = (
            folder / _directory_name(version.subject) / f"{version.version}{suffixes.get(version.schema_type, '.txt')}"
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(version.schema, encoding="utf-8", newline="")
        head = {"subject": version.subject, "compatibility": version.compatibility}
        tail = {"metadata": version.metadata, "ruleSet": version.rule_set, "file": path.relative_to(folder).as_posix()}
        entries.append(json.dumps(head | version.to_dict() | tail))
    (folder / INDEX).write_text("[\n" + ",\n".join(entries) + "\n]\n", encoding="utf-8")
    return len(entries)


def read_index(index: Location) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return the schemas of a saved registry."""
    versions, findings = [], []
    try:
        entries = parse_json(_content(index))
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("it is not a list of versions")
    except ValueError as error:
        return [], [SchemaFinding(None, "unreadable", f"{index}: {error}")]
    for entry in entries:
        try:
            versions.append(_saved(index.parent, entry))
        except ValueError as error:
            findings.append(SchemaFinding(None, "unreadable", f"{index}: {shown(entry.get('file'))}: {error}"))
    return versions, findings


def _saved(folder: Location, entry: dict[str, Any]) -> RegisteredSchema:
    parts = text_of(entry, "file").split("/")
    if ".." in parts:
        raise ValueError("its file is in another directory")
    for part in parts:
        folder /= part
    content = {**entry, "schemaType": entry.get("type"), "schema": _content(folder).decode()}
    subject, with_id = text_of(entry, "subject"), entry.get("id") is not None
    found = schema_of(content, subject, integer_of(entry, "version"), with_id=with_id)
    return replace(found, compatibility=member(entry, "compatibility", str))


def _unregistered(subject: str, kind: str, text: str) -> RegisteredSchema:
    return RegisteredSchema(None, schema_guid(text), subject, 1, kind, text, error=schema_error(kind, text))


def _content(file: Location) -> bytes:
    """Return the content of a file. ValueError: it cannot be read."""
    try:
        content = read_bytes(file)
    except StructureError as error:
        raise ValueError(error.message) from None
    except OSError as error:
        raise ValueError(f"{file.name} cannot be read: {error.strerror or error}") from None
    if content is None:
        raise ValueError(f"there is no file {file.name}")
    return content


def _in_descriptor_set(subject: str, content: bytes) -> list[RegisteredSchema]:
    """Return the files of a FileDescriptorSet. Each text is a FileDescriptorProto in base64."""
    # This is the form in which Confluent's Python client registers schemas. A text in Protobuf's language would need
    # more than the packages of any extra.
    found = []
    for number, descriptor in _fields(content):
        names = [value.decode() for field, value in _fields(descriptor) if field == 1]
        if number != 1 or len(names) != 1:
            raise ValueError(NO_DESCRIPTORS)
        found.append(_unregistered(f"{subject}/{names[0]}", PROTOBUF, b64encode(descriptor).decode()))
    if not found:
        raise ValueError(NO_DESCRIPTORS)
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and value of each field of a Protobuf message that has a length."""
    position = 0

    def varint() -> int:
        nonlocal position
        number = shift = 0
        while shift < 70 and position < len(message):
            byte = message[position]
            number |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < 0x80:
                return number
        raise ValueError(NO_DESCRIPTORS)

    while position < len(message):
        tag = varint()
        kind = tag & 7
        size = {0: 0, 1: 8, 5: 4}.get(kind, -1) if kind != 2 else varint()
        if kind == 0:
            varint()
        if size < 0 or size > len(message) - position:
            raise ValueError(NO_DESCRIPTORS)
        if kind == 2:
            yield tag >> 3, message[position : position + size]
        position += size


def _directory_name(subject: str) -> str:
    """Return a name for the directory of a subject. A long or special one ends with a digest, so that it is unique."""
    name = quote(subject, safe=" :")
    if len(name) > LONGEST_NAME or name.strip(".") == "":
        name = f"{name[:LONGEST_NAME].replace('.', '%2E')}-{sha256(subject.encode()).hexdigest()[:16]}"
    return name


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
