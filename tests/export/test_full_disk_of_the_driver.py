"""Test an export whose disk becomes full while the driver writes the quarantine or the report."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path, PurePath
from typing import Any

import pytest
from building import batch, mutate, record

import kafkafmt
from kafkafmt.exporting.staging import Staging


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log directory in which one of three batches is damaged."""
    batches = [batch([record(0, value=bytes(5000))], base_offset=i) for i in range(3)]
    batches[1] = mutate(batches[1], 200, b"damaged")
    (tmp_path / "in" / "t-0").mkdir(parents=True)
    (tmp_path / "in" / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    return tmp_path / "in"


class FullFile(io.FileIO):
    """A file whose disk becomes full after 100 bytes."""

    def write(self, data: Any) -> int:
        super().write(memoryview(data)[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk become full when the driver writes the quarantine or the report."""
    create, write_text = Staging.create, Path.write_text

    def full_create(staging: Staging, target: PurePath) -> FullFile:
        create(staging, target).close()
        return FullFile(staging.path / target, "w")

    def full_write(path: Path, text: str, **options: Any) -> int:
        write_text(path, text[: len(text) // 2], **options)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if moment == "quarantine":
        monkeypatch.setattr(Staging, "create", full_create)
    else:
        monkeypatch.setattr(Path, "write_text", full_write)


def files_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("old", [False, True], ids=["new", "overwrite"])
@pytest.mark.parametrize("name", ["out", "out.parquet"])
@pytest.mark.parametrize("moment", ["quarantine", "report"])
def test_full_disk_of_the_driver_names_the_output(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, name: str, old: bool
) -> None:
    output = tmp_path / name
    if old:
        kafkafmt.export(log, output, engine="local")
    before = files_of(tmp_path)
    with monkeypatch.context() as patch:
        fill_disk(moment, patch)
        with pytest.raises(OSError, match="No space left on device") as caught:
            kafkafmt.export(log, output, engine="local", overwrite=True)
    assert str(caught.value) == f"[Errno {errno.ENOSPC}] No space left on device: '{output}'"
    assert files_of(tmp_path) == before
    assert not kafkafmt.export(log, output, engine="local", overwrite=True).ok
