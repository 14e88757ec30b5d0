"""Compile the program that decodes JSON values into columns.

JSON names its members, so a program depends only on the columns, not on the schema of the writer. The
code of a program (`core.ValueProgram`) is a tree of nodes. Node 0 is the value, and the nodes of the
members of an object follow each other. A node has these fields:

- `kind`: index in JSON_NODES of the kind of the column.
- `column`: index of the column. -1: the value is checked and skipped.
- `argument`: of JSON text, the number in `Captures`. Of node 0, which is never JSON text in a program
  with a rest, the index of the column with the rest (see `rest_column`), or -1.
- `children`, `count`, `columns`: first node of the members or items, their number, and the number of
  members with a column.
- `table`, `mask`: position in `tables`, and size less 1, of a hash table with open addressing. It has
  the numbers of the members by the FNV-1a hash of their names, and -1 for a free place.
- `name`, `size`: position in `constants`, and size, of the name of a member. A quotation mark follows.
- `compared`: size + 1, or INT32_MAX if the name is never written without escapes.
- `label`, `label_size`: the name as JSON in `constants`.
- `start`, `start_bits`: the first bytes of the name, and a bit for each of them.

The constants begin with the highest 128 bits of 5 to the power of -342 to 308, which the core needs
to convert numbers (see `json_numbers.h`).
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._backend import core
from ...constants import JSON_NODES, VALUE_FORMATS
from ..errors import UnresolvableError
from ..types import JSON_TEXT, Record, ValueType, branch_name

if TYPE_CHECKING:
    from ..value_columns import Captures, Column

FORMAT = VALUE_FORMATS.index("json")
KINDS = {name: kind for kind, name in enumerate(JSON_NODES)}
_NUMBERS = (
    "kind", "column", "argument", "children", "count", "columns", "table", "mask", "name", "size", "compared", "label",
    "label_size", "start_bits",
)  # fmt: skip
START = 16
"""Bytes of a name that a node contains, so that the core compares them at once."""
NODE = np.dtype([*((name, "i4") for name in _NUMBERS), ("start", "u1", (START,)), ("unused", "i4", (2,))])
NEVER = 2**31 - 1


def compile_json(root: Column, captures: Captures) -> core.ValueProgram:
    """Compile a program for the columns. UnresolvableError: a column has a type that JSON values do not have."""
    return _Compiler(captures).program(root)


def compile_text() -> core.ValueProgram:
    """Compile a program that stores each value as text, after four bytes."""
    return _program([_node(kind=KINDS[JSON_TEXT])], [], b"")


def _node(**fields: Any) -> dict[str, Any]:
    return dict.fromkeys(_NUMBERS, 0) | {"start": [0] * START, "unused": [0, 0]} | fields


class _Compiler:
    def __init__(self, captures: Captures) -> None:
        self._captures = captures
        self._nodes: list[dict[str, Any]] = []
        self._tables: list[int] = []
        self._names = bytearray()

    def program(self, root: Column) -> core.ValueProgram:
        self._add(root, "")
        pending: list[tuple[int, Column]] = [(0, root)]
        for number, column in pending:  # the list grows
            children = _children(column)
            node = self._nodes[number]
            node |= {"children": len(self._nodes), "count": len(children)}
            for name, child in children:
                if child is not None:
                    pending.append((len(self._nodes), child))
                self._add(child, name)
            if column.type.kind == "record":
                node |= {"columns": len(column.children), **self._hashed([name.encode() for name, _ in children])}
        if root.type.kind != JSON_TEXT:
            self._nodes[0]["argument"] = -1 if root.rest is None else root.rest.index
        return _program(self._nodes, self._tables, bytes(self._names))

    def _add(self, column: Column | None, name: str) -> None:
        """Append a node without its children."""
        node = _node(column=-1)
        if column is not None:
            kind = column.type.kind
            if kind not in KINDS or column.is_union or getattr(column.type, "logical", None) is not None:
                raise UnresolvableError(f"JSON values cannot be read as {branch_name(column.type)}")
            node |= {"kind": KINDS[kind], "column": column.index}
            if kind == JSON_TEXT:
                node["argument"] = self._captures.add_text()
        raw, label = name.encode(), json.dumps(name, ensure_ascii=False).encode()
        at, marked = len(_powers()) + len(self._names), raw + b'"'
        node |= {"name": at, "size": len(raw), "compared": len(marked) if label[1:] == marked else NEVER}
        node |= {"label": at + len(marked), "label_size": len(label)}
        node |= {"start_bits": (1 << min(len(marked), START)) - 1, "start": list(marked[:START].ljust(START, b"\0"))}
        self._names += marked + label
        self._nodes.append(node)

    def _hashed(self, names: list[bytes]) -> dict[str, int]:
        """Append a hash table with the numbers of names."""
        mask = (1 << (2 * len(names)).bit_length()) - 1
        places = [-1] * (mask + 1)
        for number, name in enumerate(names):
            at = _hash(name) & mask
            while places[at] >= 0:
                at = (at + 1) & mask
            places[at] = number
        self._tables += places
        return {"table": len(self._tables) - len(places), "mask": mask}


def _program(nodes: list[dict[str, Any]], tables: list[int], names: bytes) -> core.ValueProgram:
    code = np.array([tuple(node.values()) for node in nodes], NODE)
    constants = np.frombuffer(_powers() + names, np.uint8)
    return core.ValueProgram(FORMAT, code, np.array(tables, np.int32), constants)


def _children(column: Column) -> list[tuple[str, Column | None]]:
    """Return the members or items of a value. A member without a column is skipped."""
    type_: ValueType = column.type
    if isinstance(type_, Record):
        found = dict(column.children)
        return [(field.name, found.get(field.name)) for field in type_.fields]
    if type_.kind == "array":
        return list(column.children)
    return [("", column.children[0][1].children[1][1])] if type_.kind == "map" else []


def _hash(name: bytes) -> int:
    """Return the FNV-1a hash of a name."""
    found = 2166136261
    for byte in name:
        found = (found ^ byte) * 16777619 & 0xFFFFFFFF
    return found


@cache
def _powers() -> bytes:
    words: list[Any] = []
    for power in range(-342, 309):
        five = 5 ** abs(power)
        if power < 0:  # rounded up
            bits = five.bit_length() + (127 if power >= -27 else five.bit_length() + 128)
            number = (1 << bits) // five + 1
            number >>= max(number.bit_length() - 128, 0)
        else:  # rounded down
            number = five << 128 >> five.bit_length()
        words += [number >> 64, number & (2**64 - 1)]
    return np.array(words, np.uint64).tobytes()
