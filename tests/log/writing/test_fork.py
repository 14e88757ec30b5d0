"""Test log directories, writers and readers in forked processes. They cannot be pickled."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import in_child

import kafkafmt
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.writing.atomic_append import all_or_nothing

RECORDS = [(None, b"value", 5)] * 3


def offsets(path: Path) -> list[int]:
    return [r.offset for r in kafkafmt.open(path)["t", 0]]


USES: dict[str, Callable[[kafkafmt.LogDirectory, kafkafmt.LogWriter], Any]] = {
    "directory.writer": lambda d, _: d.writer("other"),
    "append": lambda _, w: w.append(RECORDS),
    "append nothing": lambda _, w: w.append([]),
    "append_batches": lambda _, w: w.append_batches(kafkafmt.build_batch(RECORDS)),
    "end_transaction": lambda _, w: w.end_transaction(7, 0, commit=True),
    "abort_open_transactions": lambda _, w: w.abort_open_transactions(),
    "flush": lambda _, w: w.flush(),
    "truncate_to": lambda _, w: w.truncate_to(0),
    "delete_before": lambda _, w: w.delete_before(1),
    "enforce_retention": lambda _, w: w.enforce_retention(),
}


@pytest.mark.parametrize("use", USES)
def test_use_in_a_forked_process_is_refused_and_changes_nothing(use: str, tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        writer.append(RECORDS)
        kind, text = in_child(lambda: USES[use](directory, writer))
        assert kind == "WrongProcessError"
        assert f"cannot be used in process {os.getpid()}" not in text
        assert f"was opened in process {os.getpid()}" in text
        writer.append(RECORDS)
    assert offsets(tmp_path) == list(range(6))
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["t-0"]
    assert kafkafmt.LogDirectory(tmp_path).clean


def test_closing_in_a_forked_process_does_not_affect_the_parent(tmp_path: Path) -> None:
    directory = kafkafmt.LogDirectory(tmp_path)
    writer = directory.writer("t")
    writer.append(RECORDS)

    def close_all() -> None:
        writer.close()
        directory.close()
        with directory:
            pass

    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert in_child(close_all) == ["returned", None]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    with pytest.raises(BlockingIOError):
        kafkafmt.LogDirectory(tmp_path)
    kind, text = in_child(lambda: kafkafmt.LogDirectory(tmp_path))
    assert (kind, "another process" in text) == ("BlockingIOError", True)
    writer.append(RECORDS)
    directory.close()
    assert offsets(tmp_path) == list(range(6))


def test_child_can_open_the_directory_once_the_parent_has_closed_it(tmp_path: Path) -> None:
    """The child inherits the file descriptor of the lock file.

    Closing it later must not release the child's own lock.
    """
    directory = kafkafmt.LogDirectory(tmp_path)
    ready, go = multiprocessing.get_context("fork").Event(), multiprocessing.get_context("fork").Event()

    def child(result: Any) -> None:
        ready.set()
        go.wait(120)
        with kafkafmt.LogDirectory(tmp_path) as own:
            own.writer("t").append(RECORDS)
            directory.close()
            result.put(in_child(lambda: kafkafmt.LogDirectory(tmp_path))[0])

    result = multiprocessing.get_context("fork").Queue()
    process = multiprocessing.get_context("fork").Process(target=child, args=(result,))
    process.start()
    ready.wait(120)
    directory.close()
    go.set()
    assert result.get(timeout=120) == "BlockingIOError"
    process.join()
    assert process.exitcode == 0
    assert offsets(tmp_path) == [0, 1, 2]


def test_pool_of_forked_workers_cannot_write(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        writer.append(RECORDS)
        with multiprocessing.get_context("fork").Pool(2) as pool, pytest.raises(TypeError, match="cannot be pickled"):
            pool.map(writer.append, [RECORDS])
    assert offsets(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("keys", [[("t", 0)], []])
def test_all_or_nothing_block_that_a_child_exits_changes_nothing(
    fails: bool, keys: list[tuple[str, int]], tmp_path: Path
) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        with all_or_nothing(directory, keys or [("t", 0)]) as writers:
            assert writers is not None
            writers["t", 0].append(RECORDS)
        block = all_or_nothing(directory, keys, "app", 1)
        writers = block.__enter__()
        if writers:
            writers["t", 0].append(RECORDS)
        before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
        error = (ValueError, ValueError("the child's"), None) if fails else (None, None, None)
        kind, _ = in_child(lambda: block.__exit__(*error))
        assert kind == ("ValueError" if fails else "WrongProcessError") or (fails and kind == "returned")
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
        block.__exit__(None, None, None)
    assert offsets(tmp_path) == list(range(6 if keys else 3))


def test_directory_and_writer_refuse_to_be_pickled_or_copied(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path) as directory:
        for thing in (directory, directory.writer("t")):
            for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    attempt(thing)


def test_iterator_shared_by_a_fork_continues_in_both_processes(tmp_path: Path) -> None:
    """Files are read by absolute position, so the processes do not share a file position."""
    with kafkafmt.LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        for _ in range(500):
            writer.append([(None, bytes(200), 5)] * 20)
    records = iter(kafkafmt.open(tmp_path)["t", 0])
    start = [next(records).offset for _ in range(100)]
    in_the_child = in_child(lambda: [r.offset for r in records])
    assert in_the_child == ["returned", list(range(100, 10_000))]
    assert start + [r.offset for r in records] == list(range(10_000))


def test_file_view_never_moves_the_file_position(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)) * 100)
    with FileView(tmp_path / "x") as view, open(tmp_path / "sent", "wb") as target:
        view.read(500, 100)
        view.transfer(target.fileno(), 10, 1000)
        view.crc32c(0, 5000)
        assert os.lseek(view._fd, 0, os.SEEK_CUR) == 0
