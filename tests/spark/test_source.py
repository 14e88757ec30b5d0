"""Test the data source in Spark. Records equal those of the Java consumer, and errors have one line."""

from pathlib import Path

import pyarrow as pa
import pytest
from golden_cases import CASES, Case, case, same_rows
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from reports import verify_partition
from source_rows import COLUMNS, micros, rows

from kafkafmt.log import PartitionLog, discover
from kafkafmt.spark import register
from kafkafmt.spark.schema import ddl_of

SCHEMA = ddl_of((*COLUMNS, "timestamp"))
NO_MICROS = (2**63 - 1) // 1000


def load(spark: SparkSession, case: Case, schema: str | None = SCHEMA, **options: str) -> DataFrame:
    if case.internal:
        options.setdefault("subscribe", ",".join(sorted({topic for topic, _, _ in case.expected()})))
    reader = spark.read.format("kafkafmt").options(**options)
    return (reader.schema(schema) if schema else reader).load([str(root) for root in case.roots])


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn], ids=str)
def test_records_equal_the_consumers(spark: SparkSession, case: Case) -> None:
    actual = load(spark, case).toArrow()
    same_rows(rows(actual), case.expected())
    millis, types = (actual.column(n).to_pylist() for n in ("timestampMillis", "timestampType"))
    assert micros(actual) == [
        None if t < 0 or abs(ms) > NO_MICROS else ms * 1000 for ms, t in zip(millis, types, strict=True)
    ]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "dropMalformed"])
def test_intact_records_of_a_damaged_log_are_read(spark: SparkSession, mode: str) -> None:
    torn = case("torn")
    actual, expected = rows(load(spark, torn, mode=mode).toArrow()), torn.expected()
    reports = {p.key: verify_partition(PartitionLog(p)) for p in discover(torn.roots).partitions}
    missing = expected.keys() - actual.keys()
    assert missing
    assert [at for at in missing if not torn.may_be_missing(at, reports[at[:2]])] == []
    same_rows(actual, {at: row for at, row in expected.items() if at not in missing})


def test_failfast_names_file_position_and_offsets(spark: SparkSession) -> None:
    with pytest.raises(PythonException) as caught:
        load(spark, case("torn"), mode="FAILFAST", subscribe="torn-flip-old").count()
    message = str(caught.value)
    assert "torn-flip-old-0/00000000000000000096.log: CRC-32C is" in message
    assert "offsets 144 to 146" in message
    assert "position 2048" in message


def test_schema_equals_that_of_sparks_kafka_source(spark: SparkSession) -> None:
    plain = load(spark, case("codecs"), schema=None)
    assert plain.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert plain.where("offset = 5 and topic = 'codec-lz4'").count() == 1
    full = load(spark, case("codecs"), schema=None, includeHeaders="true")
    assert full.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert full.count() == len(case("codecs").expected())


def test_given_schema_selects_the_columns(spark: SparkSession) -> None:
    actual = load(spark, case("segments"), schema="value binary, offset bigint", subscribe="segments-time").toArrow()
    assert actual.schema.names == ["value", "offset"]
    assert sorted(actual.column("offset").to_pylist()) == list(range(200))


def test_sql_query_reads_the_bounds(spark: SparkSession) -> None:
    segments = case("segments")
    bounds = {"startingTimestamp": "1700000110449", "endingOffsets": '{"segments-size":{"0":900,"1":-1}}'}
    df = load(spark, segments, subscribe="segments-size", **bounds)
    df.createOrReplaceTempView("sizes")
    actual = spark.sql(
        "select partition, min(offset), max(offset), count(*) from sizes group by partition order by partition"
    ).collect()
    assert [tuple(row) for row in actual] == [(0, 836, 899, 64), (1, 841, 1499, 659)]


def test_tiny_splits_give_many_partitions_and_the_same_records(spark: SparkSession) -> None:
    segments = case("segments")
    whole, split = load(spark, segments), load(spark, segments, splitBytes="1k")
    assert split.rdd.getNumPartitions() > 20 > whole.rdd.getNumPartitions()
    same_rows(rows(split.toArrow()), segments.expected())


def test_read_committed_equals_the_consumer(spark: SparkSession) -> None:
    """Some splits end inside a transaction."""
    for golden in (case("transactions"), case("unclean")):
        for options in ({}, {"splitBytes": "1k"}):
            actual = load(spark, golden, **{"kafka.isolation.level": "read_committed"}, **options)
            same_rows(rows(actual.toArrow()), golden.expected(committed=True))


def test_single_file_and_empty_selection_are_read(spark: SparkSession) -> None:
    nothing = load(spark, case("segments"), subscribePattern="nothing.*")
    assert nothing.count() == 0
    assert nothing.toArrow().num_rows == 0
    log = case("segments").partition_dir("segments-time", 0) / "00000000000000000000.log"
    assert 0 < spark.read.format("kafkafmt").load(str(log)).count() < 200


def test_limit_stops_reading(spark: SparkSession) -> None:
    assert len(load(spark, case("segments")).limit(3).collect()) == 3


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        (
            {"startingOffset": "earliest"},
            None,
            "OptionError: unknown option startingoffset; did you mean startingOffsets?",
        ),
        ({}, "offset int", "ValueError: the type of offset in the schema is int, but it must be bigint"),
        (
            {"subscribe": "sgements-time"},
            None,
            "OptionError: subscribe contains sgements-time, which does not exist; the existing topics are",
        ),
    ],
)
def test_wrong_option_or_schema_is_reported_in_one_line(
    spark: SparkSession, options: dict[str, str], schema: str | None, message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, case("segments"), schema=schema, **options).count()
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_missing_path_raises(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="No such file"):
        spark.read.format("kafkafmt").load(str(tmp_path / "gone")).count()


def test_source_can_be_registered_again(spark: SparkSession) -> None:
    register(spark)
    assert load(spark, case("epochs")).count() == 129


def test_schema_of_task_output_equals_sparks() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from kafkafmt.arrow.builder import schema_of
    from kafkafmt.spark.schema import TYPES, struct_of

    assert to_arrow_schema(struct_of(TYPES), timezone="UTC").equals(schema_of(TYPES))
    assert pa.types.is_list(schema_of(TYPES).field("headers").type)
