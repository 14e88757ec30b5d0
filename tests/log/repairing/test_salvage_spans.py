"""Test that salvage reads and copies many small byte ranges together, with restored markers between them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from salvaging import abort, aborted_entries, committed, corrupt, data, partition, salvaged

from kafkafmt.log.damage.segment_walker import Walker
from kafkafmt.log.repairing.salvage_pieces import Restored, insertions, paired
from kafkafmt.log.storage import span_copier
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.storage.span_copier import SpanCopier


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_copier, "GROUP_BYTES", 1500)
    monkeypatch.setattr(span_copier, "SMALL", 400)
    monkeypatch.setattr(span_copier, "MOST_SPANS", 4)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("seed", range(10))
def test_markers_are_inserted_between_batches_in_offset_order(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    kept: list[tuple[int, int, int]] = []
    content, offset = bytearray(), 0
    for _ in range(60):
        offset += chance.choice((1, 1, 1, 3))
        batch = data(offset)
        if chance.random() < 0.7:
            kept.append((offset, len(content), len(content) + len(batch)))
        content += batch
    (tmp_path / "log").write_bytes(content)
    spans: list[list[int]] = []
    for _, start, end in kept:
        if spans and spans[-1][1] == start and chance.random() < 0.8:
            spans[-1][1] = end
        else:
            spans.append([start, end])
    free = sorted(set(range(offset + 5)) - {first for first, _, _ in kept})
    markers = [
        Restored(at, b"%d" % at) for at in sorted(chance.sample(free, min(len(free), chance.choice((1, 5, 20)))))
    ]
    ranges = paired(*np.array(spans, np.int64).T)
    with FileView(tmp_path / "log") as view:
        inserted = insertions(Walker(view, 0), ranges, markers, SpanCopier())
        with (tmp_path / "copy").open("wb") as copy:
            SpanCopier().copy(view, copy.fileno(), ranges, inserted)
    made = (tmp_path / "copy").read_bytes()
    batches = [(first, bytes(content[start:end])) for first, start, end in kept]
    assert made == b"".join(part for _, part in sorted([*batches, *((m.offset, m.data) for m in markers)]))


@pytest.mark.usefixtures("small_windows")
def test_markers_are_restored_in_order_between_many_damaged_batches(tmp_path: Path) -> None:
    """Every third transaction loses its abort marker. The transaction index proves how it ended."""
    batches, index, lost = [], [], []
    for i in range(40):
        first = 4 * i
        batches += [data(first, 7 + i % 3), corrupt(data(first + 1, 7 + i % 3)), data(first + 2)]
        batches.append(corrupt(abort(first + 3, 7 + i % 3)) if i % 3 == 0 else abort(first + 3, 7 + i % 3))
        index.append((7 + i % 3, first, first + 3, first + 4))
        lost += [first + 3] if i % 3 == 0 else []
    partition(tmp_path / "in", *batches, index=index)
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert made.restored == lost
    assert aborted_entries(tmp_path / "out" / "t-0") == index
    assert committed(tmp_path / "out") == committed(tmp_path / "in") == [4 * i + 2 for i in range(40)]


def test_salvage_reads_ranges_between_damaged_batches_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lost marker must not cause a second read of each of the 300 ranges of valid batches."""
    batches = [corrupt(data(i, 7)) if i % 2 else data(i, 7) for i in range(600)]
    batches[598:] = [corrupt(abort(598, 7)), data(599)]
    partition(tmp_path / "in", *batches, index=[(7, 0, 598, 599)])
    calls: list[Any] = []
    read_into = FileView.read_into

    def counting(self: FileView, view: Any, position: int) -> int:
        calls.append(position)
        return read_into(self, view, position)

    monkeypatch.setattr(FileView, "read_into", counting)
    made, _ = salvaged(tmp_path / "in", tmp_path / "out")
    assert made.restored == [598]
    assert len(calls) < 300 + 60
