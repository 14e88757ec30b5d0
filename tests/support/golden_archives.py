"""Pack and unpack the golden data: one archive per case in tests/golden, unpacked next to it.

python tests/support/golden_archives.py                                # unpack what is new or has changed
python tests/support/golden_archives.py pack kafka-4.3.1/codecs …      # pack folders into their archives
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import lzma
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SUFFIX = ".tar.xz"
STAMP = ".unpacked"  # in each folder: the digest of its archive


def unpack(golden: Path = GOLDEN) -> Path:
    """Unpack each archive whose folder is missing or has another digest, and return the folder of the cases.

    Several processes can call this function at the same time.
    """
    with locked(golden):
        for archive in golden.glob(f"*/*{SUFFIX}"):
            folder = archive.with_name(archive.name.removesuffix(SUFFIX))
            stamp, digest = folder / STAMP, hashlib.sha256(archive.read_bytes()).hexdigest()
            if stamp.exists() and stamp.read_text() == digest:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            _extract(archive, folder)
            stamp.write_text(digest)
    return golden


def _extract(archive: Path, folder: Path) -> None:
    """Write the files of an archive. Their time is now, as after a checkout."""
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content, f"{member.name} in {archive} is not a file"
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())


def pack(folder: Path) -> Path:
    """Write the archive of a folder, and return its path. Equal folders give equal archives."""
    archive = folder.with_name(folder.name + SUFFIX)
    with locked(folder), lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != STAMP):
                info = tarfile.TarInfo(path.relative_to(folder).as_posix())
                info.size = path.stat().st_size
                with path.open("rb") as content:
                    tar.addfile(info, content)
    (folder / STAMP).write_text(hashlib.sha256(archive.read_bytes()).hexdigest())
    return archive


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time write in a folder. The operating system releases the lock of a killed process."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def main() -> None:
    parser = argparse.ArgumentParser(description="Unpack the golden data, or pack cases.")
    parser.add_argument("action", nargs="?", choices=["unpack", "pack"], default="unpack")
    parser.add_argument("cases", nargs="*", help="the cases to pack, such as kafka-4.3.1/codecs")
    arguments = parser.parse_args()
    if arguments.action == "unpack":
        unpack()
    for case in arguments.cases:
        print(pack(GOLDEN / case))


if __name__ == "__main__":
    main()
