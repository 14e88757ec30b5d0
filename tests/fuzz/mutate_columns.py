"""Generate invalid columns: inconsistent Arrow buffers, unusual NumPy arrays, and spans outside the data.

A JSON object describes how to build a column. Therefore, a column can be saved as a test case.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from kafkafmt.types import HeaderSpans, Spans

from .mutate_bytes import NUMBERS

BINARY = (
    "binary",
    "string",
    "large_binary",
    "large_string",
    "fixed_size_binary",
    "binary_view",
    "string_view",
    "null",
    "dictionary",
)
NUMERIC = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64", "bool", "timestamp[s]", "timestamp[ms]",
           "timestamp[us]", "timestamp[ns]", "date32", "date64", "duration[ms]", "string", "null")  # fmt: skip
DTYPES = ("i1", "<i2", "<i4", "<i8", ">i8", ">i4", "u1", "<u4", "<u8", ">u8", "f8", "f4", "?", "M8[s]", "M8[ms]", "M8[us]", "M8[ns]",
          "M8[D]", "m8[ms]", "S3", "U3", "O", "c16")  # fmt: skip
SPAN_DTYPES = ["<i8", "<i4"], ["<i4", "<i4"], ["<i8", "<i8"], [">i8", ">i4"], ["f8", "<i4"], ["<u8", "<u4"]
HEADERS = (
    "pairs",
    "dicts",
    "list",
    "map",
    "swapped",
    "large_list",
    "fixed_list",
    "strings",
    "null_structs",
    "spans",
    "spans",
)


def binary_recipe(chance: Random, rows: int) -> dict[str, Any]:
    """Return the JSON description of a random column of keys or values."""
    way = chance.choice(("list", "numpy", "arrow", "arrow", "lying", "lying", "spans", "spans", "sliced", "chunked"))
    if way in ("list", "numpy"):
        values = [
            None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 5, 70))).hex() for _ in range(rows)
        ]
        return {"way": way, "values": values, "form": chance.choice(("O", "S", "rows", "memoryview", "reversed"))}
    recipe: dict[str, Any] = {"way": way, "type": chance.choice(BINARY), "seed": chance.getrandbits(32)}
    if way == "lying":
        recipe["type"] = chance.choice(BINARY[:5])
        recipe |= _wrong_buffers(chance, rows, 8 if recipe["type"].startswith("large") else 4)
    if way == "spans":
        size = chance.choice((0, 10, 100))
        recipe |= {"size": size, "positions": _positions(chance, rows, size), "lengths": _lengths(chance, rows)}
        recipe["dtypes"] = SPAN_DTYPES[0] if chance.random() < 0.7 else chance.choice(SPAN_DTYPES)
        recipe["strided"] = chance.random() < 0.1
        recipe["extra"] = chance.choice((0, 0, 0, 1, -1))
    return recipe


def _positions(chance: Random, rows: int, size: int) -> list[int]:
    lying = (-1, size, size + 1, 2**31, 2**62, -(2**63), 2**63 - 1)
    return [
        chance.choice(lying) if chance.random() < 0.03 else chance.randint(0, max(size - 5, 0)) for _ in range(rows)
    ]


def _lengths(chance: Random, rows: int) -> list[int]:
    return [
        chance.choice((2**31 - 1, -2, -(2**31), 101)) if chance.random() < 0.02 else chance.choice((-1, 0, 1, 5))
        for _ in range(rows)
    ]


def _wrong_buffers(chance: Random, rows: int, width: int) -> dict[str, Any]:
    """Return buffers with wrong offsets, a truncated validity bitmap, or a wrong null count."""
    data = chance.choice((0, 5, 64, 1000))
    offsets, at = [], 0
    for _ in range(rows + 3):
        offsets.append(at)
        at = min(at + chance.randrange(8), data)
    if chance.random() < 0.5:
        for _ in range(chance.choice((1, 2))):
            offsets[chance.randrange(len(offsets))] = chance.choice((-1, data + 1, 2**31 - 1, -(2**31), 0, data))
    return {
        "length": rows, "offset": chance.choice((0, 0, 0, 1, 2)), "offsets": offsets, "width": width, "data": chance.randbytes(data).hex(),
        "nulls": chance.choice((-1, 0, 0, rows, 1)), "validity": chance.choice((None, chance.randbytes(rows // 8 + 1).hex())),
    }  # fmt: skip


def number_recipe(chance: Random, rows: int) -> dict[str, Any]:
    """Return the JSON description of a random column of timestamps or offsets."""
    near = (-1, 0, 1, 5, 1_700_000_000_000, *NUMBERS, 2**63, 2**64 - 1)
    usual = [1_700_000_000_000 + i for i in range(rows)]
    values: list[Any] = usual if chance.random() < 0.4 else [chance.choice(near) for _ in range(rows)]
    if chance.random() < 0.3:
        values = [None if chance.random() < 0.2 else v for v in values]
    if chance.random() < 0.1:
        values = [chance.choice((1.5, "7", True, [1], 2**80)) if chance.random() < 0.3 else v for v in values]
    way = chance.choice(("list", "numpy", "numpy", "arrow", "arrow", "scalar"))
    kind = {"numpy": DTYPES, "arrow": NUMERIC}.get(way, ("",))
    scalar = chance.choice((7, 1.9, "5", True, 2**63, None))
    return {
        "way": way,
        "values": values,
        "type": chance.choice(kind),
        "strided": chance.random() < 0.2,
        "scalar": scalar,
    }


def header_recipe(chance: Random, rows: int) -> dict[str, Any]:
    """Return the JSON description of a random column of headers."""
    way = chance.choice(HEADERS)
    pairs = [
        [[chance.choice(("h", "", "ü")), chance.choice((None, "", "00ff"))] for _ in range(chance.randrange(3))]
        for _ in range(rows)
    ]
    recipe: dict[str, Any] = {
        "way": way,
        "rows": [None if chance.random() < 0.1 else p for p in pairs],
        "offset": chance.choice((0, 0, 1)),
    }
    if way == "spans":
        total = chance.choice((0, 2, 9))
        lying = chance.random() < 0.3
        starts = [chance.randint(0, total) for _ in range(rows)]
        recipe |= {"starts": starts, "counts": [chance.randint(0, total - start) for start in starts]}
        if lying and rows:
            recipe["starts"][chance.randrange(rows)] = chance.choice((-1, total + 1, 2**62))
            recipe["counts"][chance.randrange(rows)] = chance.choice((2**31 - 1, -1, 5))
        for name in ("keys", "values"):
            size = 50
            lengths = [0 if n < 0 and name == "keys" and chance.random() < 0.9 else n for n in _lengths(chance, total)]
            recipe[name] = {"way": "spans", "size": size, "positions": _positions(chance, total, size), "lengths": lengths,
                            "dtypes": ["<i8", "<i4"], "strided": False, "extra": 0, "seed": 3}  # fmt: skip
    return recipe


def make_binary(recipe: dict[str, Any], rows: int) -> Any:
    """Build a column of keys or values from its JSON description."""
    way = recipe["way"]
    if way in ("list", "numpy"):
        values = [None if v is None else bytes.fromhex(v) for v in recipe["values"]]
        return values if way == "list" else _numpy_binary(values, recipe["form"])
    if way == "spans":
        return _spans(recipe)
    if way == "lying":
        return _wrong_array(recipe)
    chance = Random(recipe["seed"])
    array = _arrow_binary(chance, recipe["type"], rows + 4)
    if way == "chunked":
        half = rows // 2
        return pa.chunked_array([array.slice(1, half), array.slice(3, rows - half)])
    return array.slice(chance.randrange(4), rows) if way == "sliced" else array.slice(0, rows)


def _numpy_binary(values: list[bytes | None], form: str) -> Any:
    if form == "rows":
        return np.frombuffer(b"".join((v or b"").ljust(5)[:5] for v in values), np.uint8).reshape(-1, 5)[:, ::-1]
    if form == "S":
        return np.array([v or b"" for v in values], "S9")
    if form == "memoryview":
        return [None if v is None else memoryview(v) for v in values]
    array = np.empty(len(values), object)
    array[:] = values
    return array[::-1] if form == "reversed" else array


def _arrow_binary(chance: Random, kind: str, rows: int) -> Any:
    if kind == "null":
        return pa.nulls(rows)
    values: list[Any] = [
        None if chance.random() < 0.2 else b"%d" % chance.randrange(10**6) * chance.choice((0, 1, 9))
        for _ in range(rows)
    ]
    if kind == "fixed_size_binary":
        return pa.array([None if v is None else (v + b"12345")[:5] for v in values], pa.binary(5))
    if kind == "dictionary":
        return pa.array(values, pa.binary()).dictionary_encode()
    if "string" in kind:
        return pa.array([None if v is None else v.decode() for v in values], getattr(pa, kind)())
    return pa.array(values, getattr(pa, kind)())


def _wrong_array(recipe: dict[str, Any]) -> Any:
    kind = pa.binary(5) if recipe["type"] == "fixed_size_binary" else getattr(pa, recipe["type"])()
    validity = None if recipe["validity"] is None else pa.py_buffer(bytes.fromhex(recipe["validity"]))
    data = pa.py_buffer(bytes.fromhex(recipe["data"]))
    offsets = pa.py_buffer(np.array(recipe["offsets"], f"<i{recipe['width']}").tobytes())
    buffers = [validity, data] if recipe["type"] == "fixed_size_binary" else [validity, offsets, data]
    nulls = recipe["nulls"] if validity is not None else 0
    return pa.Array.from_buffers(kind, recipe["length"], buffers, null_count=nulls, offset=recipe["offset"])


def _spans(recipe: dict[str, Any]) -> Spans:
    positions, lengths = (
        _array(recipe[n], d, recipe["strided"]) for n, d in zip(("positions", "lengths"), recipe["dtypes"], strict=True)
    )
    if recipe["extra"] > 0:
        positions = np.append(positions, positions[:1])
    return Spans(bytes(range(256))[: recipe["size"]], positions if recipe["extra"] >= 0 else positions[:-1], lengths)


def _array(values: list[int], dtype: str, strided: bool) -> Any:
    array = np.array(values, np.int64).astype(dtype)
    return np.repeat(array, 2)[::2] if strided else array


def make_numbers(recipe: dict[str, Any]) -> Any:
    """Build a column of timestamps or offsets from its JSON description.

    Errors of NumPy and Arrow are raised unchanged.
    """
    way, values = recipe["way"], recipe["values"]
    if way == "scalar":
        return recipe["scalar"]
    if way == "list":
        return values
    if way == "arrow":
        kind = recipe["type"]
        unit = kind.partition("[")[2].rstrip("]")
        if unit:
            return pa.array(values, pa.timestamp(unit) if kind.startswith("timestamp") else pa.duration(unit))
        return pa.array(values, getattr(pa, f"{kind}_" if kind == "bool" else kind)())
    with np.errstate(all="ignore"):
        array = np.array(["NaT" if v is None and recipe["type"][0] in "Mm" else v for v in values]).astype(
            recipe["type"]
        )
    return np.repeat(array, 2)[::2] if recipe["strided"] else array


def make_headers(recipe: dict[str, Any]) -> Any:
    """Build a column of headers from its JSON description."""
    way = recipe["way"]
    if way == "spans":
        starts, counts = np.array(recipe["starts"], np.int64), np.array(recipe["counts"], np.int64).astype(np.int32)
        return HeaderSpans(starts, counts, _spans(recipe["keys"]), _spans(recipe["values"]))
    rows = [None if r is None else [(k, None if v is None else bytes.fromhex(v)) for k, v in r] for r in recipe["rows"]]
    if way in ("pairs", "dicts"):
        return [None if r is None else dict(r) if way == "dicts" else r for r in rows]
    if way == "map":
        return pa.array(rows, pa.map_(pa.string(), pa.binary()))
    if way == "strings":
        return pa.array([None if r is None else [k for k, _ in r] for r in rows], pa.list_(pa.string()))
    fields = [("key", pa.string()), ("value", pa.binary())]
    struct = pa.struct(fields[::-1] if way == "swapped" else fields)
    made: list[Any] = [None if r is None else [{"key": k, "value": v} for k, v in r] for r in rows]
    if way == "null_structs":
        made = [None if r is None else [*r, None] for r in made]
    if way == "fixed_list":
        return pa.array(
            [None if r is None else (r * 2 + [{"key": "x", "value": None}] * 2)[:2] for r in made], pa.list_(struct, 2)
        )
    array = pa.array(made, (pa.large_list if way == "large_list" else pa.list_)(struct))
    return array[recipe["offset"] :] if way == "list" and recipe["offset"] else array
