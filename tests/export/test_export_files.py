"""Test the sizes of the Parquet files of an export, and how records are distributed among them."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exporting import RunExport, read_with_pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafmt import LogDirectory, build_batch
from kafkafmt.arrow.builder import schema_of
from kafkafmt.exporting.bundles import bundle_splits
from kafkafmt.exporting.files import FileSet
from kafkafmt.exporting.parquet import FileFormat
from kafkafmt.exporting.staging import StagedFiles
from kafkafmt.exporting.timing import Stopwatch
from kafkafmt.log import discover
from kafkafmt.spark.source.splits import Split, cut_splits

MIB = 1 << 20
START = 1_767_225_600_000  # 2026-01-01
RECORDS = 100


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with a partition of 24 MB that cannot be compressed, in segments of 2 MB."""
    root, numbers = tmp_path_factory.mktemp("log"), random.Random(7)
    with LogDirectory(root, segment_bytes=2 * MIB) as directory:
        writer = directory.writer("t", 0)
        for first in range(0, 24_000, RECORDS):
            writer.append_batches(
                build_batch([(b"k", numbers.randbytes(1000), START + first + i) for i in range(RECORDS)])
            )
    return root


def offsets_of(path: Path) -> list[int]:
    found: list[int] = pq.read_table(path, columns=["offset"], partitioning=None)["offset"].to_pylist()
    return found


def test_large_partition_gives_files_of_the_target_size_in_offset_order(run_export: RunExport, topic: Path) -> None:
    report, out = run_export([topic], file_size=4 * MIB)
    files = sorted(out.glob("data/topic=t/partition=0/*.parquet"))
    offsets = [offsets_of(path) for path in files]
    assert [o for part in offsets for o in part] == list(range(24_000))
    assert [path.name for path in files] == [f"{part[0]:020d}.parquet" for part in offsets]
    sizes = [path.stat().st_size for path in files]
    assert all(size < 5 * MIB for size in sizes)
    assert len([size for size in sizes if size < 3.5 * MIB]) <= 2  # the last file of each of two tasks
    assert report["written"]["files"] == report["partitions"][0]["written"]["files"] == len(files)
    assert report["written"]["bytes"] == sum(sizes)
    assert report["options"]["file_size"] == 4 * MIB


def test_segments_smaller_than_a_file_are_written_to_one_file(run_export: RunExport, topic: Path) -> None:
    report, _ = run_export([topic])
    assert report["read"]["segments"] == 12
    assert report["written"]["files"] == 2  # at most one for each bundle of 16 MB


def test_damage_does_not_divide_a_file(run_export: RunExport, topic: Path, tmp_path: Path) -> None:
    """The damaged segment is exported with a plan and its neighbours without one, all to the same files in order."""
    folder = tmp_path / "log" / "t-0"
    folder.mkdir(parents=True)
    for path in (topic / "t-0").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    broken = sorted(folder.glob("*.log"))[3]
    content = bytearray(broken.read_bytes())
    content[MIB] ^= 1
    broken.write_bytes(content)
    report, out = run_export([folder.parent])
    assert not report["ok"]
    assert report["written"]["files"] == 2
    (damage,) = report["partitions"][0]["quarantined"]["damaged"]
    files = sorted(out.glob("data/topic=t/partition=0/*.parquet"))
    expected = [o for o in range(24_000) if not damage["first_offset"] <= o <= damage["last_offset"]]
    assert [o for path in files for o in offsets_of(path)] == expected
    assert read_with_pyarrow(out / "data").num_rows == report["written"]["records"]


def splits_of(root: Path, size: int) -> list[Split]:
    from kafkafmt.log import PartitionLog
    from kafkafmt.log.reading.record_selection import EVERYTHING

    (directory,) = discover([root]).partitions
    log = PartitionLog(directory)
    return cut_splits(log, log.segments, EVERYTHING.resolve(log), size)


def test_bundles_join_adjacent_splits_of_one_partition(topic: Path) -> None:
    splits = splits_of(topic, MIB)
    assert len(splits) > 20
    other = [Split("t", 1, split.pieces) for split in splits]
    bundles = bundle_splits([*splits, *other], 5, 4 * MIB)
    assert [bundle.number for bundle in bundles] == list(range(5, 5 + len(bundles)))
    assert [split for bundle in bundles for split in bundle.splits] == [*splits, *other]
    assert all(len({split.partition for split in bundle.splits}) == 1 for bundle in bundles)
    assert all(bundle.bytes <= 5 * MIB for bundle in bundles)
    assert len(bundles) < 16


def test_discarded_files_are_removed_and_closed(tmp_path: Path) -> None:
    file_format = FileFormat()
    files = FileSet("t", file_format, StagedFiles(tmp_path), Stopwatch())
    schema = schema_of(file_format.decoded_columns)
    rows = pa.RecordBatch.from_pylist([{"value": b"x" * 100, "offset": i, "timestamp": i} for i in range(10)], schema)
    files.add(rows, 3)
    assert len(list(tmp_path.iterdir())) == 1
    files.discard()
    assert list(tmp_path.iterdir()) == []
    assert files.written == []


STAMPS = st.none() | st.integers(-(1 << 62), 1 << 62) | st.integers(START * 1000, START * 1000 + 10 * 86_400_000_000)


@pytest.mark.parametrize("examples", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_every_record_is_in_one_file_in_order(tmp_path: Path, examples: int) -> None:
    @settings(deadline=None, max_examples=examples)
    @given(
        batches=st.lists(
            st.tuples(st.integers(0, 3), st.lists(st.tuples(STAMPS, st.binary(max_size=300)), min_size=1, max_size=30)),
            max_size=8,
        ),
        partition_by=st.sampled_from([None, "day", "hour"]),
        file_size=st.integers(4, 20_000),
    )
    def check(batches: list[Any], partition_by: str | None, file_size: int) -> None:
        file_format = FileFormat(file_size=file_size, partition_by=partition_by, joined=True)
        files = FileSet("t", file_format, StagedFiles(tmp_path), Stopwatch())
        schema = schema_of(file_format.decoded_columns)
        expected, ends = [], [0] * 4
        for partition, records in sorted(batches, key=lambda batch: batch[0]):
            rows = [
                {"partition": partition, "offset": ends[partition] + i, "timestamp": stamp, "value": value}
                for i, (stamp, value) in enumerate(records)
            ]
            ends[partition] += len(rows)
            expected += rows
            files.add(pa.RecordBatch.from_pylist(rows, schema), partition)
        files.close()
        found, starts = [], set()
        for file in files.written:
            path = tmp_path / file.name
            assert path.stat().st_size == file.bytes
            table = pq.read_table(path, columns=["partition", "offset", "timestamp", "value"])
            table = table.set_column(2, "timestamp", table["timestamp"].cast(pa.int64()))
            rows = table.to_pylist()
            places = [(row["partition"], row["offset"]) for row in rows]
            assert places == sorted(places)
            assert (file.partition, file.first_offset) == places[0]
            assert file.rows == {p: len([place for place in places if place[0] == p]) for p, _ in places}
            starts.add((*places[0], file.period))
            for row in rows:
                assert period_of(row["timestamp"], partition_by) == file.period
            found += rows
            path.unlink()
        assert len(starts) == len(files.written)
        assert sorted(found, key=lambda row: (row["partition"], row["offset"])) == expected

    check()


def period_of(micros: int | None, partition_by: str | None) -> tuple[str, ...]:
    """Return the directories of a timestamp, as Python's datetime gives them."""
    null = "__HIVE_DEFAULT_PARTITION__"
    try:
        moment = None if micros is None else datetime(1970, 1, 1) + timedelta(microseconds=micros)
    except OverflowError:
        moment = None
    day = f"date={null if moment is None else moment.date().isoformat()}"
    hour = f"hour={null if moment is None else format(moment.hour, '02')}"
    return {None: (), "day": (day,), "hour": (day, hour)}[partition_by]
