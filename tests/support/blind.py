"""Make an executor see different files in a log directory from those that the driver sees."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def move_away(folder: Path) -> None:
    folder.rename(folder.with_name("moved-0"))


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def show_an_older_copy(folder: Path) -> None:
    """Replace the directory with a copy that lacks the last segment. The segment before it is truncated."""
    move_away(folder)
    shutil.copytree(folder.with_name("moved-0"), folder)
    *_, before, last = segments_of(folder)
    last.unlink()
    before.write_bytes(before.read_bytes()[: before.stat().st_size // 2])


def show_a_copy_without_the_oldest(folder: Path) -> None:
    move_away(folder)
    shutil.copytree(folder.with_name("moved-0"), folder)
    segments_of(folder)[0].unlink()


def lose_one_in_the_middle(folder: Path) -> None:
    segments_of(folder)[1].unlink()


def lose_the_last(folder: Path) -> None:
    segments_of(folder)[-1].unlink()


def shorten_one(folder: Path) -> None:
    path = segments_of(folder)[1]
    path.write_bytes(path.read_bytes()[:-1])


def blank_one(folder: Path) -> None:
    path = segments_of(folder)[1]
    path.write_bytes(bytes(path.stat().st_size))


VIEWS: dict[str, Callable[[Path], None]] = {
    f.__name__.replace("_", " "): f
    for f in (
        move_away,
        empty,
        show_an_older_copy,
        show_a_copy_without_the_oldest,
        lose_one_in_the_middle,
        lose_the_last,
        shorten_one,
        blank_one,
    )
}
