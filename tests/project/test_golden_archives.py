"""Test that golden data is packed and unpacked correctly, and that no test has changed it."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from golden_archives import STAMP, SUFFIX, pack, unpack
from golden_cases import GOLDEN


def packed(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: file.read() for member in tar if (file := tar.extractfile(member))}


def unpacked(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != STAMP)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_golden_folders_equal_their_archives() -> None:
    archives = {
        archive: archive.with_name(archive.name.removesuffix(SUFFIX)) for archive in GOLDEN.glob(f"*/*{SUFFIX}")
    }
    assert len(archives) > 70
    assert [str(folder) for archive, folder in archives.items() if packed(archive) != unpacked(folder)] == []


def test_case_is_packed_unpacked_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "golden" / "kafka" / "case.1"
    for content in ("old", "new"):
        (folder / "log").mkdir(parents=True)
        (folder / "log" / "file").write_text(content)
        archive = pack(folder)
        first = archive.read_bytes()
        assert pack(folder).read_bytes() == first
        shutil.rmtree(folder)
        unpack(tmp_path / "golden")
        assert unpacked(folder) == packed(archive) == {"log/file": content.encode()}
        shutil.copytree(folder, tmp_path / content)
        shutil.rmtree(folder)
    shutil.copytree(tmp_path / "old", folder)  # with the stamp of the old archive
    unpack(tmp_path / "golden")
    assert unpacked(folder) == {"log/file": b"new"}
