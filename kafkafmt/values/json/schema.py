"""Translate JSON Schemas (drafts 4 to 2020-12) into types.

Only keywords that say which values there can be are used. Values are not validated. Places where values
of several types are possible, or of any type, are JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urljoin

from ...support.text import shown
from ..errors import InvalidSchemaError
from ..merge import merge_types
from ..types import DEEPEST, JSON_TEXT, MOST_TYPES, Array, Field, Map, Record, Simple, ValueType

KINDS = {"null": "null", "boolean": "boolean", "integer": "long", "number": "double", "string": "string"}
"""Kind of the type for each simple type of JSON Schema."""
_OBJECT = ("properties", "additionalProperties", "patternProperties", "required", "propertyNames")
_ARRAY = ("items", "prefixItems", "additionalItems", "contains")


def parse_json_schema(text: str, references: Mapping[str, str] = MappingProxyType({})) -> ValueType:
    """Return the type of the values of a schema. `references` has the texts of other schemas, by their names in "$ref"."""
    try:
        documents = [_Document("", json.loads(text))]
        documents += [_Document(name, json.loads(reference)) for name, reference in references.items()]
        return _Translator(documents).type_of(_Place(documents[0], documents[0].root, documents[0].base), "", 0)
    except (RecursionError, ValueError) as error:
        if isinstance(error, InvalidSchemaError):
            raise
        raise InvalidSchemaError(f"the schema is not JSON: {error}") from None


class _Document:
    """A schema with its identifiers: `places` has its parts that have an id or an anchor, by their URIs."""

    def __init__(self, name: str, root: Any) -> None:
        self.name = name
        self.root = root
        self.base = name
        self.places: dict[str, tuple[Any, str]] = {}
        if isinstance(root, dict):
            self.base = urljoin(name, _id(root))
            self._collect(root, name)
        elif not isinstance(root, bool):
            raise InvalidSchemaError(f"{shown(root)} is not a schema")

    def _collect(self, root: Any, base: str) -> None:
        pending = [(root, base)]
        while pending:
            part, base = pending.pop()
            if isinstance(part, dict):
                base = urljoin(base, _id(part))
                if _id(part):
                    self.places.setdefault(base.removesuffix("#"), (part, base))
                for word in ("$anchor", "$dynamicAnchor"):
                    if isinstance(part.get(word), str):
                        self.places.setdefault(f"{base.partition('#')[0]}#{part[word]}", (part, base))
            children = part.values() if isinstance(part, dict) else part
            pending += [(child, base) for child in children if isinstance(child, dict | list)]


def _id(schema: dict[str, Any]) -> str:
    found = schema.get("$id", schema.get("id"))
    return found if isinstance(found, str) else ""


class _Place:
    """A schema, its document, and the URI to which its references are relative."""

    def __init__(self, document: _Document, schema: Any, base: str) -> None:
        self.document, self.schema, self.base = document, schema, base

    def part(self, schema: Any) -> _Place:
        inner = _id(schema) if isinstance(schema, dict) else ""
        return _Place(self.document, schema, urljoin(self.base, inner) if inner else self.base)


class _Translator:
    def __init__(self, documents: list[_Document]) -> None:
        self._documents = documents
        self._left = MOST_TYPES
        self._open: list[int] = []
        """The ids of the schemas that are being translated. A reference to one of them is recursive."""

    def type_of(self, place: _Place, path: str, depth: int) -> ValueType:
        """Return the type of a schema. `path` is the name of a record at this place."""
        return self._constrained(place, path, depth) or Simple(JSON_TEXT)

    def _constrained(self, place: _Place, path: str, depth: int) -> ValueType | None:
        """Return the type of a schema, or None if it permits all values."""
        self._left -= 1
        if self._left < 0:
            raise InvalidSchemaError(f"the schema has more than {MOST_TYPES} types")
        if depth > DEEPEST:
            raise InvalidSchemaError(f"the schema is nested more than {DEEPEST} levels deep")
        schema = place.schema
        if isinstance(schema, bool):
            return None
        if not isinstance(schema, dict):
            raise InvalidSchemaError(f"{shown(schema)} is not a schema")
        if id(schema) in self._open:
            return Simple(JSON_TEXT)
        self._open.append(id(schema))
        parts: list[ValueType | None] = [self._own(place, path, depth)]
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(word), str):
                parts.append(self._constrained(self._find(place, schema[word]), path, depth))
        parts += [self._constrained(place.part(one), path, depth) for one in _list(schema, "allOf")]
        for word in ("anyOf", "oneOf"):
            branches = [self._constrained(place.part(one), path, depth) for one in _list(schema, word)]
            typed = [branch for branch in branches if branch is not None]
            if typed and (len(typed) == len(branches) or any(parts)):
                parts.append(_merged(typed))
        self._open.pop()
        found = [part for part in parts if part is not None]
        return _both(found) if found else None

    def _own(self, place: _Place, path: str, depth: int) -> ValueType | None:
        """Return the type by the keywords of the schema itself."""
        schema = place.schema
        kinds = schema.get("type")
        if kinds is None:
            if "const" in schema or "enum" in schema:
                values = [schema["const"]] if "const" in schema else _list(schema, "enum")
                return _merged([_of_constant(value) for value in values]) if values else None
            kinds = ["object"] if any(word in schema for word in _OBJECT) else []
            kinds += ["array"] if any(word in schema for word in _ARRAY) else []
            if len(kinds) != 1:
                return None
        types: list[ValueType] = []
        for kind in kinds if isinstance(kinds, list) else [kinds]:
            if kind == "object":
                types.append(self._object(place, path, depth))
            elif kind == "array":
                types.append(Array(self._items(place, path, depth)))
            elif isinstance(kind, str) and kind in KINDS:
                types.append(Simple(KINDS[kind]))
            elif kind == "any":  # until draft 3
                return None
            else:
                raise InvalidSchemaError(f"{shown(kind)} is not a type")
        return _merged(types) if types else None

    def _object(self, place: _Place, path: str, depth: int) -> ValueType:
        schema, fields = place.schema, []
        for name, member in _dict(schema, "properties").items():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise InvalidSchemaError(f"{shown(name)} is not valid Unicode") from None
            fields.append(Field(name, self.type_of(place.part(member), f"{path}/{name}", depth + 1)))
        if fields:
            return Record(path, fields)
        others = list(_dict(schema, "patternProperties").values())
        if isinstance(schema.get("additionalProperties"), dict):
            others.append(schema["additionalProperties"])
        elif others and schema.get("additionalProperties") is not False:
            others.append(True)
        types = [self.type_of(place.part(one), f"{path}/*", depth + 1) for one in others]
        values = _merged(types) if types else Simple(JSON_TEXT)
        return values if values.kind == JSON_TEXT else Map(values)

    def _items(self, place: _Place, path: str, depth: int) -> ValueType:
        """Return the type of the items of an array. Those of a tuple have one type if all its types have a common one."""
        schema = place.schema
        items = schema.get("items", True)
        several = _list(schema, "prefixItems") + (items if isinstance(items, list) else [])
        more = schema.get("additionalItems", True) if isinstance(items, list) else items
        if not several or isinstance(more, dict):
            several = [*several, more]
        return _merged([self.type_of(place.part(one), f"{path}/[]", depth + 1) for one in several])

    def _find(self, place: _Place, reference: str) -> _Place:
        target, _, fragment = reference.partition("#")
        uri = urljoin(place.base, target).removesuffix("#") if target else place.base.partition("#")[0]
        for found in self._targets(place, target, uri):
            if not fragment:
                return found
            if fragment.startswith("/"):
                part = _pointed(found, unquote(fragment))
                if part is not None:
                    return part
            for document in self._documents:
                if f"{found.base.partition('#')[0]}#{fragment}" in document.places:
                    schema, base = document.places[f"{found.base.partition('#')[0]}#{fragment}"]
                    return _Place(document, schema, base)
        raise InvalidSchemaError(f"the reference {shown(reference)} cannot be resolved")

    def _targets(self, place: _Place, target: str, uri: str) -> Iterator[_Place]:
        """Yield the schemas that a reference can mean, without its fragment."""
        if uri and uri in place.document.places:
            schema, base = place.document.places[uri]
            yield _Place(place.document, schema, base)
        if not target:
            yield _Place(place.document, place.document.root, place.document.base)
            return
        for document in self._documents[1:]:
            if document.name in (target, uri):
                yield _Place(document, document.root, document.base)
        for document in self._documents:
            if uri in document.places:
                schema, base = document.places[uri]
                yield _Place(document, schema, base)


def _pointed(place: _Place, pointer: str) -> _Place | None:
    """Return the part of a schema to which a JSON pointer refers, or None if there is none."""
    found = place
    for step in pointer.split("/")[1:]:
        name, schema = step.replace("~1", "/").replace("~0", "~"), found.schema
        if isinstance(schema, dict) and name in schema:
            found = found.part(schema[name])
        elif isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
            found = found.part(schema[int(name)])
        else:
            return None
    return found


def _merged(types: list[ValueType]) -> ValueType:
    """Return a type for values of each of the types. All columns can contain null."""
    several = [t for t in types if t.kind != "null"] or types
    return several[0] if len(several) == 1 else merge_types(several)


def _both(types: list[ValueType]) -> ValueType:
    """Return a type for values of all the types at once. Objects have the members of all."""
    return _merged([t for t in types if t.kind != JSON_TEXT] or types)


def _of_constant(value: Any) -> ValueType:
    if value is None or isinstance(value, bool | str):
        return Simple("null" if value is None else "string" if isinstance(value, str) else "boolean")
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return Simple("long")
    return Simple("double" if isinstance(value, int | float) else JSON_TEXT)


def _list(schema: Mapping[str, Any], word: str) -> list[Any]:
    found = schema.get(word, [])
    if not isinstance(found, list):
        raise InvalidSchemaError(f"{word} is {shown(found)}, not an array")
    return found


def _dict(schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    found = schema.get(word, {})
    if not isinstance(found, dict):
        raise InvalidSchemaError(f"{word} is {shown(found)}, not an object")
    return found
