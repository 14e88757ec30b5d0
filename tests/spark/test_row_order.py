"""Check the rows if a batch is out of place in its segment. This batch is damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from building import batch, record
from source_rows import offsets, plan, table

ORDER = (0, 1, 5, 2, 3, 4, 6, 7)
"""Base offsets of the batches, in the order in which they are stored."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory in which one batch is out of place, and the index has an entry for each batch."""
    batches = [batch([record(0, value=b"v" * 100)], base_offset=offset) for offset in ORDER]
    entries = [struct.pack(">ii", offset, i * len(batches[0])) for i, offset in enumerate(ORDER) if offset != 5]
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(b"".join(batches))
    log.with_suffix(".index").write_bytes(b"".join(entries[1:]))
    return tmp_path


@pytest.mark.parametrize("split_bytes", [1, 300, 500, 1 << 26])
def test_each_task_delivers_rows_in_offset_order(directory: Path, split_bytes: int) -> None:
    reader, partitions = plan(directory, splitBytes=split_bytes, mode="PERMISSIVE")
    read = [offsets(table(reader.read(partition))).get(("t", 0), []) for partition in partitions]
    assert all(found == sorted(found) for found in read)
    assert sorted(offset for found in read for offset in found) == [0, 1, 2, 3, 4, 6, 7]
