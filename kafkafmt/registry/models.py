"""Define the schemas of a registry, and compute their GUIDs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA_TYPES = (AVRO, JSON, PROTOBUF)
DEFAULT_CONTEXT = "."
NO_ID = -1
"""Id of a schema that was read from a file without an id."""
ENCRYPTED_PROPERTY = "__enc__"
"""Property in the metadata of a schema whose text is encrypted (``SchemaValue.ENCODED_PROPERTY``)."""
ENCRYPTING_RULES = ("ENCRYPT", "ENCRYPT_PAYLOAD")
"""Types of rules that encrypt fields or whole values on the client."""


class SchemaNotFoundError(LookupError):
    """A registry does not contain the schema, subject or version. The message names the existing ones."""


@dataclass(frozen=True)
class SchemaReference:
    """A reference from a schema to a version of another subject."""

    name: str  # Avro: full name of a type. Protobuf: path of the import. JSON: URL in "$ref".
    subject: str
    version: int


@dataclass(frozen=True)
class RegisteredSchema:
    """A version of a subject, as in the Python client of Confluent's registry."""

    schema_id: int  # unique only in its context; -1 if the source has no ids
    guid: str
    subject: str  # with its context, if that is not the default context: ":.CONTEXT:NAME"
    version: int
    schema_type: str  # AVRO, JSON or PROTOBUF
    schema: str  # text of the schema
    references: tuple[SchemaReference, ...] = ()
    deleted: bool = False  # soft-deleted: the registry hides it, but values that use it can be decoded
    compatibility: str | None = None  # compatibility level of the subject; None: not configured
    error: str | None = None  # why values cannot be decoded: "encrypted" or "invalid_schema"
    metadata: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    rules: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    @property
    def context(self) -> str:
        """Context of the subject. "." is the default context."""
        return split_subject(self.subject)[0]


def split_subject(subject: str) -> tuple[str, str]:
    """Return the context and the name of a subject, which can be qualified: ``:.CONTEXT:NAME``."""
    # Kafka's counterpart is QualifiedSubject.
    if subject.startswith(":."):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return context, name
    return DEFAULT_CONTEXT, subject


def qualified(context: str, name: str) -> str:
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def schema_error(
    schema_type: str, schema: str, metadata: Mapping[str, Any] | None, rules: Mapping[str, Any] | None
) -> str | None:
    """Return the code of the reason why a schema cannot be used, or None."""
    properties = (metadata or {}).get("properties") or {}
    kinds = [rule.get("type") for rule in _rules(rules) if not rule.get("disabled")]
    if ENCRYPTED_PROPERTY in properties or any(kind in ENCRYPTING_RULES for kind in kinds):
        return "encrypted"
    if schema_type not in SCHEMA_TYPES:
        return "invalid_schema"
    if schema_type != PROTOBUF:
        try:
            json.loads(schema)
        except (ValueError, RecursionError):
            return "invalid_schema"
    return None


def schema_guid(
    schema: str,
    references: Sequence[SchemaReference],
    metadata: Mapping[str, Any] | None,
    rules: Mapping[str, Any] | None,
) -> str:
    """Return the GUID of a schema, which serializers can write instead of the id."""
    # Rule: ``Schema.updateHash`` of Confluent's client. Tags, properties and parameters are sorted.
    parts: list[str | bytes] = [schema]
    for reference in references:
        parts += reference.name, reference.subject, reference.version.to_bytes(4, "big", signed=True)
    if metadata is not None:
        parts.append(b"\x01")
        for tag, values in sorted((metadata.get("tags") or {}).items()):
            parts += tag, *sorted(values)
        for name, value in sorted((metadata.get("properties") or {}).items()):
            parts += name, value
        parts += sorted(metadata.get("sensitive") or ())
    if rules is not None:
        parts.append(b"\x01")
        for rule in _rules(rules):
            parts += _rule_parts(rule)
    digest = md5(usedforsecurity=False)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))
    return str(uuid.UUID(bytes=digest.digest()))


def _rules(rules: Mapping[str, Any] | None) -> list[Any]:
    return [rule for kind in ("migrationRules", "domainRules") for rule in (rules or {}).get(kind) or ()]


def _rule_parts(rule: Mapping[str, Any]) -> list[str | bytes]:
    texts = [rule.get("name"), rule.get("doc"), rule.get("kind") or "TRANSFORM", rule.get("mode") or "WRITEREAD"]
    texts += [rule.get("type"), *sorted(rule.get("tags") or ())]
    texts += [text for pair in sorted((rule.get("params") or {}).items()) for text in pair]
    texts += [rule.get("expr"), rule.get("onSuccess"), rule.get("onFailure")]
    parts: list[str | bytes] = [text for text in texts if text is not None]
    return [*parts, b"\x01"] if rule.get("disabled") else parts
