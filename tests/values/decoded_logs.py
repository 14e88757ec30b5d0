"""Write logs with a topic of Avro values and the topic of their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import kafkafmt
from kafkafmt.registry import RegisteredSchema

Row = tuple[bytes | None, bytes | None]


def write_log(
    path: Path, records: Sequence[Row], versions: Iterable[RegisteredSchema], topic: str = "t", per_batch: int = 100
) -> Path:
    """Write the records of a topic, and schemas, to a new log directory. Return its path."""
    with kafkafmt.LogDirectory(path) as directory:
        writer = directory.writer(topic, 0)
        for start in range(0, len(records), per_batch):
            writer.append([(key, value, 1000 + start) for key, value in records[start : start + per_batch]])
        schemas = directory.writer("_schemas", 0)
        for version in versions:
            schemas.append([(*schema_record(version), 1000)])
    return path


def schema_record(version: RegisteredSchema) -> tuple[bytes, bytes]:
    """Return the key and the value of the record of a version in the topic ``_schemas``."""
    key = {"keytype": "SCHEMA", "subject": version.subject, "version": version.version, "magic": 1}
    value: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
        "schema": version.schema,
        "deleted": version.deleted,
    }
    if version.schema_type != "AVRO":
        value["schemaType"] = version.schema_type
    return json.dumps(key).encode(), json.dumps(value).encode()
