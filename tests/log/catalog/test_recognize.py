"""Test that files which are not Kafka logs are recognised, and that damaged logs stay readable."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from building import batch, message, record
from command import inside

import kafkafmt
from kafkafmt.log import NoLogError, discover

SEGMENT = f"{0:020}.log"
BATCH = batch([record(i) for i in range(3)])
TEXT = b"2026-11-22 10:00:00 INFO started\n" * 2000
COMMANDS = (
    ["ls"],
    ["cat"],
    ["verify"],
    ["groups"],
    ["seek", "-t", "t", "-p", "0", "--offset", "0"],
    ["salvage", "-O", "OUT"],
)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def tar(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(SEGMENT)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(SEGMENT, data)
    return out.getvalue()


PACKERS: dict[str, tuple[Callable[[bytes], bytes], list[str]]] = {
    "gzip": (gzip.compress, [".gz"]),
    "zstd": (zstandard.ZstdCompressor().compress, [".zst"]),
    "lz4": (lz4.frame.compress, [".lz4"]),
    "xz": (lzma.compress, [".xz"]),
    "bzip2": (bz2.compress, [".bz2"]),
    "zip": (zipped, [".zip"]),
    "tar": (tar, [".tar"]),
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_directory_of_other_logs_is_not_a_kafka_log(tmp_path: Path, command: list[str]) -> None:
    logs = tmp_path / "var" / "log"
    write(logs / "dpkg.log", TEXT)
    write(logs / "alternatives.log", b"")
    write(logs / "random.log", random.Random(1).randbytes(50_000))
    write(logs / "nginx-1" / "access.log", TEXT)
    write(logs / "apt" / "history.log", TEXT)
    done = inside(command[0], logs, *(tmp_path / "out" if a == "OUT" else a for a in command[1:]))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert "no Kafka log found (no file name is a base offset of 20 digits" in done.stderr
    with pytest.raises(NoLogError, match="no Kafka log found"):
        kafkafmt.open(logs)
    with pytest.raises(NoLogError, match="not a Kafka log"):
        kafkafmt.open(logs / "dpkg.log")


def test_file_without_20_digits_is_read_if_it_has_a_valid_batch(tmp_path: Path) -> None:
    whole = write(tmp_path / "a" / "copy.log", BATCH)
    assert [r.offset for r in next(iter(kafkafmt.open(whole).partitions))] == [0, 1, 2]
    damaged = write(tmp_path / "b" / "copy.log", BATCH[:-1] + b"!" + batch([record(0)], base_offset=3))
    assert inside("verify", damaged).returncode == 1
    assert inside("verify", damaged.parent).returncode == 1
    for magic in (0, 1):
        old = b"".join(message(magic, None, b"x", offset=n) for n in range(3))
        assert inside("verify", write(tmp_path / f"{magic}" / "old.log", old)).returncode == 0
        broken = old[:30] + b"!" + old[31:]
        assert inside("verify", write(tmp_path / f"{magic}x" / "old.log", broken)).returncode == 1


@pytest.mark.parametrize(
    "data", [TEXT, b"\0" * 5000, BATCH[:50], BATCH[:-1] + b"!", b"", b"\x1f\x8b", random.Random(2).randbytes(5000)]
)
def test_file_with_20_digits_is_a_segment_even_if_it_is_damaged(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "in" / "t-0" / SEGMENT, data)
    for given in (path, path.parent, tmp_path / "in"):
        (found,) = discover([given]).partitions
        assert [s.name for s in found.segments] == [SEGMENT]
        assert inside("verify", given).returncode == (0 if data in (b"", BATCH[:50], b"\0" * 5000, b"\x1f\x8b") else 1)
    assert inside("salvage", tmp_path / "in", "--output", tmp_path / "out").returncode in (0, 1)


@pytest.mark.parametrize("kind", PACKERS)
def test_packed_file_is_reported(tmp_path: Path, kind: str) -> None:
    pack, suffixes = PACKERS[kind]
    message = f"its format is {kind}; unpack it first"
    for suffix in suffixes:
        path = write(tmp_path / "p-0" / (SEGMENT + suffix), pack(BATCH))
        if suffix in (".gz", ".zst", ".tar", ".zip"):  # test_packed.py
            path.unlink()
            continue
        named = message
        for command in ("ls", "cat", "verify"):
            done = inside(command, path)
            assert (done.returncode, done.stderr) == (3, f"kafkafmt: {path}: {named}\n")
        done = inside("ls", path.parent)
        assert (done.returncode, done.stderr.endswith(f"; {path.name}: not read; {named}\n")) == (3, True)
        done = inside("dump", "--files", path)
        assert (done.returncode, named in done.stderr) == (3, True)
        path.unlink()
    hidden = write(tmp_path / "q-0" / SEGMENT, pack(BATCH))
    assert message in inside("verify", hidden).stderr
    assert message in inside("verify", write(tmp_path / "r.log", pack(BATCH))).stderr
    frames = write(tmp_path / "frames.bin", pack(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff" * 9))
    done = inside("decode", "--requests", frames)
    assert (done.returncode, f"is {kind} and cannot be decoded; unpack it first" in done.stderr) == (3, True)


def test_packed_file_is_recognised_by_its_name_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "orders-0.tar.zst", b"encrypted")
    assert inside("ls", path).stderr == f"kafkafmt: {path}: its name indicates the format zstd; unpack it first\n"


def test_packed_files_next_to_a_log_are_reported_and_the_log_is_read(tmp_path: Path) -> None:
    write(tmp_path / "t-0" / SEGMENT, BATCH)
    write(tmp_path / "t-0" / f"{3:020}.log.bz2", bz2.compress(BATCH))
    write(tmp_path / "u-0.tar", tar(BATCH))
    write(tmp_path / "unrelated.zip", zipped(BATCH))
    done = inside("cat", tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert [line.rpartition("/")[2] for line in done.stderr.splitlines()] == [
        f"{3:020}.log.bz2: not read; its format is bzip2; unpack it first",
        "u-0.tar: not read; its format is tar; unpack it first",
    ]


@pytest.fixture
def partly_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write partitions a-0 to d-0. The directory of b-0 and the segment of c-0 cannot be read."""
    for name in "abcd":
        write(tmp_path / f"{name}-0" / SEGMENT, BATCH)
    (tmp_path / "private").mkdir()
    scandir, open_ = os.scandir, os.open

    def refuse(path: object) -> None:
        if str(path).endswith(("b-0", "private", f"c-0/{SEGMENT}")):
            raise PermissionError(13, "Permission denied", str(path))

    def refusing_scandir(path: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
        refuse(path)
        return scandir(path)

    def refusing_open(path: str | os.PathLike[str], flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        refuse(path)
        return open_(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "scandir", refusing_scandir)
    monkeypatch.setattr(os, "open", refusing_open)
    return tmp_path


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_unreadable_partitions_are_reported_and_the_others_listed(partly_unreadable: Path, command: str) -> None:
    done = inside(command, partly_unreadable, "--format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert [p["topic"] for p in found["partitions"]] == ["a", "d"]
    assert [(p["topic"], p["partition"], p["path"]) for p in found["unreadable"]] == [
        (name, 0, str(partly_unreadable / f"{name}-0")) for name in "bc"
    ]
    assert all("Permission denied" in p["error"] for p in found["unreadable"])
    assert [line.split(" cannot")[0] for line in done.stderr.splitlines()] == [
        f"kafkafmt: {partly_unreadable / 'private'}:", "kafkafmt: b-0", "kafkafmt: c-0",
    ]  # fmt: skip
    done = inside(command, partly_unreadable)
    assert (done.returncode, "a-0" in done.stdout or command == "verify") == (3, True)
    assert inside(command, partly_unreadable, "-t", "[ad]").returncode == 0


def test_unreadable_partition_raises_only_when_it_is_opened(partly_unreadable: Path) -> None:
    done = inside("cat", partly_unreadable, "-t", "b")
    assert (done.returncode, done.stdout) == (3, "")
    with pytest.raises(PermissionError):
        kafkafmt.open(partly_unreadable)
    shutil.rmtree(partly_unreadable / "b-0", ignore_errors=True)


def test_spark_function_reports_an_unreadable_partition_and_reads_the_rest(partly_unreadable: Path) -> None:
    from kafkafmt.spark.functions import decode_partition

    (partly_unreadable / "c-0" / SEGMENT).unlink()
    rows = list(decode_partition(on_error="skip")([str(partly_unreadable)]))
    assert len(rows) == 2 * 3  # the records of a-0 and d-0
    with pytest.raises(OSError, match="Permission denied"):
        list(decode_partition()([str(partly_unreadable)]))
