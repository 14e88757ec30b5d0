"""Read compressed segments and archives as they are."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from building import batch, record
from command import inside

import kafkafmt
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.storage import packed

PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with two partitions of several segments."""
    folder: Path = tmp_path_factory.mktemp("packed") / "log"
    with kafkafmt.LogDirectory(folder, segment_bytes=100_000) as directory:
        for partition in range(2):
            writer = directory.writer("t", partition)
            for _ in range(30):
                writer.append([(b"k", os.urandom(200))] * 50)
    return folder


def compressed(log: Path, target: Path, suffix: str) -> Path:
    """Copy a log directory, with compressed segments."""
    shutil.copytree(log, target)
    for path in target.rglob("*.log"):
        path.with_name(path.name + suffix).write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()
    return target


def archived(log: Path, target: Path, suffix: str) -> Path:
    """Pack a log directory into a tar or zip file. In the tar file, it is two directories deep."""
    path = target.with_name(f"x{suffix}")
    if suffix == ".zip":
        shutil.make_archive(str(path.with_suffix("")), "zip", log)
    else:
        with tarfile.open(path, "w") as archive:
            archive.add(log, "kafka/data")
    return path


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
@pytest.mark.parametrize("suffix", [".gz", ".zst", ".tar", ".zip"])
def test_packed_log_is_read_like_the_log(log: Path, tmp_path: Path, suffix: str) -> None:
    if suffix in (".tar", ".zip"):
        pytest.importorskip("fsspec")
    source = (compressed if suffix in PACK else archived)(log, tmp_path / "copy", suffix)
    found, expected = kafkafmt.open(source), kafkafmt.open(log)
    assert found.messages == []
    for p in expected:
        copy = found[p.topic, p.partition]
        assert copy.to_arrow().equals(p.to_arrow())
        assert copy.next_offset == p.next_offset
        assert [s.size for s in copy.log.segments] == [s.size for s in p.log.segments]
        assert [r.offset for r in copy.records(start=700, end=705)] == list(range(700, 705))
    assert inside("verify", source, "--strict").returncode == 0
    for command in (["cat"], ["ls", "--format", "json"], ["seek", "-t", "t", "-p", "1", "--offset", "800"]):
        shown = inside(*command, source).stdout
        assert shown == inside(*command, log).stdout or command[0] != "cat"
        assert shown
    done = inside("salvage", source, "--output", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert inside("cat", tmp_path / "out").stdout == inside("cat", log).stdout


def test_compressed_segment_can_be_a_path(log: Path, tmp_path: Path) -> None:
    source = compressed(log, tmp_path / "copy", ".gz") / "t-0"
    (first, *_) = sorted(source.glob("*.log.gz"))
    for path in (first, source):
        found = kafkafmt.open(path)
        assert found.messages == []
        (p,) = found
        assert next(iter(p)).offset == 0
    assert len(inside("cat", first).stdout.splitlines()) < len(inside("cat", source).stdout.splitlines())


@pytest.mark.parametrize("suffix", PACK)
def test_incomplete_compressed_segment_is_an_error(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = PACK[suffix](batch([record(i, value=os.urandom(500)) for i in range(900)]))
    path = folder / f"{0:020}.log{suffix}"
    for wrong in (data[:-3], data[: len(data) // 2], b"", b"not compressed"):
        path.write_bytes(wrong)
        done = inside("verify", folder)
        assert (done.returncode, done.stdout.count("lost")) == (3, 0), (wrong[:20], done)
        assert "data is damaged or incomplete after" in done.stderr
    path.write_bytes(data + PACK[suffix](batch([record(0)], base_offset=900)))  # two members or frames
    assert inside("verify", folder).returncode == 0
    assert kafkafmt.open(folder)["t", 0].next_offset == 901


def test_uncompressed_copy_is_preferred(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = batch([record(i) for i in range(3)])
    (folder / f"{0:020}.log").write_bytes(data)
    for suffix, pack in PACK.items():
        (folder / f"{0:020}.log{suffix}").write_bytes(pack(data))
    found = discover([folder])
    assert [s.name for s in found.partitions[0].segments] == [f"{0:020}.log"]
    assert [m.rpartition("/")[2] for m in found.messages] == [
        f"{0:020}.log{suffix}: not read, because {0:020}.log is" for suffix in sorted(PACK)
    ]


def test_segment_is_decompressed_once_for_several_readers(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = compressed(log, tmp_path / "copy", ".zst") / "t-0"
    made, real = list[Path](), packed._unpacked

    def counted(path: Path, open_source: Callable[[], packed.SequentialReader]) -> int:
        made.append(path)
        return real(path, open_source)

    monkeypatch.setattr(packed, "_unpacked", counted)
    before = len(os.listdir("/proc/self/fd"))
    (directory,) = discover([source]).partitions
    for segment in directory.segments:
        one = PartitionLog(directory)
        one.plan(segment)
        assert sum(
            len(part.table) for part in one.parts(segment.base_offset or 0, (segment.base_offset or 0) + 1, None)
        )
    assert len(made) == len(directory.segments)
    made[0].with_name(made[0].name).write_bytes(made[0].read_bytes())  # a changed file is decompressed again
    discover([made[0]]).partitions[0].segments[0].size  # noqa: B018
    assert len(made) == len(directory.segments) + 1
    assert len(os.listdir("/proc/self/fd")) <= before + packed.KEPT
