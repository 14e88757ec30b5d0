"""Test the data source as a stream. Options work as in Spark's Kafka source, and no record is read twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from building import batch, control_batch, record
from golden_cases import CASES, LEGACY, Case, case, same_rows
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from source_rows import COLUMNS, rows

import kafkafmt
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.schema import ddl_of, struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.planning import DataLossError
from kafkafmt.spark.source.stream import KafkaLogStreamReader

ALL = ReadAllAvailable()


def reader(path: Path, **options: str) -> KafkaLogStreamReader:
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(path), **options}))
    made = source.streamReader(struct_of(["topic", "partition", "offset"]))
    assert isinstance(made, KafkaLogStreamReader)
    return made


def read(stream: KafkaLogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return topic, partition and offset of each record in a micro-batch."""
    batches = [b for p in stream.partitions(start, end) for b in stream.read(p)]
    return sorted(tuple(row.values()) for b in batches for row in b.to_pylist())


def tasks(stream: KafkaLogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[list[int]]:
    """Return the offsets of each task of a batch of the stream."""
    partitions = stream.partitions(start, end)
    return [[row["offset"] for b in stream.read(p) for row in b.to_pylist()] for p in partitions]


def put(folder: Path, name: str, *batches: bytes, base: int = 0) -> Path:
    """Append batches to a segment."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / f"{base:020}.log"
    with path.open("ab") as file:
        file.write(b"".join(batches))
    return path


def five(first: int, **fields: Any) -> bytes:
    return batch([record(i) for i in range(5)], base_offset=first, **fields)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"0": 10, "1": 5}),
        ({"startingOffsets": "latest"}, {"0": 10, "1": 5}),
        ({"startingOffsets": "earliest"}, {"0": 2, "1": 0}),
        ({"startingOffsets": '{"t": {"0": 7, "1": -1}}'}, {"0": 7, "1": 5}),
        ({"startingTimestamp": "3", "startingOffsetsByTimestampStrategy": "latest"}, {"0": 5, "1": 5}),
    ],
)
def test_starting_offsets_of_a_stream(tmp_path: Path, options: dict[str, str], expected: dict[str, int]) -> None:
    put(tmp_path, "t-0", five(0, base_timestamp=1), five(5, base_timestamp=3))
    put(tmp_path, "t-1", five(0, base_timestamp=1))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    stream = reader(tmp_path, **options)
    assert stream.initialOffset() == {"t": expected}
    put(tmp_path, "t-1", five(5))
    assert stream.initialOffset() == {"t": expected}


def test_stream_reads_offsets_below_the_log_start_on_request(tmp_path: Path) -> None:
    put(tmp_path, "t-0", five(10), five(15), base=10)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 17\n")
    for option, first in (("false", 17), ("true", 10)):
        stream = reader(tmp_path, startingOffsets="earliest", belowLogStart=option)
        start = stream.initialOffset()
        assert start == {"t": {"0": first}}
        assert [o for _, _, o in read(stream, start, stream.latestOffset(start, ALL))] == list(range(first, 20))
        new = reader(tmp_path, startingOffsets="earliest", belowLogStart=option)  # the partition is new to the stream
        assert [o for _, _, o in read(new, {}, new.latestOffset({}, ALL))] == list(range(first, 20))
    with pytest.raises(DataLossError, match="retention removed offsets 3 to 9"):
        stream.partitions({"t": {"0": 3}}, {"t": {"0": 20}})


def test_consecutive_batches_read_every_offset_once(tmp_path: Path) -> None:
    put(tmp_path, "t-0", five(0), five(5))
    stream = reader(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    start, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    end = stream.latestOffset(start, limit)
    assert end == {"t": {"0": 6}}
    assert read(stream, start, end) == [("t", 0, o) for o in range(6)]
    put(tmp_path, "t-0", five(10)[:-1])  # the last batch is incomplete
    put(tmp_path, "u-3", five(0), base=0)
    start, end = end, stream.latestOffset(end, limit)
    assert end == {"t": {"0": 8}, "u": {"3": 3}}  # there are 4 and 5 new offsets, of which 6 are read
    assert read(stream, start, end) == [("t", 0, 6), ("t", 0, 7), ("u", 3, 0), ("u", 3, 1), ("u", 3, 2)]
    put(tmp_path, "t-0", five(10)[-1:])
    put(tmp_path, "t-0", five(15), base=15)
    start, end = end, stream.latestOffset(end, ALL)
    assert end == {"t": {"0": 20}, "u": {"3": 5}}
    assert stream.reportLatestOffset() == end
    assert read(stream, start, end) == [("t", 0, o) for o in range(8, 20)] + [("u", 3, 3), ("u", 3, 4)]
    assert stream.latestOffset(end, ALL) == end
    assert stream.partitions(end, end) == []
    assert read(reader(tmp_path), start, end) == read(stream, start, end)  # like after a restart


def test_available_now_stops_at_the_end_at_its_start(tmp_path: Path) -> None:
    put(tmp_path, "t-0", five(0))
    stream = reader(tmp_path, startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    put(tmp_path, "t-0", five(5))
    put(tmp_path, "t-1", five(0))
    assert stream.latestOffset(stream.initialOffset(), ALL) == {"t": {"0": 5, "1": 0}}


def test_read_committed_ends_at_the_last_stable_offset(tmp_path: Path) -> None:
    transaction = {"flags": 0x10, "producer_id": 7, "producer_epoch": 0}
    put(tmp_path, "t-0", five(0), five(5, **transaction), five(10))
    stream = reader(tmp_path, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert end == {"t": {"0": 5}}
    put(
        tmp_path,
        "t-0",
        control_batch(0, base_offset=15, producer_id=7),
        five(16, **transaction),
        control_batch(1, base_offset=21, producer_id=7),
    )
    last = stream.latestOffset(end, ALL)
    assert last == {"t": {"0": 22}}
    for stream_reader in (stream, reader(tmp_path, **{"kafka.isolation.level": "read_committed"})):
        assert [o for *_, o in read(stream_reader, start, end)] == list(range(5))
        assert [o for *_, o in read(stream_reader, end, last)] == [*range(10, 15), *range(16, 21)]


def remove_offsets(folder: Path, cause: str) -> None:
    """Remove offsets 5 to 9 in the given way."""
    if cause == "retention":
        put(folder, "t-0", five(10), base=10)
        (folder / "t-0" / f"{5:020}.log").unlink()
        return
    shutil.rmtree(folder / "t-0")
    put(folder, *(("t-0", five(0)[:-1]) if cause == "truncated" else ("other-0", five(0))))


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(1)])
def test_stream_continues_at_the_end_of_a_shorter_log(tmp_path: Path, limit: ReadLimit) -> None:
    segment = put(tmp_path, "t-0", five(0), five(5))
    put(tmp_path, "u-0", five(0))
    stream = reader(tmp_path, startingOffsets="earliest", failOnDataLoss="false")
    start = {"t": {"0": 10}, "u": {"0": 0}}
    segment.write_bytes(five(0))  # for example, a topic that was deleted and created again
    end = stream.latestOffset(start, limit)
    assert end["t"] == {"0": 5}
    assert {topic for topic, *_ in read(stream, start, end)} == {"u"}
    put(tmp_path, "t-0", five(5))
    last = stream.latestOffset(end, ALL)
    assert [o for topic, _, o in read(stream, end, last) if topic == "t"] == list(range(5, 10))


LOST = {
    "retention": "t-0: retention removed offsets 5 to 9: the log starts at offset 10",
    "truncated": "t-0: the log was truncated: it ends at offset 0, but the stream has read it up to offset 5",
    "deleted": "subscribe contains t, which does not exist",
    "deleted, none named": "t-0: the partition no longer exists, or is no longer selected; the stream has read it up to offset 5",
}


@pytest.mark.parametrize("cause", LOST)
def test_offsets_lost_before_they_were_read_raise_or_are_skipped(tmp_path: Path, cause: str) -> None:
    put(tmp_path, "t-0", five(0))
    put(tmp_path, "t-0", five(5), base=5)
    options = {"startingOffsets": "earliest"} | ({} if "none" in cause else {"subscribe": "t"})
    strict, lenient = (reader(tmp_path, failOnDataLoss=option, **options) for option in ("true", "false"))
    for stream in (strict, lenient):
        assert stream.latestOffset(stream.initialOffset(), ALL) == {"t": {"0": 10}}
    (tmp_path / "t-0" / f"{0:020}.log").unlink()
    remove_offsets(tmp_path, cause)
    begin = {"t": {"0": 5}}

    def read_offsets(stream: KafkaLogStreamReader) -> list[int]:
        return [o for topic, _, o in read(stream, begin, stream.latestOffset(begin, ALL)) if topic == "t"]

    with pytest.raises((DataLossError, OptionError), match=LOST[cause]):
        read_offsets(strict)
    assert read_offsets(lenient) == (list(range(10, 15)) if cause == "retention" else [])


def test_offsets_missing_from_a_plan_raise_data_loss_error(tmp_path: Path) -> None:
    put(tmp_path, "t-0", five(0))
    with pytest.raises(
        DataLossError, match=r"offsets 5 to 9 cannot be read, because the log was truncated; set failOnDataLoss=false"
    ):
        read(reader(tmp_path), {"t": {"0": 0}}, {"t": {"0": 10}})
    with pytest.raises(
        DataLossError, match="u-0: offsets 0 to 9 cannot be read, because the partition no longer exists"
    ):
        read(reader(tmp_path), {}, {"u": {"0": 10}})
    (tmp_path / "v-0").mkdir()
    put(tmp_path, "v-0", five(20), base=20)
    with pytest.raises(DataLossError, match="v-0: retention removed the offsets up to 9: the log starts at offset 20"):
        read(reader(tmp_path), {}, {"v": {"0": 10}})
    assert read(reader(tmp_path, failOnDataLoss="false"), {"t": {"0": 3}}, {"t": {"0": 10}}) == [
        ("t", 0, 3),
        ("t", 0, 4),
    ]
    stream = reader(tmp_path)
    (part,) = stream.partitions({"t": {"0": 0}}, {"t": {"0": 5}})
    put(tmp_path, "t-0", five(5), base=5)
    (tmp_path / "t-0" / f"{0:020}.log").unlink()
    with pytest.raises(DataLossError, match="deleted by retention"):
        list(stream.read(part))


def test_wrong_option_of_a_stream_raises(tmp_path: Path) -> None:
    put(tmp_path, "t-0", five(0))
    with pytest.raises(
        OptionError, match="endingOffsets can be used only in batch queries, because a stream has no end"
    ):
        reader(tmp_path, endingOffsets="latest").initialOffset()
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger is 0; it must be at least 1"):
        reader(tmp_path, maxOffsetsPerTrigger="0")
    with pytest.raises(OptionError, match="startingOffsets must include t-0"):
        reader(tmp_path, startingOffsets="{}").initialOffset()
    with pytest.raises(
        OptionError, match="minOffsetsPerTrigger is 9; it must not be greater than maxOffsetsPerTrigger, which is 8"
    ):
        reader(tmp_path, minOffsetsPerTrigger="9", maxOffsetsPerTrigger="8")
    with pytest.raises(OptionError, match="maxTriggerDelay is 'soon'; it must be a time such as 500ms, 30s or 15m"):
        reader(tmp_path, maxTriggerDelay="soon")


def test_stream_waits_for_min_offsets_per_trigger_or_max_trigger_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkafmt.spark.source import stream as module

    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    put(tmp_path, "t-0", five(0))
    waiting = reader(tmp_path, startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="2m")
    first = waiting.latestOffset(waiting.initialOffset(), ALL)
    assert first == {"t": {"0": 5}}  # the first batch is not delayed
    put(tmp_path, "t-0", five(5))
    now += 119
    assert waiting.latestOffset(first, ALL) == first
    put(tmp_path, "t-0", five(10))
    second = waiting.latestOffset(first, ALL)
    assert second == {"t": {"0": 15}}
    put(tmp_path, "t-0", five(15))
    assert waiting.latestOffset(second, ALL) == second
    now += 120
    assert waiting.latestOffset(second, ALL) == {"t": {"0": 20}}


@pytest.mark.parametrize(
    "golden", [c for c in CASES + LEGACY if not c.torn and not c.internal and "nested" not in c.name], ids=str
)
def test_golden_logs_are_read_once_in_small_batches(golden: Case) -> None:
    stream = reader(golden.roots[0], paths=json.dumps([str(r) for r in golden.roots[1:]]), startingOffsets="earliest")
    end, actual = stream.initialOffset(), []
    while (following := stream.latestOffset(end, ReadMaxRows(300))) != end:
        actual += read(stream, end, following)
        end = following
    assert len(actual) == len(set(actual))
    assert set(actual) == golden.expected().keys()


@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
def test_damage_is_skipped_or_raises_according_to_the_mode(tmp_path: Path, mode: str) -> None:
    corrupted_batch = bytearray(five(5))
    corrupted_batch[-3] ^= 1
    put(tmp_path, "t-0", five(0), bytes(corrupted_batch), five(10))
    stream = reader(tmp_path, startingOffsets="earliest", mode=mode)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert end == {"t": {"0": 15}}
    if mode == "FAILFAST":
        with pytest.raises(kafkafmt.DamagedLogError, match="offsets 5 to 9"):
            read(stream, start, end)
    else:
        assert [o for *_, o in read(stream, start, end)] == [*range(5), *range(10, 15)]


def stream_of(spark: SparkSession, path: Any, **options: Any) -> Any:
    options = {"startingOffsets": "earliest", **options}
    return spark.readStream.format("kafkafmt").schema(ddl_of((*COLUMNS, "timestamp"))).options(**options).load(path)


def test_stream_at_read_committed_equals_the_consumer(spark: SparkSession, tmp_path: Path) -> None:
    golden = case("transactions")
    frame = stream_of(
        spark, str(golden.roots[0]), maxOffsetsPerTrigger=100, **{"kafka.isolation.level": "read_committed"}
    )
    query = (
        frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    )
    query.start(str(tmp_path / "out")).awaitTermination(120)
    same_rows(rows(spark.read.parquet(str(tmp_path / "out")).toArrow()), golden.expected(committed=True))


def test_each_record_is_read_once_across_restarts_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """A writer appends while the query runs. The query is stopped, and restarted from its checkpoint."""
    appended, stop = threading.Event(), threading.Event()
    total = 0

    def write() -> None:
        nonlocal total
        with kafkafmt.LogDirectory(tmp_path / "log", segment_bytes=4096) as directory:
            writers = [directory.writer("orders", n) for n in range(3)]
            while not stop.is_set():
                writers[total % 3].append([(b"%d" % total, b"v" * 20, 1_700_000_000_000 + total)])
                total += 1
                appended.set()
                time.sleep(0.002)

    thread = threading.Thread(target=write)
    thread.start()
    assert appended.wait(60)

    def start(**trigger: Any) -> Any:
        frame = stream_of(spark, str(tmp_path / "log"), subscribe="orders", maxOffsetsPerTrigger=400)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(**trigger).start(str(tmp_path / "out"))

    try:
        for _ in range(2):
            query = start(processingTime="100 milliseconds")
            while sum(p["numInputRows"] > 0 for p in query.recentProgress) < 3:
                assert query.isActive, query.exception()
                time.sleep(0.05)
            query.stop()
            assert max(p["numInputRows"] for p in query.recentProgress) <= 400
    finally:
        stop.set()
        thread.join()
    query = start(availableNow=True)
    query.awaitTermination(120)
    actual = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert Counter(int(k) for k in actual.column("key").to_pylist()) == Counter(range(total))
    assert json.loads(query.lastProgress["sources"][0]["endOffset"]) == {
        "orders": {str(n): len(range(n, total, 3)) for n in range(3)}
    }


STREAM = """
import sys
sys.path[:0] = {path!r}
from kafkafmt.spark import make_session, register
settings = {{"spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}}
spark = make_session("local[2]", "killed", **settings)
register(spark)
frame = spark.readStream.format("kafkafmt").option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 100).load({log!r})
query = frame.writeStream.format("parquet").option("checkpointLocation", {checkpoint!r}).start({out!r})
query.awaitTermination()
"""


@pytest.mark.full
def test_killed_query_reads_each_record_once(spark: SparkSession, tmp_path: Path) -> None:
    """The driver, the JVM and the workers are killed three times. The query continues from its checkpoint."""
    log, out, checkpoint = (str(tmp_path / name) for name in ("log", "out", "checkpoint"))
    total = 20_000
    with kafkafmt.LogDirectory(log, segment_bytes=1 << 16) as directory:
        for n in range(2):
            directory.writer("orders", n).append(
                [(b"%d" % i, b"v" * 20, 1_700_000_000_000 + i) for i in range(n, total, 2)]
            )
    program = STREAM.format(path=sys.path, log=log, out=out, checkpoint=checkpoint)
    for _ in range(3):
        before = len(list(Path(checkpoint, "commits").glob("[0-9]*")))
        process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            while len(list(Path(checkpoint, "commits").glob("[0-9]*"))) < before + 3 and process.poll() is None:
                time.sleep(0.05)
            time.sleep(random.random())
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    frame = spark.readStream.format("kafkafmt").option("startingOffsets", "earliest").load(log)
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(out)
    )
    query.awaitTermination(120)
    actual = spark.read.parquet(out).toArrow()
    assert Counter(int(k) for k in actual.column("key").to_pylist()) == Counter(range(total))


def test_tasks_of_a_batch_are_limited_by_offsets(tmp_path: Path) -> None:
    for base in (0, 50):
        put(tmp_path, "t-0", *(five(first) for first in range(base, base + 50, 5)), base=base)
    start, end = {"t": {"0": 3}}, {"t": {"0": 98}}
    for limit in (1, 7, 60, 1000):
        found = tasks(reader(tmp_path, maxRecordsPerPartition=str(limit)), start, end)
        assert [offset for offsets in found for offset in offsets] == list(range(3, 98))
        assert max(map(len, found)) <= limit
        assert len(found) == -(-95 // limit)
    for least in (1, 2, 10):
        found = tasks(reader(tmp_path, minPartitions=str(least)), start, end)
        assert [offset for offsets in found for offset in offsets] == list(range(3, 98))
        assert least <= len(found) <= least + 1
    assert len(tasks(reader(tmp_path), start, end)) == 1


def test_offsets_that_were_removed_are_not_delivered_by_limited_tasks(tmp_path: Path) -> None:
    put(tmp_path, "t-0", five(20), five(25), base=20)
    stream = reader(tmp_path, maxRecordsPerPartition="4", failOnDataLoss="false")
    found = tasks(stream, {"t": {"0": 3}}, {"t": {"0": 29}})
    assert [offset for offsets in found for offset in offsets] == list(range(20, 29))
