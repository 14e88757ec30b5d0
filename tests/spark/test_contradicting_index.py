"""Test reading of committed records if the offsets in the offset index differ from the offsets of the batches."""

from __future__ import annotations

import itertools
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from building import simple_batch
from salvaging import data, partition
from source_rows import offsets, read

import kafkafmt
from kafkafmt import LogDirectory
from kafkafmt.log import DamagedLogError
from kafkafmt.log.reading import single_pass

COMMITTED = {"kafka.isolation.level": "read_committed"}
TRANSACTIONS = 20
"""Number of transactions. Each one has a record with an even offset, and a marker with the next offset."""


def transactional(root: Path, shift: int) -> None:
    """Write transactions, and then an offset index with every second record.

    An entry contains the offset of the record plus `shift`. With `shift` = 3, it contains the last
    offset before the next entry, as on a follower that has fetched several batches at once.
    """
    positions, now = (
        [],
        int(time.time() * 1000),
    )  # markers have the current time, and an old record would end the segment
    with LogDirectory(root) as directory:
        writer = directory.writer("t", 0)
        log = root / "t-0" / f"{0:020}.log"
        for i in range(TRANSACTIONS):
            writer.flush()
            positions.append(log.stat().st_size)
            record = [(b"k", b"v" * 100, now)]
            writer.append(record, producer_id=7, producer_epoch=0, base_sequence=i, transactional=True)
            writer.end_transaction(7, 0, commit=i % 2 == 0)
    entries = [(2 * i + shift, at) for i, at in enumerate(positions) if i % 2 and 2 * i + shift > 0]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))


@pytest.mark.parametrize("shift", [-5, 3], ids=["lower", "last of several batches"])
@pytest.mark.parametrize("snapshots", [True, False], ids=["snapshots", "no snapshots"])
@pytest.mark.parametrize("missing", [True, False], ids=["marker missing", "all markers"])
def test_aborted_records_are_omitted(tmp_path: Path, shift: int, snapshots: bool, missing: bool) -> None:
    transactional(tmp_path, shift)
    if not snapshots:
        for file in tmp_path.glob("t-0/*.snapshot"):
            file.unlink()
    if missing:  # a transaction index entry without a marker requires reading the whole partition
        entry = struct.pack(">hqqqq", 0, 7, 2, 4, 5)
        (tmp_path / "t-0" / f"{0:020}.txnindex").write_bytes(entry)
    expected = [r.offset for r in kafkafmt.open(tmp_path)["t", 0].records(isolation="read_committed")]
    assert expected == list(range(0, 2 * TRANSACTIONS, 4))
    for size in (1, 500):
        table = read(tmp_path, columns=("topic", "partition", "offset"), splitBytes=size, **COMMITTED)
        assert offsets(table) == {("t", 0): expected}


def test_falling_index_entries_deliver_each_record_once(tmp_path: Path) -> None:
    """If tasks divided the segment at these entries, the offset ranges of the tasks would overlap."""
    partition(tmp_path, *(data(i) for i in range(12)))
    log = tmp_path / "t-0" / f"{0:020}.log"
    size = len(data(0))
    entries = [({5: 6, 6: 5, 7: 6}.get(i, i), i * size) for i in range(1, 12)]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    for split in (1, size, 3 * size):
        assert offsets(read(tmp_path, splitBytes=split)) == {("t", 0): list(range(12))}


@pytest.mark.parametrize("change", [-1, -2, 1])
def test_batches_around_a_border_with_a_wrong_offset_are_delivered_at_most_once(tmp_path: Path, change: int) -> None:
    """The base offset of the batch at a border is wrong by 1 or 2. Each batch has 4 offsets."""
    batches = [simple_batch([b"%d" % (4 * i + j) for j in range(4)], 4 * i) for i in range(8)]
    changed = struct.pack(">q", 16 + change) + batches[4][8:]
    partition(tmp_path, *batches[:4], changed, *batches[5:])
    log = tmp_path / "t-0" / f"{0:020}.log"
    positions = itertools.accumulate(map(len, batches[:-1]))
    entries = [(4 * i + 3, position) for i, position in enumerate(positions, 1) if i % 2 == 0]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    expected = [r.offset for r in kafkafmt.open(tmp_path)["t", 0].records(on_error="skip")]
    assert len(expected) == 28
    for split in (1, 2 * len(batches[0])):
        found = offsets(read(tmp_path, mode="PERMISSIVE", splitBytes=split))["t", 0]
        assert sorted(set(found)) == found
        assert set(expected) - set(found) <= set(range(12, 16))


def indexed(root: Path, order: list[int], index: list[int] | None = None) -> Path:
    """Write batches of one record with the offsets `order`, and an offset index. Return the segment file.

    `index` contains the offset of the entry for each batch. By default, it is the highest offset up to
    the batch. An entry is omitted if its offset is not above that of the previous entry.
    """
    batches = [simple_batch([b"value %02d" % offset], offset) for offset in order]
    partition(root, *batches)
    size = len(batches[0])
    highest = index or list(itertools.accumulate(order, max))
    entries = [(highest[i], i * size) for i in range(1, len(order)) if highest[i] > highest[i - 1]]
    (root / "t-0" / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    return root / "t-0" / f"{0:020}.log"


@pytest.mark.parametrize("starting", [10, 15, 29])
def test_damage_that_begins_before_the_selected_offsets_is_reported(tmp_path: Path, starting: int) -> None:
    """The segment ends in an incomplete batch, so a plan reads nothing after the damage. Tasks after the damage use no plan."""
    log = indexed(tmp_path, list(range(40)))
    content = bytearray(log.read_bytes())
    size = len(content) // 40
    content[8 * size + 65 : 9 * size + 9] = bytes(size - 56)
    log.write_bytes(content + content[:53])
    partition(tmp_path, data(40), base=40)
    options: dict[str, Any] = {"splitBytes": 1, "startingOffsets": f'{{"t": {{"0": {starting}}}}}'}
    found = offsets(read(tmp_path, mode="PERMISSIVE", **options))["t", 0]
    assert found == [o for o in range(starting, 41) if o not in (8, 9, 39)]
    with pytest.raises(DamagedLogError, match="offsets 8 to 39"):
        read(tmp_path, mode="FAILFAST", **options)


@pytest.mark.parametrize(
    ("cleaned", "split", "ranges"), [(True, 1, 4 << 20), (False, 1500, 4 << 20), (True, 1 << 20, 1)]
)
def test_undelivered_batch_out_of_place_in_a_compacted_log_is_reported(
    tmp_path: Path, cleaned: bool, split: int, ranges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a compacted log, a gap is no damage. Therefore, the task with the gap uses no plan, and does not find the batch."""
    monkeypatch.setattr(single_pass, "RANGE_BYTES", ranges)
    order = list(range(10, 90, 2))
    order.insert(30, 17)
    indexed(tmp_path, order)
    if cleaned:
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 90\n")
    assert offsets(read(tmp_path, splitBytes=split)) == {("t", 0): list(range(10, 90, 2))}
    with pytest.raises(DamagedLogError, match="offset 17"):
        read(tmp_path, mode="FAILFAST", splitBytes=split)


@pytest.mark.parametrize("cleaned", [True, False])
@pytest.mark.parametrize("split", [1, 500, 1500])
def test_swapped_batches_are_reported(tmp_path: Path, cleaned: bool, split: int) -> None:
    order = list(range(40))
    swapped = order.copy()
    swapped[5], swapped[30] = order[30], order[5]
    indexed(tmp_path, swapped, index=order)
    if cleaned:
        (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 90\n")
    found = offsets(read(tmp_path, mode="PERMISSIVE", splitBytes=split))["t", 0]
    assert found == [o for o in order if o not in (order[5], order[30])]
    with pytest.raises(DamagedLogError):
        read(tmp_path, mode="FAILFAST", splitBytes=split)
