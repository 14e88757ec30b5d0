"""Test following a log while it grows, rolls segments, is truncated, and is shortened by retention."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Unpack

import pytest
from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, record
from hypothesis import given, settings
from hypothesis import strategies as st
from selecting import selection

from kafkafmt.log import DamagedLogError, discover
from kafkafmt.log.findings.models import Damage
from kafkafmt.log.reading.follow import Follower
from kafkafmt.view.selection_arguments import SelectionArguments


def some(base: int, n: int = 2, **fields: object) -> bytes:
    return batch([record(i, i, value=b"value %d" % (base + i)) for i in range(n)], base_offset=base, **fields)  # type: ignore[arg-type]


class Partition:
    """Write and follow a partition directory. `read()` returns the new offsets."""

    def __init__(self, path: Path, *batches: bytes, **arguments: Unpack[SelectionArguments]) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.messages: list[str] = []
        self.damaged: list[Damage] = []
        self.append(*batches)
        (directory,) = discover([path]).partitions
        self.follower = Follower(directory, [path], selection(**arguments), tell=self.messages.append)

    def segment(self, base: int = 0) -> Path:
        return self.path / f"{base:020}.log"

    def append(self, *data: bytes, base: int = 0) -> None:
        with self.segment(base).open("ab") as file:
            file.write(b"".join(data))

    def read(self) -> list[int]:
        self.follower.check(always=True)
        return [r.offset for r in self.follower.records(self.damaged.append)]


def test_follow_delivers_existing_and_appended_batches_once(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(0), some(2))
    assert p.read() == [0, 1, 2, 3]
    assert p.read() == []
    whole = some(4) + some(6)
    p.append(whole[:100])
    assert p.read() == [4, 5]
    p.append(whole[100:-1])
    assert p.read() == []
    p.append(whole[-1:])
    assert p.read() == [6, 7]
    p.append(some(8, 1), base=8)  # a new segment
    assert p.read() == [8]
    p.append(some(9), some(11), base=8)
    p.append(some(13), base=13)
    p.append(some(15), base=15)
    assert p.read() == list(range(9, 17))
    assert (p.messages, p.damaged) == ([], [])


def test_follow_starts_at_an_offset_also_in_an_empty_partition(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(0), some(2), start=3)
    assert p.read() == [3]
    p = Partition(tmp_path / "u-0", start=1)
    assert p.read() == []
    p.append(some(0), some(2))
    assert p.read() == [1, 2, 3]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 4), max_size=8),
    st.lists(st.integers(0, 900), max_size=12),
    st.sets(st.integers(0, 8)),
    st.booleans(),
)
def test_each_record_is_delivered_once_however_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], cuts: list[int], rolls: set[int], preallocated: bool
) -> None:
    """Batches are written in parts, and the log is read after each part.

    Some batches start a new segment, and some files are preallocated with zeros.
    """
    p = Partition(tmp_path_factory.mktemp("log") / "t-0", b"")
    base = at = 0
    segment = 0
    writes: list[tuple[int, int, bytes]] = []
    for i, n in enumerate(counts):
        if i in rolls and base > segment:
            segment, at = base, 0
        data = some(base, n)
        borders = sorted({0, len(data), *(c for c in cuts if c < len(data))})
        writes += [(segment, at + a, data[a:b]) for a, b in itertools.pairwise(borders)]
        base, at = base + n, at + len(data)
    found = []
    for segment, position, data in writes:
        path = p.segment(segment)
        if not path.exists():
            path.write_bytes(bytes(5000) if preallocated else b"")
        with path.open("r+b") as file:
            file.seek(position)
            file.write(data)
        found += p.read()
    assert found + p.read() == list(range(base))
    assert (p.messages, p.damaged) == ([], [])


def test_read_committed_follows_the_last_stable_offset(tmp_path: Path) -> None:
    one = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "flags": TRANSACTIONAL}
    two = one | {"producer_id": 2}
    p = Partition(tmp_path / "t-0", some(0), some(2, **one), isolation="read_committed")
    assert p.read() == [0, 1]
    p.append(some(4), some(6, **two))
    assert p.read() == []
    p.append(control_batch(ABORT, base_offset=8, producer_id=1, producer_epoch=0))
    assert p.read() == [4, 5]
    p.append(some(9), base=9)
    p.append(control_batch(COMMIT, base_offset=11, producer_id=2, producer_epoch=0), base=9)
    assert p.read() == [6, 7, 9, 10]
    p.append(some(12, **one), base=9)
    assert p.read() == []
    p.append(control_batch(COMMIT, base_offset=14, producer_id=1, producer_epoch=0), some(15), base=9)
    assert p.read() == [12, 13, 15, 16]


def test_follow_reports_damage_once_the_log_continues_after_it(tmp_path: Path) -> None:
    damaged_batch = bytearray(some(2))
    damaged_batch[-3] ^= 1
    p = Partition(tmp_path / "t-0", some(0))
    assert p.read() == [0, 1]
    p.append(bytes(damaged_batch))
    assert p.read() == []
    p.append(some(4))
    assert p.read() + p.read() == [4, 5]
    assert [(d.first_offset, d.last_offset) for d in p.damaged] == [(2, 3)]
    p.append(some(6))
    assert p.read() == [6, 7]
    assert len(p.damaged) == 1


def test_follow_reports_damage_at_a_segment_end_with_the_next_segment(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(0))
    assert p.read() == [0, 1]
    p.append(some(2)[:-5])
    assert p.read() == []
    p.append(some(4), base=4)
    p.follower.check(always=True)
    with pytest.raises(DamagedLogError, match="offsets 2 to 3"):
        list(p.follower.records())
    assert p.read() == [4, 5]
    assert [(d.first_offset, d.last_offset) for d in p.damaged] == [(2, 3)]


def test_batch_written_after_higher_offsets_is_reported(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(4, 1))
    assert p.read() == [4]
    p.append(some(0, 4), some(5, 1))
    assert [o for _ in range(3) for o in p.read()] == [5]
    assert p.messages == [
        "t-0: offsets 0 to 3 cannot be delivered while following, because higher offsets were written first"
    ]
    assert p.read() == []
    assert len(p.messages) == 1


def test_follow_reports_truncation_and_continues(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(0), some(2), some(4))
    assert p.read() == list(range(6))
    p.segment().write_bytes(some(0) + some(2, 1))
    assert p.read() == []
    assert p.messages == ["t-0: the log was truncated: it ended at offset 6, and now ends at 3"]
    p.append(some(3))
    assert p.read() == [3, 4]


def test_follow_survives_retention_before_and_after_its_position(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(0))
    p.append(some(2), base=2)
    p.append(some(4), base=4)
    p.segment(0).unlink()
    assert p.read() == [2, 3, 4, 5]
    assert p.messages == ["t-0: retention removed offsets 0 to 1 before they were read"]
    p.append(some(6), base=6)
    p.segment(2).unlink()
    p.segment(4).unlink()
    assert p.read() == [6, 7]
    assert len(p.messages) == 1


def test_follow_ends_if_the_partition_is_deleted(tmp_path: Path) -> None:
    p = Partition(tmp_path / "t-0", some(0))
    assert p.read() == [0, 1]
    shutil.move(p.path, tmp_path / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert p.read() == []
    assert p.follower.gone
    assert len(p.messages) == 1


def test_unchanged_directory_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p = Partition(tmp_path / "t-0", some(0))
    assert p.read() == [0, 1]
    monkeypatch.setattr("kafkafmt.log.reading.follow.discover", None)
    p.follower.check()
    assert list(p.follower.records()) == []


@pytest.mark.parametrize(
    "fields", [{"last_offset_delta": -5}, {"base": 2**63 - 1, "n": 1}, {"base": 2**63 - 3}], ids=str
)
def test_impossible_offsets_are_damage_while_following(tmp_path: Path, fields: dict[str, int]) -> None:
    base = fields.get("base", 2)
    p = Partition(tmp_path / "t-0", some(0))
    assert p.read() == [0, 1]
    p.append(some(base, fields.get("n", 2), last_offset_delta=fields.get("last_offset_delta", 9)))
    p.append(some(4), some(6))
    assert p.read() + p.read() == [4, 5, 6, 7]
    assert [d.position for d in p.damaged] == [len(some(0))]
