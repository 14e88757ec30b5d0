"""Check `scan_file`, which reads the batch headers of a file in pieces and checks the CRCs."""

from __future__ import annotations

import os
import random
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from building import message, mutate, simple_batch
from decoding import scan

from kafkafmt.types import BATCH_DTYPE, BatchTable, Scan

SMALLEST = 17


def batches(rng: random.Random, count: int, largest: int = 400) -> bytes:
    """Return batches of format 2 and messages of formats 0 and 1, with values of random sizes."""
    parts = []
    for offset in range(count):
        value = rng.randbytes(rng.randrange(largest))
        magic = rng.choice((0, 1, 2, 2, 2))
        parts.append(simple_batch([value], offset) if magic == 2 else message(magic, None, value, offset=offset))
    return b"".join(parts)


def scan_file(
    core: ModuleType, path: Path, piece: int, start: int = 0, end: int | None = None, rows: int = 1000
) -> tuple[BatchTable, Scan]:
    """Scan a file in pieces of `piece` bytes, and return the filled rows and the result."""
    table = np.zeros(rows, BATCH_DTYPE)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        stop = path.stat().st_size if end is None else end
        result: Scan = core.scan_file(descriptor, np.zeros(piece, np.uint8), table, start, stop)
    finally:
        os.close(descriptor)
    return table[: result.count], result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


@pytest.mark.parametrize("piece", [600, 601, 640, 1000, 4096, 1 << 20])
def test_scan_of_a_file_equals_the_scan_of_its_bytes(core: ModuleType, path: Path, piece: int) -> None:
    data = batches(random.Random(piece), 60)
    path.write_bytes(data)
    expected, whole = scan(core, data)
    table, result = scan_file(core, path, piece)
    assert result == whole == (60, len(data), None)
    assert table.tolist() == expected.tolist()


def test_scan_of_a_file_can_begin_and_end_inside_it(core: ModuleType, path: Path) -> None:
    data = batches(random.Random(1), 30)
    path.write_bytes(data)
    starts = scan(core, data)[0]["position"].tolist()
    table, result = scan_file(core, path, 600, starts[10], starts[20])
    assert result == (10, starts[20], None)
    assert table["position"].tolist() == starts[10:20]
    assert table["payload_position"].tolist() == scan(core, data)[0]["payload_position"][10:20].tolist()
    assert scan_file(core, path, 600, starts[10], starts[20] - 1)[1] == (9, starts[19], None)
    assert scan_file(core, path, 600, starts[10], starts[10])[1] == (0, starts[10], None)


def test_scan_of_a_file_ends_before_a_corrupted_batch(core: ModuleType, path: Path) -> None:
    data = batches(random.Random(2), 30)
    starts = scan(core, data)[0]["position"].tolist()
    for at in (starts[7] + 8, starts[7] + 16, starts[8] - 1):
        path.write_bytes(mutate(data, at, bytes([data[at] ^ 0x40])))
        assert scan_file(core, path, 700)[1] == (7, starts[7], None)


def test_scan_of_a_file_ends_before_a_batch_larger_than_the_buffer(core: ModuleType, path: Path) -> None:
    small, large = simple_batch([b"a"], 0), simple_batch([bytes(1000)], 1)
    path.write_bytes(small * 10 + large)
    assert scan_file(core, path, len(large))[1] == (11, 10 * len(small) + len(large), None)
    assert scan_file(core, path, len(large) - 1)[1] == (10, 10 * len(small), None)
    assert scan_file(core, path, 0)[1] == (0, 0, None)


def test_scan_of_a_file_ends_if_the_table_is_full(core: ModuleType, path: Path) -> None:
    data = batches(random.Random(3), 30)
    path.write_bytes(data)
    starts = scan(core, data)[0]["position"].tolist()
    for rows in (0, 1, 29):
        assert scan_file(core, path, 800, rows=rows)[1] == (rows, starts[rows], None)


def test_scan_of_a_file_ends_at_the_end_of_the_file(core: ModuleType, path: Path) -> None:
    data = batches(random.Random(4), 5)
    path.write_bytes(data[:-1])
    starts = scan(core, data)[0]["position"].tolist()
    assert scan_file(core, path, 800, end=len(data))[1] == (4, starts[4], None)
    path.write_bytes(data)
    assert scan_file(core, path, 800, end=2 * len(data))[1] == (5, len(data), None)


def test_scan_of_a_file_that_cannot_be_read_finds_nothing(core: ModuleType, tmp_path: Path) -> None:
    assert scan_file(core, tmp_path, 800, end=100)[1] == (0, 0, None)


def test_scan_of_a_file_rejects_an_invalid_range(core: ModuleType, path: Path) -> None:
    path.write_bytes(b"")
    for start, end in ((-1, 5), (5, 4)):
        with pytest.raises(ValueError, match=f"start {start} and end {end} are not a valid range"):
            scan_file(core, path, 800, start, end)


def test_scan_of_a_file_rejects_a_wrong_buffer(native: ModuleType, path: Path) -> None:
    path.write_bytes(b"")
    with path.open("rb") as file:
        with pytest.raises(ValueError, match="writable"):
            native.scan_file(file.fileno(), b"abc", np.zeros(1, BATCH_DTYPE), 0, 0)
        with pytest.raises(ValueError, match="items"):
            native.scan_file(file.fileno(), np.zeros(8, np.uint8), np.zeros(1, np.int64), 0, 0)


def test_both_cores_scan_mutated_files_equally(native: ModuleType, pure: ModuleType, path: Path) -> None:
    rng = random.Random(5)
    for _ in range(300):
        data = bytearray(batches(rng, rng.randrange(1, 20), 200))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0xFF))
        del data[len(data) - rng.randrange(SMALLEST) :]
        path.write_bytes(data)
        piece, end = rng.randrange(1, 600), rng.randrange(len(data) + 20)
        (native_rows, found), (pure_rows, expected) = (scan_file(c, path, piece, 0, end, 15) for c in (native, pure))
        assert (found, native_rows.tolist()) == (expected, pure_rows.tolist()), (piece, end, bytes(data))
