"""Test schema ids in headers, `decode_values` and `scan_polars`."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from avro_schemas import encode
from command import inside
from decoded_logs import write_log
from decoding_values import framed, registry_of, version

import kafkafmt

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
VERSION = version(ORDER, 1)
BODY = encode(ORDER, {"id": 7})
GUID = b"\1" + uuid.UUID(str(VERSION.guid)).bytes
VALUE_ID, KEY_ID = "__value_schema_id", "__key_schema_id"
CASES: list[tuple[bytes | None, list[tuple[str, bytes | None]], int | str | None]] = [
    (BODY, [(VALUE_ID, GUID)], 7),
    (BODY, [("other", b"x"), (VALUE_ID, framed(b"", 1)), (VALUE_ID, None)], 7),  # the last one that is not null
    (BODY, [(VALUE_ID, framed(b"", 9)), (VALUE_ID, framed(b"", 1))], 7),
    (BODY, [(KEY_ID, GUID)], "no_schema_id"),
    (BODY, [(VALUE_ID, framed(b"", 9))], "unknown_schema"),
    (BODY, [(VALUE_ID, b"\0\0")], "no_schema_id"),
    (BODY[:-1], [(VALUE_ID, GUID)], "truncated at byte 0"),
    (None, [(VALUE_ID, GUID)], None),
    (framed(BODY), [("other", b"x")], 7),
    (GUID + BODY, [], 7),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = write_log(tmp_path / "log", [], [VERSION])
    with kafkafmt.LogDirectory(path) as directory:
        directory.writer("t", 0).append([(None, value, 1000, headers) for value, headers, _ in CASES], codec="lz4")
    return path


@pytest.mark.parametrize("columns", [["offset", "value"], ["offset", "value", "headers"]])
def test_schema_id_in_a_header_has_priority(log: Path, columns: list[str]) -> None:
    rows = kafkafmt.open(log)["t"].to_arrow(columns, decode=True).to_pylist()
    for row, (value, headers, expected) in zip(rows, CASES, strict=True):
        assert row["value"] == ({"id": expected} if isinstance(expected, int) else None)
        error = expected if isinstance(expected, str) else ""
        assert (row["value_error"] or "").startswith(error)
        assert bool(row["value_error"]) == bool(error)
        assert row["value_raw"] == (value if error else None)
        if "headers" in columns:
            assert [(h["key"], h["value"]) for h in row["headers"] or []] == headers


def test_cat_reads_schema_ids_in_headers(log: Path) -> None:
    done = inside("cat", log, "-t", "t", "--decode", "--where", "value.id = 7")
    assert done.stdout.count('{"id":7}') == sum(expected == 7 for _, _, expected in CASES)


def test_subject_is_that_of_the_schema_that_the_values_name(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", [(b"k", framed(BODY))], [version(ORDER, 1, 1, "a-record-name")])
    for schema in ("union", "id:1"):
        table = kafkafmt.open(path)["t"].to_arrow(["key", "value"], decode=True, schema=schema)
        assert table.to_pylist() == [{"key": b"k", "value": {"id": 7}, "value_error": None, "value_raw": None}]
    assert '{"id":7}' in inside("cat", path, "-t", "t", "--decode").stdout


def test_values_of_two_subjects(tmp_path: Path) -> None:
    versions = [version(ORDER, 1, 1, "orders"), version("string", 1, 2, "names")]
    path = write_log(tmp_path / "log", [(b"k", framed(BODY)), (b"k", framed(b"\x02a", 2))], versions)
    topic = kafkafmt.open(path)["t"]
    with pytest.raises(ValueError, match="the values of t have the subjects orders and names; choose one"):
        topic.to_arrow(decode=True)
    table = topic.to_arrow(["value"], decode={"value": "auto:orders"})
    assert table["value"].to_pylist() == [{"id": 7}, None]
    assert "invalid_schema" in table["value_error"].to_pylist()[1]
    done = inside("cat", path, "-t", "t", "--decode", "--format", "%s ")
    assert (done.stdout, done.returncode) == ('{"id":7} "a" ', 0)


def test_values_that_only_resemble_schema_ids_are_left_alone(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "log", [(bytes([0, 0, 0, 0, 1, 0, 0, 0]), framed(BODY))], [version(ORDER, 1, 1, "orders")]
    )
    table = kafkafmt.open(path)["t"].to_arrow(["key", "value"], decode=True)
    assert table["key"].to_pylist() == [bytes([0, 0, 0, 0, 1, 0, 0, 0])]


def test_column_of_errors_alone_is_refused(log: Path) -> None:
    with pytest.raises(ValueError, match="value_error"):
        kafkafmt.open(log)["t"].to_arrow(["offset", "value_error"], decode=True)


@pytest.mark.parametrize("form", ["array", "slice", "chunks", "large", "list"])
def test_decode_values(form: str) -> None:
    stored = [framed(BODY), None, b"", framed(BODY[:-1]), framed(encode(ORDER, {"id": 8}))]
    column: Any = pa.array([b"before", *stored], pa.binary()).slice(1)
    given = {
        "array": pa.array(stored, pa.binary()),
        "slice": column,
        "chunks": pa.chunked_array([column.slice(0, 2), column.slice(2, 0), column.slice(2)]),
        "large": pa.array(stored, pa.large_binary()),
        "list": stored,
    }[form]
    found = kafkafmt.decode_values(given, registry=registry_of(ORDER), subject="t-value")
    found.validate(full=True)
    assert found["value"].to_pylist() == [{"id": 7}, None, None, None, {"id": 8}]
    assert [error and error.split(" at ")[0].split(":")[0] for error in found["value_error"].to_pylist()] == [
        None, None, "no_schema_id", "truncated", None
    ]  # fmt: skip
    assert found["value_raw"].to_pylist() == [None, None, b"", stored[3], None]


def test_decode_values_of_nothing() -> None:
    found = kafkafmt.decode_values([], registry=registry_of(ORDER), subject="t-value")
    assert found.num_rows == 0
    assert found.schema.field("value").type == pa.struct([("id", pa.int64())])


def test_decode_values_fails_with_the_index() -> None:
    with pytest.raises(kafkafmt.UndecodableError, match="the value of the item 1 cannot be decoded") as caught:
        kafkafmt.decode_values(
            [framed(BODY), b"x"], registry=registry_of(ORDER), subject="t-value", on_undecodable="fail"
        )
    assert caught.value.code == "no_schema_id"


def test_scan_polars(log: Path) -> None:
    frame = kafkafmt.scan_polars(kafkafmt.open(log)["t"], ["offset", "value.id"], decode=True)
    ids = frame.filter(pl.col("offset") < 3).select(pl.col("value").struct.field("id")).collect()
    assert ids["id"].to_list() == [7, 7, 7]
    assert frame.select(pl.col("value_error").is_not_null().sum()).collect().item() == 4
    with pytest.raises(ValueError, match="decode needs a single topic"):
        kafkafmt.scan_polars(log, decode=True)
