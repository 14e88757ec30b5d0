"""The flat layout: the fields of the value are at the top."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from avro_schemas import encode
from command import inside
from decoded_logs import write_log
from decoding_values import framed, using, version

import kafkafmt

VALUE = {
    "type": "record", "name": "V", "fields": [
        {"name": "id", "type": "int"}, {"name": "offset", "type": "long"},
        {"name": "who", "type": {"type": "record", "name": "W", "fields": [{"name": "name", "type": "string"}]}},
    ],
}  # fmt: skip
KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}]}
FLAT = [
    "key_id", "kafka_key_error", "kafka_key_raw", "id", "offset", "who", "kafka_value_error", "kafka_value_raw",
    "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_timestampType", "kafka_headers",
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    def value(i: int) -> bytes:
        return framed(encode(VALUE, {"id": i, "offset": 900 - i, "who": {"name": f"n{i}"}}), 1)

    records: list[Any] = [(framed(encode(KEY, {"id": f"k{i}"}), 2), value(i)) for i in range(5)]
    records += [(None, None), (b"x", b"bad")]
    return write_log(tmp_path / "log", records, [version(VALUE, 1, 1), version(KEY, 1, 2, "t-key")], per_batch=2)


def test_columns(core: ModuleType, log: Path) -> None:
    topic = kafkafmt.open(log)["t"]
    with using(core):
        table = topic.to_arrow(decode=True, layout="flat")
        few = topic.to_arrow(["offset", "value.id", "value.who.name"], decode=True, layout="flat", limit=2)
    table.validate(full=True)
    assert table.column_names == FLAT
    assert table["id"].to_pylist() == [0, 1, 2, 3, 4, None, None]
    assert table["offset"].to_pylist() == [900, 899, 898, 897, 896, None, None]
    assert table["kafka_offset"].to_pylist() == list(range(7))
    assert table["key_id"].to_pylist() == ["k0", "k1", "k2", "k3", "k4", None, None]
    assert table["kafka_value_raw"].to_pylist() == [None] * 6 + [b"bad"]
    assert few.column_names == ["kafka_offset", "id", "who", "kafka_value_error", "kafka_value_raw"]
    assert few["who"].to_pylist() == [{"name": "n0"}, {"name": "n1"}]


def test_a_side_that_is_no_record_keeps_its_name(log: Path) -> None:
    table = kafkafmt.open(log)["t", 0].to_arrow(
        ["key", "value.id"], decode={"key": "string", "value": "auto"}, layout="flat"
    )
    assert table.column_names == [
        "key",
        "kafka_key_error",
        "kafka_key_raw",
        "id",
        "kafka_value_error",
        "kafka_value_raw",
    ]


def test_polars(log: Path) -> None:
    frame = kafkafmt.scan_polars(log / "t-0", decode=True, layout="flat")
    assert frame.collect_schema().names() == FLAT
    # The column offset is that of the value, so the filter must not be applied to the offsets of the log.
    found = frame.filter(pl.col("offset") > 897).select("key_id", "offset").collect()
    assert found.rows() == [("k0", 900), ("k1", 899), ("k2", 898)]
    assert frame.filter(pl.col("kafka_offset") == 3).select("id").collect().rows() == [(3,)]
    assert frame.select(pl.len()).collect().item() == 7


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["key", "value"], "the column key and value.key"),
        (["offset", "value"], "the column offset and value.kafka_Offset would both be the column kafka_Offset"),
    ],
)
def test_clashes(tmp_path: Path, columns: list[str], message: str) -> None:
    names = ["key", "kafka_Offset"]
    schema: Any = {"type": "record", "name": "C", "fields": [{"name": n, "type": "int"} for n in names]}
    path = write_log(tmp_path / "log", [(b"k", framed(encode(schema, dict.fromkeys(names, 1))))], [version(schema)])
    decode = {"key": "string", "value": "auto"}
    with pytest.raises(ValueError, match=message.replace("the column key", "key")):
        kafkafmt.open(path)["t"].to_arrow(columns, decode=decode, layout="flat")
    assert kafkafmt.open(path)["t"].to_arrow(columns, decode=decode)["value"].to_pylist()


@pytest.mark.parametrize("engine", ["local"])
@pytest.mark.parametrize("single", [False, True])
def test_export(log: Path, tmp_path: Path, engine: str, single: bool) -> None:
    out = tmp_path / ("out.parquet" if single else "out")
    done = inside("export", log, "-t", "t", "--decode", "--layout", "flat", "--engine", engine, "-O", out)
    assert done.returncode == 1, done.stderr  # one value cannot be decoded
    table = pq.read_table(out if single else out / "data", partitioning=None)
    own = [] if single else ["kafka_topic", "kafka_partition"]
    assert table.column_names == [name for name in FLAT if name not in own]
    assert sorted(table["kafka_offset"].to_pylist()) == list(range(7))
    assert table.filter(pl.Series(table["kafka_offset"].to_pylist()).eq(3).to_arrow())["who"].to_pylist() == [
        {"name": "n3"}
    ]


def test_export_refuses_fields_that_are_directory_levels(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "C", "fields": [{"name": "Topic", "type": "int"}]}
    path = write_log(tmp_path / "log", [(b"k", framed(b"\x02"))], [version(schema)])
    done = inside("export", path, "-t", "t", "--decode", "--layout", "flat", "--engine", "local", "-O", tmp_path / "o")
    assert (done.returncode, "has the field Topic, which is also the name of a directory level" in done.stderr) == (
        2,
        True,
    )
    assert not (tmp_path / "o").exists()
