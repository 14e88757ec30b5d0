"""Test `salvage(replicas="merge")`: each range of offsets is taken from a replica in which it is valid.

The property test derives replicas from one true log: by lag, retention, damage, compaction, other
batch boundaries, and divergent ends of earlier leader epochs.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import struct
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from building import batch as raw_batch
from building import record, split
from command import kafkafmt
from golden_cases import case
from hypothesis import given, settings
from hypothesis import strategies as st
from salvaging import abort, data, partition, rows_in

import kafkafmt as k
from kafkafmt.log import PartitionLog
from kafkafmt.log.verifying.verify_api import verify_partition

FIRST = 1_700_000_000_000
Row = tuple[int, int, bytes]
"""Offset, leader epoch and value of a record."""


def write_log(root: Path, segments: Iterable[list[bytes]], epochs: list[tuple[int, int]] | None = None) -> Path:
    """Write partition t-0 in a log directory. Each list of batches becomes a segment."""
    folder = root / "t-0"
    folder.mkdir(parents=True)
    for batches in segments:
        base = next(k.iter_batches(batches[0], check_crc=False)).base_offset
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    if epochs is not None:
        lines = [f"{epoch} {offset}\n" for epoch, offset in epochs]
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
    return root


def batch_of(rows: list[Row], **options: Any) -> bytes:
    start = -1 if options.get("magic") == 0 else FIRST
    records = [(b"key", value, start + offset if start >= 0 else -1, None, offset) for offset, _, value in rows]
    return k.build_batch(records, **{"leader_epoch": rows[0][1], **options})


def batch(first: int, count: int, epoch: int = 0, tag: str = "", **options: Any) -> bytes:
    return batch_of([(first + i, epoch, f"{tag}{first + i}".encode()) for i in range(count)], **options)


def damaged(made: bytes) -> bytes:
    return made[:-3] + bytes([made[-3] ^ 1]) + made[-2:]


def merge(paths: list[Path], output: Path, **options: Any) -> k.reports.SalvageReport:
    return k.salvage(paths, output, replicas="merge", **options)


def values(path: Path) -> list[tuple[int, bytes | None]]:
    return [(r.offset, r.value) for r in k.open(path)["t", 0]]


def batches_in(root: Path) -> list[tuple[int, int, bytes]]:
    """Return the first offset, the last offset and the bytes of each batch, including damaged ones."""
    found = []
    for path in (root / "t-0").glob("*.log"):
        data, at = path.read_bytes(), 0
        while at < len(data):
            first, length = struct.unpack_from(">qi", data, at)
            found.append((first, first + struct.unpack_from(">i", data, at + 23)[0], data[at : at + 12 + length]))
            at += 12 + length
    return found


def sources(report: k.reports.SalvageReport) -> list[tuple[str, int, int]]:
    """Return the name of the log directory, and the first and last offset of each source range."""
    (partition,) = report.partitions
    assert partition.sources is not None
    return [(Path(s.path).parent.name, s.first_offset, s.last_offset) for s in partition.sources]


def lost(report: k.reports.SalvageReport) -> list[tuple[int | None, int | None]]:
    return [(d.first_offset, d.last_offset) for d in report.partitions[0].source.damaged]


@dataclass
class Model:
    """A replica and what it may contribute.

    Attributes
    ----------
    valid : dict
        The values of the readable records that are part of the true log, by offset.
    """

    path: Path
    valid: dict[int, bytes] = field(default_factory=dict)


def true_log(random: Random) -> list[Row]:
    epoch, rows = random.randrange(3), list[Row]()
    for offset in range(random.randrange(1, 60)):
        if random.random() < 0.08:
            epoch += random.randrange(1, 4)
        rows.append((offset, epoch, b"true %d" % offset))
    return rows


def divergent_end(random: Random, rows: list[Row], following: list[Row]) -> list[Row]:
    """Return records that a leader of an earlier epoch wrote after `rows`, and that the true log does not have."""
    if not rows or not following or following[0][1] == rows[-1][1]:
        return []
    epoch = random.randrange(rows[-1][1], following[0][1])
    return [(len(rows) + i, epoch, b"divergent %d" % i) for i in range(random.randrange(20))]


def replica(random: Random, root: Path, truth: list[Row], cuts: set[int], full: bool) -> Model:
    """Write a replica of the true log.

    `cuts` contains the offsets at which batches of most replicas begin. If `full` is true, the
    replica has all records.
    """
    n = len(truth) if full else random.choice([len(truth), random.randrange(len(truth) + 1)])
    if random.random() < 0.5:  # batches can only be truncated as a whole
        n = max((c for c in cuts if c <= n), default=0)
        n = len(truth) if full else n
    prefix = truth[:n]
    rows = prefix + divergent_end(random, prefix, truth[n:])
    own = cuts if random.random() < 0.7 else {i for i in range(len(truth)) if random.random() < 0.3}
    starts = [i for i in range(len(rows)) if i in {0, n} or (i in own and i < n) or rows[i][1] != rows[i - 1][1]]
    compacted = random.random() < 0.3
    model = Model(root)
    segments: list[list[bytes]] = []
    chance = random.choice([0.0, 0.2, 0.6])
    skipped = random.choice([0, 0, 0, len(starts) // 2])
    for start, end in itertools.pairwise([*starts[skipped:], len(rows)]):
        kept = [row for row in rows[start:end] if not compacted or random.random() < 0.8]
        if not kept:
            continue
        made = batch_of(kept, codec=random.choice(["none", "zstd"]))
        if random.random() < chance:
            made = damaged(made)
        elif start < n:
            model.valid |= {offset: value for offset, _, value in kept}
        if not segments or random.random() < 0.3:
            segments.append([])
        segments[-1].append(made)
    epochs: list[tuple[int, int]] = []
    for offset, epoch, _ in rows:
        if not epochs or epoch > epochs[-1][0]:
            epochs.append((epoch, offset))
    write_log(root, segments, epochs)
    if not segments:
        (root / "t-0" / f"{0:020}.log").touch()
    if compacted:
        (root / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {len(rows)}\n")
    return model


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 48))
def test_merge_contains_whole_batches_with_at_least_the_records_of_each_replica(seed: int) -> None:
    random = Random(seed)
    truth = true_log(random)
    cuts = {0, *(i for i in range(len(truth)) if random.random() < 0.3 or truth[i][1] != truth[i - 1][1])}
    root = Path(tempfile.mkdtemp())
    try:
        models = [
            replica(random, root / f"broker-{i}", truth, cuts, full=i == 0) for i in range(random.randrange(1, 4))
        ]
        random.shuffle(models)
        report = merge([m.path for m in models], root / "merged")
        expected = {offset: value for m in models for offset, value in m.valid.items()}
        copied = dict(values(root / "merged"))
        assert copied.items() <= expected.items()
        assert len(copied) >= max(len(m.valid) for m in models)
        chosen, own = batches_in(root / "merged"), [batch for m in models for batch in batches_in(m.path)]
        assert set(chosen) <= set(own)
        missing = [o for o in expected if not any(first <= o <= last for first, last, _ in chosen)]
        assert all(any((a or 0) <= o and (b is None or o <= b) for a, b in lost(report)) for o in missing)
        check_copy(root, report, copied)
    finally:
        shutil.rmtree(root)


def check_copy(root: Path, report: k.reports.SalvageReport, expected: Mapping[int, bytes | None]) -> None:
    """Check that a merged log is valid, that its report agrees with it, and that salvage does not change it."""
    offsets = [offset for offset, _ in values(root / "merged")]
    assert offsets == sorted(set(offsets))
    verified = k.verify(root / "merged")
    assert verified.ok
    assert not any(p.findings for p in verified.partitions)
    ranges = list(report.partitions[0].sources or ())
    assert all(a.last_offset < b.first_offset for a, b in itertools.pairwise(ranges))
    assert all(any(r.first_offset <= offset <= r.last_offset for r in ranges) for offset in offsets)
    for first, last in lost(report):
        assert not [o for o in expected if (first or 0) <= o and (last is None or o <= last)]
    for i, replicas in enumerate((None, "merge")):
        k.salvage(root / "merged", root / f"again-{i}", replicas=replicas)
        for log in (root / "merged" / "t-0").glob("*"):
            assert (root / f"again-{i}" / "t-0" / log.name).read_bytes() == log.read_bytes(), log.name


def test_damaged_range_comes_from_the_other_replica(tmp_path: Path) -> None:
    batches = [batch(5 * i, 5) for i in range(4)]
    a = write_log(tmp_path / "a", [[batches[0], damaged(batches[1]), *batches[2:]]])
    b = write_log(tmp_path / "b", [[*batches[:2], damaged(batches[2]), batches[3]]])
    report = merge([a, b], tmp_path / "out")
    assert report.ok
    assert sources(report) == [("a", 0, 4), ("b", 5, 9), ("a", 10, 19)]
    assert (tmp_path / "out/t-0" / f"{0:020}.log").read_bytes() == b"".join(batches)
    assert report.to_dict()["partitions"][0]["sources"][1] == {
        "path": str(b / "t-0"),
        "first_offset": 5,
        "last_offset": 9,
    }


def flipped(made: bytes, position: int, bit: int = 6) -> bytes:
    return made[:position] + bytes([made[position] ^ 1 << bit]) + made[position + 1 :]


def test_batch_with_a_corrupted_offset_is_not_copied_twice(tmp_path: Path) -> None:
    batches = [batch(first, 3) for first in range(100, 118, 3)]
    a = write_log(tmp_path / "a", [[*batches[:-1], flipped(batches[-1], 5)]])
    b = write_log(tmp_path / "b", [batches])
    report = merge([a, b], tmp_path / "out")
    assert values(tmp_path / "out") == [(i, b"%d" % i) for i in range(100, 118)]
    assert sources(report) == [("a", 100, 114), ("b", 115, 117)]
    assert (report.exit_code, report.partitions[0].next_offset) == (0, 118)


def test_offset_is_corrected_if_the_high_watermark_proves_it(tmp_path: Path) -> None:
    """The batch is damaged in the other replica, which therefore cannot prove the offset."""
    batches = [batch(first, 3) for first in range(100, 118, 3)]
    a = write_log(tmp_path / "a", [[*batches[:-1], flipped(batches[-1], 5)]])
    b = write_log(tmp_path / "b", [[*batches[:-1], damaged(batches[-1])]])
    for root in (a, b):
        (root / "replication-offset-checkpoint").write_text("0\n1\nt 0 118\n")
    merge([a, b], tmp_path / "out")
    assert (tmp_path / "out/t-0" / f"{100:020}.log").read_bytes() == b"".join(batches)


def test_offset_after_damage_is_kept_if_the_high_watermark_is_old(tmp_path: Path) -> None:
    batches = [batch(first, 3) for first in range(100, 112, 3)]
    a = write_log(tmp_path / "a", [[*batches[:2], damaged(batches[2]), batches[3]]])
    b = write_log(tmp_path / "b", [batches[:2]])
    (a / "replication-offset-checkpoint").write_text("0\n1\nt 0 109\n")
    merge([a, b], tmp_path / "out")
    assert [offset for offset, _ in values(tmp_path / "out")] == [*range(100, 106), *range(109, 112)]


def test_equal_batches_of_one_log_keep_their_offsets(tmp_path: Path) -> None:
    equal = [k.build_batch([(b"key", b"value", FIRST)], base_offset=offset) for offset in range(4)]
    a = write_log(tmp_path / "a", [[equal[0], damaged(equal[1]), *equal[2:]]])
    b = write_log(tmp_path / "b", [[equal[0], equal[1], damaged(equal[2])]])
    merge([a, b], tmp_path / "out")
    assert values(tmp_path / "out") == [(i, b"value") for i in range(4)]


@pytest.mark.parametrize("seed", range(45))
def test_merge_ignores_corruption_that_the_crc_does_not_cover(seed: int, tmp_path: Path) -> None:
    """Bits are flipped in base offsets, lengths and leader epochs. Each batch is intact in one replica at least."""
    random = Random(seed)
    firsts = [100, *itertools.accumulate((random.randrange(1, 5) for _ in range(random.randrange(3, 9))), initial=103)]
    batches = [batch(first, end - first, 2) for first, end in itertools.pairwise(firsts)]
    replicas = [list(batches) for _ in range(random.randrange(2, 4))]
    second = random.randrange(1, len(batches))
    for i in {len(batches) - 1, *random.choices(range(len(batches)), k=2)}:
        for own in random.sample(replicas, len(replicas) - 1):
            for _ in range(random.randrange(1, 3)):
                own[i] = flipped(own[i], random.choice([*range(8), *range(16)]), random.randrange(8))
    for i, own in enumerate(replicas):
        folder = tmp_path / f"{i}" / "t-0"
        folder.mkdir(parents=True)
        for first, part in ((100, own[:second]), (firsts[second], own[second:])):
            (folder / f"{first:020}.log").write_bytes(b"".join(part))
    report = merge([tmp_path / f"{i}" for i in range(len(replicas))], tmp_path / "out")
    assert values(tmp_path / "out") == [(i, b"%d" % i) for i in range(100, firsts[-1])]
    assert report.ok


@pytest.mark.parametrize(("deltas", "last"), [([0, 1, 2], 0), ([2, 1, 0], 3)])
def test_batch_with_odd_record_offsets_is_copied_whole(deltas: list[int], last: int, tmp_path: Path) -> None:
    """The other replica has another version of the batch, as if compaction had removed records from it."""
    odd = raw_batch([record(d, value=b"%d" % d) for d in deltas], base_offset=10, last_offset_delta=last)
    other = raw_batch([record(last, value=b"%d" % last)], base_offset=10, last_offset_delta=last)
    a = write_log(tmp_path / "a", [[odd]])
    b = write_log(tmp_path / "b", [[other]])
    merge([a, b], tmp_path / "out")
    assert (tmp_path / "out/t-0" / f"{10:020}.log").read_bytes() == odd


def test_offsets_before_the_first_batch_are_lost_only_if_a_replica_is_damaged_there(tmp_path: Path) -> None:
    batches = [batch(5 * i, 5) for i in range(4)]
    for root in ("a", "b", "c"):
        write_log(tmp_path / root, [batches])
        (tmp_path / root / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches[1:]))
    assert k.verify(tmp_path / "a").exit_code == 0
    report = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert (lost(report), report.exit_code) == ([], 0)
    (tmp_path / "c" / "t-0" / f"{0:020}.log").write_bytes(damaged(batches[0]) + b"".join(batches[1:]))
    report = merge([tmp_path / "a", tmp_path / "c"], tmp_path / "out-c")
    assert (lost(report), report.exit_code) == ([(0, 4)], 1)


def test_range_that_is_damaged_in_all_replicas_is_lost(tmp_path: Path) -> None:
    batches = [batch(5 * i, 5) for i in range(4)]
    a = write_log(tmp_path / "a", [[batches[0], damaged(batches[1]), *batches[2:]]])
    b = write_log(tmp_path / "b", [[batches[0], damaged(batches[1]), damaged(batches[2]), batches[3]]])
    report = merge([a, b], tmp_path / "out")
    assert (report.ok, report.exit_code) == (False, 1)
    assert lost(report) == [(5, 9)]
    assert [d.code for d in report.partitions[0].source.damaged] == ["valid_in_no_replica"]
    assert [d.position for d in report.partitions[0].source.damaged] == [len(batches[0])]
    stopped = merge([a, b], tmp_path / "stopped", stop_at_first=True)
    assert sources(stopped) == [("a", 0, 4)]


@pytest.mark.parametrize("b_bytes", [0, 1])
def test_damaged_end_is_lost_if_no_replica_has_as_many_bytes(tmp_path: Path, b_bytes: int) -> None:
    batches = [batch(5 * i, 5) for i in range(3)]
    a = write_log(tmp_path / "a", [[batches[0], damaged(batches[1]), damaged(batches[2])]])
    b = write_log(tmp_path / "b", [batches[: 2 + b_bytes]])
    report = merge([a, b], tmp_path / "out")
    assert lost(report) == ([] if b_bytes else [(10, None)])
    assert report.exit_code == 1 - b_bytes


def test_batches_of_a_higher_leader_epoch_replace_divergent_ones(tmp_path: Path) -> None:
    shared = [batch(0, 5, 0), batch(5, 5, 0)]
    a = write_log(tmp_path / "a", [[*shared, batch(10, 9, 0, "old "), batch(19, 30, 1, "older ")]], [(0, 0), (1, 19)])
    b = write_log(tmp_path / "b", [[damaged(shared[0]), shared[1], batch(10, 5, 2)]], [(0, 0), (2, 10)])
    report = merge([a, b], tmp_path / "out")
    assert values(tmp_path / "out") == [(i, b"%d" % i) for i in range(15)]
    assert sources(report) == [("a", 0, 4), ("b", 5, 14)]
    assert [(s.first_offset, s.last_offset) for s in report.partitions[0].diverged] == [(10, 48)]
    assert (tmp_path / "out/t-0/leader-epoch-checkpoint").read_text().split() == ["0", "2", "0", "0", "2", "10"]
    assert report.ok


def test_epoch_after_damage_starts_before_it_if_no_checkpoint_exists(tmp_path: Path) -> None:
    """Without a checkpoint, the damaged batches may already belong to the later epoch."""
    a = write_log(tmp_path / "a", [[batch(0, 5, 0), damaged(batch(5, 5, 1)), batch(10, 5, 1)]])
    b = write_log(tmp_path / "b", [[batch(0, 5, 0), batch(5, 5, 0, "divergent ")]])
    report = merge([a, b], tmp_path / "out")
    assert lost(report) == [(5, 9)]
    c = write_log(tmp_path / "c", [[batch(0, 5, 0), batch(5, 5, 0)]], [(0, 0)])
    known = write_log(tmp_path / "known", [[batch(10, 5, 1)]], [(1, 10)])
    assert merge([a, c, known], tmp_path / "again").ok


def test_corrupted_leader_epoch_does_not_make_a_replica_the_leader(tmp_path: Path) -> None:
    batches = [batch(5 * i, 5, 3) for i in range(4)]
    wrong = batches[2][:12] + (77).to_bytes(4, "big") + batches[2][16:]
    a = write_log(tmp_path / "a", [[*batches[:2], wrong]])
    b = write_log(tmp_path / "b", [batches])
    report = merge([a, b], tmp_path / "out")
    assert report.partitions[0].next_offset == 20
    assert sources(report) == [("b", 0, 19)]


@pytest.mark.parametrize("wrong", [0, 77])
def test_batch_with_a_corrupted_leader_epoch_is_replaced(tmp_path: Path, wrong: int) -> None:
    batches = [batch(5 * i, 5, 3) for i in range(4)]
    corrupted = batches[1][:12] + wrong.to_bytes(4, "big") + batches[1][16:]
    a = write_log(tmp_path / "a", [[batches[0], corrupted, *batches[2:]]], [(3, 0)])
    b = write_log(tmp_path / "b", [batches], [(3, 0)])
    report = merge([a, b], tmp_path / "out")
    assert sources(report) == [("a", 0, 4), ("b", 5, 9), ("a", 10, 19)]
    assert (tmp_path / "out/t-0" / f"{0:020}.log").read_bytes() == b"".join(batches)


def test_records_that_compaction_removed_in_one_replica_are_kept(tmp_path: Path) -> None:
    rows = [(i, 0, b"%d" % i) for i in range(20)]
    a = write_log(tmp_path / "a", [[batch_of([rows[0], rows[4]]), batch_of(rows[10:15]), batch_of(rows[15:])]])
    b = write_log(tmp_path / "b", [[batch_of(rows[:5]), batch_of(rows[5:10]), batch_of([rows[10], rows[14]])]])
    for root in (a, b):
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 15\n")
    report = merge([a, b], tmp_path / "out")
    assert [offset for offset, _ in values(tmp_path / "out")] == list(range(20))
    assert sources(report) == [("b", 0, 9), ("a", 10, 19)]
    assert report.ok


def test_overlapping_batches_are_taken_whole(tmp_path: Path) -> None:
    long = batch(5, 15, codec="gzip")
    a = write_log(tmp_path / "a", [[batch(0, 10), damaged(batch(10, 10)), batch(20, 5)]])
    b = write_log(tmp_path / "b", [[damaged(batch(0, 5)), long]])
    report = merge([a, b], tmp_path / "out")
    (copy,) = (tmp_path / "out/t-0").glob("*.log")
    assert copy.read_bytes() == long + batch(20, 5)
    assert sources(report) == [("b", 5, 19), ("a", 20, 24)]
    assert lost(report) == [(0, 4)]


def test_leader_is_preferred_if_overlapping_batches_have_equally_many_records(tmp_path: Path) -> None:
    a = write_log(tmp_path / "a", [[batch(0, 10), batch(10, 10)]])
    b = write_log(tmp_path / "b", [[batch(0, 5), batch(5, 15)]])
    assert sources(merge([b, a], tmp_path / "out")) == [("a", 0, 19)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_replica_of_an_older_format_fills_damaged_ranges(tmp_path: Path, magic: int, codec: str) -> None:
    new = [batch(5 * i, 5) for i in range(4)]
    old = [batch(0, 7, magic=magic, codec=codec), batch(7, 13, magic=magic, codec=codec)]
    a = write_log(tmp_path / "a", [[new[0], damaged(new[1]), *new[2:]]], [(0, 0)])
    b = write_log(tmp_path / "b", [old])
    report = merge([a, b], tmp_path / "out")
    assert values(tmp_path / "out") == [(i, b"%d" % i) for i in range(20)]
    assert report.ok
    assert k.verify(tmp_path / "out").ok


def test_older_segments_come_from_the_replica_that_still_has_them(tmp_path: Path) -> None:
    batches = [batch(5 * i, 5) for i in range(4)]
    a = write_log(tmp_path / "a", [batches[2:3], batches[3:]], [(0, 10)])
    b = write_log(tmp_path / "b", [batches[:1], batches[1:2], batches[2:3]], [(0, 0)])
    assert merge([a, b], tmp_path / "out").partitions[0].source.log_start_offset == 0
    names = sorted(p.name for p in (tmp_path / "out/t-0").glob("*.log"))
    assert names == [f"{base:020}.log" for base in (0, 5, 10, 15)]
    (a / "log-start-offset-checkpoint").write_text("0\n1\nt 0 12\n")
    report = merge([a, b], tmp_path / "again")
    assert report.partitions[0].source.log_start_offset == 12
    assert [offset for offset, _ in values(tmp_path / "again")] == list(range(12, 20))


def test_replicas_with_different_topic_ids_are_refused(tmp_path: Path) -> None:
    roots = [write_log(tmp_path / name, [[batch(0, 5)]]) for name in ("a", "b")]
    for root, topic_id in zip(roots, ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"), strict=True):
        (root / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    report = merge(roots, tmp_path / "out")
    (unreadable,) = report.unreadable
    assert "different topics with the same name" in unreadable.error
    assert (report.partitions, report.exit_code) == ((), 3)


@pytest.mark.parametrize("topic_id", ["AAAAAAA", "AAAAAAAAAAA\0\0\0\0\0\0\0\0\0\0Q", "A" * 22])
def test_damaged_topic_id_of_a_replica_is_not_used(topic_id: str, tmp_path: Path) -> None:
    roots = [write_log(tmp_path / name, [[batch(0, 5)]]) for name in ("a", "b")]
    for root, text in zip(roots, (topic_id, "AAAAAAAAAAAAAAAAAAAAAQ"), strict=True):
        (root / "t-0/partition.metadata").write_text(f"version: 0\ntopic_id: {text}")
    report = merge(roots, tmp_path / "out")
    assert (len(report.partitions), report.exit_code) == (1, 0)
    assert "topic_id: AAAAAAAAAAAAAAAAAAAAAQ" in (tmp_path / "out/t-0/partition.metadata").read_text()
    assert any("a/t-0/partition.metadata: not used: topic_id" in message for message in report.messages)


def test_unreadable_replica_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = [write_log(tmp_path / name, [[batch(0, 5)]]) for name in ("a", "b")]

    def fails(log: PartitionLog, *_: Any, **__: Any) -> Any:
        if log.directory.path.parent == a:
            raise OSError(errno.EIO, "Input/output error", str(log.segments[0].path))
        return verify_partition(log)

    monkeypatch.setattr("kafkafmt.log.repairing.merge.verify_partition", fails)
    report = merge([a, b], tmp_path / "out")
    assert (report.exit_code, [u.path for u in report.unreadable]) == (3, [str(a / "t-0")])
    assert sources(report) == [("b", 0, 4)]


def test_lost_abort_marker_is_restored_from_the_index_of_any_replica(tmp_path: Path) -> None:
    batches = [data(0, producer_id=7), data(1, producer_id=7), abort(2), data(3)]
    broken = [*batches[:2], damaged(batches[2]), batches[3]]
    partition(tmp_path / "a", *broken)
    partition(tmp_path / "b", *broken, index=[(7, 0, 2, 3)])
    report = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert report.partitions[0].restored_markers == (2,)
    assert [r.offset for r in k.open(tmp_path / "out")["t", 0].records(isolation="read_committed")] == [3]


def test_open_transaction_is_aborted_on_request(tmp_path: Path) -> None:
    batches = [data(0, producer_id=7), abort(1), data(2)]
    for name in ("a", "b"):
        partition(tmp_path / name, batches[0], damaged(batches[1]), batches[2])
    report = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out", abort_open_transactions=True)
    (transaction,) = report.partitions[0].open_transactions
    assert (transaction.cause, transaction.aborted_at) == ("damage", 3)
    assert report.partitions[0].source.last_stable_offset == 4


def test_sources_are_not_changed(tmp_path: Path) -> None:
    batches = [batch(5 * i, 5) for i in range(4)]
    a = write_log(tmp_path / "a", [[batches[0], damaged(batches[1])], batches[2:]])
    b = write_log(tmp_path / "b", [batches[:2], batches[2:]])
    before = {p: p.read_bytes() for root in (a, b) for p in root.rglob("*") if p.is_file()}
    merge([a, b], tmp_path / "out")
    assert {p: p.read_bytes() for root in (a, b) for p in root.rglob("*") if p.is_file()} == before
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_symlink()]
    assert split((tmp_path / "out/t-0" / f"{0:020}.log").read_bytes()) == batches[:2]


def test_value_of_replicas_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'longest', 'merge' or None"):
        k.salvage(tmp_path, tmp_path / "out", replicas="newest")
    with pytest.raises(ValueError, match="'longest' or None"):
        k.open(write_log(tmp_path / "a", [[batch(0, 5)]]), replicas="merge")


def damage_some(root: Path, chosen: int) -> None:
    """Damage every fourth batch in all segments of a log directory, beginning with batch number `chosen`."""
    n = 0
    for path in sorted(root.glob("*/*.log")):
        batches = split(path.read_bytes())
        for i in range(len(batches)):
            n += 1
            if n % 4 == chosen:
                batches[i] = damaged(batches[i])
        path.write_bytes(b"".join(batches))


@pytest.mark.parametrize("version", ["kafka-4.3.1", "kafka-3.9.2"])
def test_damaged_copies_of_a_golden_log_with_many_epochs_are_merged(tmp_path: Path, version: str) -> None:
    (golden,) = case(f"{version}/epochs").roots
    for i in range(3):
        shutil.copytree(golden, tmp_path / f"broker-{i}")
        damage_some(tmp_path / f"broker-{i}", i)
    report = merge([tmp_path / f"broker-{i}" for i in range(3)], tmp_path / "out")
    assert report.ok
    assert len({s.path for p in report.partitions for s in p.sources or ()}) == 3
    for path in golden.glob("*/*.log"):
        assert (tmp_path / "out" / path.parent.name / path.name).read_bytes() == path.read_bytes()
    for path in golden.glob("*/leader-epoch-checkpoint"):
        assert (tmp_path / "out" / path.parent.name / path.name).read_text() == path.read_text()


def test_damaged_copies_of_a_golden_log_after_an_unclean_stop_are_merged(tmp_path: Path) -> None:
    (golden,) = case("kafka-4.3.1/unclean").roots
    for i, part in enumerate((0.2, 0.7)):
        shutil.copytree(golden, tmp_path / f"broker-{i}")
        for path in (tmp_path / f"broker-{i}").glob("*/*.log"):
            content = bytearray(path.read_bytes())
            position = int(part * len(content.rstrip(b"\0")))
            content[position : position + 1] = bytes(b ^ 1 for b in content[position : position + 1])
            path.write_bytes(content)
    merge([tmp_path / "broker-0", tmp_path / "broker-1"], tmp_path / "out")
    assert rows_in(tmp_path / "out") == rows_in(golden)
    assert k.verify(tmp_path / "out").ok


def test_command_prints_the_sources_and_the_diverged_ranges(tmp_path: Path) -> None:
    shared = [batch(0, 5, 0), batch(5, 5, 0)]
    a = write_log(tmp_path / "a", [[*shared, batch(10, 9, 0)]], [(0, 0)])
    b = write_log(tmp_path / "b", [[damaged(shared[0]), shared[1], batch(10, 5, 2)]], [(0, 0), (2, 10)])
    done = kafkafmt("salvage", a, b, "--replicas", "merge", "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:-1] == [
        f"source   t-0: offsets 0 to 4 from {a}/t-0",
        f"source   t-0: offsets 5 to 14 from {b}/t-0",
        f"diverged t-0: salvage omitted offsets 10 to 18 of {a}/t-0; these batches contradict the replica with the latest "
        "leader epoch",
    ]
    refused = kafkafmt("verify", a, b, "--replicas", "merge")
    assert refused.returncode == 2


@pytest.mark.parametrize("narrow", ["leader", "follower"])
def test_merged_files_have_only_permissions_that_all_replicas_have(narrow: str, tmp_path: Path) -> None:
    leader = write_log(tmp_path / "leader", [[batch(0, 3), batch(3, 3)], [batch(6, 3)]], [(0, 0)])
    follower = write_log(tmp_path / "follower", [[batch(0, 3), batch(3, 3)]], [(0, 0)])
    for root in (leader, follower):
        for path in (root / "t-0").iterdir():
            path.chmod(0o600 if root.name == narrow else 0o644)
    merged = tmp_path / "merged"
    merge([leader, follower], merged)
    assert values(merged) == values(leader)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (merged / "t-0").iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_command_advises_to_merge_directories_with_the_same_partition(tmp_path: Path) -> None:
    roots = [write_log(tmp_path / name, [[batch(0, 3)]]) for name in ("a", "b")]
    done = kafkafmt("ls", *roots)
    assert done.returncode == 2
    assert "t-0 is in both" in done.stderr
    assert "merge both with kafkafmt salvage --replicas merge" in done.stderr
    assert kafkafmt("salvage", *roots, "--replicas", "merge", "--output", tmp_path / "merged").returncode == 0
