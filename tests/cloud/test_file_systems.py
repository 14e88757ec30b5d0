"""Read logs through fsspec, for schemes that obstore does not serve."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from command import inside
from golden_cases import CASES

import kafkafmt
from kafkafmt.log import NoLogError

(CASE,) = (c for c in CASES if c.name == "epochs" and c.folder.parent.name.startswith("kafka-4"))


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[list[str]]:
    """Return URLs of copies of one log directory: in memory, in a zip file and in a tar file."""
    files = [p for p in (CASE.folder / "log").rglob("*") if p.is_file()]
    memory = fsspec.filesystem("memory")
    with (
        zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as packed,
        tarfile.open(tmp_path / "x.tar", "w") as tar,
    ):
        for path in files:
            name = str(path.relative_to(CASE.folder / "log"))
            memory.pipe(f"/copy/{name}", path.read_bytes())
            packed.write(path, f"copy/{name}")
            tar.add(path, f"copy/{name}")
    yield ["memory://copy", f"zip://copy::{tmp_path}/x.zip", f"tar://copy::file://{tmp_path}/x.tar"]
    memory.rm("/copy", recursive=True)


def test_logs_are_read_through_fsspec(urls: list[str]) -> None:
    local = kafkafmt.open(CASE.folder / "log")
    for url in urls:
        log = kafkafmt.open(url)
        assert [(p.topic, p.partition) for p in log] == [(p.topic, p.partition) for p in local]
        for p in local:
            assert log[p.topic, p.partition].to_arrow().equals(p.to_arrow()), url


def test_commands_print_the_same_through_fsspec(urls: list[str]) -> None:
    for command in (["verify"], ["cat", "--internal"], ["ls"]):
        expected = inside(*command, "--format", "json", CASE.folder / "log")
        for url in urls:
            done = inside(*command, "--format", "json", url)
            begin, colons, chain = url.partition("::")
            shown = done.stdout.replace(colons + chain, "").replace(begin, str(CASE.folder / "log"))
            assert (done.returncode, shown) == (expected.returncode, expected.stdout)


def test_missing_places_are_reported(urls: list[str]) -> None:
    for url in urls:
        wrong = url.replace("copy", "wrong")
        with pytest.raises(FileNotFoundError, match="wrong"):
            kafkafmt.open(wrong)
        assert inside("ls", wrong).returncode == 3
    fsspec.filesystem("memory").pipe("/copy/other/x.txt", b"x")
    with pytest.raises(NoLogError, match="no Kafka log found"):
        kafkafmt.open("memory://copy/other")
