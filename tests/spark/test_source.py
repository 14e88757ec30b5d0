"""The data source in Spark itself: the golden logs equal what the Java consumer read, and errors reach the user as one line."""

import pyarrow as pa
import pytest
from golden_cases import CASES, case, same_rows
from pyspark.errors import AnalysisException
from reports import verify_partition
from source_rows import COLUMNS, micros, rows

from kafkafmt.log import PartitionLog, discover
from kafkafmt.spark import register
from kafkafmt.spark.schema import ddl_of

SCHEMA = ddl_of((*COLUMNS, "timestamp"))
NO_MICROS = (2**63 - 1) // 1000


def load(spark, case, schema=SCHEMA, **options):
    if case.internal:
        options.setdefault("subscribe", ",".join(sorted({topic for topic, _, _ in case.expected()})))
    reader = spark.read.format("kafkafmt").options(**options)
    return (reader.schema(schema) if schema else reader).load([str(root) for root in case.roots])


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn], ids=str)
def test_records_equal_the_consumers(spark, case):
    got = load(spark, case).toArrow()
    same_rows(rows(got), case.expected())
    millis, types = (got.column(n).to_pylist() for n in ("timestampMillis", "timestampType"))
    assert micros(got) == [
        None if t < 0 or abs(ms) > NO_MICROS else ms * 1000 for ms, t in zip(millis, types, strict=True)
    ]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "dropMalformed"])
def test_all_that_is_intact_of_a_damaged_log(spark, mode):
    torn = case("torn")
    got, want = rows(load(spark, torn, mode=mode).toArrow()), torn.expected()
    reports = {p.key: verify_partition(PartitionLog(p)) for p in discover(torn.roots).partitions}
    missing = want.keys() - got.keys()
    assert missing
    assert [at for at in missing if not torn.may_be_missing(at, reports[at[:2]])] == []
    same_rows(got, {at: row for at, row in want.items() if at not in missing})


def test_failfast_names_file_position_and_offsets(spark):
    with pytest.raises(AnalysisException) as caught:
        load(spark, case("torn"), mode="FAILFAST", subscribe="torn-flip-old").count()
    message = str(caught.value)
    assert "torn-flip-old-0/00000000000000000096.log: CRC-32C is" in message
    assert "offsets 144 to 146" in message
    assert "position 2048" in message


def test_the_schema_is_that_of_sparks_kafka_source(spark):
    plain = load(spark, case("codecs"), schema=None)
    assert plain.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert plain.where("offset = 5 and topic = 'codec-lz4'").count() == 1
    full = load(spark, case("codecs"), schema=None, includeHeaders="true")
    assert full.schema["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert full.count() == len(case("codecs").expected())


def test_a_schema_is_the_projection(spark):
    got = load(spark, case("segments"), schema="value binary, offset bigint", subscribe="segments-time").toArrow()
    assert got.schema.names == ["value", "offset"]
    assert sorted(got.column("offset").to_pylist()) == list(range(200))


def test_bounds_and_sql(spark):
    segments = case("segments")
    bounds = {"startingTimestamp": "1700000110449", "endingOffsets": '{"segments-size":{"0":900,"1":-1}}'}
    df = load(spark, segments, subscribe="segments-size", **bounds)
    df.createOrReplaceTempView("sizes")
    got = spark.sql(
        "select partition, min(offset), max(offset), count(*) from sizes group by partition order by partition"
    ).collect()
    assert [tuple(row) for row in got] == [(0, 836, 899, 64), (1, 841, 1499, 659)]


def test_tiny_splits_give_many_partitions_and_the_same_records(spark):
    segments = case("segments")
    whole, split = load(spark, segments), load(spark, segments, splitBytes="1k")
    assert split.rdd.getNumPartitions() > 20 > whole.rdd.getNumPartitions()
    same_rows(rows(split.toArrow()), segments.expected())


def test_read_committed(spark):
    """Split in the middle of transactions too."""
    for golden in (case("transactions"), case("unclean")):
        for options in ({}, {"splitBytes": "1k"}):
            got = load(spark, golden, **{"kafka.isolation.level": "read_committed"}, **options)
            same_rows(rows(got.toArrow()), golden.expected(committed=True))


def test_one_path_and_no_record(spark):
    nothing = load(spark, case("segments"), subscribePattern="nothing.*")
    assert nothing.count() == 0
    assert nothing.toArrow().num_rows == 0
    log = case("segments").partition_dir("segments-time", 0) / "00000000000000000000.log"
    assert 0 < spark.read.format("kafkafmt").load(str(log)).count() < 200


def test_limit_stops_reading(spark):
    assert len(load(spark, case("segments")).limit(3).collect()) == 3


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        (
            {"startingOffset": "earliest"},
            None,
            "OptionError: unknown option startingoffset; did you mean startingOffsets?",
        ),
        ({}, "offset int", "ValueError: the schema has offset int, but the column is bigint"),
        (
            {"subscribe": "sgements-time"},
            None,
            "OptionError: subscribe names sgements-time, which does not exist; the topics are",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_line(spark, options, schema, message):
    with pytest.raises(AnalysisException) as caught:
        load(spark, case("segments"), schema=schema, **options).count()
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_path_that_is_not_there(spark, tmp_path):
    with pytest.raises(AnalysisException, match="No such file"):
        spark.read.format("kafkafmt").load(str(tmp_path / "gone")).count()


def test_registered_by_hand_it_is_the_same(spark):
    register(spark)
    assert load(spark, case("epochs")).count() == 129


def test_what_a_task_yields_is_what_spark_declares():
    from pyspark.sql.pandas.types import to_arrow_schema

    from kafkafmt.arrow import schema_of
    from kafkafmt.spark.schema import TYPES, struct_of

    assert to_arrow_schema(struct_of(TYPES), timezone="UTC").equals(schema_of(TYPES))
    assert pa.types.is_list(schema_of(TYPES).field("headers").type)
