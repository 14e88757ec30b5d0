"""Test that a partition which cannot be read does not prevent reading the others. The exit code is 3."""

import errno
import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command import inside
from golden_cases import case

from kafkafmt.log import PartitionDir, PartitionLog
from kafkafmt.log.storage.file_view import FileView

salvage = import_module("kafkafmt.log.repairing.salvage_api")


@pytest.fixture
def partly_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return two partitions, one of which cannot be read completely (EIO)."""
    source = tmp_path / "log"
    for name in ("codec-none-0", "codec-zstd-0"):
        shutil.copytree(case("codecs").roots[0] / name, source / name)
    read_into = FileView.read_into

    def read(self: FileView, view: Any, position: int) -> Any:
        if "codec-none-0" in str(self.path) and self.path.suffix == ".log" and position + len(memoryview(view)) > 5000:
            raise OSError(errno.EIO, "Input/output error", str(self.path))
        return read_into(self, view, position)

    monkeypatch.setattr(FileView, "read_into", read)
    return source


def test_verify_continues_after_an_unreadable_partition(partly_unreadable: Path) -> None:
    done = inside("verify", partly_unreadable, "--format", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (3, False)
    assert [p["topic"] for p in report["partitions"]] == ["codec-zstd"]
    assert report["partitions"][0]["damaged"] == []
    file = partly_unreadable / "codec-none-0" / f"{0:020}.log"
    assert report["unreadable"] == [
        {"topic": "codec-none", "partition": 0, "path": str(file.parent), "error": f"{file}: Input/output error"}
    ]
    assert done.stderr.splitlines() == [f"kafkafmt: codec-none-0 cannot be read: {file}: Input/output error"]
    assert "no damage" not in inside("verify", partly_unreadable).stdout


def test_salvage_continues_after_an_unreadable_partition(partly_unreadable: Path, tmp_path: Path) -> None:
    done = inside("salvage", partly_unreadable, "--output", tmp_path / "out")
    assert done.returncode == 3
    assert "codec-none-0 cannot be read" in done.stderr
    copied, original = (root / "codec-zstd-0" / f"{0:020}.log" for root in (tmp_path / "out", partly_unreadable))
    assert copied.read_bytes() == original.read_bytes()
    assert not (tmp_path / "out" / "codec-none-0").exists()


def test_salvage_continues_if_a_directory_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "log"
    for name in ("codec-none-0", "codec-zstd-0"):
        shutil.copytree(case("codecs").roots[0] / name, source / name)

    class Failing(PartitionLog):
        def __init__(self, directory: PartitionDir, *arguments: Any, **options: Any) -> None:
            if directory.topic == "codec-none":
                raise OSError(errno.EIO, "Input/output error", str(directory.path))
            super().__init__(directory, *arguments, **options)

    monkeypatch.setattr(salvage, "PartitionLog", Failing)
    done = inside("salvage", source, "--output", tmp_path / "out", "--format", "json")
    report = json.loads(done.stdout)
    assert (done.returncode, [p["topic"] for p in report["partitions"]]) == (3, ["codec-zstd"])
    assert [(p["topic"], p["error"]) for p in report["unreadable"]] == [
        ("codec-none", f"{source / 'codec-none-0'}: Input/output error")
    ]
    assert (tmp_path / "out" / "codec-zstd-0" / f"{0:020}.log").exists()
