"""Fuzz the functions that accept columns: `columns_of`, `build_columns`, `append_columns`, `Partitioner.column`."""

from __future__ import annotations

from random import Random
from typing import Any

import kafkafmt

from .case import Case
from .mutate_columns import binary_recipe, header_recipe, make_binary, make_headers, make_numbers, number_recipe
from .outcome import Failed, attempt, attempt_raw, drained, same
from .target import target

WRONG = (TypeError, ValueError, OverflowError)
PLAIN_TYPES = ("list", "numpy", "arrow", "scalar")


def columns_case(chance: Random) -> Case:
    rows = chance.choice((0, 1, 3, 9, 40))
    params: dict[str, Any] = {
        "rows": rows,
        "magic": chance.choice((2, 2, 2, 1, 0)),
        "codec": chance.choice(("none", "none", "lz4")),
    }
    for name, make, share in (
        ("key", binary_recipe, 0.7), ("value", binary_recipe, 0.8), ("timestamp", number_recipe, 0.4), ("offset", number_recipe, 0.2),
        ("headers", header_recipe, 0.3),
    ):  # fmt: skip
        if chance.random() < share:
            params[name] = make(chance, rows if chance.random() < 0.97 else rows + 1)
    params["max_bytes"] = chance.choice((16384, 100, None))
    return Case(params)


def columns_given(case: Case) -> dict[str, Any] | None:
    """Build the columns of a case, or return None if NumPy or Arrow rejects one of them."""
    import pyarrow as pa

    made = {}
    try:
        for name in case.params.keys() & {"key", "value"}:
            made[name] = make_binary(case.params[name], case.params["rows"])
        for name in case.params.keys() & {"timestamp", "offset"}:
            made[name] = make_numbers(case.params[name])
        if "headers" in case.params:
            made["headers"] = make_headers(case.params["headers"])
    except (TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException):
        return None
    return made


@target("columns", columns_case, quick=100)
def columns(case: Case) -> Any:
    """Check that built records have the values that NumPy or Arrow reads from the columns."""
    given = columns_given(case)
    if given is None:
        return None
    made = attempt_raw(kafkafmt.records.columns_of, also=WRONG, **given)
    if isinstance(made, Failed):
        return made
    options = {name: case.params[name] for name in ("magic", "codec", "max_bytes")}
    built = attempt(lambda: b"".join(kafkafmt.records.build_columns(made, **options)), also=WRONG)
    if isinstance(built, Failed):
        return built
    found, failure = drained(kafkafmt.read_records(built))
    same(failure, None, "the built batches can be read")
    same(len(found), made.rows, "rows")
    for name, at in (("key", 3), ("value", 4)):
        expected = binary_values(given.get(name), made.rows)
        if expected is not None:
            same([r[at] for r in found], expected, name)
    for name, at in (("timestamp", 1), ("offset", 0)):
        if name in given and (case.params["magic"] or name == "offset"):
            expected = number_values(case.params[name], given[name], made.rows)
            if expected is not None:
                same([r[at] for r in found], expected, name)
    if "headers" in given:
        expected = header_values(case.params["headers"])
        if expected is not None and case.params["magic"] == 2:
            same([r[5] for r in found], expected, "headers")
    return built


def binary_values(column: Any, rows: int) -> list[Any] | None:
    """Return the values that NumPy or Arrow reads from a column, or None if the column is inconsistent."""
    import pyarrow as pa

    if column is None:
        return [None] * rows
    if isinstance(column, pa.Array | pa.ChunkedArray):
        try:
            column.validate(full=True)
        except pa.ArrowException:
            return None
        return [v.encode() if isinstance(v, str) else v for v in column.to_pylist()]
    if isinstance(column, list):
        return [None if v is None else bytes(v) for v in column]
    return None


def number_values(recipe: dict[str, Any], column: Any, rows: int) -> list[int] | None:
    """Return the numbers in a column, with -1 for nulls. Return None if the column contains anything else, such as times."""
    if recipe["way"] == "scalar":
        return [column] * rows if type(column) is int else None
    if recipe["way"] == "list":
        values = recipe["values"]
    elif "int" in str(getattr(column, "type", "")) or str(getattr(column, "dtype", "")).lstrip("u").startswith("int"):
        values = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()
    else:
        return None
    return [-1 if v is None else v for v in values] if all(v is None or type(v) is int for v in values) else None


def header_values(recipe: dict[str, Any]) -> list[Any] | None:
    """Return the headers in a JSON description. Fields of structs are identified by name."""
    if recipe["way"] in ("pairs", "list", "map", "large_list") and not (recipe["way"] == "list" and recipe["offset"]):
        return [[[k, None if v is None else bytes.fromhex(v)] for k, v in r or ()] for r in recipe["rows"]]
    if recipe["way"] == "swapped":
        return [[[k, None if v is None else bytes.fromhex(v)] for k, v in r or ()] for r in recipe["rows"]]
    return None


def partitions_case(chance: Random) -> Case:
    rows = chance.choice((0, 1, 9))
    return Case({"rows": rows, "key": binary_recipe(chance, rows)})


@target("partitioner-columns", partitions_case, quick=60)
def partitions(case: Case) -> Any:
    given = columns_given(case)
    if given is None:
        return None
    return attempt(kafkafmt.records.Partitioner(7).column, given["key"], also=WRONG)
