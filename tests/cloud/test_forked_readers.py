"""Test which logs with a URL can be read in a forked process, and the error for the other logs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from forked import in_child
from golden_cases import CASES
from object_server import BUCKET, upload
from obstore.store import S3Store

import kafkafmt
from kafkafmt.log.storage import packed, remote, stores
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.storage.process import ForkSafeLock
from kafkafmt.support.paths import UrlPath

(CASE,) = (c for c in CASES if c.name == "epochs" and c.folder.parent.name.startswith("kafka-4"))


def offsets(path: str | Path) -> list[int]:
    return [r.offset for r in kafkafmt.open(path)["epochs", 0]]


def test_bucket_is_refused_in_a_forked_process_if_the_parent_read_it(bucket: S3Store) -> None:
    upload(bucket, CASE.folder / "log", "forked")
    url = f"s3://{BUCKET}/forked"
    expected = offsets(url)
    log = kafkafmt.open(url)
    records = iter(log["epochs", 0])
    first = next(records).offset
    for action in (lambda: offsets(url), lambda: [r.offset for r in log["epochs", 0]], lambda: len(kafkafmt.open(url))):
        kind, text = in_child(action)
        assert kind == "WrongProcessError"
        assert url in text
        assert "'spawn' or 'forkserver'" in text
    assert in_child(lambda: offsets(CASE.folder / "log")) == ["returned", expected]
    assert [first, *(r.offset for r in records)] == expected == offsets(url)


def test_forked_process_reads_a_file_system_through_its_own_connections(tmp_path: Path) -> None:
    import fsspec

    fsspec.filesystem("memory").put(str(CASE.folder / "log"), "/forked", recursive=True)
    try:
        expected = offsets("memory://forked")
        path = UrlPath(f"memory://forked/epochs-0/{0:020}.log")
        with FileView(path) as view:
            kind, text = in_child(lambda: bytes(view.read(0, 8)).hex())
            assert kind == "WrongProcessError"
            assert "after the fork" in text
            assert bytes(view.read(0, 8)) == bytes(8)
        assert in_child(lambda: offsets("memory://forked")) == ["returned", expected]
    finally:
        fsspec.filesystem("memory").rm("/forked", recursive=True)


@pytest.mark.parametrize("lock", [stores._LOCK, remote._lock, packed._lock])
def test_lock_of_another_thread_is_free_in_a_forked_process(lock: ForkSafeLock) -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    def acquire() -> str:
        with lock:
            return "free"

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(60)
        assert in_child(acquire) == ["returned", "free"]
    finally:
        done.set()
        thread.join()
