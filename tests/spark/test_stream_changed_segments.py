"""Test streams if segments change after the call of `latestOffset` and before the micro-batch is planned."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

import kafkafmt
from kafkafmt import LogDirectory
from kafkafmt.log import NoLogError, UnavailableSegmentError
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.planning import DataLossError
from kafkafmt.spark.source.stream import KafkaLogStreamReader
from kafkafmt.spark.source.stream_offsets import Nested

ALL = ReadAllAvailable()
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
LEVELS = ("read_uncommitted", "read_committed")


def append(root: Path, count: int, topic: str = "t") -> None:
    """Append `count` batches of one record. A segment contains three batches."""
    with LogDirectory(root, segment_bytes=3500, index_interval_bytes=1) as directory:
        writer = directory.writer(topic)
        for _ in range(count):
            writer.append([(b"k%d" % (writer.next_offset % 4), b"%04d" % writer.next_offset + bytes(1000), 1)])


def reader(root: Path, **options: str) -> KafkaLogStreamReader:
    given = {"path": str(root), "startingOffsets": "earliest", **options}
    made = KafkaLogSource(CaseInsensitiveDict(given)).streamReader(struct_of(["topic", "offset"]))
    assert isinstance(made, KafkaLogStreamReader)
    return made


def segments(root: Path) -> list[Path]:
    return sorted((root / "t-0").glob("*.log"))


def remove_first(root: Path) -> None:
    """Remove the first two segments, as retention does."""
    for log in segments(root)[:2]:
        for file in log.parent.glob(f"{log.stem}.*"):
            file.unlink()


def remove_last(root: Path) -> None:
    """Remove the last segment, as a follower does when it truncates the log."""
    log = segments(root)[-1]
    for file in log.parent.glob(f"{log.stem}.*"):
        file.unlink()


def shorten_last(root: Path) -> None:
    log = segments(root)[-1]
    os.truncate(log, log.stat().st_size // 2)


def empty_middle(root: Path) -> None:
    os.truncate(segments(root)[1], 0)


def remove_middle(root: Path) -> None:
    segments(root)[1].unlink()


def replace_all(root: Path) -> None:
    """Replace the partition with a shorter one in another directory."""
    shutil.rmtree(root / "t-0")
    append(root, 2)


def replace_by_longer(root: Path) -> None:
    shutil.rmtree(root / "t-0")
    append(root, 30)


def remove_partition(root: Path) -> None:
    shutil.rmtree(root / "t-0")


def compact(root: Path) -> None:
    """Merge the segments into fewer segments, as the log cleaner does."""
    copy = root.with_name("compacted")
    kafkafmt.rewrite(root, copy, compact=True)
    shutil.rmtree(root / "t-0")
    (copy / "t-0").rename(root / "t-0")


CHANGES: list[Callable[[Path], None]] = [
    remove_first,
    remove_last,
    shorten_last,
    remove_middle,
    empty_middle,
    replace_all,
    replace_by_longer,
    remove_partition,
    compact,
]


def read(stream: KafkaLogStreamReader, start: Nested, end: Nested) -> list[tuple[str, int]]:
    rows = [row for p in stream.partitions(start, end) for b in stream.read(p) for row in b.to_pylist()]
    return [(row["topic"], row["offset"]) for row in rows]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_stream_continues_if_segments_change_and_data_loss_is_allowed(
    change: Callable[[Path], None], level: str, tmp_path: Path
) -> None:
    root = tmp_path / "log"
    append(root, 20)
    append(root, 2, "u")
    stream = reader(root, failOnDataLoss="false", **{"kafka.isolation.level": level})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    change(root)
    found = read(stream, start, end)
    assert ("u", 1) in found
    # If the query is restarted, it uses a new reader, which has no state of the old log.
    again = reader(root, failOnDataLoss="false", **{"kafka.isolation.level": level})
    assert found == read(again, start, end)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "change",
    [remove_first, remove_last, shorten_last, remove_middle, replace_all, remove_partition],
    ids=lambda change: change.__name__,
)
def test_stream_fails_if_segments_change(change: Callable[[Path], None], level: str, tmp_path: Path) -> None:
    append(tmp_path, 20)
    stream = reader(tmp_path, **{"kafka.isolation.level": level})
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    change(tmp_path)
    with pytest.raises((DataLossError, UnavailableSegmentError, NoLogError)):
        read(stream, start, end)
