"""Test that spans of a file are read without the bytes between them."""

from __future__ import annotations

import errno
import mmap
import os
import random
from pathlib import Path

import numpy as np
import pytest

from kafkafmt.log.storage import span_buffer
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.storage.span_buffer import GROUP_BYTES, PAGE_BYTES, SpanBuffer, _buffer_size, window_of

DATA = random.Random(3).randbytes(200_000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize("seed", range(20))
def test_spans_keep_their_distances(file: Path, seed: int) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(100_000) for _ in range(chance.choice((1, 3, 200)))]
    spans = np.array([(start, start + chance.randrange(1, 300)) for start in starts])
    buffer = SpanBuffer()
    with FileView(file) as view:
        assert buffer.fill(view, 5000, spans) == spans[:, 1].max()
        assert view.bytes_read <= (spans[:, 1] - spans[:, 0]).sum() + PAGE_BYTES * len(spans)
    for start, end in spans.tolist():
        assert buffer.data[start:end].tobytes() == DATA[5000 + start : 5000 + end]


def test_bytes_between_distant_spans_are_not_read(file: Path) -> None:
    buffer, spans = SpanBuffer(), np.array([(190_000, 190_010), (0, 10), (10 + PAGE_BYTES, 20 + PAGE_BYTES)])
    with FileView(file) as view:
        buffer.fill(view, 0, spans)
        assert (view.reads, view.bytes_read) == (2, 30 + PAGE_BYTES)


def test_distant_spans_do_not_keep_their_memory(tmp_path: Path) -> None:
    path, buffer = tmp_path / "sparse", SpanBuffer()
    with path.open("wb") as file:
        file.truncate(64 << 20)
    with FileView(path) as view:
        buffer.fill(view, 0, np.array([(0, 10), ((64 << 20) - 10, 64 << 20)]))
        assert len(buffer.data) == 64 << 20
        buffer.fill(view, 0, np.array([(0, 10)]))
        assert len(buffer.data) == 2 * GROUP_BYTES


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux has this file")
def test_spans_in_a_large_file_take_little_memory(tmp_path: Path) -> None:
    """With huge pages, each of these spans would take 2 MiB."""
    size, path, buffer = 256 << 20, tmp_path / "sparse", SpanBuffer()
    with path.open("wb") as file:
        file.truncate(size)
    starts = np.arange(0, size, 1 << 20)
    before = resident_bytes()
    with FileView(path) as view:
        buffer.fill(view, 0, np.stack((starts, starts + 10), axis=1))
    assert resident_bytes() - before < 16 << 20


def test_end_of_the_file_is_returned_if_it_is_before_the_end_of_a_span(file: Path) -> None:
    with FileView(file) as view:
        assert SpanBuffer().fill(view, 150_000, np.array([(0, 10), (40_000, 60_000)])) == 50_000
        assert SpanBuffer().fill(view, 150_000, np.array([(0, 10), (55_000, 60_000)])) == 55_000


def test_spans_of_a_segment_can_be_read_together_at_any_distance(file: Path) -> None:
    with FileView(file) as view:
        assert window_of(view) >= 2 << 30


def test_window_is_small_if_the_address_space_is_limited(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(size: int) -> mmap.mmap:
        if size > 300 << 20:
            raise OSError(errno.ENOMEM, "no memory")
        return mmap.mmap(-1, size)

    monkeypatch.setattr(span_buffer, "_sparse_memory", limited)
    _buffer_size.cache_clear()
    try:
        with FileView(file) as view:
            assert window_of(view) == 256 << 20
    finally:
        _buffer_size.cache_clear()


def test_window_of_a_remote_file_is_small(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileView(file) as view:
        assert window_of(view) > GROUP_BYTES
        monkeypatch.setattr(view, "least_read", 1 << 16, raising=False)
        assert window_of(view) == GROUP_BYTES
