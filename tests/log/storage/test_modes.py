"""Test how the permissions of files are read."""

from __future__ import annotations

import os
from pathlib import Path

from kafkafmt.log.storage import files


def test_modes_of_all_regular_files_in_a_directory(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    target.chmod(0o4640)
    folder = tmp_path / "folder"
    (folder / "subdirectory").mkdir(parents=True)
    for name, mode in (("plain", 0o600), ("public", 0o666)):
        (folder / name).write_bytes(b"")
        (folder / name).chmod(mode)
    (folder / "link").symlink_to(target)
    (folder / "broken").symlink_to(tmp_path / "missing")
    (folder / "circular").symlink_to("circular")
    os.mkfifo(folder / "pipe")
    modes = files.modes_in(folder)
    assert modes == {"plain": 0o600, "public": 0o666, "link": 0o640}
    assert modes == {name: files.mode_of(folder / name) for name in modes}
