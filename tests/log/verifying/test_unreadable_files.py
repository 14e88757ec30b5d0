"""Check logs on a damaged disk: files next to the segments cannot be read, but the segments are intact."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import GOLDEN

import kafkafmt
from kafkafmt.cli.verify import ADVICE

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

        def open_failing(path: Any, *arguments: Any, **options: Any) -> int:
            if str(path).startswith(str(folder)) and str(path).endswith(suffix):
                raise OSError(code, os.strerror(code), str(path))
            return opened(path, *arguments, **options)

        opened = os.open
        if code != errno.EIO:
            monkeypatch.setattr(os, "open", open_failing)
        for name in ("read", "pread", "preadv"):
            monkeypatch.setattr(os, name, failing(getattr(os, name)))
        return folder

    return make


def segments(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*.log"))}


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EPERM, errno.ESTALE, errno.ENOTCONN])
@pytest.mark.parametrize("suffix", CODES)
@pytest.mark.slow
def test_unreadable_file_is_a_finding_and_costs_no_record(
    damaged_disk: Callable[[str, int], Path], tmp_path: Path, suffix: str, code: int
) -> None:
    intact = kafkafmt.open(SOURCE)
    folder = damaged_disk(suffix, code)
    log = kafkafmt.open(folder)
    assert log.to_arrow().num_rows == intact.to_arrow().num_rows
    assert log.to_arrow(isolation="read_committed") == intact.to_arrow(isolation="read_committed")
    report = kafkafmt.verify(folder)
    assert not report.unreadable
    found = {(f.code, f.message) for p in report.partitions for f in p.findings if f.file.endswith(suffix)}
    assert {code for code, _ in found} == {CODES[suffix]}
    assert all(f"cannot be read: {os.strerror(code)}" in message for _, message in found)
    salvaged = kafkafmt.salvage(folder, tmp_path / "salvaged")
    assert not salvaged.unreadable
    assert segments(tmp_path / "salvaged") == segments(SOURCE)
    assert not [f for p in kafkafmt.verify(tmp_path / "salvaged").partitions for f in p.findings]


def test_diff_does_not_compare_a_transaction_index_that_cannot_be_read(
    damaged_disk: Callable[[str, int], Path],
) -> None:
    messages: list[str] = []
    report = kafkafmt.diff(damaged_disk(".txnindex", errno.EACCES), SOURCE, on_message=messages.append)
    assert report.exit_code == 0
    assert messages
    assert all("so transaction indexes are not compared" in message for message in messages)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE, errno.ENOTCONN])
def test_segment_that_the_disk_has_not_damaged_is_not_treated_as_damage(
    damaged_disk: Callable[[str, int], Path], code: int
) -> None:
    report = kafkafmt.verify(damaged_disk(".log", code))
    assert (len(report.unreadable), report.partitions, report.exit_code) == (3, (), 3)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE, errno.ENOTCONN])
@pytest.mark.parametrize("name", ["tx-0/quorum-state", "bootstrap.checkpoint"])
def test_salvage_copies_the_log_without_a_file_that_cannot_be_copied(
    damaged_disk: Callable[[str, int], Path], tmp_path: Path, name: str, code: int
) -> None:
    folder = damaged_disk(name, code)
    (folder / name).write_text("{}")
    messages: list[str] = []
    kafkafmt.salvage(folder, tmp_path / "salvaged", on_message=messages.append)
    assert segments(tmp_path / "salvaged") == segments(SOURCE)
    assert [m for m in messages if name in m and os.strerror(code) in m]
    assert not (tmp_path / "salvaged" / name).exists()


@pytest.mark.parametrize(("name", "copied"), [("leader-epoch-checkpoint", True), ("partition.metadata", False)])
def test_advice_says_which_unreadable_file_salvage_omits(
    damaged_disk: Callable[[str, int], Path], tmp_path: Path, name: str, copied: bool
) -> None:
    folder = damaged_disk(name, errno.EIO)
    kafkafmt.salvage(folder, tmp_path / "salvaged")
    assert [p.name for p in folder.glob(f"*/{name}")]
    assert bool(list((tmp_path / "salvaged").glob(f"*/{name}"))) is copied
    assert (f"omits {name}" in ADVICE["unreadable_checkpoint"]) is not copied


def test_salvage_of_an_index_without_permissions_writes_an_index_that_its_owner_can_read(tmp_path: Path) -> None:
    """The index is rebuilt from the segment, so it contains nothing that the owner may not read."""
    folder = shutil.copytree(SOURCE, tmp_path / "log")
    index = min(folder.glob("*/*.index"))
    index.chmod(0)
    assert kafkafmt.salvage(folder, tmp_path / "salvaged").ok
    assert stat.S_IMODE((tmp_path / "salvaged" / index.relative_to(folder)).stat().st_mode) == 0o400
