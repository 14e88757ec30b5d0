"""Test exports that decode keys and values."""

from __future__ import annotations

import io
import json
import shutil
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import inside as command
from export_jobs import job_of
from exporting import RunExport, assert_no_leftovers

import kafkafmt
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.values.sides import side_formats

START = 1_767_225_600_000
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "country", "type": ["null", "string"], "default": None}],
}
SECOND: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}, "default": "NEW"},
    ],
}
EVERY_TYPE: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "empty", "type": {"type": "record", "name": "Empty", "fields": []}},
        {"name": "zero", "type": {"type": "fixed", "name": "Zero", "size": 0}},
        {"name": "small", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "large", "type": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}},
        {"name": "millis", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "micros", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "two", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "state", "type": ["null", {"type": "enum", "name": "Many", "symbols": [f"S{n}" for n in range(9)]}]},
        {"name": "states", "type": {"type": "array", "items": "Many"}},
        {"name": "by_name", "type": {"type": "map", "values": "Many"}},
        {"name": "empties", "type": {"type": "array", "items": ["null", "Empty"]}},
        {"name": "zeros", "type": {"type": "map", "values": "Zero"}},
        {"name": "either", "type": ["null", "string", "Empty"]},
    ],
}


def payload(schema: Any, schema_id: int, value: Any) -> bytes:
    """Return a value as Confluent's serializer writes it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()


def first(n: int) -> bytes:
    return payload(FIRST, 1, {"id": n, "country": None if n % 2 else "FR"})


def second(n: int) -> bytes:
    return payload(SECOND, 2, {"id": n + 2**40, "country": "DE", "state": "PAID"})


def register(data: Path, *versions: tuple[str, int, int, Any]) -> None:
    """Write versions of subjects to the topic of a schema registry: subject, version, id and schema."""
    records = []
    for subject, version, schema_id, schema in versions:
        key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
        value = {"subject": subject, "version": version, "id": schema_id, "schema": json.dumps(schema)}
        records.append((json.dumps(key).encode(), json.dumps(value | {"deleted": False}).encode(), START))
    append(data, "_schemas", records)


def append(data: Path, topic: str, records: Iterable[tuple[bytes | None, bytes | None, int]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
        with kafkafmt.LogDirectory(data) as directory:
            directory.writer(topic, 0).append(list(records))


def orders(data: Path, values: Iterable[bytes | None], topic: str = "orders") -> None:
    append(data, topic, [(b"k%d" % n, value, START + n) for n, value in enumerate(values)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a log directory with values of two versions, a null, and two that cannot be decoded."""
    path = tmp_path / "data"
    path.mkdir()
    register(path, ("orders-value", 1, 1, FIRST), ("orders-value", 2, 2, SECOND))
    values = [*map(first, range(20)), *map(second, range(10)), None, b"text", second(5)[:-1]]
    orders(path, values)
    return path


def export(paths: Path, out: Path, **options: Any) -> tuple[kafkafmt.reports.ExportReport, pa.Table]:
    report = kafkafmt.export(paths, out, engine="local", topics=options.pop("topics", "orders"), **options)
    single = out.suffix == ".parquet"
    written = out.with_name(f"{out.name}.report.json") if single else out / "report.json"
    assert json.loads(written.read_text(encoding="utf-8")) == report.to_dict()
    if not single:
        assert_no_leftovers(out)
    table = pq.read_table(out if single else out / "data", partitioning=None)
    table.validate(full=True)
    return report, table


def expected(data: Path, columns: list[str] | None = None, **options: Any) -> pa.Table:
    with kafkafmt.open(data) as log:
        return log["orders"].to_arrow(columns=columns, decode=True, **options)


def check_orders(report: dict[str, Any], table: pa.Table, data: Path) -> None:
    names = ["key", "value", "value_error", "value_raw", "offset", "timestamp", "timestampType", "headers"]
    assert table.column_names == names
    assert table.to_pylist() == expected(data).select(names).to_pylist()
    assert table.schema.field("value").type == expected(data).schema.field("value").type
    assert not report["ok"]
    assert report["decoded"] == {
        "key": {"records": 0, "undecodable": 0, "by_error": {}, "by_schema": []},
        "value": {
            "records": 30,
            "undecodable": 2,
            "by_error": {"no_schema_id": 1, "truncated": 1},
            "by_schema": [
                {"id": 1, "subject": "orders-value", "version": 1, "records": 20},
                {"id": 2, "subject": "orders-value", "version": 2, "records": 10},
            ],
        },
    }
    assert list(report)[-1] == "decoded"
    assert report["options"]["decode"] == ["key", "value"]
    assert report["options"]["schema"] == "union"


def test_directory_contains_decoded_values(data: Path, tmp_path: Path) -> None:
    report, table = export(data, tmp_path / "out", decode=True)
    check_orders(report.to_dict(), table, data)


def test_spark_writes_the_same_files(data: Path, tmp_path: Path, run_export: RunExport) -> None:
    report, out = run_export([data], topics=("orders",), decode=side_formats(True))
    table = pq.read_table(out / "data", partitioning=None)
    check_orders(report, table, data)
    assert table.schema == export(data, tmp_path / "local", decode=True)[1].schema


def test_single_file_contains_decoded_values(data: Path, tmp_path: Path) -> None:
    report, table = export(data, tmp_path / "out.parquet", decode=True)
    assert table.schema == expected(data).schema
    assert table.to_pylist() == expected(data).to_pylist()
    assert report.decoded is not None
    assert report.decoded.undecodable == 2


def test_small_splits_of_a_single_file_keep_their_values(data: Path, tmp_path: Path) -> None:
    for n in range(40):
        orders(data, [second(n), payload(FIRST, 1, {"id": n, "country": "x" * 40_000})] * 2)
    out = tmp_path / "out.parquet"
    job = job_of(
        [data], topics=("orders",), output=out, decode=side_formats("value"), engine="local", split_bytes=100_000
    )
    assert job.run(LocalEngine(2)).written.records == 193
    assert pq.read_table(out).to_pylist() == expected(data).to_pylist()


@pytest.mark.parametrize("join_small", [False, True])
@pytest.mark.parametrize("partition_by", [None, "hour"])
def test_layouts_of_decoded_values(data: Path, tmp_path: Path, join_small: bool, partition_by: Any) -> None:
    columns = ["value.state", "value.id", "timestampMillis"]
    options: dict[str, Any] = {"join_small": join_small, "partition_by": partition_by, "columns": columns}
    _, table = export(data, tmp_path / "out", decode="value", **options)
    stored = ["partition", *columns] if join_small else columns
    assert table.to_pylist() == expected(data, stored).to_pylist()


def test_output_without_decode_has_no_new_keys(data: Path, tmp_path: Path) -> None:
    report, table = export(data, tmp_path / "out")
    assert "decoded" not in report.to_dict()
    assert not {"decode", "registry", "schema"} & set(report.to_dict()["options"])
    assert table.schema.field("value").type == pa.binary()


@pytest.mark.parametrize("schema", ["latest", 1, "2", "id:1"])
def test_schema_decides_the_columns(data: Path, tmp_path: Path, schema: str | int) -> None:
    _, table = export(data, tmp_path / "out", decode="value", schema=schema)
    wanted = expected(data, ["value"], schema=schema)
    assert table.schema.field("value").type == wanted.schema.field("value").type
    assert table["value"].to_pylist() == wanted["value"].to_pylist()


def test_registry_in_another_place(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "_schemas-0", tmp_path / "other" / "_schemas-0")
    shutil.rmtree(data / "_schemas-0")
    with pytest.raises(ValueError, match=r"no schemas of a topic _schemas in .*; choose others with registry"):
        kafkafmt.export(data, tmp_path / "no", engine="local", topics="orders", decode=True)
    for n, registry in enumerate([tmp_path / "other", str(tmp_path / "other"), kafkafmt.schemas(tmp_path / "other")]):
        report, _ = export(data, tmp_path / f"out{n}", decode=True, registry=registry)
        assert report.decoded is not None
        assert report.decoded.value is not None
        assert report.decoded.value.records == 30


def test_registry_in_another_log_directory_of_the_broker(data: Path, tmp_path: Path) -> None:
    shutil.move(data / "_schemas-0", tmp_path / "other" / "_schemas-0")
    report = kafkafmt.export([data, tmp_path / "other"], tmp_path / "out", engine="local", topics="orders", decode=True)
    assert report.decoded is not None
    assert report.decoded.undecodable == 2


def test_every_type_is_stored_and_read_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    register(data, ("orders-value", 1, 1, EVERY_TYPE))
    value: dict[str, Any] = {
        "nothing": None,
        "empty": {},
        "zero": b"",
        "small": Decimal("1234567.89"),
        "large": Decimal("-1234567890123456789012345678901234567890.12"),
        "millis": time(23, 59, 59, 999_000),
        "micros": time(23, 59, 59, 999_999),
        "day": date(2026, 1, 5),
        "at": datetime(2026, 1, 5, 7, tzinfo=UTC),
        "local": datetime(2026, 1, 5, 7),
        "two": b"\xff\0",
        "state": "S8",
        "states": ["S1", "S0", "S1"],
        "by_name": {"a": "S2", "b": "S3"},
        "empties": [None, {}],
        "zeros": {"z": b""},
        "either": "text",
    }
    other = value | {"state": None, "states": [], "by_name": {}, "empties": [], "zeros": {}, "either": {}}
    orders(data, [payload(EVERY_TYPE, 1, value), None, payload(EVERY_TYPE, 1, other), b"bad"])
    filled = {"_": None}  # Parquet has no records without fields
    changed = {"empty": filled, "empties": [None, filled], "either": {"string": "text", "Empty": None}}
    stored = [
        value | changed | {"by_name": [("a", "S2"), ("b", "S3")], "zeros": [("z", b"")]},
        None,
        other | changed | {"by_name": [], "zeros": [], "empties": [], "either": {"string": None, "Empty": filled}},
        None,
    ]
    for name in ("out", "out.parquet"):
        report, table = export(data, tmp_path / name, decode=True)
        assert table["value"].to_pylist() == stored
        assert table["value_raw"].to_pylist() == [None, None, None, b"bad"]
        assert report.written.records == 4


def test_empty_export_has_the_decoded_schema(data: Path, tmp_path: Path) -> None:
    for name in ("out", "out.parquet"):
        report, table = export(data, tmp_path / name, decode=True, start=33)
        assert table.num_rows == 0
        assert set(expected(data).schema) == set(table.schema)
        assert report.ok
        assert report.decoded is not None
        assert report.decoded.undecodable == 0


def test_each_topic_has_its_own_columns(data: Path, tmp_path: Path) -> None:
    register(data, ("payments-key", 1, 3, "string"))
    append(data, "payments", [(payload("string", 3, "eleven"), b"bytes", START)])
    orders(data, [b"plain"], "notes")
    messages: list[str] = []
    options: dict[str, Any] = {"topics": ["orders", "payments", "notes"], "decode": True}
    report = kafkafmt.export(data, tmp_path / "out", engine="local", on_message=messages.append, **options)
    assert messages == ["topic notes has no schemas in the registry; its keys and values are exported as bytes"]
    assert messages == list(report.skipped.messages)
    tables = {t: pq.read_table(tmp_path / "out" / "data" / f"topic={t}", partitioning=None) for t in options["topics"]}
    assert tables["payments"].to_pylist()[0] | {"key": "eleven", "value": b"bytes"} == tables["payments"].to_pylist()[0]
    assert tables["payments"].column_names[:4] == ["key", "key_error", "key_raw", "value"]
    assert tables["notes"]["value"].to_pylist() == [b"plain"]
    assert report.decoded is not None
    assert report.decoded.key is not None
    assert report.decoded.key.records == 1
    for topics in (["orders", "payments"], ["orders", "notes"]):
        with pytest.raises(ValueError, match=rf"topics orders and {topics[1]} have different columns"):
            kafkafmt.export(data, tmp_path / "out.parquet", engine="local", topics=topics, decode=True)
    chosen = kafkafmt.export(
        data,
        tmp_path / "chosen",
        engine="local",
        columns=["value.id", "value.state"],
        **{**options, "topics": ["orders", "notes"]},
    )
    assert chosen.written.records == 34
    notes = pq.read_table(tmp_path / "chosen" / "data" / "topic=notes", partitioning=None)
    assert notes.to_pylist() == [{"value": b"plain"}]


def test_resumed_export_needs_the_same_decoding(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(data, out, decode=True, resume=True)
    orders(data, [second(50)])
    for options in ({}, {"decode": "value"}, {"decode": True, "schema": "latest"}):
        with pytest.raises(kafkafmt.ResumeError, match=r"the earlier runs had (decode|schema) = "):
            kafkafmt.export(data, out, engine="local", topics="orders", resume=True, **options)
    report, table = export(data, out, decode=True, resume=True)
    assert table.num_rows == 34
    assert report.ok
    assert report.decoded is not None
    assert report.decoded.value is not None
    assert report.decoded.value.records == 1
    export(data, tmp_path / "bytes", resume=True)
    with pytest.raises(kafkafmt.ResumeError, match="the earlier runs had decode = None"):
        export(data, tmp_path / "bytes", decode=True, resume=True)


def test_resumed_export_needs_columns_that_fit_to_the_earlier_ones(data: Path, tmp_path: Path) -> None:
    out, topics = tmp_path / "out", ["orders", "notes"]
    orders(data, [b"plain"], "notes")
    kafkafmt.export(data, out, engine="local", topics=topics, decode=True, resume=True)
    wider = {**SECOND, "fields": [*SECOND["fields"], {"name": "more", "type": "int", "default": 1}]}
    register(data, ("orders-value", 3, 7, wider))
    assert kafkafmt.export(data, out, engine="local", topics=topics, decode=True, resume=True).ok
    register(data, ("notes-value", 1, 8, FIRST))
    with pytest.raises(kafkafmt.ResumeError, match="the schemas of topic notes do not fit to the earlier runs"):
        kafkafmt.export(data, out, engine="local", topics=topics, decode=True, resume=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decode": "values"}, 'decode is \'values\'; it must be True, "key", "value" or both'),
        ({"decode": []}, "decode is"),
        ({"schema": "latest"}, "registry, schema, framing and layout need decode"),
        (
            {"decode": True, "schema": "newest"},
            'topic orders cannot be decoded: schema is .newest.; it must be "union"',
        ),
        ({"decode": True, "schema": 9}, "topic orders cannot be decoded: "),
        ({"decode": True, "columns": ["value.ident"]}, "value has no field 'ident'"),
        ({"decode": True, "columns": ["offset"]}, "columns has no key or value"),
        ({"decode": "key", "columns": ["key", "value.id"]}, "columns has 'value.id', a field of the value"),
        ({"columns": ["value.id"]}, "there is no column 'value.id'"),
        ({"decode": True, "columns": ["valu.id"]}, "there is no column 'valu.id'"),
        ({"decode": "key"}, "there is no subject orders-key: "),
    ],
)
def test_wrong_options(data: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kafkafmt.export(data, tmp_path / "out", engine="local", topics="orders", **options)
    assert not (tmp_path / "out").exists()


def test_damage_and_decoding_together(data: Path, tmp_path: Path) -> None:
    orders(data, map(first, range(5)))
    segment = data / "orders-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[-3] ^= 1
    segment.write_bytes(content)
    report, table = export(data, tmp_path / "out", decode=True)
    assert table.num_rows == 33
    assert report.quarantined.spans == 1
    assert report.decoded is not None
    assert report.decoded.value is not None
    assert (report.decoded.value.records, report.decoded.value.undecodable) == (30, 2)


def test_command(data: Path, tmp_path: Path) -> None:
    run: Callable[..., Any] = partial(command, "export", data, "-t", "orders", "--engine", "local")
    done = run("--decode", "-O", tmp_path / "out")
    assert (done.returncode, done.stderr) == (1, "")
    assert "decoded     0 keys; 30 values, 2 undecodable (1 no_schema_id, 1 truncated)" in done.stdout
    done = run(
        "--decode=value", "--columns", "offset,value.id", "-o", ":30", "--format", "json", "-O", tmp_path / "a.parquet"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["decoded"]["key"] is None
    assert pq.read_table(tmp_path / "a.parquet")["value"].to_pylist()[0] == {"id": 0}
    assert "decoded" not in run("-O", tmp_path / "raw").stdout
    wrong: list[tuple[list[Any], str]] = [
        (["--registry", data], "--registry, --schema, --framing and --layout need --decode"),
        (["--columns", "value.id"], "--columns has 'value.id', a field of the value, which is not decoded"),
        (["--decode", "--columns", "value.idd"], "topic orders cannot be decoded: value has no field 'idd'"),
        (["--decode=both"], "'both' is not key, value or key,value"),
        (["--decode=key"], "there is no subject orders-key"),
    ]
    for arguments, message in wrong:
        done = run(*arguments, "-O", tmp_path / "no")
        assert done.returncode == 2
        assert message in done.stderr
        assert not (tmp_path / "no").exists()
