"""Compute the fingerprints that precede values in Avro's single-object encoding (Avro specification 1.12)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from ...registry import RegisteredSchema, SchemaRegistry
from ...registry.models import AVRO
from .schema import PRIMITIVES

EMPTY = 0xC15D213AA4D7A795
"""Fingerprint of no bytes, which is also the polynomial."""
_MEMBERS = ("name", "type", "fields", "symbols", "items", "values", "size")
"""Members of the Parsing Canonical Form, in its order."""


def with_fingerprint(fingerprint: bytes, registry: SchemaRegistry) -> RegisteredSchema | None:
    """Return the Avro schema of a registry that has this fingerprint, or None."""
    for schema in registry:
        if schema.schema_type == AVRO and schema.error is None:
            try:
                references = [s.schema for s in registry.get_references(schema).values()]
                if fingerprint_of(schema.schema, tuple(references)) == fingerprint:
                    return schema
            except (LookupError, RecursionError, TypeError, ValueError):
                continue
    return None


@cache
def fingerprint_of(text: str, references: tuple[str, ...] = ()) -> bytes:
    """Return CRC-64-AVRO of the Parsing Canonical Form of a schema, little-endian."""
    named: dict[str, Any] = {}
    for reference in references:
        _collect(json.loads(reference), "", named)
    crc, table = EMPTY, _table()
    form = _canonical(json.loads(text), "", named, set())
    for byte in json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode():
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc.to_bytes(8, "little")


@cache
def _table() -> list[int]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (EMPTY if crc & 1 else 0)
        table.append(crc)
    return table


def _canonical(raw: Any, namespace: str, named: dict[str, Any], seen: set[str]) -> Any:
    """Return the Parsing Canonical Form. A type of a reference is defined where it is used first."""
    if isinstance(raw, list):
        return [_canonical(branch, namespace, named, seen) for branch in raw]
    if isinstance(raw, str):
        full = raw if raw in PRIMITIVES else _full(raw, namespace)
        if full in named and full not in seen:
            return _canonical(named[full], "", named, seen)
        return full
    kind = raw["type"]
    if not isinstance(kind, str) or kind in PRIMITIVES:
        return _canonical(kind, namespace, named, seen)
    form = {name: raw[name] for name in _MEMBERS if name in raw}
    if "name" in form:
        form["name"] = _full(raw["name"], raw.get("namespace", namespace))
        namespace = form["name"].rpartition(".")[0]
        seen.add(form["name"])
    elif kind not in ("array", "map"):
        return _canonical(kind, namespace, named, seen)
    for name in ("items", "values"):
        if name in form:
            form[name] = _canonical(form[name], namespace, named, seen)
    if "fields" in form:
        form["fields"] = [
            {"name": field["name"], "type": _canonical(field["type"], namespace, named, seen)}
            for field in raw["fields"]
        ]
    return form


def _full(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _collect(raw: Any, namespace: str, named: dict[str, Any]) -> None:
    """Find the named types in the schema of a reference, with their namespaces."""
    if isinstance(raw, list):
        for branch in raw:
            _collect(branch, namespace, named)
    elif isinstance(raw, dict):
        if isinstance(raw.get("name"), str) and raw.get("type") in ("record", "error", "enum", "fixed"):
            full = _full(raw["name"], raw.get("namespace", namespace))
            named[full], namespace = raw | {"name": full}, full.rpartition(".")[0]
        for part in (raw.get("type"), raw.get("items"), raw.get("values"), *(raw.get("fields") or ())):
            if not isinstance(part, str):
                _collect(part, namespace, named)
