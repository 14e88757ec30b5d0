"""Write the records of schema registries, for tests.

data = write_schemas(tmp_path / "data", [schema("orders-value", 1, 7, '"string"')])
registry = kafkafmt.schemas(data)
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kafkafmt

Pair = tuple[bytes | None, bytes | None]
START = 1_767_225_600_000
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'


def packed(content: Any) -> bytes:
    """Return JSON without spaces, as registries write it."""
    return json.dumps(content, separators=(",", ":")).encode()


def schema(subject: str, version: int, number: int, text: str = ORDER, **members: Any) -> Pair:
    """Return the record with which Confluent's registry registers a version."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False}
    return packed(key), packed(value | members)


def hard_deleted(subject: str, version: int) -> Pair:
    return schema(subject, version, 0)[0], None


def config(subject: str | None, level: str | None) -> Pair:
    key = packed({"keytype": "CONFIG", "subject": subject, "magic": 0})
    return key, None if level is None else packed({"subject": subject, "compatibilityLevel": level})


def deletion(subject: str, version: int) -> Pair:
    """Return the record that marks the versions of a subject up to `version` as deleted."""
    key = packed({"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0})
    return key, packed({"subject": subject, "version": version})


def clearing(subject: str) -> Pair:
    key = packed({"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0})
    return key, packed({"subject": subject})


NOOP: Pair = (packed({"keytype": "NOOP", "magic": 0}), None)


def write_schemas(folder: Path, records: Iterable[Pair], topic: str = "_schemas", **options: Any) -> Path:
    """Write records to a topic in a log directory. Return the path of the log directory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
        with kafkafmt.LogDirectory(folder) as directory:
            writer = directory.writer(topic, 0, **options)
            for n, (key, value) in enumerate(records):
                writer.append([(key, value, START + n)])
    return folder
