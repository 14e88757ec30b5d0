"""Test that preallocated space is found without reading the holes of sparse files."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from building import batch, record
from counting import count_bytes

import kafkafmt
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.storage.preallocated import end_of_content, is_hole, occupied, only_zeros, start_of_last_hole

SIZE = 3 << 20
HOLE = 1 << 30


def write(path: Path, chance: Random) -> bytes:
    """Write a sparse file with random ranges of zero and nonzero bytes, and return its content."""
    content = bytearray(SIZE)
    with path.open("wb") as file:
        file.truncate(SIZE)
        for _ in range(chance.randint(0, 4)):
            start, size = chance.randrange(SIZE), chance.choice([1, 5000, 1 << 20])
            part = bytes(min(size, SIZE - start)) if chance.random() < 0.5 else chance.randbytes(1) * (SIZE - start)
            part = part[:size]
            file.seek(start)
            file.write(part)
            content[start : start + len(part)] = part
    return bytes(content)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("holes", [True, False])
def test_end_of_content_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, holes: bool) -> None:
    if not holes:

        def unsupported(*_: int) -> int:
            raise OSError(22, "Invalid argument")

        monkeypatch.setattr(os, "lseek", unsupported)
    chance = Random(seed)
    content = write(tmp_path / "file", chance)
    nonzero = np.flatnonzero(np.frombuffer(content, np.uint8))
    end = int(nonzero[-1]) + 1 if len(nonzero) else 0
    with FileView(tmp_path / "file") as view:
        assert end_of_content(view) == end
        assert end <= start_of_last_hole(view) <= SIZE
        assert not (is_hole(view) and end)
        for position in (0, end - 1, end, end + 1, SIZE - 1, SIZE, chance.randrange(SIZE)):
            assert only_zeros(view, max(position, 0)) == (max(position, 0) >= end)


def test_file_that_was_truncated_after_opening_has_no_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    with FileView(path) as view:
        os.truncate(path, 0)
        assert (end_of_content(view), only_zeros(view, 0)) == (0, True)


def test_hole_at_the_end_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for size, whole in ((0, True), (HOLE, True), (0, True)):
        os.truncate(path, size)
        with FileView(path) as view:
            assert is_hole(view) == whole
            assert start_of_last_hole(view) == 0
    path.write_bytes(b"x" * 4096)
    os.truncate(path, HOLE)
    with FileView(path) as view:
        assert not is_hole(view)
        assert start_of_last_hole(view) < HOLE // 2


def test_holes_occupy_no_space(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    with FileView(path) as view:
        assert occupied(view) == 100_000
    os.truncate(path, HOLE)
    with FileView(path) as view:
        assert 100_000 <= occupied(view) < 200_000


def sparse_log(root: Path, filled: bool, indexed: bool) -> Path:
    """Write two preallocated segments. If `filled` is True, both begin with batches."""
    folder = root / "t-0"
    folder.mkdir()
    for base in (0, 1000):
        path = folder / f"{base:020}.log"
        if filled:
            batches = [batch([record(0)], base_offset=base + i, base_timestamp=base + i) for i in range(3)]
            path.write_bytes(b"".join(batches))
            if indexed:
                entry = (base + 2).to_bytes(8, "big") + (2).to_bytes(4, "big")
                (folder / f"{base:020}.timeindex").write_bytes(entry)
        else:
            path.touch()
        os.truncate(path, HOLE)
    return root


@pytest.mark.parametrize(("filled", "indexed"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("options", "end", "end_if_empty"),
    [({"at_time": 1}, 1, 1000), ({"at": 1}, 1, 1), ({"at": -1}, 1002, 999), ({}, 1003, 1000)],
)
def test_holes_are_not_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    filled: bool,
    indexed: bool,
    options: dict[str, Any],
    end: int,
    end_if_empty: int,
) -> None:
    root = sparse_log(tmp_path, filled, indexed)
    count = count_bytes(monkeypatch)
    served = kafkafmt.serve(root, **options).catalog.partition("t", 0)
    assert served is not None
    assert served.high_watermark() == served.last_stable_offset() == (end if filled else end_if_empty)
    found = served.find_timestamp(1000)
    assert (None if found is None else found.offset) == (1000 if filled and end > 1000 else None)
    assert count[0] < 4 << 20
