"""Test the data sink: records, partitions, and atomic writes."""

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from golden_cases import case
from numpy.typing import NDArray
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from source_rows import COLUMNS, rows

import kafkafmt
from kafkafmt.constants import CODEC_NAMES
from kafkafmt.log import LogDirectory
from kafkafmt.log.writing.append_journal import JOURNAL_FILE
from kafkafmt.records import iter_tables
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.schema import ddl_of, struct_of
from kafkafmt.spark.sink import writing
from kafkafmt.spark.source.data_source import KafkaLogSource

SCHEMA = ddl_of(COLUMNS)


def write(frame: DataFrame, path: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("kafkafmt").options(**options).mode(mode).save(str(path))


def attributes_of(path: Path) -> NDArray[np.int16]:
    """Return the attributes of each batch in a log directory."""
    return np.concatenate(
        [table["attributes"] for file in path.glob("*/*.log") for table in iter_tables(file.read_bytes())]
    )


def staging(path: Path) -> list[str]:
    return [p.name for p in path.parent.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_written_records_equal_those_that_were_read(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    golden, path = case("codecs"), tmp_path / "log"
    frame = spark.read.format("kafkafmt").schema(SCHEMA).load([str(root) for root in golden.roots])
    write(frame, path, **{"kafka.compression.type": codec})
    actual = rows(spark.read.format("kafkafmt").schema(SCHEMA).load(str(path)).toArrow())
    expected = golden.expected()
    assert {at: row[2:] for at, row in actual.items()} == {at: row[2:] for at, row in expected.items()}
    assert {at: row[0] for at, row in actual.items()} == {at: row[0] for at, row in expected.items()}
    assert staging(path) == []
    assert {CODEC_NAMES[n & 7] for n in attributes_of(path)} == {codec}


def test_partitions_are_chosen_by_key_like_kafkas_producer(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log"
    frame = spark.range(0, 3000, 1, 3).selectExpr(
        "'t' topic", "if(id % 7 = 0, null, cast(id as string)) key", "cast(id as string) value"
    )
    write(frame, path, partitions="4")
    by_key, nulls = kafkafmt.records.Partitioner(4), []
    log = kafkafmt.open(path)
    assert [p.partition for p in log.partitions] == [0, 1, 2, 3]
    for partition in log:
        records = list(partition)
        # The records are in the order of the tasks.
        assert [int(r.value or b"") for r in records] == sorted(int(r.value or b"") for r in records)
        assert {by_key.partition(r.key) for r in records if r.key is not None} == {partition.partition}
        nulls.append(sum(r.key is None for r in records))
    assert sum(len(list(p)) for p in log) == 3000
    assert max(nulls) - min(nulls) <= 3  # each task assigns the partitions in turn
    write(frame, path, partitions="9")  # an existing topic keeps its number of partitions
    assert len(kafkafmt.open(path).partitions) == 4


def test_row_columns_set_partition_and_timestamp(spark: SparkSession, tmp_path: Path) -> None:
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


def test_failed_task_leaves_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log"
    write(spark.sql("select 'earlier' value"), path, topic="t")

    def fail_last(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a wrong partition after the other three tasks have staged their rows."""
        for batch in batches:
            ids = batch.column("id").to_pylist()
            deadline = time.monotonic() + 120
            while (
                900 in ids and len(list(tmp_path.glob(".log.kafkafmt-write-*/*"))) < 3 and time.monotonic() < deadline
            ):
                time.sleep(0.01)
            partitions = pa.array([-7 if i == 900 else 0 for i in ids], pa.int32())
            yield pa.RecordBatch.from_pydict({"value": ["v"] * len(ids), "partition": partitions})

    frame = spark.range(0, 1000, 1, 4).mapInArrow(fail_last, "value string, partition int")
    with pytest.raises(Exception, match="the partition of a row is -7"):
        write(frame, path, topic="t")
    assert [r.value for r in kafkafmt.open(path)["t", 0]] == [b"earlier"]
    assert staging(path) == []


def test_directory_in_use_is_refused_and_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "LOCK_SECONDS", 0.2)
    path = tmp_path / "log"
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(path), "topic": "t"}))
    writer = source.writer(struct_of(["value"]), False)
    message = writer.write(iter([pa.RecordBatch.from_pydict({"value": [b"v"]})]))
    with LogDirectory(path), pytest.raises(BlockingIOError, match=r"already has the log directory"):
        writer.commit([message])
    writer.abort([message])
    assert [p.name for p in path.iterdir() if p.is_dir()] == []
    assert staging(path) == []


def test_commit_waits_while_another_query_appends(tmp_path: Path) -> None:
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / "log"), "topic": "t"}))
    writer = source.writer(struct_of(["value"]), False)
    message = writer.write(iter([pa.RecordBatch.from_pydict({"value": [b"later"]})]))
    other = LogDirectory(tmp_path / "log")
    other.writer("t").append([(None, b"first", 1)])
    thread = threading.Timer(0.5, other.close)
    thread.start()
    writer.commit([message])
    thread.join()
    assert [r.value for r in kafkafmt.open(tmp_path / "log")["t", 0]] == [b"first", b"later"]


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("select 'v' value", {}, "the topic is missing"),
        ("select 'v' key", {"topic": "t"}, "the column 'value' is missing"),
        ("select 1 value", {"topic": "t"}, "column value is int; it must be binary or string"),
        ("select 'v' value", {"topic": "a/b"}, "topic is 'a/b'"),
        ("select 'v' value", {"topic": "t", "partitons": "2"}, "did you mean partitions"),
        ("select 'v' value", {"topic": "t", "kafka.compression.type": "brotli"}, "kafka.compression.type is 'brotli'"),
        ("select 'v' value", {"topic": "t", "txnVersion": "2"}, "only together with txnAppId"),
    ],
)
def test_wrong_write_is_reported_in_one_line(
    spark: SparkSession, tmp_path: Path, select: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message):
        write(spark.sql(select), tmp_path / "log", **options)
    assert not (tmp_path / "log").exists()


def test_overwrite_mode_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="append"):
        write(spark.sql("select 'v' value"), tmp_path / "log", mode="overwrite", topic="t")


def test_version_of_an_application_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    path, frame = tmp_path / "log", spark.sql("select 'v' value")
    for version in (1, 1, 2, 1):
        write(frame, path, topic="t", txnAppId="nightly", txnVersion=str(version))
    assert len(list(kafkafmt.open(path)["t", 0])) == 2


def stream(spark: SparkSession, source: Path, path: Path, checkpoint: Path | None) -> None:
    """Write a stream. If `checkpoint` is None, the session sets the checkpoint's location."""
    writer = (
        spark.readStream.schema("value string")
        .option("maxFilesPerTrigger", 1)
        .text(str(source))
        .selectExpr("value", "'t' topic")
        .writeStream.format("kafkafmt")
        .queryName("copy")
        .trigger(availableNow=True)
    )
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    writer.start(str(path)).awaitTermination()


@pytest.mark.parametrize("where", ["option", "session"])
def test_each_batch_of_a_stream_is_written_once(spark: SparkSession, tmp_path: Path, where: str) -> None:
    path, source, checkpoint = (tmp_path / name for name in ("log", "source", "copy"))
    given = checkpoint if where == "option" else None
    setting = "spark.sql.streaming.checkpointLocation"
    if given is None:
        spark.conf.set(setting, str(tmp_path))
    source.mkdir()
    for i in range(3):
        (source / f"{i}.txt").write_text("".join(f"{i} {k}\n" for k in range(50)))
    try:
        stream(spark, source, path, given)
        first = [r.value or b"" for r in kafkafmt.open(path)["t", 0]]
        assert sorted(first) == sorted(f"{i} {k}".encode() for i in range(3) for k in range(50))
        last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
        last.unlink()  # if the driver is killed before Spark commits the micro-batch, Spark repeats it
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        (source / "3.txt").write_text("one more\n")
        stream(spark, source, path, given)
    finally:
        spark.conf.unset(setting)
    assert [r.value for r in kafkafmt.open(path)["t", 0]] == [*first, b"one more"]
    assert (path / JOURNAL_FILE).exists()


def test_append_of_a_killed_driver_is_undone_and_repeated(tmp_path: Path) -> None:
    """A killed driver leaves a partial append. The next attempt undoes it, and appends the batch."""
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / "log"), "topic": "t", "txnappid": "s"}))
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    writer = source.streamWriter(struct_of(["value"]), False)
    writer.commit([writer.write(iter([rows]))], 0)
    with LogDirectory(tmp_path / "log") as directory:
        directory.writer("t").append([(None, b"half", 1)])
    journal = (tmp_path / "log" / JOURNAL_FILE).read_text().replace('"under_way": []', '"under_way": [["t", 0, 2, 0]]')
    (tmp_path / "log" / JOURNAL_FILE).write_text(journal)
    writer.commit([writer.write(iter([rows]))], 0)
    assert [r.value for r in kafkafmt.open(tmp_path / "log")["t", 0]] == [b"a", b"b"]
    writer.commit([writer.write(iter([rows]))], 1)
    assert [r.value for r in kafkafmt.open(tmp_path / "log")["t", 0]] == [b"a", b"b"] * 2


def test_stream_in_complete_mode_is_refused(tmp_path: Path) -> None:
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / "log"), "topic": "t"}))
    with pytest.raises(OptionError, match="append"):
        source.streamWriter(struct_of(["value"]), True)
