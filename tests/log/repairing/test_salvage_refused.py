"""Test batches that the planner accepts, but that no index can hold. A partition with such batches is not copied."""

from __future__ import annotations

import errno
import gzip
import struct
from pathlib import Path
from typing import Any

import pytest
from building import message
from command import kafkafmt
from salvaging import NAME, data, findings, partition, salvaged

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage.parts import Run
from kafkafmt.log.damage.plan import SegmentPlan
from kafkafmt.log.repairing.salvage_api import salvage_partition


def wrapper(magic: int, first: int, offset: int | None = None) -> bytes:
    """Return a wrapper message that contains four messages. `offset` replaces its correct offset."""
    offsets = range(first, first + 4)
    inner = b"".join(
        message(magic, None, b"v%d" % o, offset=i if magic else o, timestamp=5) for i, o in enumerate(offsets)
    )
    wrapped = message(magic, None, gzip.compress(inner, mtime=0), offset=first + 3, timestamp=5, attributes=1)
    return wrapped if offset is None else struct.pack(">q", offset) + wrapped[8:]


def offsets(path: Path) -> list[int]:
    (directory,) = discover([path]).partitions
    return [r.offset for r in PartitionLog(directory).records()]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wrong", [0, 1, 2, 3, 4, 6, 8, 9, 12, 100, 2**40, 2**62])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_wrong_wrapper_offset_damages_only_that_wrapper(magic: int, wrong: int, which: int, tmp_path: Path) -> None:
    """No CRC covers the offset. If the planner trusts a wrong offset, a neighbouring batch may be lost."""
    batches = [wrapper(magic, first) for first in (0, 4, 8)]
    written = list(range(12))
    batches[which] = wrapper(magic, which * 4, wrong)
    partition(tmp_path / "in", *batches)
    salvaged(tmp_path / "in", tmp_path / "out")
    kept = offsets(tmp_path / "out")
    lost = [o for o in written if o not in kept]
    assert len(lost) <= 8
    assert not {"corrupt_structure", "contradicting_offsets"} & set(findings(tmp_path / "out"))


def test_lowered_wrapper_offset_of_format_0_damages_only_that_wrapper(tmp_path: Path) -> None:
    partition(tmp_path / "in", wrapper(0, 0), wrapper(0, 4, 1), wrapper(0, 8))
    _, entry = salvaged(tmp_path / "in", tmp_path / "out")
    assert offsets(tmp_path / "out") == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [(d["first_offset"], d["last_offset"], d["error"]) for d in entry["damaged"]] == [
        (4, 7, "contradicting_offsets")
    ]
    assert (entry["records"], entry["records_recovered"]) == (12, 8)


def test_command_reports_a_wrapper_with_a_wrong_offset_as_damage(tmp_path: Path) -> None:
    partition(tmp_path / "in", wrapper(0, 0), wrapper(0, 4, 1), wrapper(0, 8))
    done = kafkafmt("salvage", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "lost     t-0: offsets 4 to 7 (4 records)" in done.stdout


@pytest.mark.parametrize("order", [(0, 5, 1, 2, 3), (0, 2, 2, 3)])
def test_partition_whose_batches_cannot_be_indexed_is_not_copied(
    order: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan delivers every batch in file order, without any check."""

    def unchecked_plan(self: PartitionLog, segment: Any, see: Any = None, scratch: Any = None) -> SegmentPlan:
        size = segment.path.stat().st_size
        return SegmentPlan(segment, size, [Run(0, size, 0, 99, 1, 1)], [], [])

    monkeypatch.setattr(PartitionLog, "plan", unchecked_plan)
    folder = partition(tmp_path / "in", *(data(i) for i in order))
    (directory,) = discover([tmp_path / "in"]).partitions
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match="the batches cannot be indexed: the batch's offsets are not above") as raised:
        salvage_partition(PartitionLog(directory), [], tmp_path / "out")
    assert (raised.value.errno, raised.value.filename) == (errno.EINVAL, str(folder / NAME))
    assert list((tmp_path / "out").iterdir()) == []


def test_file_that_changed_during_salvage_is_an_input_error(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0), data(1), data(2))
    (directory,) = discover([tmp_path / "in"]).partitions
    log = PartitionLog(directory)
    log.plan(log.segments[0])
    changed = bytearray(data(0) + data(1) + data(2))
    changed[len(data(0)) + 65] ^= 1
    (folder / NAME).write_bytes(changed)
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match="the file changed while it was salvaged") as raised:
        salvage_partition(log, [], tmp_path / "out")
    assert raised.value.errno == errno.EIO
    assert raised.value.filename == str(folder / NAME)
    assert list((tmp_path / "out").iterdir()) == []
