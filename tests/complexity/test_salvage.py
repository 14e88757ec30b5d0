"""Check salvage and merges of logs with many segments, producers and damaged spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import ABORT, control_batch, mutate, simple_batch
from fuzz.work import counted
from patching import patch_everywhere

import kafkafmt
from kafkafmt.log.formats.index_entries import transaction_index_bytes
from kafkafmt.log.formats.producers import Aborted
from kafkafmt.log.formats.snapshots import ProducerEntry, snapshot_bytes, snapshot_of, states_of
from kafkafmt.log.storage import file_view, files
from kafkafmt.log.transactions import snapshot_files
from kafkafmt.log.transactions.transaction_index import IndexEntries

from .growth import grows_linearly, lines_of
from .logs import NUMBER, log_of, transactional


def test_salvage_grows_linearly_with_damaged_spans(write: Callable[..., Path], tmp_path: Path) -> None:
    """Many runs contain damage. The search between runs has a separate test."""
    from kafkafmt.log.findings.models import Damage
    from kafkafmt.log.repairing.salvage_api import salvage_partition

    def work(n: int) -> Counter[str]:
        folder = write([(0, b"".join(simple_batch([b"v"], i) for i in range(2 * n)))])
        size = len(simple_batch([b"v"]))
        holes = [Damage(f"{0:020}.log", 2 * i * size, size, 2 * i, 2 * i, "corrupt_structure", "x") for i in range(n)]
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        return lines_of(lambda: salvage_partition(log_of(folder), holes, output))

    grows_linearly(20, work)


def test_salvage_grows_linearly_with_runs(write: Callable[..., Path], tmp_path: Path) -> None:
    from kafkafmt.log.repairing.salvage_api import salvage_partition

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i) for i in range(2 * n)]
        folder = write([(0, b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts)))])
        log = log_of(folder)
        damaged = [damage for segment in log.segments for damage in log.plan(segment).damaged]
        assert len(damaged) >= n // 16
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        return lines_of(lambda: salvage_partition(log, damaged, output))

    grows_linearly(60, work)


def test_salvage_grows_linearly_with_segments(write: Callable[..., Path], tmp_path: Path) -> None:
    from kafkafmt.log.repairing.salvage_api import salvage_partition

    def work(n: int) -> Counter[str]:
        parts = [simple_batch([b"v"], i) for i in range(2 * n)]
        damaged = [mutate(part, len(part) - 1, b"\xee") for part in parts]
        log = log_of(write([(2 * i, damaged[2 * i] + parts[2 * i + 1]) for i in range(n)]))
        found = [damage for segment in log.segments for damage in log.plan(segment).damaged]
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        return lines_of(lambda: salvage_partition(log, found, output))

    grows_linearly(40, work)


def test_salvage_reads_the_permissions_of_all_files_at_once(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is made with one pass over the source directory, without a lookup for each rebuilt file."""
    from kafkafmt.log.repairing.salvage_api import salvage_partition

    calls: list[object] = []
    mode_of = files.mode_of

    def counting(path: Any) -> int | None:
        calls.append(path)
        return mode_of(path)

    patch_everywhere(monkeypatch, files.mode_of, counting)

    def count(n: int) -> int:
        calls.clear()
        sources = [(f"{i:020}{suffix}", b"") for i in range(n) for suffix in (".index", ".timeindex", ".snapshot")]
        folder = write([(i, simple_batch([b"v"], i)) for i in range(n)], sources)
        output = tmp_path / f"out-{next(NUMBER)}"
        output.mkdir()
        salvage_partition(log_of(folder), [], output)
        return len(calls)

    assert count(2) == count(12)


def test_salvage_reads_each_producer_snapshot_once(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offset 1 is missing in the copy, so salvage needs the snapshots after it."""
    opened: Counter[str] = Counter()
    read_bytes = file_view.read_bytes

    def counting(path: Any) -> bytes | None:
        opened[Path(path).name] += 1
        return read_bytes(path)

    patch_everywhere(monkeypatch, file_view.read_bytes, counting)
    snapshots = [(f"{i:020}.snapshot", snapshot_bytes([])) for i in range(2, 6)]
    kafkafmt.salvage(
        write([(i, simple_batch([b"v"], i)) for i in range(6) if i != 1], snapshots), tmp_path / "out", threads=1
    )
    assert {name: opened[name] for name, _ in snapshots} == dict.fromkeys((name for name, _ in snapshots), 1)


def test_only_few_bytes_of_producer_snapshots_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = [states_of([ProducerEntry(i)]) for i in range(3)]
    monkeypatch.setattr(snapshot_files, "KEPT_BYTES", 2 * len(snapshot_of(states[0])) + 1)
    snapshots = snapshot_files.SnapshotFiles(tmp_path)
    for name, expected in zip("abc", states, strict=True):
        (tmp_path / name).write_bytes(snapshot_of(expected))
        assert snapshots.read(name) == expected
        (tmp_path / name).unlink()
    assert [snapshots.read(name) for name in "abc"] == [*states[:2], None]


def test_index_entries_are_taken_only_if_their_marker_is_before_the_batch(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction with many batches ends with the marker that the transaction index names."""
    taken: list[int] = []
    take = IndexEntries.take

    def counting(entries: IndexEntries, producer_id: int, before: int) -> Any:
        taken.append(before)
        return take(entries, producer_id, before)

    monkeypatch.setattr(IndexEntries, "take", counting)
    batches = b"".join(transactional(i, 1) for i in range(40))
    data = batches + control_batch(ABORT, base_offset=40, producer_id=1) + transactional(41, 1)
    index = transaction_index_bytes([Aborted(1, 0, 40, 41)])
    log = log_of(write([(0, data)], [(f"{0:020}.txnindex", index)]))
    assert log.transactions.aborted == {1: [(0, 40)]}
    assert taken == [41]


def test_merge_grows_linearly_with_ranges(write: Callable[..., Path], tmp_path: Path) -> None:
    """Two replicas are damaged in different batches, and their batches overlap without equal offsets."""
    from kafkafmt.log.repairing.merge_choice import choose
    from kafkafmt.log.repairing.merge_copy import MergedDirectory
    from kafkafmt.log.repairing.merge_replica import ranked, read_replica

    def work(n: int) -> Counter[str]:
        replicas = []
        for shift in range(2):
            parts = [simple_batch([b"v"] * 4, 4 * i + 2 * shift) for i in range(2 * n)]
            damaged = [mutate(p, len(p) - 1, b"\xee") if i % 4 == 2 * shift else p for i, p in enumerate(parts)]
            log = log_of(write([(0, b"".join(damaged))]))
            found = [damage for segment in log.segments for damage in log.plan(segment).damaged]
            replicas.append(read_replica(log, found))
        folder = tmp_path / f"out-{next(NUMBER)}"

        def merge() -> None:
            order = ranked(replicas)
            MergedDirectory(order, choose(order), folder, lambda _: None).write()

        return lines_of(merge)

    grows_linearly(40, work)


def test_reports_of_merged_logs_read_few_bytes_for_each_lost_range(write: Callable[..., Path], tmp_path: Path) -> None:
    def work(n: int) -> int:
        parts = [simple_batch([b"v" * 50], i) for i in range(2 * n)]
        data = b"".join(mutate(p, len(p) - 1, b"\xee") if i % 2 else p for i, p in enumerate(parts))
        replicas = [write([(0, data)]) for _ in range(2)]
        with counted() as done:
            report = kafkafmt.salvage(replicas, tmp_path / f"out-{next(NUMBER)}", replicas="merge")
        assert len(report.partitions[0].source.damaged) == n
        return done.total

    grows_linearly(300, work)
