"""Count system calls, and the bytes that are read from files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kafkafmt.log.storage.file_view import FileView

SYSTEM_CALLS = ("stat", "lstat", "scandir", "listdir", "open", "fstat", "readlink")


def count_system_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of functions in `os` that make a system call."""
    counts: Counter[str] = Counter()

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return real(*args, **kwargs)

        return call

    for name in SYSTEM_CALLS:
        monkeypatch.setattr(os, name, counting(name, getattr(os, name)))
    return counts


def count_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list with one item, the number of bytes read from files."""
    count = [0]
    original = FileView.read_into

    def counted(view: FileView, buffer: Any, position: int) -> int:
        got = original(view, buffer, position)
        count[0] += got
        return got

    monkeypatch.setattr(FileView, "read_into", counted)
    return count
