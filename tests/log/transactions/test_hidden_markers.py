"""Test transactions whose batches or markers are damaged, if damage is frequent and the log is read in small pieces."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, record, simple_batch

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage import segment_tables
from kafkafmt.log.formats.index_entries import transaction_index_bytes
from kafkafmt.log.formats.producers import Aborted
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.transactions import hidden_markers
from kafkafmt.log.transactions.hidden_markers import can_hide_markers, is_harmless
from kafkafmt.log.transactions.transaction_walk import TransactionWalk, misses_a_segment, settle
from kafkafmt.log.transactions.transactions import Transactions
from kafkafmt.log.verifying import verify_pass
from kafkafmt.log.verifying.verify_api import verify_partition

NO_END = 2**63


def write(folder: Path, chance: Random, n: int) -> Path:
    """Write segments with small batches of four producers and markers. Damage many batches and some index entries."""
    folder = folder / "t-0"
    folder.mkdir()
    share, aborted = chance.choice((0.02, 0.3, 0.6)), []
    opened: dict[int, int] = {}
    base = 0
    for _ in range(3):
        data, entries, first = bytearray(), [], base
        for _ in range(n):
            producer = chance.randrange(4)
            if producer in opened and chance.random() < 0.4:
                kind = chance.choice((ABORT, COMMIT))
                made = control_batch(kind, base_offset=base, producer_id=producer)
                if kind == ABORT:
                    entries.append(Aborted(producer, opened[producer], base, base + 1))
                del opened[producer]
            else:
                size = chance.choice((0, 1, 10, 200))
                made = batch(
                    [record(0, value=b"v" * size)],
                    base_offset=base,
                    flags=TRANSACTIONAL if producer else 0,
                    producer_id=producer,
                    producer_epoch=0,
                )
                if producer:
                    opened.setdefault(producer, base)
            base += 1
            if chance.random() < share:
                way = chance.randrange(8)
                changed = bytearray(made)
                changed[-3 if way else 8 + chance.randrange(4)] ^= 255
                made = bytes(changed)[: -1 if way == 1 else None]
            if chance.random() > 0.02:
                data += made
        (folder / f"{first:020}.log").write_bytes(data)
        aborted += entries
        if chance.random() < 0.7:
            kept = [entry for entry in entries if chance.random() < 0.9]
            (folder / f"{first:020}.txnindex").write_bytes(transaction_index_bytes(kept))
        base += chance.choice((0, 0, 2))
    return folder


def opened_log(folder: Path) -> PartitionLog:
    return PartitionLog(discover([folder]).partitions[0])


def one_by_one(log: PartitionLog) -> Transactions:
    """Add each range of valid batches, and each damaged byte range, separately."""
    walk = TransactionWalk(log)
    before: Any = None
    for segment in log.segments:
        log.plan(segment)
    for found in log.parts(0, NO_END, lambda damage: walk(damage)):
        segment = found.plan.segment
        if before is not None and segment is not before.plan.segment:
            end = before.run.last_offset + 1
            if misses_a_segment(log, before.plan.segment, end, segment, found.run.first_offset):
                walk.gap(end, segment.name)
        walk.add(found.buffer, found.table, segment.name)
        before = found
    return settle(walk)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (verify_pass, segment_tables):
        monkeypatch.setattr(module, "TABLE_ROWS", 16)
    monkeypatch.setattr(hidden_markers, "WINDOW", 500)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(25))
def test_transactions_do_not_depend_on_how_damaged_batches_are_read(tmp_path: Path, seed: int) -> None:
    folder = write(tmp_path, Random(seed), 60)
    expected = one_by_one(opened_log(folder))
    verified, planned = opened_log(folder), opened_log(folder)
    verify_partition(verified)
    assert verified.knows_transactions
    assert verified.transactions == expected
    for segment in planned.segments:
        planned.plan(segment)
    assert planned.transactions == expected


@pytest.mark.usefixtures("small_pieces")
def test_verify_reads_a_damaged_segment_at_most_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second read finds the transactions. A damaged batch causes no separate read."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    batches = [
        batch([record(0, value=b"v" * 20)], base_offset=i, producer_id=1, producer_epoch=0, flags=TRANSACTIONAL)
        for i in range(300)
    ]
    damaged = [b[:-3] + bytes([b[-3] ^ 255]) + b[-2:] if i % 3 == 1 else b for i, b in enumerate(batches)]
    (folder / f"{0:020}.log").write_bytes(b"".join(damaged))
    opened: list[Any] = []
    init = FileView.__init__

    def counting(self: FileView, path: Any, *rest: Any, **named: Any) -> None:
        opened.append(path)
        init(self, path, *rest, **named)

    monkeypatch.setattr(FileView, "__init__", counting)
    log = opened_log(folder)
    assert len(verify_partition(log).damaged) == 100
    assert len([path for path in opened if str(path).endswith(".log")]) <= 4
    assert log.bytes_read < 4 * sum(map(len, batches))


def test_length_fields_are_read_at_unsorted_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_markers, "WINDOW", 100)
    data = Random(1).randbytes(3000)
    (tmp_path / "data").write_bytes(data)
    positions = [2000, 0, 96, 88, 89, 2990, 1500]
    with FileView(tmp_path / "data") as view:
        found = hidden_markers._length_fields(view, np.array(positions))
    expected = [int.from_bytes(data[p + 8 : p + 12].ljust(4, b"\0"), "big", signed=True) for p in positions]
    assert found.tolist() == expected


@pytest.mark.parametrize("seed", range(10))
def test_stored_sizes_of_damaged_batches_agree_with_their_length_fields(tmp_path: Path, seed: int) -> None:
    """A list of `Damage` objects does not store whether the damage is exactly one batch."""
    folder = write(tmp_path, Random(100 + seed), 60)
    log = opened_log(folder)
    for segment in log.segments:
        damaged = log.plan(segment).damaged
        stored, read = (can_hide_markers(segment.path, found) for found in (damaged, list(damaged)))
        assert stored.tolist() == read.tolist()


def test_harmless_damage_can_hide_no_markers(tmp_path: Path) -> None:
    harmless = []
    for seed in range(10):
        (folder := tmp_path / str(seed)).mkdir()
        log = opened_log(write(folder, Random(200 + seed), 60))
        for segment in log.segments:
            damaged = log.plan(segment).damaged
            for some in [damaged, *(damaged[i : i + 1] for i in range(len(damaged)))]:
                harmless.append(is_harmless(some))
                assert not (harmless[-1] and can_hide_markers(segment.path, some).any())
    assert any(harmless)


def test_damaged_batches_are_not_read_again_to_get_their_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    fields: dict[str, Any] = {"flags": TRANSACTIONAL, "producer_id": 1, "producer_epoch": 0}
    for base in range(0, 30, 3):
        batches = [batch([record(0, value=b"v" * 50)], base_offset=base + i, **fields) for i in range(3)]
        batches[1] = batches[1][:-3] + bytes([batches[1][-3] ^ 255]) + batches[1][-2:]
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    monkeypatch.setattr(hidden_markers, "FileView", None)
    log = opened_log(folder)
    assert len(verify_partition(log).damaged) == 10
    assert list(log.transactions.open) == [1]


def in_transaction(base: int, *values: bytes) -> bytes:
    records = [record(i, value=value) for i, value in enumerate(values)]
    return batch(records, base_offset=base, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)


@pytest.mark.parametrize("offset", [0, 3, 1000, 10])
def test_misplaced_batch_can_have_overwritten_a_marker(tmp_path: Path, offset: int) -> None:
    """A misplaced batch, which can be a copy, has overwritten the marker at offset 5 and the batch after the marker."""
    aborted = in_transaction(0, *[b"aborted"] * 5)
    lost = control_batch(ABORT, base_offset=5, producer_id=7, producer_epoch=0) + simple_batch([b"lost" * 20], 6)
    misplaced = simple_batch([bytes(len(lost) - len(simple_batch([b""])) - 2)], offset)
    assert len(misplaced) == len(lost)
    later = in_transaction(7, b"a", b"b") + control_batch(COMMIT, base_offset=9, producer_id=7, producer_epoch=0)
    folder = tmp_path / "t-0"
    folder.mkdir()
    copied = simple_batch([bytes(len(lost) - len(simple_batch([b""])) - 2)], 10)
    end = copied + simple_batch([b"c", b"d"], 11) + simple_batch([b"e"], 13)
    (folder / f"{0:020}.log").write_bytes(aborted + misplaced + later + end)
    log = PartitionLog(discover([folder]).partitions[0])
    interval = OffsetInterval(isolation="read_committed")
    assert [r.offset for r in log.records(interval, on_damage=lambda _: None)] == [7, 8, *range(10, 14)]
    assert [(d.producer_id, d.first_offset) for d in log.transactions.doubts] == [(7, 0)]


@pytest.mark.parametrize("lost_records", [1, 2, 5])
def test_copied_block_can_have_overwritten_the_marker_before_it(tmp_path: Path, lost_records: int) -> None:
    """A copy of a block has overwritten the two batches before the block. The block contains the producer's next marker."""
    base = 3 + lost_records
    start = simple_batch([b"start"], 0) + in_transaction(1, b"aborted")
    # Offset 2 was the abort marker, and a batch with `lost_records` records followed.
    block = [
        in_transaction(base, b"a"),
        control_batch(COMMIT, base_offset=base + 1, producer_id=7, producer_epoch=0),
        simple_batch([b"b"], base + 2),
    ]
    folder = tmp_path / "t-0"
    folder.mkdir()
    parts = [start, *block, *block[1:], simple_batch([b"end"], base + 3)]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    log = PartitionLog(discover([folder]).partitions[0])
    interval = OffsetInterval(isolation="read_committed")
    got = [r.offset for r in log.records(interval, on_damage=lambda _: None)]
    assert got == [0, base, base + 2, base + 3]
    assert [(d.producer_id, d.first_offset) for d in log.transactions.doubts] == [(7, 1)]


def test_batch_with_a_wrong_base_offset_hides_no_marker(tmp_path: Path) -> None:
    """The batch has as many offsets as are missing, so it has not overwritten other batches."""
    first, wrong = in_transaction(0, b"a"), in_transaction(100, b"b" * 40, b"c")
    rest = in_transaction(3, b"d") + control_batch(COMMIT, base_offset=4, producer_id=7, producer_epoch=0)
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(first + wrong + rest)
    log = PartitionLog(discover([folder]).partitions[0])
    interval = OffsetInterval(isolation="read_committed")
    assert [r.offset for r in log.records(interval, on_damage=lambda _: None)] == [0, 3]
    assert not log.transactions.doubts


def test_parts_of_a_divided_transaction_are_in_doubt(tmp_path: Path) -> None:
    """The next marker of the producer decides only the records after the last damage."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    log = bytearray()
    for base in (0, 10):
        for offset in range(base, base + 7, 2):
            damaged = bytearray(control_batch(COMMIT, base_offset=offset + 1, producer_id=7, producer_epoch=0))
            damaged[-1] ^= 1
            log += in_transaction(offset, b"in doubt") + damaged
        log += in_transaction(base + 8, b"end") + control_batch(
            COMMIT, base_offset=base + 9, producer_id=7, producer_epoch=0
        )
    (folder / f"{0:020}.log").write_bytes(log)
    found = PartitionLog(discover([folder]).partitions[0]).transactions
    assert [doubt.first_offset for doubt in found.doubts] == [0, 2, 4, 6, 10, 12, 14, 16]
    assert dict(found.aborted) == {7: [(offset, offset) for offset in (0, 2, 4, 6, 10, 12, 14, 16)]}
