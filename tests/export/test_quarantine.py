"""Test the quarantine file of the export: its row groups, and files that cannot be read."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from building import simple_batch

from kafkafmt.exporting import quarantine
from kafkafmt.exporting.options import ExportOptions
from kafkafmt.log import Damage, PartitionDir, PartitionLog, discover
from kafkafmt.log.storage.file_view import FileView

OPTIONS = ExportOptions(("log",), "out")


@pytest.fixture
def damaged(tmp_path: Path) -> list[tuple[PartitionDir, Damage]]:
    """Return the damage of two segments with 50 damaged batches each."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in (0, 100):
        batches = [bytearray(simple_batch([b"%d" % n * 9], n)) for n in range(base, base + 100)]
        for batch in batches[::2]:
            batch[-1] ^= 1
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    (directory,) = discover([folder]).partitions
    log = PartitionLog(directory)
    return [(directory, damage) for segment in log.segments for damage in log.plan(segment).damaged]


def test_rows_are_written_in_few_groups(
    damaged: list[tuple[PartitionDir, Damage]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    original = FileView.__init__

    def counting(self: FileView, path: Path, fill_unreadable: bool) -> None:
        opened.append(path)
        original(self, path, fill_unreadable=fill_unreadable)

    monkeypatch.setattr(FileView, "__init__", counting)
    monkeypatch.setattr(quarantine, "GROUP_ROWS", 40)
    sink = io.BytesIO()
    size = quarantine.write_quarantine(sink, reversed(damaged), OPTIONS)
    assert len(opened) == 2
    found = pq.ParquetFile(sink)
    assert [found.metadata.row_group(i).num_rows for i in range(found.num_row_groups)] == [40, 40, 20]
    rows = found.read().to_pylist()
    assert [(row["file"], row["position"]) for row in rows] == [(d.file, d.position) for _, d in damaged]
    for row, (directory, damage) in zip(rows, damaged, strict=True):
        data = (Path(directory.path) / damage.file).read_bytes()
        assert row["bytes"] == data[damage.position : damage.position + damage.length]
    assert size == sum(damage.length for _, damage in damaged)


def test_nearby_damage_is_read_together(
    damaged: list[tuple[PartitionDir, Damage]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[int, int]] = []
    original = FileView.read

    def counting(self: FileView, position: int, size: int) -> bytes:
        reads.append((position, size))
        return original(self, position, size)

    monkeypatch.setattr(FileView, "read", counting)
    monkeypatch.setattr(quarantine, "BLOCK_BYTES", 4000)
    sink = io.BytesIO()
    size = quarantine.write_quarantine(sink, damaged, OPTIONS)
    assert len(reads) == 6
    assert size == sum(damage.length for _, damage in damaged)
    for row, (directory, damage) in zip(pq.ParquetFile(sink).read().to_pylist(), damaged, strict=True):
        data = (Path(directory.path) / damage.file).read_bytes()
        assert row["bytes"] == data[damage.position : damage.position + damage.length]


def test_rows_of_a_missing_file_say_why_the_bytes_are_missing(damaged: list[tuple[PartitionDir, Damage]]) -> None:
    (Path(damaged[0][0].path) / damaged[0][1].file).unlink()
    sink = io.BytesIO()
    quarantine.write_quarantine(sink, damaged, OPTIONS)
    rows = pq.read_table(sink).to_pylist()
    assert [row["bytes"] is None for row in rows] == [True] * 50 + [False] * 50
    assert rows[49]["message"].endswith("(the damaged bytes could not be stored: No such file or directory)")
