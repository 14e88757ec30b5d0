"""Test that OUT is either unchanged or complete if an export is killed at any moment."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path, PurePath

import pytest

from kafkafmt.exporting import OutputExistsError, staging
from kafkafmt.exporting.output import WrittenFile
from kafkafmt.exporting.staging import Staging

FILES = [
    "data/topic=t/partition=0/00000000000000000000.parquet",
    "data/topic=t/partition=0/00000000000000000007.parquet",
    "report.json",
]
WATCHED = {
    "open",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.listdir",
    "os.scandir",
    "fcntl.flock",
    "ctypes.dlopen",
}


def export(out: Path, word: str, overwrite: bool = True) -> None:
    """Do what the driver does with a staging directory, with small files."""
    with Staging(out, overwrite) as s:
        kept = []
        for i, name in enumerate(FILES[:2]):
            (s.directory / f"{i}-good").write_text(word)
            (s.directory / f"{i}-other").write_text("half")
            kept.append(WrittenFile(f"{i}-good", PurePath(name), len(word)))
        s.keep(kept)
        s.publish(word)


def content(out: Path) -> str | None:
    """Return the word in the files of an export, or None if OUT does not exist. Fail if it is partial."""
    if not out.exists():
        return None
    assert {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} == {*FILES, "_SUCCESS"}
    words = {(out / name).read_text() for name in FILES}
    assert len(words) == 1
    return words.pop()


def killed_at(step: int, out: Path, two_renames: bool) -> bool:
    """Run an export in a child process that is killed before its system call number `step`.

    Return False if the export made fewer system calls.
    """
    child = os.fork()
    if child == 0:
        try:
            if two_renames:
                staging._renameat2 = lambda *_: False
            left = step

            def kill_at_step(event: str, _: object) -> None:
                nonlocal left
                if event in WATCHED:
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(kill_at_step)
            export(out, "new")
        except BaseException:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.slow
def test_export_killed_at_any_step_leaves_the_old_or_the_new_output(
    tmp_path: Path, before: str | None, two_renames: bool
) -> None:
    outcomes = set()
    for step in range(1, 500):
        out = tmp_path / str(step) / "out"
        out.parent.mkdir()
        if before:
            export(out, before)
        killed = killed_at(step, out, two_renames)
        left = content(out)
        assert left in {before, "new"} or (two_renames and left is None)
        outcomes.add(left)
        if killed and step % 3:
            export(out, "next")
            assert content(out) == "next"
        elif killed:  # a run that fails also cleans up, and restores the output that it renamed
            with pytest.raises(RuntimeError), Staging(out, overwrite=True):
                raise RuntimeError
            assert content(out) == (left or before)
        assert {p.name for p in out.parent.iterdir()} <= {"out"}
        if not killed:
            break
    assert step > 20
    assert outcomes >= {before, "new"}


def test_existing_output_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(out, "old")
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        export(out, "new", overwrite=False)
    assert content(out) == "old"
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputExistsError):
        export(tmp_path / "file", "new", overwrite=False)


def test_output_created_during_the_export_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Staging(out) as staging_of_this_run:
        staging_of_this_run.keep([])
        export(out, "theirs")
        with pytest.raises(OutputExistsError):
            staging_of_this_run.publish("ours")
    assert content(out) == "theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_staging_of_a_running_export_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Staging(out) as staging_of_this_run:
        (staging_of_this_run.directory / "0-good").write_text("x")
        export(out, "theirs")
        assert (staging_of_this_run.directory / "0-good").exists()
        other_directory = tmp_path / ".out.kafkafmt-notes"
        other_directory.mkdir()
    assert content(out) == "theirs"
    assert other_directory.exists()


def test_late_task_cannot_write(tmp_path: Path) -> None:
    with Staging(tmp_path / "out") as s:
        late_file = open(s.directory / "0-late", "w")
        s.keep([])
        with pytest.raises(FileNotFoundError):
            (s.directory / "0-later").write_text("x")
        late_file.write("x")
        late_file.close()
        s.publish("")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"report.json", "_SUCCESS"}


def test_parent_directories_are_created_and_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Staging(tmp_path / "a" / "b" / "out"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    export(tmp_path / "a" / "b" / "out", "new")
    assert content(tmp_path / "a" / "b" / "out") == "new"


def test_output_that_is_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "out")
    export(tmp_path / "link", "new")
    export(tmp_path / "link", "newer")
    assert content(tmp_path / "there" / "out") == "newer"
    assert (tmp_path / "link").is_symlink()


def test_output_with_a_scheme_is_refused_and_a_file_url_is_accepted(tmp_path: Path) -> None:
    assert Staging((tmp_path / "o ut").as_uri()).output == tmp_path / "o ut"
    for output in ("s3://bucket/out", "hdfs:/out", "C:\\out", "file://host/out"):
        with pytest.raises(ValueError, match="only local files"):
            Staging(output)
