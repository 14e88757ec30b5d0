"""Check that each command continues if one partition of several cannot be read, or disappears."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from bad_sectors import BadSectors
from command import inside
from golden_cases import GOLDEN

from kafkafmt.log.catalog import discovery
from kafkafmt.log.catalog.partition_dir import PartitionDir

SOURCE = GOLDEN / "kafka-4.3.1" / "segments" / "log"
BROKEN = "segments-time-0"
READERS: list[tuple[str, ...]] = [
    ("ls",),
    ("verify",),
    ("cat",),
    ("stats",),
    ("stats", "--deep"),
    ("dump", "--files"),
    ("groups",),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCE, tmp_path / "log"))


def others(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name != BROKEN)


def failing(real: Callable[..., Any], path: Path, code: int) -> Callable[..., Any]:
    def call(given: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(given, str | os.PathLike) and str(given) == str(path):
            raise OSError(code, os.strerror(code), str(path))
        return real(given, *arguments, **options)

    return call


@pytest.fixture(params=[errno.EACCES, errno.EIO])
def unlistable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Make one partition directory unreadable, and return the message of the error."""
    monkeypatch.setattr(os, "scandir", failing(os.scandir, folder / BROKEN, request.param))
    return os.strerror(request.param)


@pytest.fixture(params=[errno.EACCES, errno.EIO])
def unopenable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Make one segment impossible to open, and return the message of the error."""
    segment = sorted((folder / BROKEN).glob("*.log"))[1]
    monkeypatch.setattr(os, "open", failing(os.open, segment, request.param))
    return os.strerror(request.param)


def export(folder: Path, *arguments: str) -> Any:
    return inside("export", folder, "--engine", "local", "-O", folder.parent / "out", *arguments)


def test_cat_prints_the_other_partitions_if_a_directory_cannot_be_listed(folder: Path, unlistable: str) -> None:
    done = inside("cat", folder, "--format", "json")
    assert done.returncode == 3
    assert f"{BROKEN} cannot be read: {folder / BROKEN}: {unlistable}" in done.stderr
    found = {f"{row['topic']}-{row['partition']}" for row in map(json.loads, done.stdout.splitlines())}
    assert found == set(others(folder))


def test_cat_prints_the_other_partitions_if_a_segment_cannot_be_opened(folder: Path, unopenable: str) -> None:
    done = inside("cat", folder, "--format", "json")
    assert done.returncode == 3
    assert done.stderr.count(f"{BROKEN} cannot be read: ") == 1
    assert unopenable in done.stderr
    found = {f"{row['topic']}-{row['partition']}" for row in map(json.loads, done.stdout.splitlines())}
    assert found == {BROKEN, *others(folder)}


def test_dump_prints_the_other_files(folder: Path, unlistable: str) -> None:
    done = inside("dump", "--files", folder)
    assert done.returncode == 3
    assert f"skipped: {folder / BROKEN}: {unlistable}" in done.stderr
    for name in others(folder):
        assert f"Dumping {folder / name}" in done.stdout


def test_dump_reports_a_segment_once_if_the_path_is_relative(
    folder: Path, unopenable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = sorted((folder / BROKEN).glob("*.log"))[1]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(os, "open", failing(os.open, segment.relative_to(folder), errno.EACCES))
    done = inside("dump", "--files", BROKEN)
    assert done.returncode == 3
    assert done.stderr.count("skipped: ") == 1


def test_dump_continues_after_a_file_that_cannot_be_opened(folder: Path, unopenable: str) -> None:
    done = inside("dump", "--files", folder)
    assert done.returncode == 3
    assert unopenable in done.stderr
    assert f"Dumping {sorted((folder / BROKEN).glob('*.log'))[2]}" in done.stdout


def test_export_reports_a_directory_that_cannot_be_listed(folder: Path, unlistable: str) -> None:
    check_report_of_export(folder, unlistable)


def test_export_reports_a_segment_that_cannot_be_opened(folder: Path, unopenable: str) -> None:
    check_report_of_export(folder, unopenable)


def check_report_of_export(folder: Path, error: str) -> None:
    done = export(folder)
    assert done.returncode == 3, done.stderr
    assert f"{BROKEN} cannot be read, and is not exported: " in done.stderr
    out = folder.parent / "out"
    report = json.loads((out / "report.json").read_text())
    assert not report["ok"]
    (unreadable,) = report["unreadable"]
    assert (f"{unreadable['topic']}-{unreadable['partition']}", error in unreadable["error"]) == (BROKEN, True)
    assert {f"{p['topic']}-{p['partition']}" for p in report["partitions"]} == set(others(folder))


def test_export_stores_unreadable_bytes_as_zeros_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = sorted((folder / BROKEN).glob("*.log"))[1]
    BadSectors(monkeypatch).add(segment, [0])
    done = export(folder)
    assert done.returncode == 1, done.stderr
    (row,) = pq.read_table(folder.parent / "out" / "quarantine").to_pylist()
    assert (row["file"], row["position"], row["error"]) == (segment.name, 0, "unreadable_sectors")
    assert "the disk cannot read bytes 0 to " in row["message"]
    assert "the stored bytes contain zeros" in row["message"]
    assert row["bytes"] == bytes(segment.stat().st_size)


def test_resumed_export_adds_the_partition_that_was_unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", failing(os.scandir, folder / BROKEN, errno.EACCES))
        assert export(folder).returncode == 3
    done = export(folder, "--resume", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "unreadable" not in report
    assert {(f"{p['topic']}-{p['partition']}") for p in report["partitions"] if p["written"]["records"]} == {BROKEN}


def test_export_with_on_error_fail_writes_nothing(folder: Path, unlistable: str) -> None:
    done = export(folder, "--on-error", "fail")
    assert done.returncode == 3
    assert unlistable in done.stderr
    assert not (folder.parent / "out").exists()


@pytest.mark.parametrize("arguments", [("ls",), ("verify",), ("cat",), ("stats",)])
def test_root_checkpoint_without_permission_does_not_affect_the_records(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    checkpoint = folder / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n0\n")
    expected = inside(*arguments, folder)
    monkeypatch.setattr(os, "open", failing(os.open, checkpoint, errno.EACCES))
    done = inside(*arguments, folder)
    assert done.returncode == expected.returncode
    if arguments != ("verify",):
        assert done.stdout == expected.stdout
    assert f"{checkpoint}: ignored, because it cannot be read" in done.stderr


def test_verify_reports_a_root_checkpoint_without_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = folder / "recovery-point-offset-checkpoint"
    monkeypatch.setattr(os, "open", failing(os.open, checkpoint, errno.EACCES))
    done = inside("verify", folder, "--format", "json")
    findings = [f for p in json.loads(done.stdout)["partitions"] for f in p["findings"]]
    assert {(f["file"], f["error"], f["message"]) for f in findings} == {
        (checkpoint.name, "unreadable_checkpoint", f"{checkpoint.name} cannot be read: Permission denied")
    }


@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
@pytest.mark.parametrize("what", ["partition", "segment", "last segment"])
@pytest.mark.parametrize("moment", ["listed", "read"])
def test_vanished_files_are_reported_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], what: str, moment: str
) -> None:
    done = _with_vanishing(folder, monkeypatch, what, moment, *arguments, folder)
    assert done.returncode in (0, 1, 3)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if BROKEN in line]
    assert len(lines) == len(set(lines)), done.stderr
    assert arguments[0] == "dump" or len(lines) <= 1, done.stderr
    if arguments[0] not in ("groups", "verify"):
        for name in others(folder):
            assert name.rsplit("-", 1)[0] in done.stdout


@pytest.mark.parametrize("what", ["partition", "segment", "last segment"])
@pytest.mark.parametrize("moment", ["listed", "read"])
def test_salvage_copies_the_other_partitions_if_files_vanish(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str
) -> None:
    out = folder.parent / "copy"
    done = _with_vanishing(folder, monkeypatch, what, moment, "salvage", folder, "--output", out)
    assert done.returncode in (1, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert set(others(folder)) <= {p.name for p in out.iterdir()}


@pytest.mark.parametrize("what", ["partition", "segment", "last segment"])
@pytest.mark.parametrize("moment", ["listed", "read"])
def test_export_reports_files_that_vanish(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str
) -> None:
    out = folder.parent / "out"
    done = _with_vanishing(folder, monkeypatch, what, moment, "export", folder, "--engine", "local", "-O", out)
    assert done.returncode == 3, done.stderr
    assert BROKEN in done.stderr
    if out.exists():
        assert [u["topic"] for u in json.loads((out / "report.json").read_text())["unreadable"]] == ["segments-time"]


@pytest.mark.parametrize("what", ["partition", "segment", "last segment"])
@pytest.mark.parametrize("moment", ["listed", "read"])
def test_diff_compares_the_other_partitions_if_files_vanish(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str
) -> None:
    copy = shutil.copytree(folder, folder.parent / "copy")
    done = _with_vanishing(folder, monkeypatch, what, moment, "diff", folder, copy)
    assert done.returncode in (1, 3), done.stderr
    assert "Traceback" not in done.stderr


def _with_vanishing(folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: str, *command: Any) -> Any:
    """Run a command. Delete files of one partition directly after it was listed, or when it is first read."""
    segments = sorted((folder / BROKEN).glob("*.log"))

    def delete() -> None:
        if what == "partition":
            shutil.rmtree(folder / BROKEN, ignore_errors=True)
        else:
            segments[1 if what == "segment" else -1].unlink(missing_ok=True)

    if moment == "listed":
        real = discovery._partition

        def listed(path: Path, *arguments: Any, **options: Any) -> PartitionDir:
            found = real(path, *arguments, **options)
            if path == folder / BROKEN:
                delete()
            return found

        monkeypatch.setattr(discovery, "_partition", listed)
    else:
        opened = os.open

        def vanish(path: Any, *arguments: Any, **options: Any) -> int:
            if str(path) == str(segments[0]):
                delete()
                if what == "partition":
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return opened(path, *arguments, **options)

        monkeypatch.setattr(os, "open", vanish)
    return inside(*command)


@pytest.mark.parametrize("suffix", [".checkpoint", "quorum-state"])
def test_salvage_continues_without_an_unreadable_file_of_the_metadata_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    source = next(p.parent.parent for p in sorted(GOLDEN.glob("*/*/log/__cluster_metadata-0/*.checkpoint")))
    folder = Path(shutil.copytree(source, tmp_path / "log"))
    disk = BadSectors(monkeypatch)
    metadata = folder / "__cluster_metadata-0"
    broken = [p for p in metadata.iterdir() if p.name.endswith(suffix)]
    for path in broken:
        disk.add(path, [0])
    done = inside("salvage", folder, "--output", tmp_path / "out", "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    (own,) = [p for p in report["partitions"] if p["topic"] == "__cluster_metadata"]
    assert {f["file"] for f in own["findings"]} >= {p.name for p in broken}
    assert f"{broken[0]}: not copied: Input/output error" in done.stderr
    for path in broken:
        assert not (tmp_path / "out" / metadata.name / path.name).exists()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_dump_continues_after_an_unreadable_index(
    folder: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, code: int
) -> None:
    expected = inside("dump", "--files", folder).stdout
    broken = sorted((folder / BROKEN).glob(f"*{suffix}"))[0]
    monkeypatch.setattr(os, "open", failing(os.open, broken, code))
    done = inside("dump", "--files", folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert done.stderr == f"kafkafmt: skipped: {broken}: {os.strerror(code)}\n"
    titles = [line for line in expected.splitlines() if line.startswith("Dumping ")]
    assert [line for line in done.stdout.splitlines() if line.startswith("Dumping ")] == titles
    assert len(titles) > 2
    alone = inside("dump", "--files", broken)
    assert (alone.returncode, alone.stderr) == (3, f"kafkafmt: {broken}: {os.strerror(code)}\n")
