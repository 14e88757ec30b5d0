"""Test the decoding of keys and values in Spark. Values equal those of `to_arrow(decode=True)`."""

from __future__ import annotations

import json
import logging
import pickle
import warnings
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from avro_schemas import encode, schemas, values, without_logical
from decoded_logs import schema_record, write_log
from decoding_values import framed, plain, same, version
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from source_rows import source
from strict_avro import StrictAvro

import kafkafmt
import kafkafmt.spark
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.source.data_source import KafkaLogReader
from kafkafmt.spark.source.decoding import QueryDecoding
from kafkafmt.spark.value_functions import ValueFunction, decode_value_partition, decode_values
from kafkafmt.spark.value_types import Converter, spark_type, sql_of
from kafkafmt.values import UndecodableError

KEY = {"type": "record", "name": "Key", "fields": [{"name": "n", "type": "int"}]}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "country", "type": "string"}, {"name": "vip", "type": "boolean"}],
}
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "customer", "type": ["null", CUSTOMER]}],
}
LINES = {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "Customer"}}, "default": []}
SECOND = {**FIRST, "fields": [{"name": "id", "type": "long"}, FIRST["fields"][1], LINES]}
THIRD = {**FIRST, "fields": [*SECOND["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
DE = {"country": "DE", "vip": True}
VERSIONS = [version(KEY, 1, 9, "t-key"), version(FIRST, 1), version(SECOND, 2)]


def first(n: int, customer: Any = None) -> bytes:
    return framed(encode(FIRST, {"id": n, "customer": customer}), 1)


def second(n: int) -> bytes:
    return framed(encode(SECOND, {"id": n, "customer": None, "lines": [{"a": DE}]}), 2)


def third(n: int) -> bytes:
    return framed(encode(THIRD, {"id": n, "customer": None, "lines": [], "note": "new"}), 3)


def key(n: int) -> bytes:
    return framed(encode(KEY, {"n": n}), 9)


ROWS = [
    (key(0), first(0, DE)),
    (key(1), second(1)),
    (None, None),
    (key(3), b"text"),
    (b"key", second(4)[:-1]),
    (key(5), framed(b"\0", 77)),
    (key(6), first(6)),
]
VALUE = (
    "struct<id:bigint,customer:struct<country:string,vip:boolean>,"
    "lines:array<map<string,struct<country:string,vip:boolean>>>>"
)
GOOD_VALUES = [0, 1, 2, 6]


@pytest.fixture(scope="module", autouse=True)
def _no_stray_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
        yield


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log directory with values of two versions, a tombstone, and values that cannot be decoded."""
    return write_log(tmp_path / "data", ROWS, VERSIONS, per_batch=3)


def append(path: Path, topic: str, *rows: tuple[bytes | None, bytes | None]) -> None:
    with kafkafmt.LogDirectory(path) as directory:
        directory.writer(topic, 0).append([(key, value, 1000) for key, value in rows])


def in_spark(value: Any, type_: pa.DataType) -> Any:
    """Return the value that Spark has for a value of a type of Arrow. Times are integers, as in `plain`."""
    if pa.types.is_struct(type_):
        if value is None:
            return None
        return {f.name: in_spark(value[f.name], f.type) for f in type_} or {"_": None}
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [(name, in_spark(item, type_.item_type)) for name, item in value]
    if pa.types.is_list(type_):
        return [in_spark(item, type_.value_type) for item in value]
    if pa.types.is_timestamp(type_):
        micros = value // 1000 if type_.unit == "ns" else value * {"ms": 1000, "us": 1}[type_.unit]
        return micros if -(2**63) < micros < 2**63 or type_.unit == "us" else None
    if isinstance(value, Decimal) and type_.precision > 38:
        return f"{value:f}"
    return value


def check_equal(found: pa.Table, expected: pa.Table) -> None:
    """Check that a table of Spark equals a table with decoded columns."""
    found.validate(full=True)
    assert found.num_rows == expected.num_rows
    for name in found.column_names:
        rows = zip(plain(found[name].combine_chunks()), plain(expected[name].combine_chunks()), strict=True)
        for row, (actual, wanted) in enumerate(rows):
            wanted = in_spark(wanted, expected.schema.field(name).type)
            assert same(actual, wanted), (name, row, actual, wanted)


def inside(path: Path, struct: StructType | None = None, **options: object) -> tuple[KafkaLogReader, pa.Table]:
    """Read a topic as the tasks of Spark do, but in this process."""
    made = source(path, **{"subscribe": "t", "decode": "true", **options})
    struct = struct or made.schema()
    reader = pickle.loads(cloudpickle.dumps(made.reader(struct)))  # type: ignore[no-untyped-call]
    return reader, pa.Table.from_batches(read_all(reader), to_arrow_schema(struct, timezone="UTC"))


def read_all(reader: DataSourceReader) -> list[Any]:
    """Return the Arrow record batches of all tasks."""
    return [batch for partition in reader.partitions() for batch in reader.read(partition)]


def load(spark: SparkSession, path: Path, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("kafkafmt").options(**{"subscribe": "t", "decode": "true", **options})
    return (reader.schema(schema) if schema else reader).load(str(path))


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, list[bytes]]:
    """Return a schema and encoded values."""
    schema = draw(schemas())
    strict = StrictAvro(schema)
    some = draw(st.lists(values(strict), min_size=1, max_size=6))
    return schema, [framed(encode(without_logical(schema), value)) for value in some]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(written())
def test_generated_values_equal_those_of_to_arrow(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Any, list[bytes]]
) -> None:
    schema, bodies = case
    path = write_log(tmp_path_factory.mktemp("log"), [(None, body) for body in [*bodies, None]], [version(schema)])
    _, found = inside(path)
    check_equal(found, kafkafmt.open(path)["t"].to_arrow(found.column_names, decode=True))
    # A schema with the names of the columns and of all fields gives the same columns.
    made = source(path, subscribe="t", decode="true").schema()
    _, again = inside(path, StructType([made["value"]]))
    assert same(plain(again["value"].combine_chunks()), plain(found["value"].combine_chunks()))


EVERY_TYPE: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "flag", "type": "boolean"},
        {"name": "number", "type": "int"},
        {"name": "ratio", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "empty", "type": {"type": "record", "name": "Empty", "fields": []}},
        {"name": "zero", "type": {"type": "fixed", "name": "Zero", "size": 0}},
        {"name": "small", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "large", "type": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 50}},
        {"name": "millis", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "micros", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-nanos"}},
        {"name": "lasting", "type": {"type": "fixed", "name": "Lasting", "size": 12, "logicalType": "duration"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "two", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "state", "type": ["null", {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}]},
        {"name": "states", "type": {"type": "array", "items": ["null", "State"]}},
        {"name": "by_name", "type": {"type": "map", "values": "State"}},
        {"name": "empties", "type": {"type": "array", "items": ["null", "Empty"]}},
        {"name": "either", "type": ["null", "string", "Empty", {"type": "array", "items": "Two"}]},
        {"name": "again", "type": ["null", "Everything"]},
    ],
}
ONE: dict[str, Any] = {
    "nothing": None, "flag": True, "number": -1, "ratio": 0.5, "double": float("nan"), "empty": {}, "zero": b"",
    "small": b"\xff", "large": b"\x05", "millis": 86_399_999, "micros": 1, "day": -1, "at": -1, "exact": -1,
    "nanos": -1, "local": -1001, "lasting": b"0123456789ab", "uuid": "9b2d9e2e-3c1a-4c3e-8d5e-111111111111", "two": b"ab",
    "state": "PAID", "states": ["NEW", None], "by_name": {"a": "PAID"}, "empties": [None, {}], "either": [b"xy"], "again": None,
}  # fmt: skip


def test_all_types_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    schema = without_logical(EVERY_TYPE)
    rows = [ONE, {**ONE, "at": 2**62, "state": None, "either": "text", "again": ONE}, {**ONE, "either": {}}]
    path = write_log(tmp_path / "data", [(None, framed(encode(schema, row))) for row in rows], [version(EVERY_TYPE)])
    frame = load(spark, path)
    assert frame.schema["value"].dataType.simpleString().startswith("struct<nothing:string,flag:boolean,number:int")
    types = {f.name: f.dataType.simpleString() for f in frame.schema["value"].dataType}  # type: ignore[attr-defined]
    chosen = (
        "empty",
        "zero",
        "small",
        "large",
        "millis",
        "micros",
        "at",
        "nanos",
        "local",
        "lasting",
        "state",
        "again",
    )
    assert {name: types[name] for name in chosen} == {
        "empty": "struct<_:boolean>",
        "zero": "binary",
        "small": "decimal(9,2)",
        "large": "string",
        "millis": "int",
        "micros": "bigint",
        "at": "timestamp",
        "nanos": "timestamp",
        "local": "timestamp_ntz",
        "lasting": "binary",
        "state": "string",
        "again": "string",
    }
    found = frame.toArrow()
    # Spark delivers its own types of lists and maps, so the values are compared by the types of to_arrow.
    check_equal(found, kafkafmt.open(path)["t"].to_arrow(found.column_names, decode=True))
    value = found["value"][0].as_py()
    assert value["large"] == "0." + "0" * 49 + "5"
    assert [plain(found["value"].combine_chunks())[0][name] for name in ("at", "nanos", "local")] == [-1000, -1, -2]
    frame.write.parquet(str(tmp_path / "parquet"))
    assert spark.read.parquet(str(tmp_path / "parquet")).where("value.number = -1").count() == 3


def test_modes_keys_and_projection_in_spark(spark: SparkSession, log: Path) -> None:
    expected = kafkafmt.open(log)["t"].to_arrow(decode=True)
    frame = load(spark, log, includeHeaders="true")
    assert frame.columns == expected.column_names
    assert frame.schema["value"].dataType.simpleString() == VALUE
    check_equal(frame.toArrow().sort_by("offset"), expected)
    errors = [row.value_error for row in frame.orderBy("offset").select("value_error").collect()]
    assert [error and error.split(":")[0].split()[0] for error in errors] == [
        None, None, None, "no_schema_id", "truncated", "unknown_schema", None
    ]  # fmt: skip

    dropped = load(spark, log, mode="DROPMALFORMED").orderBy("offset").select("offset", "value_error").collect()
    assert [tuple(row) for row in dropped] == [(offset, None) for offset in GOOD_VALUES]
    only_key = load(spark, log, mode="dropmalformed", decode="key").orderBy("offset")
    assert [row.value for row in only_key.collect()] == [ROWS[n][1] for n in (0, 1, 2, 3, 5, 6)]
    with pytest.raises(PythonException) as caught:
        load(spark, log, mode="FAILFAST", decode="value").count()
    assert "t-0: the value of the record at offset 3 cannot be decoded: it does not begin with a schema id" in str(
        caught.value
    )

    chosen = kafkafmt.spark.read(
        spark, log, topics="t", columns=["offset", "value.id", "value.customer.country"], decode=True
    )
    assert chosen.columns == ["offset", "value", "value_error", "value_raw"]
    assert chosen.schema["value"].dataType.simpleString() == "struct<id:bigint,customer:struct<country:string>>"
    assert chosen.where("offset = 0").first() == (0, (0, ("DE",)), None, None)
    own = load(
        spark, log, "value struct<lines: array<map<string, struct<vip: boolean>>>, id: bigint>, offset bigint, key_raw binary",
        raw="true",
    )  # fmt: skip
    rows = own.orderBy("offset").collect()
    assert rows[1].asDict(True) == {"value": {"lines": [{"a": {"vip": True}}], "id": 1}, "offset": 1, "key_raw": key(1)}
    assert [row.key_raw for row in rows] == [k for k, _ in ROWS]
    committed = {"kafka.isolation.level": "read_committed", "splitBytes": "1k", "where": '[["offset", ">", 4]]'}
    assert load(spark, log, **committed).select("offset").orderBy("offset").collect() == [(5,), (6,)]


def test_table_and_one_line_errors_in_spark(spark: SparkSession, log: Path) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW decoded USING kafkafmt OPTIONS (path '{log}', subscribe 't', decode 'value')")
    assert spark.sql("SELECT sum(value.id) FROM decoded").first() == (7,)
    spark.sql(
        f"CREATE TABLE decoded_t USING kafkafmt OPTIONS (path '{log}', subscribe 't', decode 'value', schema '1')"
    )
    assert spark.table("decoded_t").schema["value"].dataType.simpleString().startswith("struct<id:int,")
    assert spark.sql("SELECT value.customer.country FROM decoded_t WHERE offset = 0").first() == ("DE",)
    spark.sql("DROP TABLE decoded_t")
    with pytest.raises(AnalysisException) as caught:
        load(spark, log, columns="offset,value.customer.contry").count()
    assert "OptionError: topic t cannot be decoded: value.customer has no field 'contry': the nearest" in str(
        caught.value
    )
    assert len(str(caught.value)) < 1500
    with pytest.raises(AnalysisException, match=r"those of t and _schemas differ; choose one of them with subscribe"):
        spark.read.format("kafkafmt").options(decode="true").load(str(log)).count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decode": "values"}, 'decode is \'values\'; it must be True, "key", "value" or both'),
        ({"decode": "[1"}, "decode"),
        ({"decode": "false", "registry": "x"}, "registry needs decode; set decode=true too"),
        ({"decode": "false", "raw": "true"}, "raw needs decode"),
        ({"raw": "yes"}, "raw is 'yes'; it must be false or true"),
        ({"columns": ""}, "columns is ''; it must be a list of columns and fields, such as offset,value.id"),
        ({"columns": "[1]"}, "columns is '.1.'"),
        ({"columns": "value.ids"}, "topic t cannot be decoded: value has no field 'ids': the nearest field is id"),
        ({"columns": "values"}, "topic t cannot be decoded: there is no column 'values'"),
        ({"schema": "8"}, "topic t cannot be decoded: subject 't-.*' has no version 8; it has 1"),
        ({"schema": "newest"}, 'schema is \'newest\'; it must be "union", "latest", a version or "id:N"'),
        ({"subscribe": "other"}, "topic other cannot be decoded: there is no subject other-key or other-value"),
        ({"subscribe": "t,other"}, "same columns, but those of t and other differ; choose one of them with subscribe"),
        ({"subscribePattern": "none.*", "subscribe": None}, "decode needs a topic, but the query reads none"),
        ({"registry": "/nowhere/at/all"}, "the schemas of /nowhere/at/all cannot be read: .* No such file"),
    ],
)
def test_wrong_options_are_errors_in_one_line(log: Path, options: dict[str, Any], message: str) -> None:
    append(log, "other", (None, b"text"))
    given = {"subscribe": "t", "decode": "true", **options}
    with pytest.raises(OptionError, match=message) as caught:
        source(log, **{name: text for name, text in given.items() if text is not None}).schema()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("value struct<ids: bigint>", "value has no field 'ids'"),
        ("value struct<id: int>", "the type of value.id in the schema is int, but it must be bigint"),
        ("value struct<id: bigint, id: bigint>", "the schema contains the field value.id twice"),
        ("value binary", "the type of value in the schema is binary, but it must be struct<id:bigint"),
        ("value struct<id: bigint not null>", "value.id is NOT NULL in the schema"),
        ("value struct<lines: array<string>>", "the type of value.lines in the schema is string, but it must be map"),
        ("offset int", "the type of offset in the schema is int, but it must be bigint"),
        ("offset bigint, offset bigint", "the schema contains the column offset twice"),
        ("value_errors string", "there is no column 'value_errors'"),
        (StructType(), "the schema has no columns"),
    ],
)
def test_wrong_schemas_are_errors_in_one_line(spark: SparkSession, log: Path, schema: Any, message: str) -> None:
    given: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    with pytest.raises(OptionError, match=message) as caught:
        source(log, subscribe="t", decode="true").reader(given)
    assert "\n" not in str(caught.value)


def test_wrong_arguments_of_read_are_errors(spark: SparkSession, log: Path) -> None:
    registry = kafkafmt.schemas(log)
    for arguments, message in (
        ({"registry": log}, "registry needs decode; pass decode=True too"),
        ({"schema": 2}, "schema needs decode"),
        ({"decode": 1}, "decode is 1; it must be True"),
        ({"decode": True, "registry": registry}, "registry is a SchemaRegistry, but Spark needs its path or URL"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            kafkafmt.spark.read(spark, log, topics="t", **arguments)


def test_schemas_can_be_elsewhere(log: Path, tmp_path: Path) -> None:
    saved = write_log(tmp_path / "registry", [], VERSIONS)
    write_log(tmp_path / "plain", ROWS, [], per_batch=3)
    with pytest.raises(
        OptionError, match=r"there are no schemas of a topic _schemas in .*; choose others with registry"
    ):
        inside(tmp_path / "plain")
    _, found = inside(tmp_path / "plain", registry=saved, schema="latest", decode="value")
    with kafkafmt.open(log) as opened:
        check_equal(found, opened["t"].to_arrow(found.column_names, decode="value", schema="latest"))
    _, partition_only = inside(log / "t-0")
    assert partition_only["value"].null_count == 4


def test_topics_with_the_same_columns_are_read_together(log: Path) -> None:
    versions = [version(FIRST, 1, 1, "u-value"), version(SECOND, 2, 2, "u-value"), version(KEY, 1, 9, "u-key")]
    append(log, "_schemas", *map(schema_record, versions))
    append(log, "u", *ROWS)
    _, both = inside(log, subscribe="t,u")
    _, one = inside(log)
    assert both.num_rows == 2 * one.num_rows
    assert both["value"].to_pylist() == 2 * one["value"].to_pylist()


def test_schema_of_a_table_remains_after_new_versions(log: Path) -> None:
    schema = source(log, subscribe="t", decode="true").schema()
    append(log, "_schemas", schema_record(version(THIRD, 3)))
    append(log, "t", (key(7), third(7)))
    _, found = inside(log, schema)
    assert found["value"].to_pylist()[-1] == {"id": 7, "customer": None, "lines": []}
    assert "note" in inside(log)[1]["value"].to_pylist()[-1]


def test_failfast_ignores_records_that_are_not_selected(log: Path) -> None:
    _, found = inside(log, mode="FAILFAST", where='[["offset", "not in", [3, 4, 5]]]')
    assert found["offset"].to_pylist() == GOOD_VALUES
    for decode, place in (
        ("true", "value of the record at offset 3"),
        ("key", "key of the record at offset 4"),
    ):
        with pytest.raises(UndecodableError, match=f"t-0: the {place} cannot be decoded") as caught:
            inside(log, mode="FAILFAST", decode=decode)
        assert caught.value.code == "no_schema_id"
    assert inside(log, mode="FAILFAST", columns="offset")[1].num_rows == len(ROWS)


def test_undecodable_records_that_no_column_shows_are_logged(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = StructType([source(log, subscribe="t", decode="true").schema()["value"]])
    for mode, expected in (
        ("PERMISSIVE", ["kafkafmt: 3 values cannot be decoded; select the column value_error to get the reasons"]),
        ("DROPMALFORMED", []),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kafkafmt.spark"):
            inside(log, schema, mode=mode)
        assert caplog.messages == expected
    caplog.clear()
    inside(log)
    assert caplog.messages == []


def test_timestamps_beyond_sparks_range_are_null_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    limit = 2**63 // 1000
    numbers = [2**63 - 1, limit + 1, limit - 1, 1 - limit, -limit - 1]
    path = write_log(tmp_path / "data", [(None, framed(encode("long", n))) for n in numbers], [version(at)])
    _, found = inside(path)
    assert plain(found["value"].combine_chunks()) == [None, None, (limit - 1) * 1000, (1 - limit) * 1000, None]
    assert caplog.messages == [
        "kafkafmt: 3 timestamps cannot be stored in the microseconds of Spark's timestamps, so null"
    ]
    with pytest.raises(ValueError, match="t-0: a timestamp cannot be stored"):
        inside(path, mode="FAILFAST")


def test_each_process_plans_once(log: Path) -> None:
    readers = [inside(log)[0] for _ in range(2)]
    plans = [reader.decoding.of("t") for reader in readers if isinstance(reader.decoding, QueryDecoding)]
    assert plans[0] is plans[1]


def test_topics_that_appear_later_need_the_same_columns(log: Path) -> None:
    versions = [version(KEY, 1, 9, "u-key"), version(FIRST, 1, 1, "u-value"), version(SECOND, 2, 2, "u-value")]
    append(log, "_schemas", *map(schema_record, versions))
    made = source(log, subscribePattern="[tuv]", decode="true")
    reader = made.reader(made.schema())
    append(log, "u", *ROWS)
    assert sum(b.num_rows for b in read_all(reader)) == 2 * len(ROWS)
    append(log, "v", (None, b"text"))
    with pytest.raises(
        OptionError, match="same columns, but those of t and v differ; choose one of them with subscribe"
    ):
        read_all(reader)


def test_types_that_avro_lacks() -> None:
    """Protobuf and JSON have these types."""
    one = {
        "u8": (pa.uint8(), 255, "smallint", 255),
        "u16": (pa.uint16(), 65535, "int", 65535),
        "u32": (pa.uint32(), 2**32 - 1, "bigint", 2**32 - 1),
        "u64": (pa.uint64(), 2**64 - 1, "decimal(20,0)", Decimal(2**64 - 1)),
        "lasting": (pa.duration("ns"), -1500, "interval day to second", timedelta(microseconds=-2)),
        "map": (pa.map_(pa.uint32(), pa.uint64()), [(7, 1)], "map<bigint,decimal(20,0)>", [(7, Decimal(1))]),
        "second": (pa.timestamp("s"), -1, "timestamp_ntz", datetime(1969, 12, 31, 23, 59, 59)),
        "odd `name`": (pa.struct([("a b", pa.int8())]), {"a b": 1}, "struct<a b:tinyint>", {"a b": 1}),
    }
    arrays = [pa.array([None, value], type_).slice(1) for type_, value, _, _ in one.values()]
    struct = StructType()
    for name, (type_, _, wanted, _) in one.items():
        struct.add(name, spark_type(type_))
        assert struct[name].dataType.simpleString() == wanted
    found = Converter(struct).convert(pa.record_batch(arrays, list(one)))
    found.validate(full=True)
    assert found.schema == to_arrow_schema(struct, timezone="UTC")
    assert found.to_pylist() == [{name: value for name, (_, _, _, value) in one.items()}]
    assert sql_of(struct["odd `name`"].dataType) == "struct<`a b`: tinyint>"
    with pytest.raises(ValueError, match="Spark has no type for columns of the Arrow type halffloat"):
        spark_type(pa.float16())


def test_columns_can_be_an_option_without_decode(log: Path) -> None:
    assert source(log, columns="offset, value").schema().simpleString() == "struct<offset:bigint,value:binary>"


def test_stream_keeps_its_columns_and_continues(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def start(**trigger: Any) -> Any:
        stream = spark.readStream.format("kafkafmt").options(
            subscribe="t", decode="value", startingOffsets="earliest", registry=str(log)
        )
        frame = stream.load(str(log)).select("offset", "value", "value_error", "value_raw")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(**trigger)
        return writer.start(out)

    def rows() -> list[Any]:
        return [
            r.asDict(True) for r in spark.read.option("mergeSchema", "true").parquet(out).orderBy("offset").collect()
        ]

    query = start(processingTime="0 seconds")
    query.processAllAvailable()
    assert [row["offset"] for row in rows()] == list(range(7))
    append(log, "_schemas", schema_record(version(THIRD, 3)))
    append(log, "t", (None, third(7)), (None, second(8)))
    query.processAllAvailable()
    query.stop()
    found = rows()
    assert found[7]["value"] is None
    assert found[7]["value_error"] == "unknown_schema: there is no schema with id 3"
    assert found[7]["value_raw"] == third(7)
    assert found[8]["value"]["id"] == 8
    append(log, "t", (None, third(9)))
    start(availableNow=True).awaitTermination()
    found = rows()
    assert [row["offset"] for row in found] == list(range(10))
    assert found[9]["value"] == {"id": 9, "customer": None, "lines": [], "note": "new"}


def test_decode_values_in_map_in_arrow(spark: SparkSession, log: Path) -> None:
    plain_rows = kafkafmt.spark.read(spark, log, topics="t", columns=["value", "offset"])
    decode = decode_values(registry=log, subject="t-value", keep={"offset": "bigint"})
    frame = plain_rows.mapInArrow(decode, decode.schema)
    assert frame.columns == ["offset", "value", "value_error", "value_raw"]
    with kafkafmt.open(log) as opened:
        check_equal(frame.toArrow().sort_by("offset"), opened["t"].to_arrow(frame.columns, decode="value"))
    fails = decode_values(registry=kafkafmt.schemas(log), subject="t-value", on_undecodable="fail")
    with pytest.raises(PythonException, match="the value of the row 3 cannot be decoded"):
        plain_rows.coalesce(1).mapInArrow(fails, fails.schema).count()
    elements = (
        plain_rows.orderBy("offset")
        .coalesce(1)
        .rdd.mapPartitions(decode_value_partition("value", registry=log, subject="t-value"))
    )
    found = elements.collect()
    assert [element["offset"] for element, _, _ in found] == list(range(7))
    assert found[0][1:] == ({"id": 0, "customer": DE}, None)
    assert [error for _, _, error in found] == [
        row.value_error for row in frame.orderBy("offset").select("value_error").collect()
    ]


def test_decode_values_checks_its_arguments_and_input(log: Path) -> None:
    registry = kafkafmt.schemas(log)
    with pytest.raises(ValueError, match="the output would contain the column value twice; remove it from keep"):
        decode_values(registry=registry, subject="t-value", keep={"value": "binary"})
    with pytest.raises(ValueError, match="on_undecodable is 'skip'"):
        decode_values(registry=registry, subject="t-value", on_undecodable="skip")  # type: ignore[arg-type]
    with pytest.raises(kafkafmt.SchemaNotFoundError, match="t-values"):
        decode_values(registry=registry, subject="t-values")
    decode = decode_values("body", registry=registry, subject="t-value", schema=1)
    for batch, message in (
        (pa.record_batch({"value": pa.array([b""])}), "the input has no column 'body'; the input columns are value"),
        (pa.record_batch({"body": pa.array([1])}), "the column 'body' has the type int64; it must be binary"),
    ):
        with pytest.raises(ValueError, match=message):
            list(decode([batch]))
    copy: ValueFunction = pickle.loads(pickle.dumps(decode))
    batches = [pa.record_batch({"body": pa.array([first(n), None, b"x"], pa.large_binary())}) for n in (1, 2)]
    found = pa.Table.from_batches(list(copy(batches)))
    assert [row and row["id"] for row in found["value"].to_pylist()] == [1, None, None, 2, None, None]
    assert found["value_raw"].to_pylist() == [None, None, b"x"] * 2


def test_value_without_a_common_type_is_json_text(tmp_path: Path) -> None:
    bodies = [framed(encode("string", "a"), 1), framed(encode("int", 3), 2)]
    path = write_log(tmp_path / "data", [(None, b) for b in bodies], [version("string", 1), version("int", 2)])
    assert inside(path)[1]["value"].to_pylist() == ['"a"', "3"]


def test_formats_and_framings(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(FIRST))
    rows = [(b"k%d" % i, encode(FIRST, {"id": i})) for i in range(3)]
    path = write_log(tmp_path / "plain", rows, [], topic="p")
    given = {"key": "string", "value": f"avro:{file}"}
    frame = kafkafmt.spark.read(spark, path / "p-0", decode=given, columns=["key", "value.id"])
    assert [(row.key, row.value.id) for row in frame.collect()] == [("k0", 0), ("k1", 1), ("k2", 2)]
    reader = spark.read.format("kafkafmt").option("decode", f"value=avro:{file}").option("framing", "confluent")
    assert {row.value_error for row in reader.load(str(path / "p-0")).collect()} == {
        "no_schema_id: it does not begin with a schema id"
    }
