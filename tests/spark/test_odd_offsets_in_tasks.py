"""Read batches with odd record offsets with the data source: its tasks divide the batches by the offsets in the headers."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from building import NONE, ZSTD, split
from odd_offsets import DELTAS, Expected, mixed_log, transactional_log
from source_rows import plan, table

COLUMNS = ("offset", "value")


def rows(found: pa.Table) -> Expected:
    return list(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))


def add_index(folder: Path) -> None:
    """Write an offset index with an entry for each batch, so that a segment can be divided anywhere."""
    log = next((folder / "t-0").glob("*.log"))
    entries, position = [], 0
    for data in split(log.read_bytes()):
        base, last_delta = struct.unpack_from(">q", data)[0], struct.unpack_from(">i", data, 23)[0]
        entries.append(struct.pack(">ii", base + last_delta - 100, position))
        position += len(data)
    log.with_suffix(".index").write_bytes(b"".join(entries[1:]))


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("options", [{"splitBytes": 1}, {"splitBytes": 300}, {"maxRecordsPerPartition": 4}], ids=str)
@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("kind", DELTAS)
def test_tasks_deliver_each_record_once(
    tmp_path: Path, kind: str, codec: int, options: dict[str, int], indexed: bool
) -> None:
    expected = mixed_log(tmp_path, kind, codec)
    if indexed:
        add_index(tmp_path)
    reader, partitions = plan(tmp_path, COLUMNS, **options)
    found = [row for p in partitions for row in rows(table(reader.read(p), COLUMNS))]
    assert sorted(found) == sorted(expected)
    if "splitBytes" in options:
        assert found == expected


@pytest.mark.parametrize("kind", DELTAS)
def test_tasks_deliver_only_committed_records(tmp_path: Path, kind: str) -> None:
    committed = transactional_log(tmp_path, kind)
    reader, partitions = plan(tmp_path, COLUMNS, **{"splitBytes": 1, "kafka.isolation.level": "read_committed"})
    assert [row for p in partitions for row in rows(table(reader.read(p), COLUMNS))] == committed
