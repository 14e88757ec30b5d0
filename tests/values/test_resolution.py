"""Test the resolution of schemas by hand where generated schemas do not reach, or where fastavro errs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from avro_schemas import encode
from decoding_values import decode_columns, framed, registry_of


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, type_: Any, **given: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **given}


def enum(symbols: str, **given: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **given}


def decoded(core: ModuleType, versions: list[Any], stored: list[tuple[int, Any]], schema: str = "latest") -> Any:
    """Return the values, and the errors, of values that are given with the number of their version."""
    bodies = [framed(encode(versions[number - 1], value), number) for number, value in stored]
    result = decode_columns(core, registry_of(*versions), bodies, schema)
    return result.values, result.errors


def test_default_of_an_enum_stands_for_unknown_symbols(core: ModuleType) -> None:
    versions = [record(field("e", enum("ABC"))), record(field("e", enum("BA", default="A")))]
    values, errors = decoded(core, versions, [(1, {"e": "C"}), (1, {"e": "B"})])
    assert values == [{"e": "A"}, {"e": "B"}]
    assert errors == [None, None]


def test_unknown_symbol_is_an_error_without_a_default(core: ModuleType) -> None:
    versions = [record(field("e", enum("ABC"))), record(field("e", enum("BA")))]
    values, errors = decoded(core, versions, [(1, {"e": "C"}), (1, {"e": "B"})])
    assert values == [None, {"e": "B"}]
    assert errors == [("no_symbol", 5), None]


def test_union_of_versions_has_all_symbols(core: ModuleType) -> None:
    versions = [record(field("e", enum("ABC"))), record(field("e", enum("BA", default="A")))]
    values, _ = decoded(core, versions, [(1, {"e": "C"}), (2, {"e": "B"})], "union")
    assert values == [{"e": "C"}, {"e": "B"}]


def test_name_of_a_field_counts_before_its_alias(core: ModuleType) -> None:
    versions = [record(field("a", "int"), field("b", "int")), record(field("b", "int", aliases=["a"]))]
    stored = [(1, {"a": 1, "b": 2}), (2, {"b": 3})]
    assert decoded(core, versions, stored)[0] == [{"b": 2}, {"b": 3}]
    assert decoded(core, versions, stored, "union")[0] == [{"a": 1, "b": 2}, {"a": None, "b": 3}]


def test_defaults_belong_only_to_the_latest_version(core: ModuleType) -> None:
    versions = [record(field("a", "int")), record(field("a", "int"), field("b", "string", default="x"))]
    assert decoded(core, versions, [(1, {"a": 1})])[0] == [{"a": 1, "b": "x"}]
    assert decoded(core, versions, [(1, {"a": 1})], "union")[0] == [{"a": 1, "b": None}]


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        (["null", "int"], None, None),
        (["int", "null"], 7, 7),
        (["null", "int"], 7, 7),  # since Avro 1.12, a default may belong to any branch
        ("float", 1, 1.0),
        (enum("AB"), "B", "B"),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, [{"a": 1}, {}], [[("a", 1)], []]),
        (record(field("x", "int"), field("y", "string", default="z"), name="I"), {"x": 1}, {"x": 1, "y": "z"}),
        ({"type": "int", "logicalType": "time-millis"}, 5, 5),
        (["string", "int", "null"], "s", {"string": "s", "int": None}),
    ],
)
def test_field_that_the_writer_lacks_has_its_default(core: ModuleType, type_: Any, default: Any, expected: Any) -> None:
    versions = [record(field("a", "int")), record(field("a", "int"), field("b", type_, default=default))]
    assert decoded(core, versions, [(1, {"a": 1})])[0] == [{"a": 1, "b": expected}]


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        ("int", {}),
        ("int", {"default": "x"}),
        ("int", {"default": 1 << 31}),
        ("int", {"default": 1.5}),
        ("int", {"default": True}),
        ("long", {"default": 1 << 63}),
        ("string", {"default": 5}),
        ("string", {"default": "\ud800"}),
        ("bytes", {"default": "€"}),
        ("boolean", {"default": 1}),
        ("double", {"default": "1"}),
        ("null", {"default": 0}),
        (enum("AB"), {"default": "C"}),
        ({"type": "fixed", "name": "F", "size": 2}, {"default": "a"}),
        ({"type": "array", "items": "int"}, {"default": {}}),
        ({"type": "map", "values": "int"}, {"default": []}),
        (record(field("x", "int"), name="I"), {"default": {}}),
        (record(field("x", "I", default={}), name="I"), {"default": {}}),  # it never ends
    ],
)
def test_missing_field_without_a_valid_default_is_an_error_of_the_record(
    core: ModuleType, type_: Any, given: dict[str, Any]
) -> None:
    latest = record(field("a", "int"), field("b", type_, **given))
    stored = [framed(b"\x02", 1), None]
    result = decode_columns(core, registry_of(record(field("a", "int")), latest), stored, "latest")
    assert result.values == [None, None]
    assert str(result.errors[0]).startswith("invalid_schema: schema 1 cannot be read as the chosen one: ")
    assert "b" in str(result.errors[0])
    assert result.errors[1] is None


def test_only_values_of_a_branch_that_the_reader_lacks_are_errors(core: ModuleType) -> None:
    versions = [record(field("x", ["null", "int", "string"])), record(field("x", ["null", "long"]))]
    values, errors = decoded(core, versions, [(1, {"x": 5}), (1, {"x": "a"}), (1, {"x": None})])
    assert values == [{"x": 5}, None, {"x": None}]
    assert errors == [None, ("no_branch", 5), None]


def test_null_is_readable_if_the_other_branch_is_not(core: ModuleType) -> None:
    versions = [record(field("x", ["null", "string"])), record(field("x", ["null", "int"]))]
    values, errors = decoded(core, versions, [(1, {"x": None}), (1, {"x": "a"})])
    assert values == [{"x": None}, None]
    assert errors == [None, ("no_branch", 5)]


def test_value_becomes_a_branch_of_a_union(core: ModuleType) -> None:
    versions = [record(field("x", "int")), record(field("x", ["string", "long"]))]
    assert decoded(core, versions, [(1, {"x": 5})])[0] == [{"x": {"string": None, "long": 5}}]


def test_records_in_a_union_are_matched_by_name(core: ModuleType) -> None:
    a, b = record(field("x", "int"), name="A"), record(field("x", "int"), name="B")
    versions = [record(field("u", [a, b])), record(field("u", [b, a]))]
    values, _ = decoded(core, versions, [(1, {"u": ("A", {"x": 1})}), (1, {"u": ("B", {"x": 2})})])
    assert values == [{"u": {"B": None, "A": {"x": 1}}}, {"u": {"B": {"x": 2}, "A": None}}]


@pytest.mark.parametrize(("old", "new"), [("long", "int"), ("string", "int"), ("double", "float"), ("int", "boolean")])
def test_schema_that_does_not_resolve_is_an_error_of_its_records(core: ModuleType, old: str, new: str) -> None:
    versions = [record(field("x", old)), record(field("x", new))]
    stored = [framed(b"\0" * 8, 1), framed(b"\0" if new != "float" else b"\0" * 4, 2)]
    result = decode_columns(core, registry_of(*versions), stored, "latest")
    assert str(result.errors[0]).startswith("invalid_schema: ")
    assert result.errors[1] is None


def test_long_that_float_does_not_hold_is_rounded_once(core: ModuleType) -> None:
    versions = [record(field("x", "long")), record(field("x", "float"))]
    given = [2**53 + 2**29 + 1, -(2**63), 16_777_217]  # the first one is rounded down by double
    values, _ = decoded(core, versions, [(1, {"x": n}) for n in given])
    assert [value["x"] for value in values] == [float(2**53 + 2**30), float(-(2**63)), 16_777_216.0]


def test_decimals_of_one_scale_share_a_column(core: ModuleType) -> None:
    versions = [
        record(field("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})),
        record(field("d", {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 40, "scale": 2})),
    ]  # fmt: skip
    stored = [framed(b"\x04\xff\x85", 1), framed(b"\x01" + bytes(15) + b"\x7f" * 4, 2)]
    result = decode_columns(core, registry_of(*versions), stored)
    assert str(result.array.type.field(0).type) == "decimal256(40, 2)"
    assert str(result.values[0]["d"]) == "-1.23"
    assert result.errors == [None, ("bad_number", 5)]


def test_decimals_of_two_scales_become_json_text(core: ModuleType) -> None:
    versions = [
        record(field("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": scale}))
        for scale in (1, 2)
    ]
    result = decode_columns(core, registry_of(*versions), [framed(b"\x02\x7b", 1), framed(b"\x02\x7b", 2)])
    assert [value["d"] for value in result.values] == ['"12.3"', '"1.23"']


def test_other_unit_of_time_is_an_error_and_not_another_time(core: ModuleType) -> None:
    units = [{"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros")]
    versions = [record(field("t", type_)) for type_ in ("long", *units)]
    stored = [framed(b"\x02", number) for number in (1, 2, 3)]
    result = decode_columns(core, registry_of(*versions), stored, "latest")
    assert result.values == [{"t": 1}, None, {"t": 1}]
    assert str(result.errors[1]).endswith("values of type timestamp-millis cannot be read as timestamp-micros")
    whole = decode_columns(core, registry_of(*versions[1:]), [framed(b"\x02", 1), framed(b"\x02", 2)])
    assert [row["t"] for row in whole.values] == ['"1970-01-01T00:00:00.001Z"', '"1970-01-01T00:00:00.000001Z"']


def test_version_of_another_name_still_resolves(core: ModuleType) -> None:
    versions = [record(field("x", "int"), name="Old"), record(field("x", "long"), name="new.R")]
    assert decoded(core, versions, [(1, {"x": 5})])[0] == [{"x": 5}]


def test_chosen_schema_that_is_invalid_is_a_usage_error(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="version 2 of subject t-value"):
        decode_columns(core, registry_of("int", {"type": "nothing"}), [], "latest")


def test_union_of_versions_leaves_out_an_invalid_version(core: ModuleType) -> None:
    result = decode_columns(core, registry_of("int", {"type": "nothing"}), [framed(b"\2", 1), framed(b"\2", 2)])
    assert result.values == [1, None]
    assert str(result.errors[1]).startswith("invalid_schema: version 2 of subject t-value")


def test_all_versions_invalid_is_a_usage_error(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="cannot be decoded"):
        decode_columns(core, registry_of({"type": "nothing"}), [])
