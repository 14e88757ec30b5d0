"""Test how `FileView` prepares sequential reads of a local file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkafmt.log.storage.file_view import SEQUENTIAL_BYTES, FileView

pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system has no posix_fadvise")


@pytest.mark.parametrize(("size", "calls"), [(SEQUENTIAL_BYTES - 1, 0), (SEQUENTIAL_BYTES, 1)])
def test_large_sequential_reads_are_announced(
    size: int, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, start, length, advice: made.append((start, length, advice)))
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 2 * SEQUENTIAL_BYTES)
    with FileView(path) as view:
        view.expect(100, 100 + size)
    assert made == [(0, 0, os.POSIX_FADV_SEQUENTIAL)] * calls
