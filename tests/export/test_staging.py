"""The commit of an export: killed at any moment it leaves OUT as it was, or complete, and the next run cleans up behind it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from kafkafmt.spark.export import staging
from kafkafmt.spark.export.staging import OutputExistsError, Staging

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
    """What the driver does with a staging directory, in small."""
    with Staging(out, overwrite) as s:
        for i, name in enumerate(FILES[:2]):
            (s.layout.attempts / f"{i}-good").write_text(word)
            (s.layout.attempts / f"{i}-other").write_text("half")
            s.place(f"{i}-good", s.path / name)
        s.close_attempts()
        (s.layout.report).write_text(word)
        s.publish()


def content(out: Path) -> str | None:
    """The word that an export holds, None where there is no OUT; anything half-made fails."""
    if not out.exists():
        return None
    assert {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} == {*FILES, "_SUCCESS"}
    words = {(out / name).read_text() for name in FILES}
    assert len(words) == 1
    return words.pop()


def killed_at(step: int, out: Path, two_renames: bool) -> bool:
    """Export in a child process that is killed before its `step`th system call; False where it needed fewer."""
    child = os.fork()
    if child == 0:
        try:
            if two_renames:
                staging._renameat2 = lambda *_: False
            left = step

            def count(event: str, _: object) -> None:
                nonlocal left
                if event in WATCHED:
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            export(out, "new")
        except BaseException:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
@pytest.mark.parametrize("before", [None, "old"])
def test_killed_at_every_step(tmp_path, before, two_renames):
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
        elif killed:  # a run that fails by itself cleans up too, and brings back what had stepped aside
            with pytest.raises(RuntimeError), Staging(out, overwrite=True):
                raise RuntimeError
            assert content(out) == (left or before)
        assert {p.name for p in out.parent.iterdir()} <= {"out"}
        if not killed:
            break
    assert step > 20
    assert outcomes >= {before, "new"}


def test_what_is_there_is_refused(tmp_path):
    out = tmp_path / "out"
    export(out, "old")
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        export(out, "new", overwrite=False)
    assert content(out) == "old"
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputExistsError):
        export(tmp_path / "file", "new", overwrite=False)


def test_what_comes_meanwhile_is_not_replaced(tmp_path):
    out = tmp_path / "out"
    with Staging(out) as mine:
        mine.close_attempts()
        export(out, "theirs")
        with pytest.raises(OutputExistsError):
            mine.publish()
    assert content(out) == "theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_run_that_is_alive_is_left_alone(tmp_path):
    out = tmp_path / "out"
    with Staging(out) as mine:
        (mine.layout.attempts / "0-good").write_text("x")
        export(out, "theirs")
        assert (mine.layout.attempts / "0-good").exists()
        stranger = tmp_path / ".out.kafkafmt-notes"
        stranger.mkdir()
    assert content(out) == "theirs"
    assert stranger.exists()


def test_a_task_that_comes_late_finds_no_place(tmp_path):
    with Staging(tmp_path / "out") as s:
        late = open(s.layout.attempts / "0-late", "w")
        s.close_attempts()
        with pytest.raises(FileNotFoundError):
            (s.layout.attempts / "0-later").write_text("x")
        late.write("x")
        late.close()
        s.publish()
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["_SUCCESS"]


def test_parents_are_made_and_removed_again(tmp_path):
    with pytest.raises(RuntimeError), Staging(tmp_path / "a" / "b" / "out"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    export(tmp_path / "a" / "b" / "out", "new")
    assert content(tmp_path / "a" / "b" / "out") == "new"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "out")
    export(tmp_path / "link", "new")
    export(tmp_path / "link", "newer")
    assert content(tmp_path / "there" / "out") == "newer"
    assert (tmp_path / "link").is_symlink()


def test_output_with_a_scheme_is_refused_and_a_file_url_is_taken(tmp_path: Path) -> None:
    assert Staging((tmp_path / "o ut").as_uri()).output == tmp_path / "o ut"
    for output in ("s3://bucket/out", "hdfs:/out", "C:\\out", "file://host/out"):
        with pytest.raises(ValueError, match="only local files"):
            Staging(output)
