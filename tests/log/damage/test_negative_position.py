"""Read a segment whose offset index contains a negative position."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import source_rows
from building import batch, record

import kafkafmt

BATCHES = 40


@pytest.mark.parametrize("damaged", [0, 1, BATCHES - 2])
@pytest.mark.parametrize("start", [0, 1, 5, BATCHES // 2, BATCHES - 1])
def test_negative_position_in_an_index_does_not_stop_reading(
    package: object, tmp_path: Path, damaged: int, start: int
) -> None:
    batches = [batch([record(0, value=b"v" * 3000)], base_offset=offset) for offset in range(BATCHES)]
    entries = [struct.pack(">ii", offset, offset * len(batches[0])) for offset in range(1, BATCHES)]
    entries[damaged] = struct.pack(">ii", damaged + 1, -(2**31) + 7)
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(b"".join(batches))
    log.with_suffix(".index").write_bytes(b"".join(entries))
    expected = list(range(start, BATCHES))
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert [r.offset for r in partition.records(start=start)] == expected
    options = {"startingOffsets": f'{{"t": {{"0": {start}}}}}', "subscribe": "t"}
    for split_bytes in (1, 20_000, 1 << 26):
        table = source_rows.read(tmp_path, ("offset",), splitBytes=split_bytes, **options)
        assert table["offset"].to_pylist() == expected
    assert [f.code for f in kafkafmt.verify(tmp_path).partitions[0].findings] == ["index_garbage"]
