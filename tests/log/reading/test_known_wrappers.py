"""Test that the wrapper messages of a damaged segment are decompressed together, and only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from building import compress, message, mutate

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading import known_wrappers, segment_tables
from kafkafmt.records.wrappers import WrapperReader
from kafkafmt.types import BatchTable

GZIP = 1


def entries(n: int, plain: bool) -> list[bytes]:
    """Return `n` wrapper messages with two messages each. If `plain` is True, a plain message follows each of them."""
    found, offset = [], 0
    for _ in range(n):
        inner = b"".join(message(1, None, b"value", offset=k) for k in range(2))
        found.append(message(1, None, compress(GZIP, inner), offset=offset + 1, attributes=GZIP))
        offset += 2
        if plain:
            found.append(message(1, None, b"value", offset=offset))
            offset += 1
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of wrapper messages in each call of `WrapperReader.offsets`."""
    found: list[int] = []
    offsets = WrapperReader.offsets

    def counted(self: WrapperReader, buffer: Any, table: BatchTable) -> Any:
        found.append(len(table))
        return offsets(self, buffer, table)

    monkeypatch.setattr(WrapperReader, "offsets", counted)
    return found


def plan(folder: Path, parts: list[bytes]) -> Any:
    path = folder / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"".join(parts))
    log = PartitionLog(discover([path]).partitions[0])
    return log.plan(log.segments[0])


@pytest.mark.parametrize("plain", [False, True])
def test_wrapper_messages_between_damage_are_read_together(tmp_path: Path, plain: bool, reads: list[int]) -> None:
    parts = entries(3000, plain)
    parts = [mutate(p, len(p) - 1, bytes([p[-1] ^ 1])) if i % 5 == 2 else p for i, p in enumerate(parts)]
    found = plan(tmp_path, parts)
    assert len(found.damaged) == len(parts) // 5
    assert sum(reads) <= 3000
    assert len(reads) < 10


@pytest.mark.parametrize("most", [10, 1 << 20])
def test_wrapper_messages_are_decompressed_once_if_offsets_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int], most: int
) -> None:
    """The segment is read three times. If too many wrapper messages would be remembered, they are read again."""
    monkeypatch.setattr(known_wrappers, "MOST_WRAPPERS", most)
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 4096)
    parts = entries(300, True)
    parts = [mutate(p, 6, bytes([p[6] ^ 1])) if i % 7 == 3 else p for i, p in enumerate(parts)]
    found = plan(tmp_path, parts)
    assert len(found.damaged) == len(range(3, len(parts), 7))
    assert (sum(reads) == 300) == (most > 300)
