"""Test the arguments that decode keys and values of topics and partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from avro_schemas import encode
from decoded_logs import write_log
from decoding_values import framed, version

import kafkafmt
from kafkafmt.values import UndecodableError

KEY = {"type": "record", "name": "Key", "fields": [{"name": "n", "type": "int"}]}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "country", "type": "string"}, {"name": "vip", "type": "boolean"}],
}
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "customer", "type": ["null", CUSTOMER]}],
}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", CUSTOMER]},
        {
            "name": "lines",
            "type": {"type": "array", "items": {"type": "map", "values": CUSTOMER["name"]}},
            "default": [],
        },
    ],
}
VERSIONS = [version(KEY, 1, 9, "t-key"), version(FIRST, 1), version(SECOND, 2)]
DE = {"country": "DE", "vip": True}
GOOD: list[tuple[bytes | None, bytes | None]] = [
    (framed(b"\x02", 9), framed(encode(FIRST, {"id": 1, "customer": DE}), 1)),
    (framed(b"\x04", 9), framed(encode(SECOND, {"id": 2, "customer": None, "lines": [{"a": DE}]}), 2)),
    (None, None),
]
BROKEN = (framed(b"\x06", 9), framed(b"\x06\x02\x80", 1))
LATER = (framed(b"\x08", 9), framed(encode(FIRST, {"id": 5, "customer": None}), 1))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_log(tmp_path / "good", GOOD, VERSIONS)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write_log(tmp_path / "broken", [*GOOD, BROKEN, LATER], VERSIONS, per_batch=2)


def topic(path: Path) -> kafkafmt.Topic:
    return kafkafmt.open(path)["t"]


def rows(path: Path, columns: list[str] | None = None, **options: Any) -> list[Any]:
    """Return the decoded rows as dicts."""
    found = topic(path).to_arrow(columns, **{"decode": True, **options})
    found.validate(full=True)
    return list(found.to_pylist())


def test_default_columns(good: Path) -> None:
    table = topic(good).to_arrow(decode=True)
    names = "key key_error key_raw value value_error value_raw topic partition offset timestamp timestampType headers"
    assert table.column_names == names.split()
    assert table.schema.field("key").type == pa.struct([("n", pa.int32())])
    assert [field.name for field in table.schema.field("value").type] == ["id", "customer", "lines"]
    assert table["key"].to_pylist() == [{"n": 1}, {"n": 2}, None]
    assert table["value"].to_pylist() == [
        {"id": 1, "customer": DE, "lines": None},
        {"id": 2, "customer": None, "lines": [[("a", DE)]]},
        None,
    ]
    assert table["offset"].to_pylist() == [0, 1, 2]
    errors = [name for name in table.column_names if name.endswith(("_error", "_raw"))]
    assert all(table[name].null_count == 3 for name in errors)


def test_one_side_keeps_its_bytes(good: Path) -> None:
    assert rows(good, ["key", "value"], decode="key")[0]["value"] == GOOD[0][1]
    assert rows(good, ["key", "value"], decode=["value"])[0]["key"] == GOOD[0][0]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["value.id"], {"id": 1}),
        (["value.customer.country"], {"customer": {"country": "DE"}}),
        (["value.id", "value.customer.vip"], {"id": 1, "customer": {"vip": True}}),
        (["value.customer.country", "value.customer"], {"customer": DE}),
        (["value.lines.country"], {"lines": None}),
        (["value.id", "value"], {"id": 1, "customer": DE, "lines": None}),
    ],
)
def test_columns_choose_fields(good: Path, columns: list[str], expected: Any) -> None:
    found = rows(good, columns)
    assert found[0]["value"] == expected
    assert list(found[0]) == ["value", "value_error", "value_raw"]


def test_columns_without_key_and_value_need_no_decoding(broken: Path) -> None:
    assert rows(broken, ["offset"], on_undecodable="fail") == [{"offset": offset} for offset in range(5)]


def test_fields_of_records_in_arrays_and_maps(good: Path) -> None:
    assert rows(good, ["value.lines.country"])[1]["value"] == {"lines": [[("a", {"country": "DE"})]]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["value.idd"], "value has no field 'idd'.*'?id'?"),
        (["value.customer.contry"], r"value\.customer has no field 'contry'.*country"),
        (["value.id.x"], r"value\.id has no field 'x'"),
        (["key.m"], "key has no field 'm'"),
        (["valu.id"], "valu"),
        (["value."], "value has no field ''"),
    ],
)
def test_unknown_field_names_the_nearest(good: Path, columns: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows(good, columns)


@pytest.mark.parametrize(
    ("schema", "second", "lines"),
    [("union", None, None), ("latest", [], []), (2, [], []), ("2", [], []), ("id:2", [], [])],
)
def test_schema_decides_the_columns(good: Path, schema: Any, second: Any, lines: Any) -> None:
    found = rows(good, ["value"], schema=schema)
    assert found[0]["value"] == {"id": 1, "customer": DE, "lines": lines}
    assert found[1]["value"]["lines"] == [[("a", DE)]]


@pytest.mark.parametrize("schema", [1, "1", "id:1"])
def test_older_schema_refuses_wider_numbers(good: Path, schema: Any) -> None:
    found = rows(good, ["value"], schema=schema)
    assert found[0]["value"] == {"id": 1, "customer": DE}
    assert found[1]["value"] is None
    assert found[1]["value_error"].startswith("invalid_schema: schema 2 cannot be read as the chosen one: ")
    assert found[1]["value_raw"] == GOOD[1][1]


@pytest.mark.parametrize("schema", [3, 0, -1, "3", "id:77", "id:", "id:x", "newest", "", 1.5, None, True])
def test_wrong_schema_is_a_usage_error(good: Path, schema: Any) -> None:
    with pytest.raises((ValueError, LookupError, TypeError), match=r"."):
        rows(good, ["value"], decode="value", schema=schema)


@pytest.mark.parametrize("decode", ["valu", ["key", "x"], "", [], 5, 1, None])
def test_wrong_decode_is_a_usage_error(good: Path, decode: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r'True, "key", "value"'):
        rows(good, decode=decode)


@pytest.mark.parametrize(
    "options", [{"raw": True}, {"schema": "latest"}, {"registry": "x"}, {"on_undecodable": "fail"}], ids=str
)
def test_options_need_decode(good: Path, options: Any) -> None:
    with pytest.raises(ValueError, match="needs decode"):
        topic(good).to_arrow(**options)


def test_wrong_on_undecodable_is_a_usage_error(good: Path) -> None:
    with pytest.raises(ValueError, match="'keep' or 'fail'"):
        rows(good, on_undecodable="skip")


def test_topic_without_schemas(good: Path, tmp_path: Path) -> None:
    other = write_log(tmp_path / "other", GOOD, [version(FIRST, 1, subject="orders-value")])
    with pytest.raises(ValueError, match="no subject t-key or t-value"):
        rows(other)
    with pytest.raises(ValueError, match="key is not decoded"):
        rows(write_log(tmp_path / "value", GOOD, [VERSIONS[1]]), ["key.n", "value"])
    assert rows(other, ["value.id"], registry=good)[0]["value"] == {"id": 1}


def test_undecodable_value_keeps_its_bytes(broken: Path) -> None:
    found = rows(broken, ["value", "offset"])
    assert [row["value"] is None for row in found] == [False, False, True, True, False]
    assert [row["value_error"] for row in found] == [None, None, None, "truncated at byte 7", None]
    assert [row["value_raw"] for row in found] == [None, None, None, BROKEN[1], None]


def test_raw_returns_all_bytes(broken: Path) -> None:
    found = rows(broken, ["key", "value"], raw=True)
    assert [(row["key_raw"], row["value_raw"]) for row in found] == [*GOOD, BROKEN, LATER]
    found = rows(broken, ["value"], raw=True, start=0, end=3, on_undecodable="fail")
    assert list(found[0]) == ["value", "value_raw"]
    assert [row["value_raw"] for row in found] == [value for _, value in GOOD]


def test_fail_names_the_offset_and_returns_the_records_before(broken: Path) -> None:
    partition = kafkafmt.open(broken)["t", 0]
    message = "the value of the record at offset 3 cannot be decoded: truncated"
    for threads in (1, 4):
        batches = partition.to_batches(["offset", "value"], decode=True, on_undecodable="fail", threads=threads)
        offsets = next(batches)["offset"].to_pylist()
        assert offsets == [0, 1, 2]
        with pytest.raises(UndecodableError, match=message) as raised:
            next(batches)
        assert (raised.value.code, raised.value.position) == ("truncated", 7)
    with pytest.raises(UndecodableError, match=message):
        topic(broken).to_arrow(decode=True, on_undecodable="fail")
    assert len(rows(broken, on_undecodable="fail", start=4)) == 1


def test_limit_before_a_failure_is_not_an_error(broken: Path) -> None:
    partition = kafkafmt.open(broken)["t", 0]
    for limit in (2, 3):
        table = partition.to_arrow(["offset", "value.id"], decode=True, on_undecodable="fail", limit=limit)
        assert table["offset"].to_pylist() == list(range(limit))
    with pytest.raises(UndecodableError):
        partition.to_arrow(["value"], decode=True, on_undecodable="fail", limit=4)


def test_first_failure_of_both_sides_counts(tmp_path: Path) -> None:
    records = [*GOOD, (framed(b"\x02", 9), b""), (b"", GOOD[0][1]), GOOD[0]]
    path = write_log(tmp_path / "both", records, VERSIONS)
    batches = kafkafmt.open(path)["t", 0].to_batches(["key", "value", "offset"], decode=True, on_undecodable="fail")
    assert next(batches)["offset"].to_pylist() == [0, 1, 2]
    with pytest.raises(UndecodableError, match="the value of the record at offset 3 cannot be decoded"):
        next(batches)


def test_limit_and_offsets(broken: Path) -> None:
    for options, expected in (
        ({"limit": 2}, [0, 1]),
        ({"limit": 0}, []),
        ({"start": 1, "limit": 3}, [1, 2, 3]),
        ({"start": 1, "end": 4}, [1, 2, 3]),
        ({"start": -1}, [4]),
    ):
        partition = kafkafmt.open(broken)["t", 0].to_arrow(["offset", "value.id"], decode=True, **options)  # type: ignore[arg-type]
        assert partition["offset"].to_pylist() == expected
        ids = {0: {"id": 1}, 1: {"id": 2}, 4: {"id": 5}}
        assert partition["value"].to_pylist() == [ids.get(offset) for offset in expected]


def many(path: Path, count: int) -> Path:
    stored = []
    for n in range(count):
        if n % 3 == 0:
            value = encode(FIRST, {"id": n, "customer": {"country": "x" * (n % 50), "vip": n % 2 == 0}})
        else:
            value = encode(SECOND, {"id": n, "customer": None, "lines": [{"k": DE}] * (n % 5)})
        value = value[:-1] if n % 97 == 0 else value
        stored.append((framed(bytes([2 * (n % 60)]), 9), framed(value, 1 if n % 3 == 0 else 2)))
    return write_log(path, stored, VERSIONS, per_batch=250)


def test_threads_return_equal_tables(tmp_path: Path) -> None:
    path = many(tmp_path / "many", 6000)
    tables = [topic(path).to_arrow(decode=True, threads=threads) for threads in (1, 4)]
    assert tables[0].equals(tables[1])
    assert tables[0]["value"].null_count == len(range(0, 6000, 97))
    whole = tables[0]["value"].to_pylist()
    assert all(row is None or row["id"] == n for n, row in enumerate(whole))
    for threads in (1, 4):
        few = topic(path).to_arrow(["value.customer.vip", "offset"], decode=True, threads=threads)
        assert few["offset"].to_pylist() == list(range(6000))
        for n, (row, all_fields) in enumerate(zip(few["value"].to_pylist(), whole, strict=True)):
            if all_fields is not None:
                customer = all_fields["customer"]
                assert row == {"customer": customer and {"vip": customer["vip"]}}, n


def test_skipped_damage_and_undecodable_values_are_both_reported(tmp_path: Path) -> None:
    path = many(tmp_path / "many", 1000)
    (log,) = (path / "t-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    partition = kafkafmt.open(path)["t", 0]
    table = partition.to_arrow(decode=True, on_error="skip")
    assert len(partition.damaged) == 1
    offsets = table["offset"].to_pylist()
    assert len(offsets) == 750
    for offset, row in zip(offsets, table["value"].to_pylist(), strict=True):
        assert (row is None) == (offset % 97 == 0)
        assert row is None or row["id"] == offset
    with pytest.raises(kafkafmt.DamagedLogError):
        kafkafmt.open(path)["t", 0].to_arrow(decode=True)


def test_reader_has_the_schema_of_the_batches(broken: Path) -> None:
    partition = kafkafmt.open(broken)["t", 0]
    reader = partition.to_reader(["value.id"], decode=True)
    assert [field.name for field in reader.schema] == ["value", "value_error", "value_raw"]
    assert reader.read_all()["value"].to_pylist() == [{"id": 1}, {"id": 2}, None, None, {"id": 5}]
    empty = partition.to_reader(["value.id"], decode=True, start=5)
    assert empty.read_all().schema == reader.schema


def test_other_libraries(broken: Path) -> None:
    frame = topic(broken).to_polars(["value.id", "offset"], decode=True)
    assert frame["value"].struct.field("id").to_list() == [1, 2, None, None, 5]
    table = topic(broken).to_pandas(["value.id", "offset"], decode=True)
    assert table["value"].tolist() == [{"id": 1}, {"id": 2}, None, None, {"id": 5}]


def test_find_returns_bytes(broken: Path) -> None:
    found = list(kafkafmt.open(broken)["t", 0].find(key=LATER[0]))
    assert [(record.offset, record.value) for record in found] == [(4, LATER[1])]


def test_without_decode_values_are_bytes(broken: Path) -> None:
    table = topic(broken).to_arrow()
    assert table.column_names == "key value topic partition offset timestamp timestampType headers".split()
    assert table["value"].to_pylist() == [value for _, value in [*GOOD, BROKEN, LATER]]
    with pytest.raises(ValueError, match=r"value\.id"):
        topic(broken).to_arrow(["value.id"])


def test_keys_that_are_not_in_any_schema(tmp_path: Path) -> None:
    path = write_log(tmp_path / "plain", [(b"order-1", GOOD[0][1]), (b"", GOOD[1][1])], VERSIONS)
    found = rows(path, ["key", "value.id"])
    assert [row["key_error"] for row in found] == ["no_schema_id: it does not begin with a schema id"] * 2
    assert [row["key_raw"] for row in found] == [b"order-1", b""]
    assert [row["value"] for row in found] == [{"id": 1}, {"id": 2}]


def test_value_without_a_common_type_is_json_text(tmp_path: Path) -> None:
    bodies = [framed(encode("string", "a"), 1), framed(encode("int", 3), 2)]
    versions = [version("string", 1), version("int", 2)]
    table = topic(write_log(tmp_path / "mixed", [(None, body) for body in bodies], versions)).to_arrow(decode=True)
    assert table.schema.field("value").type == pa.string()
    assert table["value"].to_pylist() == ['"a"', "3"]
