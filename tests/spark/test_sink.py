"""The data sink: what is read can be written and read again; partitions as Kafka's producer chooses; nothing twice, nothing by half."""

import numpy as np
import pyarrow as pa
import pytest
from golden_cases import case
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import CaseInsensitiveDict
from source_rows import COLUMNS, rows

import kafkafmt
from kafkafmt.constants import CODEC_NAMES
from kafkafmt.log import LogDirectory
from kafkafmt.log.writing.append_journal import JOURNAL_FILE
from kafkafmt.records import iter_tables
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.schema import ddl_of, struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource

SCHEMA = ddl_of(COLUMNS)


def write(frame, path, mode="append", **options):
    frame.write.format("kafkafmt").options(**options).mode(mode).save(str(path))


def attributes_of(path):
    """The attributes of every batch of a log directory."""
    return np.concatenate(
        [table["attributes"] for file in path.glob("*/*.log") for table in iter_tables(file.read_bytes())]
    )


def staging(path):
    return [p.name for p in path.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_read_can_be_written(spark, tmp_path, codec):
    golden, path = case("codecs"), tmp_path / "log"
    frame = spark.read.format("kafkafmt").schema(SCHEMA).load([str(root) for root in golden.roots])
    write(frame, path, **{"kafka.compression.type": codec})
    got = rows(spark.read.format("kafkafmt").schema(SCHEMA).load(str(path)).toArrow())
    want = golden.expected()
    assert {at: row[2:] for at, row in got.items()} == {at: row[2:] for at, row in want.items()}
    assert {at: row[0] for at, row in got.items()} == {at: row[0] for at, row in want.items()}
    assert staging(path) == []
    assert {CODEC_NAMES[n & 7] for n in attributes_of(path)} == {codec}


def test_partitions_are_chosen_by_the_key_as_kafka_does(spark, tmp_path):
    path = tmp_path / "log"
    frame = spark.range(0, 3000, 1, 3).selectExpr(
        "'t' topic", "if(id % 7 = 0, null, cast(id as string)) key", "cast(id as string) value"
    )
    write(frame, path, partitions="4")
    by_key, nulls = kafkafmt.Partitioner(4), []
    log = kafkafmt.open(path)
    assert [p.partition for p in log.partitions] == [0, 1, 2, 3]
    for partition in log:
        records = list(partition)
        assert [int(r.value) for r in records] == sorted(int(r.value) for r in records)  # the tasks' order
        assert {by_key.partition(r.key) for r in records if r.key is not None} == {partition.partition}
        nulls.append(sum(r.key is None for r in records))
    assert sum(len(list(p)) for p in log) == 3000
    assert max(nulls) - min(nulls) <= 3  # in turn, in each task
    write(frame, path, partitions="9")  # a topic that is there keeps what it has
    assert len(kafkafmt.open(path).partitions) == 4


def test_row_columns_set_partition_and_timestamp(spark, tmp_path):
    path = tmp_path / "log"
    write(spark.sql("select 'v' value, 5 partition, timestamp_millis(1234) timestamp"), path, topic="t")
    write(spark.sql("select cast('v' as binary) value, 5 partition, 99L timestampMillis"),
          path, topic="t")  # fmt: skip
    write(spark.sql("select cast(null as string) value, 'k' key"), path, topic="t", partitions="1")
    (first, second), third = (
        list(kafkafmt.open(path)["t", 5])[:2],
        [r for p in kafkafmt.open(path) for r in p if r.key == b"k"],
    )
    assert (first.value, first.timestamp, second.timestamp) == (b"v", 1234, 99)
    assert third[0].value is None
    assert abs(third[0].timestamp / 1000 - path.stat().st_mtime) < 3600


def test_a_task_that_fails_leaves_nothing(spark, tmp_path):
    path = tmp_path / "log"
    write(spark.sql("select 'there before' value"), path, topic="t")
    frame = spark.range(0, 1000, 1, 4).selectExpr("'v' value", "if(id = 900, -7, 0) partition")
    with pytest.raises(Exception, match="a row's partition is -7"):
        write(frame, path, topic="t")
    assert [r.value for r in kafkafmt.open(path)["t", 0]] == [b"there before"]
    assert staging(path) == []


def test_a_directory_that_is_in_use_is_left_alone(spark, tmp_path):
    path = tmp_path / "log"
    with (
        LogDirectory(path),
        pytest.raises(Exception, match=r"already has the log directory|has the log directory locked"),
    ):
        write(spark.sql("select 'v' value"), path, topic="t")
    assert [p.name for p in path.iterdir() if p.is_dir()] == []
    assert staging(path) == []


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("select 'v' value", {}, "no topic"),
        ("select 'v' key", {"topic": "t"}, "no column value"),
        ("select 1 value", {"topic": "t"}, "column value is int; it must be binary or string"),
        ("select 'v' value", {"topic": "a/b"}, "topic is 'a/b'"),
        ("select 'v' value", {"topic": "t", "partitons": "2"}, "did you mean partitions"),
        ("select 'v' value", {"topic": "t", "kafka.compression.type": "brotli"}, "kafka.compression.type is 'brotli'"),
        ("select 'v' value", {"topic": "t", "txnVersion": "2"}, "without txnAppId"),
    ],
)
def test_what_cannot_be_is_one_line(spark, tmp_path, select, options, message):
    with pytest.raises(AnalysisException, match=message):
        write(spark.sql(select), tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()


def test_only_append(spark, tmp_path):
    with pytest.raises(AnalysisException, match="append"):
        write(spark.sql("select 'v' value"), tmp_path / "log", mode="overwrite", topic="t")


def test_a_version_of_an_application_is_written_once(spark, tmp_path):
    path, frame = tmp_path / "log", spark.sql("select 'v' value")
    for version in (1, 1, 2, 1):
        write(frame, path, topic="t", txnAppId="nightly", txnVersion=str(version))
    assert len(list(kafkafmt.open(path)["t", 0])) == 2


def stream(spark, source, path, checkpoint):
    query = (
        spark.readStream.schema("value string")
        .option("maxFilesPerTrigger", 1)
        .text(str(source))
        .selectExpr("value", "'t' topic")
        .writeStream.format("kafkafmt")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(path))
    )
    query.awaitTermination()


def test_a_streams_batches_come_once_each(spark, tmp_path):
    path, source, checkpoint = (tmp_path / name for name in ("log", "source", "checkpoint"))
    source.mkdir()
    for i in range(3):
        (source / f"{i}.txt").write_text("".join(f"{i} {k}\n" for k in range(50)))
    stream(spark, source, path, checkpoint)
    first = [r.value for r in kafkafmt.open(path)["t", 0]]
    assert sorted(first) == sorted(f"{i} {k}".encode() for i in range(3) for k in range(50))
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    last.unlink()  # as if the driver had been killed before Spark noted the batch: it will be run again
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    (source / "3.txt").write_text("one more\n")
    stream(spark, source, path, checkpoint)
    assert [r.value for r in kafkafmt.open(path)["t", 0]] == [*first, b"one more"]
    assert (path / JOURNAL_FILE).exists()


def test_killed_between_appends_and_note(tmp_path):
    """What a stream's driver that was killed half-way left is undone, and the batch is appended by the next try."""
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / "log"), "topic": "t", "txnappid": "s"}))
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    writer = source.streamWriter(struct_of(["value"]), False)
    writer.commit([writer.write(iter([rows]))], 0)
    with LogDirectory(tmp_path / "log") as directory:
        directory.writer("t").append([(None, b"half", 1)])
    note = (tmp_path / "log" / JOURNAL_FILE).read_text().replace('"under_way": []', '"under_way": [["t", 0, 2, 0]]')
    (tmp_path / "log" / JOURNAL_FILE).write_text(note)
    writer.commit([writer.write(iter([rows]))], 0)
    assert [r.value for r in kafkafmt.open(tmp_path / "log")["t", 0]] == [b"a", b"b"]
    writer.commit([writer.write(iter([rows]))], 1)
    assert [r.value for r in kafkafmt.open(tmp_path / "log")["t", 0]] == [b"a", b"b"] * 2


def test_a_stream_cannot_overwrite(tmp_path):
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / "log"), "topic": "t"}))
    with pytest.raises(OptionError, match="append"):
        source.streamWriter(struct_of(["value"]), True)
