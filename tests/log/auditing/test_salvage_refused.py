"""Test batches that the planner accepts, but that no index can hold. Only such a batch is damage."""

from __future__ import annotations

import errno
import gzip
import itertools
import struct
from pathlib import Path
from typing import Any

import pytest
from building import message
from command import kafkafmt
from salvaging import NAME, data, findings, partition, salvaged

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.auditing.salvage_pieces import Batches, rising
from kafkafmt.log.reading.parts import Run
from kafkafmt.log.reading.plan import SegmentPlan


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


def test_command_reports_a_batch_that_no_index_can_hold_as_damage(tmp_path: Path) -> None:
    partition(tmp_path / "in", wrapper(0, 0), wrapper(0, 4, 1), wrapper(0, 8))
    done = kafkafmt("salvage", tmp_path / "in", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "lost     t-0: offsets 4 to 7 (4 records)" in done.stdout


@pytest.fixture
def plan_without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the plan of a segment with one that delivers every batch in file order, without any check."""

    def unchecked_plan(self: PartitionLog, segment: Any, see: Any = None, scratch: Any = None) -> SegmentPlan:
        self.stamps[segment.name] = None
        size = segment.path.stat().st_size
        return SegmentPlan(segment, size, [Run(0, size, 0, 99, 1, 1)], [], [])

    monkeypatch.setattr(PartitionLog, "plan", unchecked_plan)


@pytest.mark.parametrize(
    ("order", "kept"),
    [
        ((0, 5, 1, 2, 3), [0, 1, 2, 3]),
        ((3, 0, 1, 2, 4), [0, 1, 2, 4]),
        ((0, 2, 2, 3), [0, 2, 3]),
        ((4, 3, 2, 1, 0), [0]),
    ],
)
@pytest.mark.usefixtures("plan_without_checks")
def test_longest_chain_of_increasing_batches_is_kept(order: tuple[int, ...], kept: list[int], tmp_path: Path) -> None:
    from kafkafmt.log.auditing.salvage import salvage_partition

    partition(tmp_path / "in", *(data(i) for i in order))
    (directory,) = discover([tmp_path / "in"]).partitions
    (tmp_path / "out").mkdir()
    made = salvage_partition(PartitionLog(directory), [], tmp_path / "out")
    copied = (tmp_path / "out" / "t-0" / NAME).read_bytes()
    assert [copied[i : i + 8] for i in range(0, len(copied), len(data(0)))] == [struct.pack(">q", o) for o in kept]
    assert len(made.damaged) == len(order) - len(kept)


@pytest.mark.usefixtures("plan_without_checks")
def test_batch_that_has_become_invalid_is_omitted(tmp_path: Path) -> None:
    from kafkafmt.log.auditing.salvage import salvage_partition

    bad = bytearray(data(1))
    bad[65] ^= 1
    partition(tmp_path / "in", data(0), bytes(bad), data(2))
    (directory,) = discover([tmp_path / "in"]).partitions
    (tmp_path / "out").mkdir()
    made = salvage_partition(PartitionLog(directory), [], tmp_path / "out")
    assert [(d.first_offset, d.last_offset, d.code) for d in made.damaged] == [(1, 1, "corrupt_checksum")]
    assert (tmp_path / "out" / "t-0" / NAME).read_bytes() == data(0) + data(2)


def test_file_that_changed_during_salvage_is_an_input_error(tmp_path: Path) -> None:
    from kafkafmt.log.auditing.salvage import salvage_partition

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


def test_chain_of_many_contradicting_batches_is_found_in_linear_memory() -> None:
    n = 20_000
    firsts = [i if i % 3 else n * 2 - i for i in range(n)]
    chain = rising(Batches([], [], firsts, firsts))
    assert len(chain) == sum(1 for i in range(n) if i % 3)
    assert all(firsts[a] < firsts[b] for a, b in itertools.pairwise(chain))
