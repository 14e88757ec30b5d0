"""Compare the schemas of the wire protocol with those in a kafka-clients jar, and update them.

    python scripts/compare_schemas.py kafka-clients-4.4.0.jar           # list the differences
    python scripts/compare_schemas.py kafka-clients-4.4.0.jar --write   # write them to kafkafmt/protocol/schemas

If differences remain, the exit code is 1.

The jar contains a JSON file for each message (`common/message/*.json`). A Kafka release removes
versions that it no longer supports, but the schemas of kafkafmt keep them. Therefore, only the
versions in the jar are compared, and a merge keeps the fields of older versions. A merged schema is
written only if no version loses a field. The JSON files do not contain error codes.
tests/protocol/test_java_oracle.py compares the error codes with Kafka's class.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kafkafmt.messages.schema import NEWEST, NONE, TYPES, Field, Heading, Versions, parse_field, snake_case  # noqa: E402

SCHEMAS = ROOT / "kafkafmt" / "protocol" / "schemas"
KINDS = ("request", "response")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass
class Node:
    """A field, and the fields of its struct if this field declares the struct."""

    field: Field
    children: list[Node] = dataclasses.field(default_factory=list)


@dataclass
class Body:
    """The fields of a request or a response, and its named structs, which several fields can use."""

    nodes: list[Node] = dataclasses.field(default_factory=list)
    shared: dict[str, list[Node]] = dataclasses.field(default_factory=dict)


@dataclass
class Schema:
    """Schema of an API, as described by a file in kafkafmt/protocol/schemas."""

    key: int
    name: str
    versions: Versions
    flexible: Versions
    bodies: dict[str, Body]

    @property
    def file(self) -> str:
        return f"{self.key:02}_{HUMP.sub('_', self.name).lower()}.txt"


def versions_of(text: str) -> Versions:
    return NONE if text == "none" else Versions.parse(text)


def from_jar(jar: Path) -> dict[int, Schema]:
    """Return the APIs in a kafka-clients jar, by key. APIs without valid versions are omitted."""
    found: dict[int, dict[str, Any]] = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+(Request|Response)\.json", name):
                message = json.loads(COMMENT.sub("", archive.read(name).decode()))
                if message["validVersions"] != "none":
                    found.setdefault(message["apiKey"], {})[message["type"]] = message
    return {key: _schema_from_json(key, found[key]) for key in sorted(found)}


def _schema_from_json(key: int, messages: dict[str, Any]) -> Schema:
    request = messages["request"]
    bodies = {}
    for kind in KINDS:
        shared = {s["name"]: _nodes_from_json(s["fields"]) for s in messages[kind].get("commonStructs", ())}
        bodies[kind] = Body(_nodes_from_json(messages[kind]["fields"]), shared)
    name = request["name"].removesuffix("Request")
    return Schema(key, name, versions_of(request["validVersions"]), versions_of(request["flexibleVersions"]), bodies)


def _nodes_from_json(fields: list[dict[str, Any]]) -> list[Node]:
    return [Node(_field_from_json(f), _nodes_from_json(f.get("fields", []))) for f in fields]


def _field_from_json(given: dict[str, Any]) -> Field:
    present = versions_of(given["versions"])
    if given.get("taggedVersions", given["versions"]) != given["versions"]:
        raise SystemExit(
            f"{given['name']}: the text format cannot say that a field is tagged in only some of its versions"
        )
    nullable = versions_of(given.get("nullableVersions", "none"))
    name, type_ = given["name"], given["type"]
    return Field(
        kafka_name=name,
        name=snake_case(name),
        type=type_.removeprefix("[]"),
        array=type_.startswith("[]"),
        versions=present,
        nullable=nullable
        if nullable == NONE
        else Versions(max(nullable.first, present.first), min(nullable.last, present.last)),
        tag=given.get("tag"),
        default=_default(given.get("default")),
        ignorable=bool(given.get("ignorable", False)),
        plain=given.get("flexibleVersions") == "none",
    )


def _default(given: Any) -> str | None:
    """Convert a default value. Zero, false and empty values become None, as in our schema files."""
    text = "" if given is None else str(given).lower()
    if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
        text = str(int(text, 0))
    return None if text in ("", "0", "0.0", "false") else text


def from_text(text: str) -> Schema:
    """Parse a schema file of kafkafmt."""
    title, *lines = text.splitlines()
    heading = Heading.parse(title)
    bodies: dict[str, Body] = {}
    levels: list[tuple[int, list[Node]]] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line in KINDS:
            body = bodies[line] = Body()
            levels = [(0, body.nodes)]
        elif line.strip():
            while levels[-1][0] >= depth:
                levels.pop()
            if line.split()[0] == "struct":
                levels.append((depth, body.shared.setdefault(line.split()[1], [])))
            else:
                node = Node(parse_field(line))
                levels[-1][1].append(node)
                levels.append((depth, node.children))
    return Schema(
        -1 if heading.number is None else heading.number, heading.name, heading.versions, heading.flexible, bodies
    )


def ours() -> dict[int, Schema]:
    """Return the APIs in the schema files of kafkafmt, by key."""
    found = (from_text(path.read_text(encoding="utf-8")) for path in SCHEMAS.glob("[0-9]*_*.txt"))
    return {schema.key: schema for schema in sorted(found, key=lambda schema: schema.key)}


def in_version(schema: Schema, kind: str, version: int) -> dict[str, tuple[Any, ...]]:
    """Return the fields of a version in wire order, with all properties that affect their encoding."""
    body = schema.bodies[kind]
    flexible = version in schema.flexible

    def walk(nodes: list[Node], prefix: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for node in nodes:
            f = node.field
            if version not in f.versions:
                continue
            path = prefix + f.kafka_name
            type_ = ("[]" if f.array else "") + (f.type if f.type in TYPES else "struct")
            yield (
                path,
                (type_, version in f.nullable, f.tag, _default(f.default), f.ignorable, flexible and not f.plain),
            )
            yield from walk(node.children or body.shared.get(f.type, []), path + ".")

    return dict(walk(body.nodes, ""))


NAMES = ("type", "nullable", "tag", "default", "ignorable", "compact")


def differences(mine: Schema, jars: Schema) -> Iterator[str]:
    """Yield a line of text for each difference in the versions that the jar contains."""
    if mine.versions.last < jars.versions.last:
        yield f"versions {mine.versions.last + 1} to {jars.versions.last} are missing"
    if mine.versions.first > jars.versions.first:
        yield f"versions {jars.versions.first} to {mine.versions.first - 1} are missing"
    for kind in KINDS:
        for version in range(
            max(mine.versions.first, jars.versions.first), min(mine.versions.last, jars.versions.last) + 1
        ):
            yield from _version_differences(
                f"{kind} v{version}", in_version(mine, kind, version), in_version(jars, kind, version)
            )


def _version_differences(where: str, a: dict[str, tuple[Any, ...]], b: dict[str, tuple[Any, ...]]) -> Iterator[str]:
    for path in [*b, *(p for p in a if p not in b)]:
        if path not in a:
            yield f"{where}: {path} is missing"
        elif path not in b:
            yield f"{where}: {path} is not in the jar"
        else:
            for name, mine, jars in zip(NAMES, a[path], b[path], strict=True):
                if mine != jars:
                    yield f"{where}: {path}: {name} is {mine}, {jars} in the jar"
    if list(a) != list(b) and a.keys() == b.keys():
        yield f"{where}: the fields are in another order"


def merge(mine: Schema, jars: Schema) -> Schema:
    """Return the schema in the jar. Add fields and versions that only the schema of kafkafmt contains."""
    versions = Versions(min(mine.versions.first, jars.versions.first), max(mine.versions.last, jars.versions.last))
    bodies = {}
    for kind in KINDS:
        nodes = _merge_nodes(mine.bodies[kind].nodes, jars.bodies[kind].nodes, jars.versions.first)
        shared = dict(jars.bodies[kind].shared)
        for name, kept in mine.bodies[kind].shared.items():
            shared[name] = _merge_nodes(kept, shared.get(name, []), jars.versions.first)
        bodies[kind] = Body(nodes, shared)
    return Schema(mine.key, mine.name, versions, mine.flexible, bodies)


def _merge_nodes(mine: list[Node], jars: list[Node], oldest: int) -> list[Node]:
    """Merge fields by name. A field that is missing in the jar is kept for the versions before `oldest`."""
    known = {node.field.kafka_name: node for node in mine}
    merged = []
    for node in jars:
        f, old = node.field, known.get(node.field.kafka_name)
        if old is None:
            merged.append(node)
            continue
        kept = old.field
        first = kept.versions.first if f.versions.first <= oldest else f.versions.first
        nullable = kept.nullable if f.nullable == NONE or f.nullable.first <= oldest else f.nullable
        made = replace(
            f,
            name=kept.name,
            second_name=kept.second_name,
            versions=Versions(first, f.versions.last),
            nullable=nullable,
        )
        merged.append(Node(made, _merge_nodes(old.children, node.children, oldest)))
    names = {node.field.kafka_name for node in jars}
    for position, node in enumerate(mine):
        if node.field.kafka_name not in names:
            last = min(node.field.versions.last, oldest - 1)
            before = {n.field.kafka_name for n in mine[:position]}
            at = max((i + 1 for i, n in enumerate(merged) if n.field.kafka_name in before), default=0)
            merged.insert(
                at, Node(replace(node.field, versions=Versions(node.field.versions.first, last)), node.children)
            )
    return merged


def lost(merged: Schema, mine: Schema, jars: Schema) -> list[str]:
    """Return the differences that a merge would leave or cause, as lines of text."""
    wrong = list(differences(merged, jars))
    for kind in KINDS:
        for version in range(mine.versions.first, jars.versions.first):
            wrong += _version_differences(
                f"{kind} v{version}", in_version(merged, kind, version), in_version(mine, kind, version)
            )
    return wrong


def to_text(schema: Schema) -> str:
    """Return the content of the schema file of an API. The columns of each message are aligned."""
    flexible = "" if schema.flexible == NONE else f", flexible {_range(schema.flexible)}"
    span = schema.versions
    which = f"version {span.first}" if span.first == span.last else f"versions {_range(span)}"
    parts = [f"{schema.key} {schema.name}, {which}{flexible}\n"]
    for kind in KINDS:
        rows = list(_rows(schema.bodies[kind]))
        widths = [max((len(row[i]) for row in rows if len(row) > 1), default=0) for i in range(2)]
        lines = []
        for row in rows:
            name, *rest = row
            text = name if not rest else f"{name:{widths[0]}}  {rest[0]:{widths[1]}}  {rest[1]:4}  {rest[2]}"
            lines.append(text.rstrip() + "\n")
        parts.append(f"{kind}\n" + "".join(lines))
    return "\n".join(parts)


def _rows(body: Body) -> Iterator[tuple[str, ...]]:
    """Yield the columns of each line: indented name, type, versions and options. Lines of structs have one column."""

    def walk(nodes: list[Node], depth: int) -> Iterator[tuple[str, ...]]:
        for node in nodes:
            f = node.field
            everywhere = f.nullable != NONE and f.nullable == f.versions
            words = [f"null {_range(f.nullable)}"] if f.nullable != NONE and not everywhere else []
            words += [f"tag {f.tag}"] if f.tag is not None else []
            words += [f"= {f.default}"] if f.default is not None else []
            words += [word for word in ("plain", "ignorable") if getattr(f, word)]
            words += [f"as {f.name}"] if f.name != snake_case(f.kafka_name) else []
            words += [f"also {f.second_name}"] if f.second_name else []
            type_ = f"{'[]' if f.array else ''}{f.type}{'?' if everywhere else ''}"
            yield " " * 4 * depth + f.kafka_name, type_, _range(f.versions), "  ".join(words)
            yield from walk(node.children, depth + 1)

    yield from walk(body.nodes, 1)
    for name, nodes in body.shared.items():
        yield (f"    struct {name}",)
        yield from walk(nodes, 2)


def _range(versions: Versions) -> str:
    if versions.last == NEWEST:
        return f"{versions.first}+"
    return f"{versions.first}" if versions.first == versions.last else f"{versions.first}-{versions.last}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jar", type=Path, help="a kafka-clients jar")
    parser.add_argument("--write", action="store_true", help="write new and merged schemas")
    arguments = parser.parse_args()
    mine, jars = ours(), from_jar(arguments.jar)
    unresolved = 0
    for key, schema in jars.items():
        known = mine.get(key)
        found = ["the API is missing"] if known is None else list(differences(known, schema))
        if not found:
            continue
        for line in found:
            print(f"{key} {schema.name}: {line}")
        if not arguments.write:
            unresolved += 1
            continue
        merged = schema if known is None else merge(known, schema)
        wrong = [] if known is None else lost(merged, known, schema)
        if wrong:
            unresolved += 1
            print(f"{key} {schema.name}: merge by hand; an automatic merge would leave:", *wrong, sep="\n    ")
        else:
            (SCHEMAS / merged.file).write_text(to_text(merged), encoding="utf-8")
            print(f"{key} {schema.name}: wrote {merged.file}")
    print(f"{len(jars)} APIs compared, {unresolved} {'remain' if arguments.write else 'differ'}")
    return 1 if unresolved else 0


if __name__ == "__main__":
    sys.exit(main())
