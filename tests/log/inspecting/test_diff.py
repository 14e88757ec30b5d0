"""Compare `kafkafmt.diff` with a model that compares lists of records."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from building import GZIP, NONE, ZSTD, batch, control_batch, message, record
from golden_cases import GOLDEN
from seeding import seeds
from transactional_logs import write_transactions

import kafkafmt
from kafkafmt.log.inspecting import diff_batches

Row = tuple[bytes, bytes]


@dataclass(frozen=True)
class Model:
    """A batch: the records by their offsets, and the fields of its header."""

    first: int
    last: int
    rows: dict[int, Row]
    codec: int = NONE
    epoch: int = 0
    producer: int = -1
    broken: bool = field(default=False)

    def built(self) -> bytes:
        records = [record(o - self.first, 0, *row) for o, row in sorted(self.rows.items())]
        made = bytearray(
            batch(
                records,
                base_offset=self.first,
                last_offset_delta=self.last - self.first,
                codec=self.codec,
                leader_epoch=self.epoch,
                producer_id=self.producer,
            )
        )
        if self.broken:
            made[-1] ^= 4
        return bytes(made)


def log_of(chance: Random, batches: int = 40) -> list[Model]:
    log, offset = [], chance.choice((0, 50))
    for _ in range(batches):
        n = chance.randrange(1, 6)
        rows = {offset + i: (b"k%d" % (offset + i), chance.randbytes(chance.choice((3, 300)))) for i in range(n)}
        log.append(Model(offset, offset + n - 1, rows))
        offset += n
    return log


def edited(chance: Random, log: list[Model]) -> list[Model]:
    """Return a copy of a log with one random change."""
    copy = list(log)
    i = chance.randrange(len(copy))
    b = copy[i]
    change = chance.randrange(9)
    if change == 0:
        copy[i] = replace(b, codec=chance.choice((GZIP, ZSTD)))
    elif change == 1:
        copy[i] = replace(b, producer=chance.randrange(5))
    elif change == 2:
        copy[i] = replace(b, epoch=b.epoch + 1)
    elif change == 3:
        offset = chance.choice(sorted(b.rows) or [b.first])
        copy[i] = replace(b, rows={**b.rows, offset: (b"changed", b"%d" % chance.randrange(9))})
    elif change == 4:
        copy[i] = replace(b, rows={o: r for o, r in b.rows.items() if chance.random() < 0.5})
    elif change == 5:
        end = min(i + chance.randrange(1, 4), len(copy))
        del copy[i:end]
    elif change == 6 and i + 1 < len(copy) and not (b.broken or copy[i + 1].broken):
        copy[i : i + 2] = [replace(b, last=copy[i + 1].last, rows={**b.rows, **copy[i + 1].rows})]
    elif change == 7 and len(b.rows) > 1:
        middle = sorted(b.rows)[1]
        parts = [{o: r for o, r in b.rows.items() if (o < middle) == low} for low in (True, False)]
        copy[i : i + 1] = [replace(b, last=middle - 1, rows=parts[0]), replace(b, first=middle, rows=parts[1])]
    elif change == 8:
        del copy[max(len(copy) - chance.randrange(1, 6), 1) :]
    return copy


def written(chance: Random, path: Path, log: list[Model]) -> Path:
    """Write a log with segments that begin at random batches."""
    (path / "t-0").mkdir(parents=True)
    starts = sorted({0, *(chance.randrange(len(log)) for _ in range(chance.choice((0, 1, 3))))})
    for start, end in zip(starts, [*starts[1:], len(log)], strict=True):
        file = path / "t-0" / f"{log[start].first:020}.log"
        file.write_bytes(b"".join(b.built() for b in log[start:end]))
    # gaps in the offsets are expected
    (path / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {log[-1].last}\n")
    return path


def rows_of(log: list[Model], low: int) -> dict[int, Row]:
    return {o: r for b in log for o, r in b.rows.items() if o >= low}


def reported(found: Any, kind: str, paths: tuple[str, ...], offsets: set[int]) -> set[int]:
    """Return those of the given offsets that are in a difference with this kind and these paths."""
    spans = [d for d in found.differences if d.kind == kind and d.paths == paths]
    return {o for o in offsets for d in spans if d.first_offset <= o <= d.last_offset}


@pytest.mark.parametrize("seed", seeds(20, range(80)))
def test_differences_equal_those_of_a_model(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    left = log_of(chance)
    right = left
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        right = edited(chance, right)
    if chance.random() < 0.3:
        left = edited(chance, left)
    a, b = written(chance, tmp_path / "a", left), written(chance, tmp_path / "b", right)
    low = max(left[0].first, right[0].first)
    mine, other = rows_of(left, low), rows_of(right, low)
    (found,) = kafkafmt.diff(a, b).partitions
    names = str(a), str(b)
    offsets = set(mine) | set(other)
    assert reported(found, "missing", names[:1], offsets) == set(mine) - set(other)
    assert reported(found, "missing", names[1:], offsets) == set(other) - set(mine)
    changed = {o for o in set(mine) & set(other) if mine[o] != other[o]}
    assert reported(found, "records_differ", names, offsets) == changed
    kept = [[m for m in log if m.last >= low] for log in (left, right)]
    assert (kept[0] == kept[1]) == all(d.kind == "log_start_differs" for d in found.differences)
    unequal = next(((x, y) for x, y in zip(left, right, strict=False) if x != y), None)
    if left[0].first == right[0].first and unequal is not None:
        first, last = min(m.first for m in unequal), max(m.last for m in unequal)
        assert found.first_difference is not None
        assert first <= found.first_difference <= last
    starts = {d.paths: (d.first_offset, d.last_offset) for d in found.differences if d.kind == "log_start_differs"}
    lower = names[:1] if left[0].first < right[0].first else names[1:]
    assert starts == ({} if left[0].first == right[0].first else {lower: (min(left[0].first, right[0].first), low - 1)})
    epochs = [{o: m.epoch for m in log for o in range(m.first, m.last + 1)} for log in (left, right)]
    whole = {m.first for m in left} & {m.first for m in right}
    if all(
        m in right or (m.first in whole and any((x.first, x.last) == (m.first, m.last) for x in right)) for m in left
    ):
        other_epoch = {o for o in epochs[0] if o >= low and o in epochs[1] and epochs[0][o] != epochs[1][o]}
        assert reported(found, "leader_epoch_differs", names, set(epochs[0])) == other_epoch
    only = kafkafmt.diff(a, b, records_only=True)
    assert only.equal == (mine == other and not any(d.kind == "missing" for d in found.differences))


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("kafka-*/*/log")), ids=lambda p: "-".join(p.parts[-3:-1]))
def test_copies_of_golden_logs_are_equal(path: Path, tmp_path: Path) -> None:
    logs = [path] if any(p.is_dir() and any(p.glob("*.log")) for p in path.iterdir()) else sorted(path.iterdir())
    for log in logs:
        copy = tmp_path / log.name
        shutil.copytree(log, copy)
        report = kafkafmt.diff(log, copy)
        assert report.partitions
        assert report.equal, report.to_dict()


def flipped(log: Path, position: int, bit: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 1 << bit
    log.write_bytes(data)


@pytest.mark.parametrize("seed", range(25))
def test_every_bit_flip_in_one_copy_is_found(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    a = written(chance, tmp_path / "a", log_of(chance))
    shutil.copytree(a, tmp_path / "b")
    if chance.random() < 0.5:  # other segments, so that the batches are compared
        logs = sorted((tmp_path / "b" / "t-0").glob("*.log"))
        whole = b"".join(f.read_bytes() for f in logs)
        for f in logs[1:]:
            f.unlink()
        logs[0].write_bytes(whole)
    assert kafkafmt.diff(a, tmp_path / "b", records_only=True).equal
    log = chance.choice(sorted((tmp_path / "b" / "t-0").glob("*.log")))
    position = chance.randrange(log.stat().st_size)
    flipped(log, position, chance.randrange(8))
    assert not kafkafmt.diff(a, tmp_path / "b").equal, (log, position)


def test_damage_is_not_reported_as_missing(tmp_path: Path) -> None:
    chance = Random(1)
    log = log_of(chance)
    a = written(Random(1), tmp_path / "a", log)
    b = written(Random(1), tmp_path / "b", [*log[:20], replace(log[20], broken=True), *log[21:]])
    report = kafkafmt.diff(a, b)
    (found,) = report.partitions
    assert [d.to_dict() for d in found.differences] == [
        {"kind": "damaged", "first_offset": log[20].first, "last_offset": log[20].last, "in": [str(b)]}
    ]
    assert (report.exit_code, found.first_difference) == (1, log[20].first)


def test_damage_inside_records_is_reported(tmp_path: Path) -> None:
    good = [batch([record(0, 0, b"k")], base_offset=o, codec=ZSTD) for o in range(3)]
    bad = [good[0], batch([record(0)], base_offset=1, codec=ZSTD, compressed=b"not zstd"), good[2]]
    a, b = (segment(tmp_path / name, *batches) for name, batches in (("a", good), ("b", bad)))
    (found,) = kafkafmt.diff(a, b).partitions
    assert [(d.kind, d.first_offset, d.last_offset, d.paths) for d in found.differences] == [
        ("damaged", 1, 1, (str(b),))
    ]


def segment(path: Path, *batches: bytes, base: int = 0, topic: str = "t-0") -> Path:
    (path / topic).mkdir(parents=True, exist_ok=True)
    (path / topic / f"{base:020}.log").write_bytes(b"".join(batches))
    return path


def test_three_copies_name_those_that_have_each_range(tmp_path: Path) -> None:
    """As after an unclean leader election: the third replica was not in sync, and wrote other records."""
    common = [batch([record(0, 0, b"%d" % o)], base_offset=o, leader_epoch=1) for o in range(5)]
    old = [batch([record(0, 0, b"old")], base_offset=o, leader_epoch=1) for o in range(5, 9)]
    new = [batch([record(0, 0, b"new")], base_offset=o, leader_epoch=2) for o in range(5, 7)]
    paths = [
        segment(tmp_path / "1", *common, *old),
        segment(tmp_path / "2", *common, *old[:3]),
        segment(tmp_path / "3", *common, *new),
    ]
    for path, epochs in zip(paths, ("1 0", "1 0", "1 0\n2 5"), strict=True):
        (path / "t-0" / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs.splitlines())}\n{epochs}\n")
    names = tuple(map(str, paths))
    report = kafkafmt.diff(paths)
    (found,) = report.partitions
    assert [(d.kind, d.first_offset, d.last_offset, d.paths) for d in found.differences] == [
        ("records_differ", 5, 6, (names[0], names[2])),
        ("leader_epoch_differs", 5, 6, (names[0], names[2])),
        ("leader_epoch_checkpoint_differs", 5, 6, (names[0], names[2])),
        ("missing", 7, 7, names[:2]),
        ("missing", 8, 8, names[:1]),
    ]
    assert (found.first_difference, found.paths, report.exit_code) == (5, names, 1)


def test_log_start_and_missing_partitions_are_reported(tmp_path: Path) -> None:
    batches = [batch([record(i) for i in range(4)], base_offset=4 * n) for n in range(5)]
    a, b = segment(tmp_path / "a", *batches), segment(tmp_path / "b", *batches[2:], base=8)
    segment(a, batch([record(0)]), topic="u-1")
    found = {f"{p.topic}-{p.partition}": p for p in kafkafmt.diff(a, b).partitions}
    assert [d.to_dict() for d in found["t-0"].differences] == [
        {"kind": "log_start_differs", "first_offset": 0, "last_offset": 7, "in": [str(a)]}
    ]
    assert [d.to_dict() for d in found["u-1"].differences] == [
        {"kind": "missing", "first_offset": 0, "last_offset": 0, "in": [str(a)]}
    ]
    (b / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    assert kafkafmt.diff(a, b, topics="t").partitions[0].differences[0].last_offset == 9
    assert kafkafmt.diff(a, b, topics="t", records_only=True).equal


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_transaction_indexes_are_compared(tmp_path: Path) -> None:
    for seed in range(20):
        path = write_transactions(tmp_path / f"{seed}", Random(seed))
        indexes = [f for f in sorted(path.glob("*.txnindex")) if f.stat().st_size]
        if indexes:
            break
    shutil.copytree(path.parent, tmp_path / "copy")
    copy = tmp_path / "copy" / "t-0" / indexes[0].name
    first, last = struct.unpack_from(">qq", copy.read_bytes(), 10)
    copy.write_bytes(copy.read_bytes()[34:])
    (found,) = kafkafmt.diff(path.parent, tmp_path / "copy").partitions
    assert [d.to_dict() for d in found.differences] == [
        {"kind": "transactions_differ", "first_offset": first, "last_offset": last, "in": [str(path.parent)]}
    ]


def test_markers_and_old_messages_are_compared(tmp_path: Path) -> None:
    a = segment(tmp_path / "a", message(1, b"k", b"v"), control_batch(1, base_offset=1))
    b = segment(tmp_path / "b", message(1, b"k", b"w"), control_batch(0, base_offset=1))
    (found,) = kafkafmt.diff(a, b).partitions
    assert [(d.kind, d.first_offset, d.last_offset) for d in found.differences] == [("records_differ", 0, 1)]


@pytest.mark.parametrize("case", ["0.8.2.2-codecs", "0.10.2.2-codecs"])
def test_wrapper_messages_with_the_same_records_are_equal(tmp_path: Path, case: str) -> None:
    for log in (GOLDEN / "legacy" / case / "log").glob("*/*.log"):
        a, b = (segment(tmp_path / log.parent.name / name, log.read_bytes()) for name in "ab")
        flipped(b / "t-0" / f"{0:020}.log", log.stat().st_size - 1, 0)
        (found,) = kafkafmt.diff(a, b).partitions
        assert {d.kind for d in found.differences} <= {"damaged", "missing"}
        assert not found.equal


def test_batches_that_are_damaged_at_the_end_of_a_copy_are_not_missing(tmp_path: Path) -> None:
    """The last batch of the first copy is damaged, but the last batch of the second copy is valid."""
    batches = [batch([record(0)], base_offset=i) for i in range(60)]
    damaged = [b[:-1] + bytes([b[-1] ^ 1]) for b in batches]
    copies = []
    for i, remainder in ((2, 1), (3, 0)):
        path = tmp_path / str(i) / "t-0"
        path.mkdir(parents=True)
        parts = [damaged[n] if n % i == remainder else b for n, b in enumerate(batches)]
        (path / f"{0:020}.log").write_bytes(b"".join(parts))
        copies.append(path)
    (found,) = kafkafmt.diff(*copies).partitions
    assert {difference.kind for difference in found.differences} == {"damaged"}
    assert len(found.differences) == 30 + 20 - 10  # ten batches are damaged in both copies


def test_many_differences_are_joined_into_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_batches, "MOST_SPANS", 3)
    whole = [batch([record(i) for i in range(2)], base_offset=2 * n) for n in range(20)]
    half = [batch([record(0)], base_offset=2 * n, last_offset_delta=1) for n in range(20)]
    report = kafkafmt.diff(segment(tmp_path / "a", *whole), segment(tmp_path / "b", *half))
    spans = [(d.first_offset, d.last_offset) for d in report.partitions[0].differences]
    assert spans == [(1, 1), (3, 3), (5, 39)]
    assert "more than" in report.messages[-1]


def test_unreadable_copy_is_reported_and_others_are_compared(tmp_path: Path) -> None:
    a, b = (segment(tmp_path / name, batch([record(0)])) for name in "ab")
    for path in (a, b):
        segment(path, batch([record(0)]), topic="u-0")
    (b / "u-0" / f"{0:020}.log").unlink()
    (b / "u-0" / f"{0:020}.log").symlink_to("missing")
    report = kafkafmt.diff(a, b)
    assert (report.exit_code, report.equal, [p.topic for p in report.partitions]) == (3, False, ["t"])
    assert [(u.topic, u.path) for u in report.unreadable] == [("u", str(b / "u-0"))]


def test_diff_with_iterators_selects_the_same_partitions_in_all_copies(tmp_path: Path) -> None:
    for copy in ("a", "b"):
        for name in ("t-0", "t-1", "u-0"):
            (tmp_path / copy / name).mkdir(parents=True)
            (tmp_path / copy / name / f"{0:020}.log").write_bytes(batch([record(0)]))
    report = kafkafmt.diff(tmp_path / "a", tmp_path / "b", topics=iter(["t"]), partitions=iter([1]))
    assert [(p.topic, p.partition, p.equal) for p in report.partitions] == [("t", 1, True)]


def test_wrong_arguments_of_diff_are_refused(tmp_path: Path) -> None:
    path = segment(tmp_path / "a", batch([record(0)]))
    with pytest.raises(ValueError, match="at least two copies"):
        kafkafmt.diff(path)
    with pytest.raises(TypeError, match="not 1"):
        kafkafmt.diff(path, 1)  # type: ignore[arg-type]
    with pytest.raises(kafkafmt.PartitionNotFoundError):
        kafkafmt.diff(path, path, topics="other")
    assert kafkafmt.diff(path, path).equal
    assert kafkafmt.diff(str(tmp_path / "?"), path).equal
