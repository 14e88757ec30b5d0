"""Test appends to several partitions. After an error or a kill, either all or none are complete."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from building import simple_batch

import kafkafmt
from kafkafmt.errors import StructureError
from kafkafmt.log import LogDirectory
from kafkafmt.log.writing.append_journal import JOURNAL_FILE
from kafkafmt.log.writing.atomic_append import all_or_nothing

KEYS = [("a", 0), ("b", 0), ("b", 1)]


def append_to_all(path: Path, app: str | None = None, version: int | None = None, times: int = 3) -> bool:
    """Append batches to all partitions. Return False if `version` was already appended."""
    with LogDirectory(path) as directory, all_or_nothing(directory, KEYS, app, version) as writers:
        if writers is None:
            return False
        for _ in range(times):
            for writer in writers.values():
                writer.append_batches(simple_batch([b"x"] * 4))
        return True


def end_offsets(path: Path) -> dict[str, int]:
    return {p.topic + str(p.partition): p.next_offset for p in kafkafmt.open(path)}


def test_all_partitions_are_appended_and_the_journal_is_removed(tmp_path: Path) -> None:
    assert append_to_all(tmp_path)
    assert append_to_all(tmp_path)
    assert end_offsets(tmp_path) == {"a0": 24, "b0": 24, "b1": 24}
    assert not (tmp_path / JOURNAL_FILE).exists()


def test_error_undoes_all_appends(tmp_path: Path) -> None:
    append_to_all(tmp_path)

    def fail() -> None:
        with LogDirectory(tmp_path) as directory, all_or_nothing(directory, KEYS) as writers:
            assert writers is not None
            writers["a", 0].append_batches(simple_batch([b"y"]))
            writers["b", 1].append_batches(b"no batch at all, but long enough to look like one of the old formats")

    with pytest.raises(kafkafmt.KafkaFormatError):
        fail()
    assert end_offsets(tmp_path) == {"a0": 12, "b0": 12, "b1": 12}
    assert not (tmp_path / JOURNAL_FILE).exists()
    assert append_to_all(tmp_path)
    assert end_offsets(tmp_path) == {"a0": 24, "b0": 24, "b1": 24}


def test_version_is_appended_once(tmp_path: Path) -> None:
    assert [append_to_all(tmp_path, "job", v) for v in (0, 0, 1, 0, 1)] == [True, False, True, False, False]
    assert append_to_all(tmp_path, "other", 0)
    assert end_offsets(tmp_path)["a0"] == 36


KILLED = """
    import os, sys
    import kafkafmt
    from kafkafmt.log import LogDirectory
    from kafkafmt.log.storage import local_files
    from kafkafmt.log.writing.atomic_append import all_or_nothing
    from building import simple_batch

    left = int(sys.argv[2])
    def counted(call):
        def inner(*args):
            global left
            left -= 1
            if left < 0:
                os._exit(9)
            return call(*args)
        return inner
    modules = [module for name, module in sys.modules.items() if name.startswith("kafkafmt.log")]
    for name in ("write_at", "append_to", "replace_file", "write_all", "sync_file"):
        write = getattr(local_files, name)
        for module in modules:
            if getattr(module, name, None) is write:
                setattr(module, name, counted(write))
    with LogDirectory(sys.argv[1], segment_bytes=200) as directory, all_or_nothing(directory, [("a", 0), ("b", 0)], "job", 7) as writers:
        for _ in range(2):
            for writer in writers.values():
                writer.append_batches(simple_batch([b"new"] * 4))
"""


@pytest.mark.slow
def test_append_killed_at_any_write_is_done_fully_or_not_at_all(tmp_path: Path) -> None:
    outcomes: list[tuple[int, int, bool]] = []
    for writes_before_kill in range(0, 200, 3):
        path = tmp_path / str(writes_before_kill)
        with (
            LogDirectory(path, segment_bytes=200) as directory,
            all_or_nothing(directory, KEYS[:2], "job", 6) as writers,
        ):
            assert writers is not None
            for writer in writers.values():
                writer.append_batches(simple_batch([b"old"] * 4))
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(KILLED), str(path), str(writes_before_kill)],
            env={"PYTHONPATH": ":".join(sys.path)},
            check=False,
        )
        with (
            LogDirectory(path, segment_bytes=200) as directory,
            all_or_nothing(directory, KEYS[:2], "job", 7) as writers,
        ):
            repeated = writers is not None
        now = end_offsets(path)
        outcomes.append((now["a0"], now["b0"], repeated))
        assert all(r.value == (b"old" if r.offset < 4 else b"new") for p in kafkafmt.open(path) for r in p)
        if done.returncode == 0:
            break
        assert done.returncode == 9
    else:
        raise AssertionError("the append was killed at each of 200 writes")
    # An append that was undone can be repeated. A complete append cannot.
    assert set(outcomes) == {
        (4, 4, True),
        (12, 12, False),
    }


def test_batches_of_a_later_leader_are_kept(tmp_path: Path) -> None:
    append_to_all(tmp_path)
    (tmp_path / JOURNAL_FILE).write_text('{"under_way": [["a", 0, 12, 0], ["b", 0, 12, 0]], "versions": {}}')
    batches = simple_batch([b"x"] * 4, base_offset=12, leader_epoch=0) + simple_batch(
        [b"y"], base_offset=16, leader_epoch=7
    )
    with open(tmp_path / "a-0" / f"{0:020}.log", "ab") as log:  # a broker started and stopped in between
        log.write(batches)
    with open(tmp_path / "b-0" / f"{0:020}.log", "ab") as log:
        log.write(simple_batch([b"x"] * 4, base_offset=12))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    LogDirectory(tmp_path).close()
    assert end_offsets(tmp_path) == {"a0": 17, "b0": 12, "b1": 12}


def test_unreadable_journal_is_an_error(tmp_path: Path) -> None:
    append_to_all(tmp_path)
    (tmp_path / JOURNAL_FILE).write_text("{")
    with pytest.raises(StructureError, match=JOURNAL_FILE):
        LogDirectory(tmp_path)
    (tmp_path / JOURNAL_FILE).unlink()
    assert append_to_all(tmp_path)


def test_writers_are_closed_if_a_partition_cannot_be_opened(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("b")
        with (
            pytest.raises(ValueError, match="b-0 already has an open writer"),
            all_or_nothing(directory, [("a", 0), ("b", 0)]),
        ):
            pass
        directory.writer("a").append([(b"k", b"v")])
