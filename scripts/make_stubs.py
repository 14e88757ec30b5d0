"""Write `kafkafmt/protocol/_classes.pyi`, which declares the types of the message classes (`make stubs`).

The classes are created at run time from the schemas in `kafkafmt/protocol/schemas`. Therefore, type
checkers and IDEs cannot find them in the source code. Run this script after a change to a schema. A
test fails if the file is outdated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kafkafmt.messages.schema import NONE, Field, Versions  # noqa: E402
from kafkafmt.protocol.message_classes import class_names, find_class  # noqa: E402

STUBS = ROOT / "kafkafmt" / "protocol" / "_classes.pyi"
HEAD = '''\
# Written by scripts/make_stubs.py from the schemas: do not edit, run `make stubs`.
"""Types of the message classes, for type checkers and IDEs. The classes exist at run time in `kafkafmt.protocol`.

The docstring of a field contains the wire type, if the field is a number, and the versions that
have the field, if not all versions have it. If a version does not have the field, writing a value
other than the default raises an error. If the field is "ignorable", the value is omitted instead.
"""

from dataclasses import dataclass
from uuid import UUID

from ..messages import RecordBytes
from .message_classes import Message

'''
TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
    "string": "str",
    "bytes": "bytes",
    "records": "RecordBytes",
}


def stubs() -> str:
    """Return the text of the stub file."""
    names = class_names()
    exported = "".join(f'    "{name}",\n' for name in sorted(names))
    return HEAD + f"__all__ = [\n{exported}]\n" + "".join("\n" + "".join(lines_of(name)) for name in names)


def lines_of(name: str) -> Iterator[str]:
    """Yield the lines that declare a message class and the nested classes of its structs."""
    message: Any = find_class(name)
    yield "@dataclass(kw_only=True, slots=True, repr=False)\n"
    yield f"class {name}(Message):\n"
    title = (
        f"Header of a {message.KIND}"
        if message.API.key < 0
        else f"{message.API.name} {message.KIND} (API key {message.API.key})"
    )
    yield f'    """{title}, {text_of(message.VERSIONS)}."""\n\n'
    for inner in message.STRUCTS.values():
        yield "    @dataclass(kw_only=True, slots=True, repr=False)\n"
        yield f"    class {inner.__name__}(Message):\n"
        yield from (f"        {line}\n" for line in fields_of(inner, message))
        yield "\n"
    yield from (f"    {line}\n" for line in fields_of(message, message))


def fields_of(part: Any, message: Any) -> Iterator[str]:
    """Yield the lines that declare the fields of a message or struct."""
    for f in part.SCHEMA.fields:
        default = part.DEFAULTS[f.name]
        type_ = f"{message.__name__}.{f.type}" if f.struct is not None else TYPES.get(f.type, "int")
        type_ = f"list[{type_}]" if f.array else type_
        type_ += " | None" if default is None or f.nullable != NONE else ""
        shown = repr(default).replace("'", '"') if isinstance(default, int | str | bytes | float | None) else "..."
        yield f"{f.name}: {type_} = {shown}"
        if doc := docstring_of(f, message.VERSIONS):
            yield f'"""{doc}"""'
        if f.second_name:
            yield from ("@property", f"def {f.second_name}(self) -> {type_}:", f'    """Another name of `{f.name}`."""')
            yield from (f"@{f.second_name}.setter", f"def {f.second_name}(self, value: {type_}) -> None: ...")
    yield "unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()"


def docstring_of(field: Field, versions: Versions) -> str:
    """Return the docstring of a field. If it does not need a docstring, return an empty string."""
    present = common(field.versions, versions)
    facts = [field.type] if field.struct is None and field.type not in TYPES else []
    facts += [text_of(present)] if present != versions else []
    facts += ["ignorable"] if present != versions and field.ignorable else []
    nullable = common(field.nullable, present)
    facts += [f"null in {text_of(nullable)}"] if field.nullable != NONE and nullable != present else []
    facts += [f"tag {field.tag}"] if field.tag is not None else []
    return "; ".join(facts)


def common(a: Versions, b: Versions) -> Versions:
    return Versions(max(a.first, b.first), min(a.last, b.last))


def text_of(versions: Versions) -> str:
    return f"version {versions.first}" if versions.first == versions.last else f"versions {versions}"


if __name__ == "__main__":
    STUBS.write_text(stubs(), encoding="utf-8")
    print(f"wrote {STUBS.relative_to(ROOT)}")
