"""Test that a writer completes the replacement of segments that a killed broker has begun.

The expected segments are those that a broker 4.3.1 leaves after it starts on the same directory.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from building import batch, record
from writing import offsets, problems, some

import kafkafmt
from kafkafmt.log import DamagedLogError, LogDirectory
from kafkafmt.log.writing import interrupted_swaps

COMPACTED = batch([record(0, key=b"k", value=b"v"), record(4, key=b"k", value=b"v")], last_offset_delta=14)
"""Replaces the records with the offsets 0 to 14. Only the offsets 0 and 4 remain."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a log directory with four segments of five records, and with `.swap` files for the first three segments."""
    with LogDirectory(tmp_path, segment_bytes=300) as directory:
        writer = directory.writer("t")
        for _ in range(4):
            writer.append(some(5))
        assert writer.segments == [0, 5, 10, 15]
    named(tmp_path, 0, ".log.swap").write_bytes(COMPACTED)
    named(tmp_path, 0, ".index.swap").write_bytes(b"")
    named(tmp_path, 0, ".timeindex.swap").write_bytes(b"")
    return tmp_path


def named(root: Path, offset: int, suffix: str) -> Path:
    return root / "t-0" / f"{offset:020}{suffix}"


def logs(root: Path) -> list[str]:
    return sorted(p.name[:20].lstrip("0") + p.name[20:] for p in (root / "t-0").glob("*.log*"))


def truncate(root: Path, offset: int) -> None:
    with LogDirectory(root) as directory:
        directory.writer("t").truncate_to(offset)


def test_writer_replaces_segments_with_swap_files(root: Path) -> None:
    assert offsets(root) == list(range(20))
    with LogDirectory(root) as directory:
        writer = directory.writer("t")
        assert (writer.segments, writer.next_offset) == ([0, 15], 20)
    assert offsets(root) == [0, 4, *range(15, 20)]
    assert named(root, 0, ".log").read_bytes() == COMPACTED
    assert logs(root) == [".log", "15.log"]
    assert not list((root / "t-0").glob("*.swap"))
    assert problems(root) == []


def test_truncated_records_do_not_return_from_swap_files(root: Path) -> None:
    """A batch is removed completely, even if only its last records are truncated."""
    truncate(root, 7)
    assert logs(root) == [".log"]
    assert offsets(root) == []


@pytest.mark.parametrize("left", ["all", "some", "none"])
def test_segments_that_were_already_replaced_are_kept(left: str, root: Path) -> None:
    """The broker can be killed before, while and after it deletes the segments that the `.swap` files replace."""
    for base in {"all": (), "some": (0, 5), "none": (0, 5, 10)}[left]:
        named(root, base, ".log").rename(named(root, base, ".log.deleted"))
    truncate(root, 20)
    assert offsets(root) == [0, 4, *range(15, 20)]


def test_renamed_segment_is_not_replaced_again(root: Path) -> None:
    """The broker can be killed after it has renamed the `.log.swap` file, but not the indexes."""
    for base in (0, 5, 10):
        named(root, base, ".log").unlink()
    named(root, 0, ".log.swap").rename(named(root, 0, ".log"))
    truncate(root, 20)
    assert offsets(root) == [0, 4, *range(15, 20)]
    assert not list((root / "t-0").glob("*.swap"))


@pytest.mark.parametrize(("cleaned", "kept"), [(0, list(range(20))), (5, [0, 4, *range(15, 20)])])
def test_swap_files_are_deleted_if_other_parts_are_incomplete(cleaned: int, kept: list[int], root: Path) -> None:
    named(root, cleaned, ".log.cleaned").write_bytes(COMPACTED[:20])
    truncate(root, 20)
    assert offsets(root) == kept
    assert not list((root / "t-0").glob("*.swap"))


def test_damaged_swap_file_is_refused(root: Path) -> None:
    named(root, 0, ".log.swap").write_bytes(COMPACTED[:-3])
    before = {p.name: p.read_bytes() for p in (root / "t-0").iterdir()}
    with LogDirectory(root) as directory, pytest.raises(DamagedLogError, match=r"\.log\.swap: .*delete all \.swap"):
        directory.writer("t")
    assert {p.name: p.read_bytes() for p in (root / "t-0").iterdir()} == before


def test_damaged_swap_file_can_be_salvaged_under_the_name_of_a_segment(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The error message recommends this if the segments to replace no longer exist."""
    for segment in (root / "t-0").glob("*.log"):
        segment.unlink()
    named(root, 0, ".log").write_bytes(COMPACTED + batch([record(0)], base_offset=15)[:-3])
    salvaged = kafkafmt.salvage(root, tmp_path_factory.mktemp("out") / "salvaged")
    assert offsets(salvaged.output) == [0, 4]


def test_completion_that_was_interrupted_is_repeated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The completion is interrupted at each change of a file."""

    class KilledError(Exception):
        pass

    left = 0

    def counted(change: str) -> None:
        real = getattr(Path, change)

        def run(path: Path, *given: Path, **options: bool) -> object:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError
            return real(path, *given, **options)

        monkeypatch.setattr(Path, change, run)

    counted("unlink")
    counted("rename")
    for killed_after in range(100):
        copy = shutil.copytree(root, root.parent / f"copy-{killed_after}")
        left = killed_after
        try:
            interrupted_swaps.complete_swaps(copy / "t-0")
        except KilledError:
            left = 1000
            truncate(copy, 20)
            assert offsets(copy) == [0, 4, *range(15, 20)]
        else:
            assert killed_after > 10
            return
