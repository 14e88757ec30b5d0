"""Define the schemas of a registry, read them from JSON, and compute their GUIDs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any, TypeVar

from ..support.text import shown

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
JSON_FORMS: dict[str, tuple[type, ...]] = {AVRO: (str, dict, list), JSON: (dict, bool)}
"""Types of the JSON values that are schemas of these types."""
DEFAULT_CONTEXT = "."
ENCRYPTED, INVALID_SCHEMA = "encrypted", "invalid_schema"
ENCODED_PROPERTY = "__enc__"
"""Property in the metadata of a schema whose text is encrypted (``SchemaValue.ENCODED_PROPERTY``)."""
ENCRYPTING_RULES = ("ENCRYPT", "ENCRYPT_PAYLOAD")
"""Types of rules with which clients encrypt fields or whole values."""
LARGEST = (1 << 31) - 1
"""Largest id and version."""
MOST_NESTED = 20
"""Largest nesting of metadata and rules, so that a saved registry can be read. The known members need four levels."""
RULE_LISTS = ("migrationRules", "domainRules", "encodingRules")

Member = TypeVar("Member")


class SchemaNotFoundError(LookupError):
    """A registry does not contain the schema, subject or version, or an id or GUID is ambiguous."""


@dataclass(frozen=True)
class SchemaReference:
    """A reference from a schema to a version of another subject."""

    name: str  # Avro: full name of a type. Protobuf: path of the import. JSON: URL in "$ref".
    subject: str  # without a context: a subject in the context of the referring schema
    version: int


@dataclass(frozen=True)
class RegisteredSchema:
    """A version of a subject, as in the Python client of Confluent's registry."""

    schema_id: int | None  # unique only in its context; None if the source has no ids
    guid: str | None  # None if the text is encrypted
    subject: str  # with its context, if that is not the default context: ":.CONTEXT:NAME"
    version: int
    schema_type: str  # AVRO, JSON or PROTOBUF
    schema: str  # text of the schema
    references: tuple[SchemaReference, ...] = ()
    deleted: bool = False  # soft-deleted: the registry hides the version, but existing values may use it
    compatibility: str | None = None  # compatibility level of the subject; None: the registry's default
    error: str | None = None  # why values cannot be decoded: "encrypted" or "invalid_schema"
    metadata: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)

    @property
    def context(self) -> str:
        """Context of the subject. "." is the default context."""
        return split_subject(self.subject)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the version as in the output of ``kafkafmt schemas --format json``."""
        return {
            "version": self.version,
            "id": self.schema_id,
            "guid": self.guid,
            "type": self.schema_type,
            "deleted": self.deleted,
            "references": [{"name": r.name, "subject": r.subject, "version": r.version} for r in self.references],
            "error": self.error,
        }


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


def parse_json(raw: bytes | str) -> Any:
    """Return a JSON value. ValueError: it is not JSON in UTF-8, is nested too deeply, or has half of a surrogate pair."""
    text = raw if isinstance(raw, str) else raw.decode()
    try:
        found = json.loads(text)
        if "\\ud" in text or "\\uD" in text:  # Such a text could be neither printed nor saved.
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return found


def member(content: Mapping[str, Any], name: str, kind: type[Member]) -> Member | None:
    """Return a member of a JSON object, or None if it is missing or null. ValueError: it has another type."""
    found = content.get(name)
    if found is None or type(found) is kind:
        return found
    raise ValueError(f"{name} is {shown(found)}")


def text_of(content: Mapping[str, Any], name: str) -> str:
    """Return a text of a JSON object. ValueError: it is missing."""
    found = member(content, name, str)
    if found is None:
        raise ValueError(f"{name} is missing")
    return found


def integer_of(content: Mapping[str, Any], name: str) -> int:
    """Return a version or id of a JSON object. ValueError: it is not a number of 32 bits, or negative."""
    found = member(content, name, int)
    if found is None or not 0 <= found <= LARGEST:
        raise ValueError(f"{name} is {'missing' if found is None else shown(found)}")
    return found


def schema_of(content: Mapping[str, Any], subject: str, version: int, *, with_id: bool = True) -> RegisteredSchema:
    """Return a version from the JSON object of a record or of the REST API. ValueError: it is not valid."""
    kind, text = member(content, "schemaType", str) or AVRO, text_of(content, "schema")
    metadata, rules = member(content, "metadata", dict), member(content, "ruleSet", dict)
    if _is_deeper_than(MOST_NESTED, metadata) or _is_deeper_than(MOST_NESTED, rules):
        raise ValueError("metadata or ruleSet is nested too deeply")
    references = member(content, "references", list) or ()
    if not all(isinstance(r, dict) for r in references):
        raise ValueError(f"references is {shown(references)}")
    found = tuple(
        SchemaReference(text_of(r, "name"), text_of(r, "subject"), integer_of(r, "version")) for r in references
    )
    try:
        return RegisteredSchema(
            integer_of(content, "id") if with_id else None,
            member(content, "guid", str) or schema_guid(text, found, metadata, rules),
            subject,
            version,
            kind,
            text,
            found,
            member(content, "deleted", bool) or False,
            error=schema_error(kind, text, metadata, rules),
            metadata=metadata,
            rule_set=rules,
        )
    except (AttributeError, TypeError):
        raise ValueError("metadata or ruleSet has an unexpected form") from None


def schema_error(
    kind: str, text: str, metadata: Mapping[str, Any] | None = None, rules: Mapping[str, Any] | None = None
) -> str | None:
    """Return the code of the reason why a schema cannot be used, or None."""
    if _is_encrypted(metadata) or any(
        r.get("type") in ENCRYPTING_RULES for r in _rules(rules) if not r.get("disabled")
    ):
        return ENCRYPTED
    if kind == PROTOBUF:
        return None
    try:
        return None if isinstance(parse_json(text), JSON_FORMS.get(kind, ())) else INVALID_SCHEMA
    except ValueError:
        return INVALID_SCHEMA


def schema_guid(
    text: str,
    references: Sequence[SchemaReference] = (),
    metadata: Mapping[str, Any] | None = None,
    rules: Mapping[str, Any] | None = None,
) -> str | None:
    """Return the GUID of a schema, which serializers can write instead of the id. None: the text is encrypted."""
    # Rule: ``Schema.updateHash`` of Confluent's client. The type of the schema is not part of it.
    if _is_encrypted(metadata):
        return None
    parts: list[str | bytes | None] = [text]
    for reference in references:
        parts += reference.name, reference.subject, reference.version.to_bytes(4, "big")
    if metadata is not None:
        parts.append(b"\x01")
        tags, properties = metadata.get("tags") or {}, metadata.get("properties") or {}
        for tag in _in_order(tags):
            parts += tag, *_in_order(tags[tag])
        for name in _in_order(properties):
            parts += name, properties[name]
        parts += _in_order(metadata.get("sensitive"))
    if rules is not None:
        parts.append(b"\x01")
        for rule in _rules(rules):
            parts += _rule_parts(rule)
        parts.append(rules.get("enableAt"))
    digest = md5(usedforsecurity=False)
    for part in parts:
        if part is not None:
            digest.update(part if isinstance(part, bytes) else part.encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _is_deeper_than(levels: int, value: Any) -> bool:
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper_than(levels - 1, item) for item in items)


def _rule_parts(rule: Mapping[str, Any]) -> list[str | bytes | None]:
    params = rule.get("params") or {}
    kind, mode = rule.get("kind") or "TRANSFORM", rule.get("mode") or "WRITEREAD"
    parts: list[str | bytes | None] = [rule.get("name"), rule.get("doc"), kind, mode, rule.get("type")]
    parts += _in_order(rule.get("tags"))
    for name in _in_order(params):
        parts += name, params[name]
    parts += rule.get("expr"), rule.get("onSuccess"), rule.get("onFailure")
    return [*parts, b"\x01"] if rule.get("disabled") else parts


def _rules(rules: Mapping[str, Any] | None) -> list[Any]:
    return [rule for name in RULE_LISTS for rule in (rules or {}).get(name) or ()]


def _is_encrypted(metadata: Mapping[str, Any] | None) -> bool:
    return ENCODED_PROPERTY in ((metadata or {}).get("properties") or {})


def _in_order(texts: Iterable[str] | None) -> list[str]:
    """Return the distinct texts in the order of Java's TreeSet, which compares UTF-16 code units."""
    return sorted(set(texts or ()), key=lambda text: text.encode("utf-16-be"))
