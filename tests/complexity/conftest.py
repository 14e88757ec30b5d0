"""Fixtures for the tests of this directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from .logs import NUMBER


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a new partition directory at each call.

    The function's arguments are the segments, as (base offset, bytes), and other files.
    """

    def write_one(segments: list[tuple[int, bytes]], others: Sequence[tuple[str, bytes]] = ()) -> Path:
        folder = tmp_path / f"{next(NUMBER)}" / "t-0"
        folder.mkdir(parents=True)
        for base, data in segments:
            (folder / f"{base:020}.log").write_bytes(data)
        for name, data in others:
            (folder / name).write_bytes(data)
        return folder

    return write_one
