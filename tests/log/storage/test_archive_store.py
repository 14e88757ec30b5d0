"""Read logs in tar and zip archives that change, that are large, or that have unusual members."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import inside

import kafkafmt
from kafkafmt import build_batch
from kafkafmt.log.storage import stores
from kafkafmt.log.storage.stores import store_of
from kafkafmt.support.paths import UrlPath

NAME = f"{0:020}.log"
Pack = Callable[[Path, dict[str, bytes]], None]


def pack_tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def pack_compressed_tar(path: Path, files: dict[str, bytes]) -> None:
    pack_tar(path, files)
    packed = (lzma if path.suffix in (".xz", ".txz") else bz2 if "bz" in path.suffix else gzip).compress(
        path.read_bytes()
    )
    path.write_bytes(packed)


def pack_stored(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)


def pack_deflated(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(name, data)


PACKERS = {"a.tar": pack_tar, "a.zip": pack_stored, "deflated.zip": pack_deflated}
PACKERS |= dict.fromkeys(("a.tgz", "a.tar.gz", "a.tar.xz", "a.tar.bz2", "A.TGZ"), pack_compressed_tar)
every_archive = pytest.mark.parametrize("name", PACKERS)


def segment(text: bytes, count: int = 6) -> bytes:
    return bytes(build_batch([(None, text)] * count))


def values(path: Path) -> list[bytes | None]:
    return [record.value for record in kafkafmt.open(path)["t", 0].records()]


@every_archive
def test_replaced_archive_is_read_again(tmp_path: Path, name: str) -> None:
    path, pack = tmp_path / name, PACKERS[name]
    pack(path, {f"t-0/{NAME}": segment(b"AAAA")})
    assert values(path) == [b"AAAA"] * 6
    pack(path, {f"t-0/{NAME}": segment(b"BBBB", 12)})
    assert values(path) == [b"BBBB"] * 12
    pack(tmp_path / "new", {f"t-0/{NAME}": segment(b"CCCC"), f"u-0/{NAME}": segment(b"D")})
    os.replace(tmp_path / "new", path)
    assert values(path) == [b"CCCC"] * 6
    assert [p.topic for p in kafkafmt.verify(path).partitions] == ["t", "u"]


@every_archive
def test_archive_that_changes_while_it_is_read_is_an_error(tmp_path: Path, name: str) -> None:
    path, pack = tmp_path / name, PACKERS[name]
    pack(path, {f"t-0/{NAME}": segment(b"AAAA")})
    member = UrlPath(f"{'zip' if path.suffix == '.zip' else 'tar'}://t-0/{NAME}::{path}")
    store = store_of(member)
    version = store.status(member).version
    assert bytes(store.read(member, 0, 61, version)) == segment(b"AAAA")[:61]
    pack(path, {f"t-0/{NAME}": segment(b"BBBB", 100)})
    with pytest.raises(OSError, match="the archive changed while it was read") as error:
        store.read(member, 0, 61, version)
    assert error.value.errno == errno.ESTALE


def test_stores_are_bounded(tmp_path: Path) -> None:
    for i in range(stores.MOST_STORES + 10):
        pack_tar(tmp_path / f"{i}.tar", {f"t-0/{NAME}": segment(b"x")})
        assert values(tmp_path / f"{i}.tar") == [b"x"] * 6
    assert len(stores._MADE) <= stores.MOST_STORES


def test_deflated_member_is_decompressed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(i.to_bytes(8, "big") + bytes(build_batch([(None, os.urandom(50_000))]))[8:] for i in range(200))
    pack_deflated(tmp_path / "a.zip", {f"t-0/{NAME}": data})
    opened = []
    real = zipfile.ZipFile.open

    def counted(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
        opened.append(member.filename)
        return real(packed, member)

    monkeypatch.setattr(zipfile.ZipFile, "open", counted)
    assert kafkafmt.open(tmp_path / "a.zip")["t", 0].to_arrow(["offset"]).num_rows == 200
    assert len(opened) <= 2


def test_negative_size_is_reported_in_one_line(tmp_path: Path) -> None:
    pack_tar(tmp_path / "neg.tar", {f"t-0/{NAME}": segment(b"x")})
    data = bytearray((tmp_path / "neg.tar").read_bytes())
    data[124:136] = b"\xff" * 12
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    (tmp_path / "neg.tar").write_bytes(data)
    for command in (["ls"], ["verify"], ["salvage", "-O", str(tmp_path / "out")]):
        done = inside(*command, tmp_path / "neg.tar")
        assert done.returncode == 3
        assert len(done.stderr.splitlines()) == 1


def test_members_that_are_not_files_are_not_read_as_empty(tmp_path: Path) -> None:
    kinds = {"fifo": tarfile.FIFOTYPE, "device": tarfile.CHRTYPE, "link": tarfile.SYMTYPE}
    for name, kind in kinds.items():
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            member = tarfile.TarInfo(f"t-0/{NAME}")
            member.type, member.linkname = kind, "missing"
            tar.addfile(member)
        done = inside("verify", tmp_path / f"{name}.tar")
        assert done.returncode == 3, name
        assert "broken link, a device or a pipe" in done.stderr


def test_links_inside_an_archive_are_followed(tmp_path: Path) -> None:
    data = segment(b"linked")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        member = tarfile.TarInfo("data/real.bin")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
        for topic, kind, target in (
            ("s", tarfile.SYMTYPE, "../data/real.bin"),
            ("h", tarfile.LNKTYPE, "data/real.bin"),
        ):
            link = tarfile.TarInfo(f"{topic}-0/{NAME}")
            link.type, link.linkname = kind, target
            tar.addfile(link)
    log = kafkafmt.open(tmp_path / "a.tar")
    assert [[r.value for r in p.records()] for p in log] == [[b"linked"] * 6] * 2


def test_last_member_with_a_name_is_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for text in (b"first", b"second"):
            data = segment(text)
            member = tarfile.TarInfo(f"t-0/{NAME}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    assert values(tmp_path / "a.tar") == [b"second"] * 6


def test_names_that_lead_out_of_the_archive_are_ignored(tmp_path: Path) -> None:
    pack_tar(tmp_path / "a.tar", {f"../t-0/{NAME}": segment(b"x"), f"./u-0/{NAME}": segment(b"y")})
    assert [p.topic for p in kafkafmt.open(tmp_path / "a.tar")] == ["u"]


def test_archive_in_another_store_is_read_again_after_a_change(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for text in (b"one", b"other"):
        pack_tar(tmp_path / "a.tar", {f"t-0/{NAME}": segment(text)})
        memory.pipe("/backup/a.tar", (tmp_path / "a.tar").read_bytes() + bytes(len(text) * 512))
        log = kafkafmt.open("tar://::memory://backup/a.tar")
        assert [r.value for r in log["t", 0].records()] == [text] * 6
