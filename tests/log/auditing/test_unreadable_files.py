"""Check logs on a damaged disk: files next to the segments cannot be read, but the segments are intact."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import GOLDEN

import kafkafmt

SOURCE = GOLDEN / "kafka-4.3.1" / "transactions" / "log"
CODES = {
    ".index": "unreadable_index",
    ".timeindex": "unreadable_index",
    ".txnindex": "unreadable_index",
    ".snapshot": "unreadable_snapshot",
    "leader-epoch-checkpoint": "unreadable_checkpoint",
    "partition.metadata": "unreadable_checkpoint",
    "log-start-offset-checkpoint": "unreadable_checkpoint",
}


@pytest.fixture
def damaged_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Path]:
    """Return a function that copies a log, and makes its files with one suffix unreadable."""

    def make(suffix: str, code: int) -> Path:
        folder = tmp_path / "log"
        shutil.copytree(SOURCE, folder)
        (folder / "log-start-offset-checkpoint").write_text("0\n0\n")

        def failing(real: Callable[..., Any]) -> Callable[..., Any]:
            def read(handle: int, *arguments: Any) -> Any:
                path = os.readlink(f"/proc/self/fd/{handle}")
                if path.startswith(str(folder)) and path.endswith(suffix):
                    raise OSError(code, os.strerror(code))
                return real(handle, *arguments)

            return read

        for name in ("read", "pread", "preadv"):
            monkeypatch.setattr(os, name, failing(getattr(os, name)))
        return folder

    return make


def segments(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*.log"))}


@pytest.mark.parametrize("suffix", CODES)
def test_unreadable_file_is_a_finding_and_costs_no_record(
    damaged_disk: Callable[[str, int], Path], tmp_path: Path, suffix: str
) -> None:
    intact = kafkafmt.open(SOURCE)
    folder = damaged_disk(suffix, errno.EIO)
    log = kafkafmt.open(folder)
    assert log.to_arrow().num_rows == intact.to_arrow().num_rows
    assert log.to_arrow(isolation="read_committed") == intact.to_arrow(isolation="read_committed")
    report = kafkafmt.verify(folder)
    assert not report.unreadable
    found = {(f.code, f.message) for p in report.partitions for f in p.findings if f.file.endswith(suffix)}
    assert {code for code, _ in found} == {CODES[suffix]}
    assert all("cannot be read: Input/output error" in message for _, message in found)
    salvaged = kafkafmt.salvage(folder, tmp_path / "salvaged")
    assert not salvaged.unreadable
    assert segments(tmp_path / "salvaged") == segments(SOURCE)
    assert not [f for p in kafkafmt.verify(tmp_path / "salvaged").partitions for f in p.findings]


def test_missing_permission_is_not_treated_as_damage(damaged_disk: Callable[[str, int], Path]) -> None:
    folder = damaged_disk(".index", errno.EACCES)
    assert len(kafkafmt.verify(folder).unreadable) == 3
