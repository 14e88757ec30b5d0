"""Test that read_committed reports damage at the end of a log, which may have destroyed committed records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command import kafkafmt
from salvaging import commit, corrupt, data, partition

import kafkafmt as k


def in_the_last_batches(root: Path) -> None:
    partition(root, data(0), data(1), corrupt(data(2)))


def in_the_last_segment(root: Path) -> None:
    partition(root, data(0), data(1))
    partition(root, corrupt(data(2)), base=2)


def after_a_transaction(root: Path) -> None:
    partition(root, data(0, 7), commit(1), corrupt(data(2)))


LOGS = (in_the_last_batches, in_the_last_segment, after_a_transaction)


@pytest.mark.parametrize("build", LOGS, ids=lambda f: f.__name__)
def test_read_committed_reports_damage_at_the_log_end(build: Callable[[Path], None], tmp_path: Path) -> None:
    build(tmp_path)
    log = k.open(tmp_path)["t", 0]
    for isolation in ("read_uncommitted", "read_committed"):
        with pytest.raises(k.DamagedLogError) as caught:
            list(log.records(isolation=isolation))
        assert (caught.value.damage.first_offset, caught.value.damage.last_offset) == (2, None)
        done = kafkafmt("cat", tmp_path, "--isolation", isolation, "--on-error", "skip")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_read_committed_ignores_damage_after_its_end(tmp_path: Path) -> None:
    partition(tmp_path, data(0), data(1), corrupt(data(2)))
    log = k.open(tmp_path)["t", 0]
    assert [r.offset for r in log.records(isolation="read_committed", end=2)] == [0, 1]
    with pytest.raises(k.DamagedLogError):
        list(log.records(isolation="read_committed", end=3))


def test_read_committed_ignores_damage_after_an_open_transaction(tmp_path: Path) -> None:
    """The last stable offset is the first offset of the transaction. No record after it is selected."""
    root = tmp_path / "log"
    with k.LogDirectory(root) as directory:
        writer = directory.writer("t", 0)
        writer.append([(b"k", b"v", 1)])
        writer.append([(b"k", b"v", 2)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log = k.open(root)["t", 0]
    assert [r.offset for r in log.records(isolation="read_committed")] == [0]
