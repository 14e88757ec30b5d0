"""Test isolation level read_committed without a broker.

The records and the last stable offset equal the broker's. Aborted records are never delivered, even
after damage.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import ABORT, COMMIT, GZIP, TRANSACTIONAL, batch, compress, control_batch, message, mutate, record, split
from golden_cases import CASES, LEGACY, Case
from reports import verify_partition
from selecting import COMMITTED

from kafkafmt import _pure
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.formats.index_entries import transaction_index_bytes
from kafkafmt.log.formats.producers import Aborted
from kafkafmt.log.transactions.transactions import DAMAGE, Doubt, Doubts, Transactions
from kafkafmt.types import BATCH_DTYPE

TRANSACTIONAL_CASES = [c for c in [*CASES, *LEGACY] if c.transactional]


def committed(log: PartitionLog) -> list[int]:
    return [r.offset for r in log.records(COMMITTED.resolve(log), on_damage=lambda _: None)]


@pytest.mark.parametrize("case", TRANSACTIONAL_CASES, ids=str)
def test_committed_records_equal_those_of_a_consumer(case: Case) -> None:
    expected: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in sorted(case.expected(committed=True)):
        expected.setdefault((topic, partition), []).append(offset)
    for directory in discover(case.roots).partitions:
        if directory.state == "live" and not directory.internal:
            assert committed(PartitionLog(directory)) == expected.get(directory.key, [])


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn], ids=str)
def test_last_stable_offset_equals_the_brokers(case: Case) -> None:
    logs = {d.key: PartitionLog(d) for d in discover(case.roots).partitions if d.state == "live"}
    for at, offsets in case.offsets().items():
        if at in logs and "lastStableOffset" in offsets:
            assert logs[at].transactions.last_stable_offset == offsets["lastStableOffset"]


def markers(path: Path) -> list[tuple[Path, int, int]]:
    """Return the file, position and size of each marker in a partition."""
    found = []
    for file in sorted(path.glob("*.log")):
        table = np.zeros(10_000, BATCH_DTYPE)
        rows = table[: _pure.scan_batches(file.read_bytes(), table).count]
        found += [(file, int(r["position"]), int(r["size"])) for r in rows if r["attributes"] & 0x20]
    return found


def not_committed(log: PartitionLog) -> set[int]:
    """Return the offsets of all aborted transactions and of all open transactions."""
    found, offsets = log.transactions, set()
    for part in log.parts(0, 2**63 - 1, None):
        kept = set(found.committed(part.table)["base_offset"].tolist())
        for row in part.table[(part.table["attributes"] & 0x30) == 0x10]:
            base, last = int(row["base_offset"]), int(row["base_offset"]) + int(row["last_offset_delta"])
            if base not in kept or base >= found.open.get(int(row["producer_id"]), 2**63):
                offsets |= set(range(base, last + 1))
    return offsets


@pytest.mark.parametrize("index", ["kept", "lost", "garbage"])
@pytest.mark.parametrize("partition", [0, 1, 2])
def test_no_aborted_record_is_delivered_if_any_marker_is_destroyed(tmp_path: Path, partition: int, index: str) -> None:
    (case,) = (c for c in CASES if str(c) == "kafka-4.3.1/transactions")
    source = next(d.path for d in discover(case.roots).partitions if d.partition == partition and not d.internal)
    clean = PartitionLog(discover([source]).partitions[0])
    valid, forbidden = set(committed(clean)), not_committed(clean)
    copy = shutil.copytree(source, tmp_path / source.name)
    for file in copy.glob("*.txnindex"):
        if index == "lost":
            file.unlink()
        elif index == "garbage":
            file.write_bytes(bytes(range(1, 103)))
    omitted = 0
    for file, position, size in markers(copy):
        whole = file.read_bytes()
        after = whole[position + size :]
        for replacement in (
            whole[position : position + size - 3] + b"?" + whole[position + size - 2 : position + size],
            bytes(size),
        ):
            file.write_bytes(whole[:position] + replacement + after)
            log = PartitionLog(discover([copy]).partitions[0])
            found = set(committed(log))
            assert not found & forbidden, (file.name, position, sorted(found & forbidden))
            omitted += not valid <= found
            if not valid <= found:
                assert log.transactions.doubts or log.transactions.open
                assert (
                    "transaction_in_doubt" in {f["error"] for f in verify_partition(log)["findings"]}
                    or log.transactions.open
                )
        file.write_bytes(whole)
    assert omitted  # also with an index: a missing entry proves no commit


@pytest.mark.parametrize("byte", range(34))
def test_no_aborted_record_is_delivered_if_its_marker_and_one_bit_of_its_index_entry_are_lost(
    byte: int, tmp_path: Path
) -> None:
    """The producer commits a transaction before and after the aborted one, and aborts another one at the end."""
    parts = [
        sent(0, 1, 1),
        control_batch(COMMIT, base_offset=1),
        sent(2, 1, 1),
        sent(3, 2, 1),
        mutate(control_batch(ABORT, base_offset=4), 30, b"\xff"),
        sent(5, 1, 1),
        control_batch(COMMIT, base_offset=6),
        control_batch(COMMIT, base_offset=7, producer_id=2),
    ]
    later = [sent(8, 1, 1), control_batch(ABORT, base_offset=9)]
    folder = write(tmp_path, *parts).directory.path
    (folder / f"{8:020}.log").write_bytes(b"".join(later))
    (folder / f"{8:020}.txnindex").write_bytes(transaction_index_bytes([(1, 8, 9, 10)]))
    for bit in range(8):
        entry = bytearray(transaction_index_bytes([(1, 2, 4, 3)]))
        entry[byte] ^= 1 << bit
        (folder / f"{0:020}.txnindex").write_bytes(entry)
        assert not {2, 8} & set(committed(PartitionLog(discover([folder]).partitions[0])))


def write(folder: Path, *batches: bytes) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir(exist_ok=True)
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    return PartitionLog(discover([path]).partitions[0])


def sent(base: int, producer: int, n: int = 2, size: int = 60, **fields: Any) -> bytes:
    records = [record(i, value=b"x" * size) for i in range(n)]
    return batch(records, base_offset=base, flags=TRANSACTIONAL, producer_id=producer, producer_epoch=0, **fields)


def test_open_transaction_limits_the_last_stable_offset(tmp_path: Path) -> None:
    plain = batch([record(0)], base_offset=4)
    log = write(tmp_path, sent(0, 1), sent(2, 2), plain, control_batch(COMMIT, base_offset=5, producer_id=1))
    assert committed(log) == [0, 1]
    assert log.transactions.last_stable_offset == 2
    assert log.transactions.open == {2: 2}


def test_producer_continues_after_an_abort(tmp_path: Path) -> None:
    empty = control_batch(ABORT, base_offset=6)
    parts = [sent(0, 1), control_batch(ABORT, base_offset=2), sent(3, 1), control_batch(COMMIT, base_offset=5), empty]
    assert committed(write(tmp_path, *parts)) == [3, 4]


def test_damaged_batch_longer_than_a_marker_hides_no_marker(tmp_path: Path) -> None:
    corrupted_batch = bytearray(sent(2, 1))
    corrupted_batch[-5] ^= 1
    log = write(tmp_path, sent(0, 1), bytes(corrupted_batch), control_batch(COMMIT, base_offset=4))
    assert committed(log) == [0, 1]
    assert log.transactions.doubts == []


def test_next_marker_decides_records_after_damage(tmp_path: Path) -> None:
    corrupted_batch = bytearray(control_batch(COMMIT, base_offset=2))
    corrupted_batch[-3] ^= 1
    rest = [sent(3, 1), control_batch(COMMIT, base_offset=5)]
    log = write(tmp_path, sent(0, 1), bytes(corrupted_batch), *rest)
    assert committed(log) == [3, 4]
    assert [(d.first_offset, d.last_offset) for d in log.transactions.doubts] == [(0, 1)]


def test_index_entry_without_a_marker_is_listed_once(tmp_path: Path) -> None:
    """The damage hides offsets 1, 3 and 5. The three parts of the transaction have the same index entry."""
    batches = [
        sent(i, 1, 1) if i % 2 == 0 else mutate(control_batch(COMMIT, base_offset=i), 70, b"x") for i in range(7)
    ]
    log = write(tmp_path, *batches)
    entry = Aborted(1, 0, 5, 6)
    (log.directory.path / f"{0:020}.txnindex").write_bytes(transaction_index_bytes([entry]))
    assert log.transactions.unmarked == [entry]
    assert log.transactions.aborted[1] == [(0, 0), (2, 2), (4, 4)]


def test_marker_is_one_batch_of_78_bytes() -> None:
    assert len(control_batch(ABORT)) == 78
    assert len(split(control_batch(ABORT))) == 1


def segments(folder: Path, **of: bytes) -> PartitionLog:
    """Write segments given as `at<base offset>=data` next to existing ones, and open the log."""
    (folder / "t-0").mkdir(exist_ok=True)
    for name, data in of.items():
        (folder / "t-0" / f"{int(name[2:]):020}.log").write_bytes(data)
    return PartitionLog(discover([folder]).partitions[0])


def in_transaction(base: int) -> bytes:
    return batch([record(0, value=b"v")], base_offset=base, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0)


def test_transaction_before_a_missing_segment_is_in_doubt(tmp_path: Path) -> None:
    """The missing segment contains the marker that aborted the previous transaction.

    The next marker of the producer is a commit, but only for the records after the gap.
    """
    after = in_transaction(10) + control_batch(COMMIT, base_offset=11, producer_id=7, producer_epoch=0)
    log = segments(tmp_path, at0=in_transaction(0), at10=after)
    assert committed(log) == [10]
    (finding,) = (f for f in verify_partition(log)["findings"] if f["error"] == "transaction_in_doubt")
    assert finding["file"] == f"{10:020}.log"
    assert "a missing segment may hide" in finding["message"]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    assert committed(segments(tmp_path)) == [0, 10]


def test_wrapper_message_does_not_show_that_the_log_was_compacted(tmp_path: Path) -> None:
    """The log contains messages of format 1, which were written before the upgrade of the broker."""
    inner = b"".join(message(1, None, b"v", offset=i) for i in range(3))
    old = message(1, None, compress(GZIP, inner), offset=2, attributes=GZIP) + message(1, None, b"v", offset=3)
    after = control_batch(COMMIT, base_offset=10, producer_id=7, producer_epoch=0)
    log = segments(tmp_path, at0=old + in_transaction(4), at10=after)
    assert committed(log) == [0, 1, 2, 3]
    assert [d.first_offset for d in log.transactions.doubts] == [4]


def test_transaction_is_in_doubt_if_its_segment_was_not_opened(tmp_path: Path) -> None:
    aborted = control_batch(ABORT, base_offset=5, producer_id=7, producer_epoch=0)
    after = in_transaction(6) + control_batch(COMMIT, base_offset=7, producer_id=7, producer_epoch=0)
    log = segments(tmp_path, at0=in_transaction(0), at5=aborted, at6=after)
    assert committed(log) == [6]
    files = [segment.path for segment in log.segments]
    assert committed(PartitionLog(discover([files[0], files[2]]).partitions[0])) == [6]
    assert committed(PartitionLog(discover(files[1:]).partitions[0])) == [6]


def test_segment_without_delivered_batches_does_not_hide_a_gap(tmp_path: Path) -> None:
    """The second segment contains a copy of a batch, which may have overwritten other batches. Therefore, it is damage."""
    log = segments(tmp_path, at0=in_transaction(0), at1=in_transaction(0), at10=in_transaction(10))
    report = verify_partition(log)
    assert [(d["file"], d["first_offset"], d["last_offset"]) for d in report["damaged"]] == [(f"{1:020}.log", 1, 9)]
    log = segments(tmp_path, at1=b"")
    found = [(d["error"], d["first_offset"], d["last_offset"]) for d in verify_partition(log)["damaged"]]
    assert found == [("missing_segment", 1, 9)]


class Counted(list[tuple[int, int]]):
    """A list that counts how many of its items are read."""

    items = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.items += len(found) if isinstance(index, slice) else 1
        return found

    def __iter__(self) -> Any:
        self.items += len(self)
        return super().__iter__()


@pytest.mark.parametrize("open_from", [None, 9_950])
def test_batches_are_compared_only_with_transactions_near_them(
    monkeypatch: pytest.MonkeyPatch, open_from: int | None
) -> None:
    """If batches were compared with all transactions, reading a log at read_committed would take quadratic time.

    The native core does not call the methods of `Counted`. test_core_transactions.py has a similar test for the
    native core.
    """
    monkeypatch.setattr("kafkafmt.log.transactions.transactions.core", _pure)
    spans = Counted([(first, first + 5) for first in range(0, open_from or 10_000, 10)])
    found = Transactions(aborted={1: spans}, open={} if open_from is None else {1: open_from})
    kept: list[int] = []
    for start in range(0, 10_000, 50):
        table = np.zeros(50, BATCH_DTYPE)
        table["base_offset"] = np.arange(start, start + 50)
        table["producer_id"], table["attributes"] = 1, TRANSACTIONAL
        kept += found.committed(table)["base_offset"].tolist()
    assert kept == [i for i in range(10_000) if i % 10 > 5 and (open_from is None or i < open_from)]
    assert spans.items < 30 * 200


def test_transactions_of_a_part_contain_only_their_own_causes() -> None:
    """Each task of Spark gets the transactions of its part, so their size must not depend on the other segments."""
    n = 1000
    numbers = np.arange(n)
    doubts = Doubts(numbers, 10 * numbers, 10 * numbers + 5, numbers, [(f"{i}.log", DAMAGE) for i in range(n)])
    part = Transactions(doubts=doubts).within(100, 112)
    assert list(part.doubts) == [Doubt(10, 100, 105, "10.log"), Doubt(11, 110, 115, "11.log")]
    assert part.doubts.causes == [("10.log", DAMAGE), ("11.log", DAMAGE)]


def test_transactions_within_a_range_equal_a_complete_search() -> None:
    chance = np.random.default_rng(5)
    for _ in range(300):
        transactions = Transactions()
        for producer in range(3):
            borders = np.cumsum(chance.integers(1, 6, 2 * int(chance.integers(0, 20)))).tolist()
            transactions.aborted[producer] += zip(borders[::2], borders[1::2], strict=True)
        first = int(chance.integers(0, 150))
        last = first + int(chance.integers(0, 40))
        assert transactions.within(first, last).aborted == {
            producer: overlapping
            for producer, spans in transactions.aborted.items()
            if (overlapping := [span for span in spans if span[0] <= last and span[1] >= first])
        }
