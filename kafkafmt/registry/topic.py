"""Read schemas from the topic ``_schemas``, in which a schema registry stores them.

Keys and values are JSON. The types of keys are those of Confluent's ``SchemaRegistryKeyType``. Karapace
writes some of them. Redpanda adds members to the keys, so that a version can have several keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..constants import NO_END
from ..log import Damage, NoLogError, PartitionDir, PartitionLog
from ..log.reading import OffsetInterval
from ..support.text import shown
from .models import (
    DEFAULT_CONTEXT,
    RegisteredSchema,
    integer_of,
    member,
    parse_json,
    qualified,
    schema_of,
    split_subject,
    text_of,
)
from .registry import SchemaFinding

TOPIC = "_schemas"
IGNORED = frozenset({"MODE", "NOOP", "CONTEXT", "ASSOC"})
"""Types of records that change no schema."""
GLOBAL = ":.__GLOBAL:"
"""Name under which the registry stores the configuration of all contexts."""
MOST_FOREIGN = 100
"""Largest number of unusable records at the start of a topic that is not named `TOPIC`."""


class UnusableRecordError(ValueError):
    """Raised for a record that cannot be used. `code` is the identifier of the finding."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_topic(directory: PartitionDir) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return all versions that a partition contains, and findings about records that cannot be used."""
    replay = _Replay()
    findings: list[SchemaFinding] = []
    used = 0

    def on_damage(damage: Damage) -> None:
        findings.append(SchemaFinding(damage.first_offset, "damage", f"schemas may be missing: {damage.message}"))

    for record in PartitionLog(directory).records(OffsetInterval(0, NO_END), on_damage=on_damage):
        try:
            replay.apply(record.key, record.value)
            used += 1
        except UnusableRecordError as error:
            findings.append(SchemaFinding(record.offset, error.code, str(error)))
            if not used and directory.topic != TOPIC and len(findings) == MOST_FOREIGN:
                break
    if not used and directory.topic != TOPIC and findings:  # a registry can use another topic, but not any topic
        raise NoLogError(f"{directory.path}: the records are not those of a schema registry")
    return replay.versions(), findings


class _Replay:
    """The state of a registry after the records that were applied."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[int, RegisteredSchema]] = {}
        self._levels: dict[str, str | None] = {}
        """Compatibility level by subject, context (``:.CONTEXT:``) and for the default context ("")."""
        self._writers: dict[int, Any] = {}
        """Redpanda: node that wrote the record with a sequence number."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record. UnusableRecordError: it cannot be used."""
        fields = _json_object(key, "key")
        kind = fields.get("keytype")
        content = None if value is None else _json_object(value, "value")
        try:
            if content is not None and self._is_late(fields):
                return
            if kind == "SCHEMA":
                self._schema(text_of(fields, "subject"), integer_of(fields, "version"), content)
            elif kind == "CONFIG":
                self._config(member(fields, "subject", str) or "", content)
            elif kind == "DELETE_SUBJECT":
                self._delete(text_of(fields, "subject"), content)
            elif kind == "CLEAR_SUBJECT":
                self._clear(text_of(fields, "subject"), content)
            elif kind not in IGNORED:
                raise UnusableRecordError("unknown_key_type", f"the key type {shown(kind)} is unknown")
        except UnusableRecordError:
            raise
        except (TypeError, ValueError) as error:
            raise UnusableRecordError("invalid_record", f"the {kind} record has an unexpected form: {error}") from None

    def versions(self) -> list[RegisteredSchema]:
        return [
            replace(version, compatibility=self._level(subject))
            for subject, versions in self._subjects.items()
            for version in versions.values()
        ]

    def _is_late(self, fields: dict[str, Any]) -> bool:
        """Return whether Redpanda ignores a record, because another node had used its sequence number before."""
        number = member(fields, "seq", int)
        return number is not None and self._writers.setdefault(number, fields.get("node")) != fields.get("node")

    def _schema(self, subject: str, version: int, content: dict[str, Any] | None) -> None:
        if content is not None:
            self._subjects.setdefault(subject, {})[version] = schema_of(content, subject, version)
        else:  # deleted permanently
            self._subjects.get(subject, {}).pop(version, None)

    def _config(self, subject: str, content: dict[str, Any] | None) -> None:
        if content is not None:
            self._levels[subject] = member(content, "compatibilityLevel", str)
        else:
            self._levels.pop(subject, None)

    def _delete(self, subject: str, content: dict[str, Any] | None) -> None:
        """Mark the versions of a subject up to a version as soft-deleted."""
        if content is None:
            return
        last = integer_of(content, "version")
        versions = self._subjects.get(subject, {})
        versions |= {n: replace(v, deleted=True) for n, v in versions.items() if n <= last}

    def _clear(self, subject: str, content: dict[str, Any] | None) -> None:
        """Remove the soft-deleted versions of a subject, or of a context (``:.CONTEXT:``)."""
        if content is None:
            return
        context, name = split_subject(subject)
        subjects = [subject] if name else [s for s in self._subjects if split_subject(s)[0] == context]
        for each in subjects:
            self._subjects[each] = {n: v for n, v in self._subjects.get(each, {}).items() if not v.deleted}

    def _level(self, subject: str) -> str | None:
        # ``InMemoryCache.config`` looks in these places. The level for the default context does not apply to others.
        context, _ = split_subject(subject)
        places = (subject, "" if context == DEFAULT_CONTEXT else qualified(context, ""), GLOBAL)
        return next((self._levels[place] for place in places if place in self._levels), None)


def _json_object(raw: bytes | None, part: str) -> dict[str, Any]:
    try:
        found = parse_json(raw or b"")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnusableRecordError("invalid_json", f"the {part} is not a JSON object")
    return found
