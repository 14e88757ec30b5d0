"""Test a stream whose topic is deleted and created again, with a log that is longer than the old one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafkafmt import LogDirectory
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.planning import DataLossError
from kafkafmt.spark.source.stream import KafkaLogStreamReader
from kafkafmt.spark.source.stream_offsets import Nested

OLD, NEW = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
ALL = ReadAllAvailable()


def append(root: Path, values: list[bytes], topic_id: str | None, topic: str = "t") -> None:
    with LogDirectory(root) as directory:
        directory.writer(topic, topic_id=topic_id).append([(None, value, 1) for value in values])


def recreate(root: Path, topic_id: str | None = NEW) -> None:
    """Delete the topic, and create it again with more records."""
    shutil.rmtree(root / "t-0")
    append(root, [b"new-%d" % n for n in range(5)], topic_id)


def reader(root: Path, **options: str) -> KafkaLogStreamReader:
    given = {"path": str(root), "startingOffsets": "earliest", "minPartitions": "2", **options}
    made = KafkaLogSource(CaseInsensitiveDict(given)).streamReader(struct_of(["value"]))
    assert isinstance(made, KafkaLogStreamReader)
    return made


def values(stream: KafkaLogStreamReader, start: Nested, end: Nested) -> list[bytes]:
    return [row["value"] for p in stream.partitions(start, end) for b in stream.read(p) for row in b.to_pylist()]


def values_after(stream: KafkaLogStreamReader, start: Nested) -> list[bytes]:
    """Return the values of all micro-batches after `start`, until no new records are found."""
    found: list[bytes] = []
    while (end := stream.latestOffset(start, ALL)) != start:
        found += values(stream, start, end)
        start = end
    return found


@pytest.mark.parametrize("moment", ["between triggers", "in a trigger"])
def test_stream_fails_if_its_topic_was_created_again(moment: str, tmp_path: Path) -> None:
    append(tmp_path, [b"old"] * 3, OLD)
    stream = reader(tmp_path)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ALL)
    if moment == "between triggers":
        assert values(stream, start, first) == [b"old"] * 3
        start = first
        recreate(tmp_path)
    else:
        append(tmp_path, [b"old"], OLD)
        start, first = first, stream.latestOffset(first, ALL)
        recreate(tmp_path)
        with pytest.raises(DataLossError, match="t-0: the topic was deleted and created again"):
            stream.partitions(start, first)
    with pytest.raises(DataLossError, match="t-0: the topic was deleted and created again, so its topic id has"):
        stream.latestOffset(first, ALL)


def test_stream_continues_at_the_start_of_the_new_log_on_request(tmp_path: Path) -> None:
    append(tmp_path, [b"old"] * 3, OLD)
    append(tmp_path, [b"other"], NEW, "u")
    stream = reader(tmp_path, failOnDataLoss="false")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert sorted(values(stream, start, end)) == [b"old"] * 3 + [b"other"]
    recreate(tmp_path)
    append(tmp_path, [b"other"], NEW, "u")
    assert sorted(values_after(stream, end)) == [b"new-%d" % n for n in range(5)] + [b"other"]


def test_topic_that_is_created_again_in_a_trigger_is_read_once(tmp_path: Path) -> None:
    append(tmp_path, [b"old"], OLD)
    stream = reader(tmp_path, failOnDataLoss="false")
    start = stream.initialOffset()
    start, first = stream.latestOffset(start, ALL), start
    assert values(stream, first, start) == [b"old"]
    append(tmp_path, [b"old"] * 2, OLD)
    end = stream.latestOffset(start, ALL)
    recreate(tmp_path)
    assert values(stream, start, end) == []
    assert values_after(stream, end) == [b"new-%d" % n for n in range(5)]


@pytest.mark.parametrize("topic_id", [OLD, None])
def test_stream_continues_if_the_topic_id_is_equal_or_unknown(topic_id: str | None, tmp_path: Path) -> None:
    """A new directory does not prove that the topic is new. A broker can also move a partition to another disk."""
    append(tmp_path, [b"old"] * 3, OLD)
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    recreate(tmp_path, topic_id)
    assert values_after(stream, end) == [b"new-3", b"new-4"]


def test_stream_continues_if_partition_metadata_cannot_be_accessed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic id is compared again as soon as the file can be accessed."""
    append(tmp_path, [b"old"] * 3, OLD)
    stream = reader(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    append(tmp_path, [b"more"] * 2, OLD)
    metadata = tmp_path / "t-0" / "partition.metadata"
    metadata.unlink()
    metadata.symlink_to(metadata.name)  # stat() of a circular link fails
    assert values_after(stream, end) == [b"more"] * 2
    (line,) = caplog.messages
    assert f"{metadata} cannot be accessed: Too many levels of symbolic links; until" in line
    recreate(tmp_path)
    with pytest.raises(DataLossError, match="t-0: the topic was deleted and created again"):
        stream.latestOffset(end, ALL)


def test_stream_reader_is_sent_to_executors_after_planning(tmp_path: Path) -> None:
    append(tmp_path, [b"old"], OLD)
    stream = reader(tmp_path)
    start = stream.initialOffset()
    parts = stream.partitions(start, stream.latestOffset(start, ALL))
    copy = cloudpickle.loads(cloudpickle.dumps(stream))  # type: ignore[no-untyped-call]
    assert [row["value"] for part in parts for rows in copy.read(part) for row in rows.to_pylist()] == [b"old"]
