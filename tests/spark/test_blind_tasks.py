"""Test tasks that see other files than the driver. The query fails, and the error names host and path."""

from __future__ import annotations

import os
import shutil
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from blind import VIEWS, segments_of
from building import batch, record, split
from golden_cases import case
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from salvaging import commit, corrupt, data
from salvaging import partition as written
from source_rows import plan

from kafkafmt import LogDirectory
from kafkafmt.log import DamagedLogError, PartitionLog, UnavailableSegmentError, discover
from kafkafmt.log.formats.snapshots import snapshot_bytes
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.planning import DataLossError
from kafkafmt.spark.source.splits import cut_splits, make_splits

TOPIC = "segments-time"
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a partition with 200 records in several segments."""
    made = Path(shutil.copytree(case("segments").partition_dir(TOPIC, 0), tmp_path / "log" / f"{TOPIC}-0"))
    assert len(segments_of(made)) > 3
    return made


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", [view for view in VIEWS if view != "blank one"])
def test_batch_task_raises_if_it_sees_another_directory(folder: Path, view: str, mode: str, level: str) -> None:
    reader, partitions = plan(folder.parent, mode=mode, splitBytes=1, **{"kafka.isolation.level": level})
    VIEWS[view](folder)
    with pytest.raises(OSError, match=rf"{TOPIC}-0/\d+\.log: .*\(on host {socket.gethostname()}\)"):
        sum(b.num_rows for p in partitions for b in reader.read(p))


@pytest.mark.parametrize("left", [1, 2])
def test_task_raises_if_it_does_not_see_the_marker_of_its_records(tmp_path: Path, left: int) -> None:
    """The segment of the task exists. On the driver, a later segment contains the marker or ends the log."""
    with LogDirectory(tmp_path, segment_bytes=4096) as directory:
        writer = directory.writer("t", 0)
        for i in range(4):
            writer.append([(b"k", bytes(3000))], producer_id=7, producer_epoch=0, base_sequence=i, transactional=True)
        writer.end_transaction(7, 0, commit=True)
    assert len(segments_of(tmp_path / "t-0")) == 4
    committed = {"kafka.isolation.level": "read_committed"}
    reader, partitions = plan(tmp_path, splitBytes=1, **committed)
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 4
    for path in segments_of(tmp_path / "t-0")[left:]:
        path.unlink()
    for partition in partitions:
        with pytest.raises(UnavailableSegmentError, match="on host"):
            list(reader.read(partition))


@pytest.mark.parametrize(("segment_bytes", "marked", "kept"), [(4096, 2, 3_100), (16_000, 0, 9_250)])
@pytest.mark.parametrize("mode", MODES)
def test_task_raises_if_the_bytes_with_the_marker_are_missing(
    tmp_path: Path, mode: str, segment_bytes: int, marked: int, kept: int
) -> None:
    """On the host of the task, a segment is incomplete after the range of the task. Later segments are complete.

    The marker is in a later segment, or in the segment of the task.
    """
    with LogDirectory(tmp_path, segment_bytes=segment_bytes, index_interval_bytes=1) as directory:
        writer = directory.writer("t", 0)
        for i in range(3):
            writer.append([(b"k", bytes(3000))], producer_id=7, producer_epoch=0, base_sequence=i, transactional=True)
        writer.end_transaction(7, 0, commit=True)
        for _ in range(4):
            writer.append([(b"k", bytes(3000))])
    reader, partitions = plan(tmp_path, mode=mode, splitBytes=1, **{"kafka.isolation.level": "read_committed"})
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 7
    segment = segments_of(tmp_path / "t-0")[marked]
    assert kept < segment.stat().st_size
    segment.write_bytes(segment.read_bytes()[:kept])
    for partition in partitions[:2]:
        with pytest.raises(UnavailableSegmentError, match=r" \d+ bytes on this host, but \d+ bytes on the driver"):
            list(reader.read(partition))


def log_with_a_damaged_header(root: Path) -> list[Path]:
    """Write segments with four batches each, and return them. The first and the fifth batch are a transaction.

    The header of the second batch is damaged. Therefore, the task of the first batch must read all
    segments to find the marker.
    """
    with LogDirectory(root, segment_bytes=4096, index_interval_bytes=1) as directory:
        writer = directory.writer("t", 0)
        for i in range(2):
            writer.append([(b"k", bytes(900))], producer_id=7, producer_epoch=0, base_sequence=i, transactional=True)
            for _ in range(3):
                writer.append([(b"k", bytes(900))])
        writer.end_transaction(7, 0, commit=True)
        for _ in range(8):
            writer.append([(b"k", bytes(900))])
    segments = segments_of(root / "t-0")
    data = bytearray(segments[0].read_bytes())
    data[len(split(bytes(data))[0]) + 16] = 9  # the magic
    segments[0].write_bytes(data)
    return segments


def replaced(path: Path, data: bytes) -> None:
    """Replace a file as the log cleaner does."""
    path.with_suffix(".cleaned").write_bytes(data)
    path.with_suffix(".cleaned").replace(path)


@pytest.mark.parametrize("kept", [0, 2, 3])
def test_task_continues_if_the_log_cleaner_has_replaced_a_later_segment(tmp_path: Path, kept: int) -> None:
    """Only one of four batches of the later segment is left."""
    segments = log_with_a_damaged_header(tmp_path)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    reader, partitions = plan(tmp_path, splitBytes=1, **{"kafka.isolation.level": "read_committed"})
    expected = [sum(b.num_rows for b in reader.read(p)) for p in partitions[:4]]
    assert sum(expected) >= 2
    cleaned = segments[-2]
    batches = split(cleaned.read_bytes())
    assert len(batches) == 4
    replaced(cleaned, batches[kept])
    assert [sum(b.num_rows for b in reader.read(p)) for p in partitions[:4]] == expected
    # Files in another directory may be an incomplete copy. They are accepted only if no offset is missing before the
    # next segment.
    (tmp_path / "t-0").rename(tmp_path / "moved")
    shutil.copytree(tmp_path / "moved", tmp_path / "t-0")
    if kept == 3:
        assert [sum(b.num_rows for b in reader.read(p)) for p in partitions[:4]] == expected
    else:
        with pytest.raises(UnavailableSegmentError, match=r"the later segments have \d+ bytes on this host, but \d+"):
            list(reader.read(partitions[0]))


@pytest.mark.parametrize("first", [0, 1])
def test_task_raises_if_the_last_segment_lacks_a_marker_at_its_end(tmp_path: Path, first: int) -> None:
    """A damaged header could hide the marker. In the task, the last segment ends at the border of a batch."""
    with LogDirectory(tmp_path, segment_bytes=4096, index_interval_bytes=1) as directory:
        writer = directory.writer("t", 0)
        writer.append([(b"k", bytes(900))], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        for _ in range(6):
            writer.append([(b"k", bytes(900))])
        writer.end_transaction(7, 0, commit=True)
    segments = segments_of(tmp_path / "t-0")
    assert len(segments) == 2
    damaged = bytearray(segments[first].read_bytes())
    damaged[len(split(bytes(damaged))[0]) + 16] = 9  # the magic
    segments[first].write_bytes(damaged)
    reader, partitions = plan(tmp_path, splitBytes=1, **{"kafka.isolation.level": "read_committed"})
    marker = len(segments[1].read_bytes()) - 78
    os.truncate(segments[1], marker)
    with pytest.raises(UnavailableSegmentError, match=r"on this host"):
        list(reader.read(partitions[0]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("kept", "size"), [(0, 0), (0, 1000), (2, 1000), (2, 1 << 20)])
def test_task_raises_if_the_last_segment_has_zeros_instead_of_batches(
    tmp_path: Path, kept: int, size: int, level: str
) -> None:
    """The file is empty, or it is a copy that was made when fewer batches were in the preallocated space."""
    (tmp_path / "t-0").mkdir()
    path, batches = tmp_path / "t-0" / f"{0:020}.log", [batch([record(0)], base_offset=i) for i in range(4)]
    path.write_bytes(b"".join(batches))
    os.truncate(path, 1 << 20)
    reader, partitions = plan(tmp_path, **{"kafka.isolation.level": level})
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 4
    path.write_bytes(b"".join(batches[:kept]).ljust(size, b"\0"))
    with pytest.raises(UnavailableSegmentError, match=r"\(on host"):
        sum(b.num_rows for p in partitions for b in reader.read(p))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("value", [bytes(900), b"x" * 900], ids=["zeros", "text"])
def test_task_continues_if_a_broker_has_removed_preallocated_space(tmp_path: Path, level: str, value: bytes) -> None:
    """A broker with `preallocate` removes the unused space of the active segment when it starts the next segment."""
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t", 0)
        for _ in range(5):
            writer.append([(b"k", value)])
    (segment,) = segments_of(tmp_path / "t-0")
    size = segment.stat().st_size
    os.truncate(segment, 10 * size)
    reader, partitions = plan(tmp_path, splitBytes=1, **{"kafka.isolation.level": level})
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 5
    os.truncate(segment, size)
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 5


def recreate(folder: Path, topic_id: str) -> None:
    """Delete a partition and create it again with the same batches and another topic id."""
    folder.rename(folder.with_name("deleted"))
    shutil.copytree(folder.with_name("deleted"), folder)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


@pytest.mark.parametrize("level", LEVELS)
def test_task_raises_if_the_topic_was_created_again(folder: Path, level: str) -> None:
    reader, partitions = plan(folder.parent, splitBytes=1, **{"kafka.isolation.level": level})
    own = (folder / "partition.metadata").read_text().split()[-1]
    recreate(folder, own)  # a copy with the same id is the same log
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 200
    shutil.rmtree(folder.with_name("deleted"))
    recreate(folder, "AAAAAAAAAAAAAAAAAAAAAQ")
    for partition in partitions:
        with pytest.raises(UnavailableSegmentError, match=r"the topic was deleted and created again.*\(on host"):
            list(reader.read(partition))


def test_planning_raises_if_the_topic_is_created_again_after_the_listing(folder: Path) -> None:
    """The list of segments is that of the old log, and the topic id would be that of the new log."""
    log = PartitionLog(discover([folder]).partitions[0])
    assert cut_splits(log, log.segments, OffsetInterval())
    recreate(folder, "AAAAAAAAAAAAAAAAAAAAAQ")
    plans = [log.plan(segment) for segment in log.segments]
    with pytest.raises(UnavailableSegmentError, match="the directory was replaced after it was listed"):
        cut_splits(log, log.segments, OffsetInterval())
    with pytest.raises(UnavailableSegmentError, match="the directory was replaced after it was listed"):
        make_splits(log, plans, OffsetInterval())


def test_batch_task_reports_damage_if_a_file_of_equal_size_has_other_bytes(folder: Path) -> None:
    """The driver does not read the file. Therefore, the task cannot detect that the driver would see other bytes."""
    VIEWS["blank one"](folder)
    reader, partitions = plan(folder.parent, mode="FAILFAST", splitBytes=1)
    with pytest.raises(DamagedLogError, match="offsets 9 to 17 cannot be read"):
        sum(b.num_rows for p in partitions for b in reader.read(p))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("loss", ["true", "false"])
@pytest.mark.parametrize("view", [view for view in VIEWS if view != "blank one"])
def test_stream_task_raises_if_it_sees_another_directory(folder: Path, view: str, loss: str, level: str) -> None:
    options = {"path": str(folder.parent), "startingOffsets": "earliest", "failOnDataLoss": loss}
    source = KafkaLogSource(CaseInsensitiveDict(options | {"kafka.isolation.level": level}))
    stream: Any = source.streamReader(struct_of(["offset"]))
    partitions = stream.partitions({}, {TOPIC: {"0": 200}})
    VIEWS[view](folder)
    with pytest.raises(UnavailableSegmentError, match="on host"):
        sum(b.num_rows for p in partitions for b in stream.read(p))


def test_stream_task_reports_damage_if_a_file_of_equal_size_has_other_bytes(folder: Path) -> None:
    """As in a batch query, the driver does not read the file."""
    options = {"path": str(folder.parent), "startingOffsets": "earliest", "mode": "FAILFAST"}
    stream: Any = KafkaLogSource(CaseInsensitiveDict(options)).streamReader(struct_of(["offset"]))
    partitions = stream.partitions({}, {TOPIC: {"0": 200}})
    VIEWS["blank one"](folder)
    with pytest.raises(DamagedLogError, match="offsets 9 to 17 cannot be read"):
        sum(b.num_rows for p in partitions for b in stream.read(p))


@pytest.mark.parametrize("loss", ["true", "false"])
def test_stream_task_follows_fail_on_data_loss_on_retention(folder: Path, loss: str) -> None:
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(folder.parent), "failOnDataLoss": loss}))
    stream: Any = source.streamReader(struct_of(["offset"]))
    partitions = stream.partitions({}, {TOPIC: {"0": 200}})
    segments_of(folder)[0].unlink()
    if loss == "true":
        with pytest.raises(DataLossError, match="retention"):
            sum(b.num_rows for p in partitions for b in stream.read(p))
    else:
        left = sum(b.num_rows for p in partitions for b in stream.read(p))
        assert left == 200 - int(segments_of(folder)[0].stem)


def test_query_fails_if_its_directory_moves_after_planning(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.format("kafkafmt").load(str(folder.parent))
    assert frame.count() == 200  # the DataFrame keeps its plan
    folder.parent.rename(folder.parent.with_name("elsewhere"))
    with pytest.raises(PythonException, match=rf"{folder}/\d+\.log: the file is missing, and so is its directory"):
        frame.count()


def test_query_continues_if_retention_removes_the_oldest_segments(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.format("kafkafmt").option("splitBytes", "1").load(str(folder.parent))
    assert frame.count() == 200
    for path in segments_of(folder)[:2]:
        path.unlink()
    assert frame.count() == 200 - int(segments_of(folder)[0].stem)


def test_committed_records_are_read_if_the_end_of_the_log_is_damaged(tmp_path: Path) -> None:
    """The task must read the whole log, because of the damaged marker. The driver reads only the last batch."""
    folder = written(tmp_path, data(0, 7), corrupt(commit(1)), data(2, 8), commit(3, 8))
    incomplete = batch([record(0, value=b"a"), record(1, value=b"b")], base_offset=5)[:-10]
    written(tmp_path, data(4), incomplete, data(6), base=4)
    (folder / f"{4:020}.index").write_bytes(struct.pack(">ii", 2, len(data(4) + incomplete)))
    for offset in (4, 7):
        (folder / f"{offset:020}.snapshot").write_bytes(snapshot_bytes([]))
    reader, partitions = plan(tmp_path, **{"kafka.isolation.level": "read_committed"})
    offsets = [o for p in partitions for b in reader.read(p) for o in b["offset"].to_pylist()]
    assert offsets == [2, 4]  # The offset of the last batch is inside the incomplete batch.
