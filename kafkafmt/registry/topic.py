"""Read schemas from the topic ``_schemas``, in which a schema registry stores them.

Confluent's registry and Karapace write keys and values as JSON. Redpanda does too, with further
fields. The key types of Confluent's registry are those of ``SchemaRegistryKeyType``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..constants import NO_END
from ..log import Damage, NoLogError, PartitionDir, PartitionLog, discover
from ..log.reading import OffsetInterval
from .models import (
    AVRO,
    DEFAULT_CONTEXT,
    RegisteredSchema,
    SchemaReference,
    qualified,
    schema_error,
    schema_guid,
    split_subject,
)
from .registry import SchemaFinding

TOPIC = "_schemas"
IGNORED = frozenset({"MODE", "NOOP", "CONTEXT", "ASSOC"})
"""Types of records that change no schema."""


class InvalidRecordError(Exception):
    """Raised for a record that cannot be used. `code` is the identifier of the finding."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def find_topic(path: Any, tell: Callable[[str], None]) -> PartitionDir:
    """Return the partition with the schemas at a path: ``_schemas-0``, or the only partition that is there."""
    found = discover([path])
    for message in found.messages:
        tell(message)
    named = [d for d in found.partitions if d.topic == TOPIC and d.readable]
    if not named and len(found.partitions) == 1:  # a registry can be configured to use another topic
        named = list(found.partitions)
    if not named:
        raise NoLogError(f"{path}: there is no topic {TOPIC}, in which a schema registry stores its schemas")
    return named[0]


def read_topic(directory: PartitionDir) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return all versions that the topic contains, and findings about records that could not be used."""
    found = _Replay()

    def on_damage(damage: Damage) -> None:
        found.findings.append(SchemaFinding(damage.first_offset, "damage", f"schemas may be missing: {damage.message}"))

    log = PartitionLog(directory)
    for record in log.records(OffsetInterval(0, NO_END), on_damage=on_damage):
        try:
            found.apply(record.key, record.value)
        except InvalidRecordError as error:
            found.findings.append(SchemaFinding(record.offset, error.code, str(error)))
    return found.registered(), found.findings


class _Replay:
    """The state of a registry after the records that were applied."""

    def __init__(self) -> None:
        self.findings: list[SchemaFinding] = []
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}
        self._levels: dict[str, str] = {}
        """Compatibility level of each subject, of each context (``:.CONTEXT:``), and of all ("")."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record. InvalidRecordError: it cannot be used."""
        fields = _json_object(key, "key")
        kind = fields.get("keytype")
        content = None if value is None else _json_object(value, "value")
        try:
            if kind == "SCHEMA":
                self._schema(_subject(fields), _integer(fields, "version"), content)
            elif kind == "CONFIG":
                self._config(fields.get("subject") or "", content)
            elif kind in ("DELETE_SUBJECT", "CLEAR_SUBJECT"):
                self._delete(kind, _subject(fields), content)
            elif kind not in IGNORED:
                raise InvalidRecordError("unknown_key_type", f"the record has the unknown key type {kind!r}")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidRecordError("invalid_record", f"the {kind} record has an unexpected form: {error}") from None

    def registered(self) -> list[RegisteredSchema]:
        return [replace(v, compatibility=self._level(v.subject)) for v in self._versions.values()]

    def _schema(self, subject: str, version: int, content: dict[str, Any] | None) -> None:
        if content is None:  # deleted permanently
            self._versions.pop((subject, version), None)
            return
        text = content["schema"] if "schema" in content else None
        if not isinstance(text, str):
            raise InvalidRecordError("invalid_record", f"version {version} of subject {subject} has no schema text")
        self._versions[subject, version] = schema_of(content, subject, version)

    def _config(self, subject: str, content: dict[str, Any] | None) -> None:
        self._levels.pop(subject, None)
        level = (content or {}).get("compatibilityLevel")
        if isinstance(level, str):
            self._levels[subject] = level

    def _delete(self, kind: str, subject: str, content: dict[str, Any] | None) -> None:
        if content is None:
            return
        last = content.get("version")
        for (name, number), version in list(self._versions.items()):
            if name != subject:
                continue
            if kind == "CLEAR_SUBJECT":  # removes the versions that were soft-deleted before
                if version.deleted:
                    del self._versions[name, number]
            elif last is None or number <= last:
                self._versions[name, number] = replace(version, deleted=True)

    def _level(self, subject: str) -> str | None:
        context, _ = split_subject(subject)
        places = [subject, "" if context == DEFAULT_CONTEXT else qualified(context, ""), ""]
        return next((self._levels[place] for place in places if place in self._levels), None)


def schema_of(content: dict[str, Any], subject: str, version: int) -> RegisteredSchema:
    """Return a version from the JSON object of a record or of the REST API."""
    references = tuple(
        SchemaReference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in content.get("references") or ()
    )
    metadata, rules = content.get("metadata"), content.get("ruleSet")
    kind, text = content.get("schemaType") or AVRO, content["schema"]
    return RegisteredSchema(
        _integer(content, "id"),
        content.get("guid") or schema_guid(text, references, metadata, rules),
        subject,
        version,
        kind,
        text,
        references,
        bool(content.get("deleted")),
        error=schema_error(kind, text, metadata, rules),
        metadata=metadata,
        rules=rules,
    )


def _json_object(raw: bytes | None, part: str) -> dict[str, Any]:
    try:
        found = json.loads(raw or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidRecordError("invalid_json", f"the {part} of the record is not a JSON object")
    return found


def _subject(fields: dict[str, Any]) -> str:
    subject = fields.get("subject")
    if not isinstance(subject, str):
        raise ValueError("it has no subject")
    return subject


def _integer(fields: dict[str, Any], name: str) -> int:
    number = fields.get(name)
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"its {name} is {number!r}, not a number")
    return number
