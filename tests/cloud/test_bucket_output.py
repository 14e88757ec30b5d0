"""Publish exports in a bucket: `_SUCCESS` exists only if every file is complete."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bucket_exports import export, is_complete, lock_of, objects, write_attempts
from command import inside
from object_server import BUCKET, Proxy
from obstore.store import MemoryStore

from kafkafmt.exporting import run_lock
from kafkafmt.exporting.bucket_output import BucketFiles, BucketOutput
from kafkafmt.exporting.errors import OutputExistsError
from kafkafmt.exporting.output import PATHS
from kafkafmt.exporting.run_lock import LOCK, LockLostError, RunState
from kafkafmt.log.storage import stores
from kafkafmt.log.storage.object_store import PARTS_AT_ONCE, ObjectStore, ObjectUpload
from kafkafmt.log.storage.stores import store_of
from kafkafmt.support.paths import UrlPath

numbers = itertools.count()
stores.register("testing", lambda _: ObjectStore(MemoryStore()))


@pytest.fixture
def output() -> UrlPath:
    """Return the URL of an output that does not exist."""
    return UrlPath(f"s3://{BUCKET}/out/{next(numbers)}")


@pytest.fixture
def in_memory() -> UrlPath:
    """Return the URL of an output in memory, for tests that send many requests."""
    return UrlPath(f"testing://{next(numbers)}/out")


def test_export_is_published_with_success_last(output: UrlPath, proxy: Proxy) -> None:
    export(output, b"one")
    assert is_complete(objects(output), b"one")
    put = [path.rpartition("/")[2] for method, path, _ in proxy.requests if method == "PUT"]
    assert put[0] == LOCK
    assert put[-3:] == ["report.json", LOCK, "_SUCCESS"]
    with pytest.raises(OutputExistsError, match="already exists"):
        export(output, b"two")
    assert is_complete(objects(output), b"one")
    export(output, b"two", overwrite=True)
    assert is_complete(objects(output), b"two")


@pytest.mark.parametrize("kind", ["output", "in_memory"])
def test_one_of_several_racing_exports_is_published(kind: str, request: pytest.FixtureRequest) -> None:
    output: UrlPath = request.getfixturevalue(kind)

    def attempt(content: bytes) -> bytes | None:
        try:
            export(output, content)
        except (OutputExistsError, OSError):
            return None
        return content

    with ThreadPoolExecutor(4) as pool:
        done = [c for c in pool.map(attempt, [b"a", b"b", b"c", b"d"]) if c is not None]
    assert len(done) == 1
    assert is_complete(objects(output), done[0])


CHANGES = (
    (ObjectStore, "put"),
    (ObjectStore, "delete"),
    (ObjectStore, "load"),
    (ObjectStore, "list_all"),
    (ObjectUpload, "close"),
)
"""The methods of which each call sends a request."""


class Killed(BaseException):
    """Raised by all requests of an export that was killed."""


def fail_at(patch: pytest.MonkeyPatch, at: int, late: bool, killed: bool) -> list[int]:
    """Let request number `at` fail. If `killed` is True, all later requests fail too.

    If `late` is True, the request is sent before it fails. Return a list with one item, the number of requests.
    """
    count = [0]

    def failing(real: Callable[..., Any]) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            number = count[0]
            count[0] += 1
            fails = number == at or (killed and number > at)
            if fails and not (late and number == at):
                raise Killed if killed else OSError("injected")
            result = real(self, *args, **kwargs)
            if fails:
                raise Killed if killed else OSError("injected")
            return result

        return call

    for owner, name in CHANGES:
        patch.setattr(owner, name, failing(getattr(owner, name)))
    return count


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("before", [None, b"old"])
def test_failed_request_leaves_the_old_or_the_new_output(
    in_memory: UrlPath, before: bytes | None, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request of an export fails in turn."""
    outcomes = set()
    for at in itertools.count():
        if before:
            export(in_memory, before, overwrite=True)
        with monkeypatch.context() as patch:
            count = fail_at(patch, at, late, killed=False)
            try:
                export(in_memory, b"new", overwrite=True)
                failed = False
            except OSError:
                failed = True
        outcomes.add(check_and_repeat(in_memory, before, b"new", repeat=at % 2 == 0))
        assert failed or late or at >= count[0] or at > 20
        if at >= count[0]:
            break
    assert outcomes >= {before, b"new"}
    assert at > 20


def killed_at(output: UrlPath, at: int, late: bool, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Kill an export at request number `at`. Return True if the export ended before this request."""
    with monkeypatch.context() as patch:
        fail_at(patch, at, late, killed=True)
        try:
            export(output, b"new", overwrite=True)
        except Killed:
            run_lock._running.clear()
            return False
    return True


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("before", [None, b"old"])
def test_export_killed_at_any_request_leaves_no_partial_output(
    in_memory: UrlPath, before: bytes | None, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next export removes the files that are left. This also works if the next export is killed, too."""
    outcomes = set()
    for at in itertools.count():
        if before:
            export(in_memory, before, overwrite=True)
        completed = killed_at(in_memory, at, late, monkeypatch)
        if at % 3 == 0:
            killed_at(in_memory, at // 3, late, monkeypatch)
        outcomes.add(check_and_repeat(in_memory, before, b"new", repeat=at % 2 == 0))
        if completed:
            break
    assert at > 20
    assert outcomes >= {before, b"new"} if late else {before}


def check_and_repeat(output: UrlPath, before: bytes | None, new: bytes, repeat: bool) -> bytes | None:
    """Check an output after a failed or killed export, and then export again or refuse to replace it.

    Return the content of the output, or None if it is not complete. Remove the output.
    """
    found = {name: data for name, data in objects(output).items() if name != LOCK}
    held = [content for content in (before, new) if content and is_complete(found, content)]
    assert "_SUCCESS" not in found or held
    try:
        export(output, b"next", overwrite=repeat)
        assert repeat or not held
        assert is_complete(objects(output), b"next")
    except OutputExistsError:  # the old output is complete again, or the new one was complete before
        assert not repeat
        after = objects(output)
        assert any(content and is_complete(after, content) for content in (before, new))
    store_of(output).delete(list(store_of(output).list_all(output)))
    return held[0] if held else None


def test_error_in_an_export_restores_the_old_output(output: UrlPath) -> None:
    export(output, b"old")
    before = objects(output)
    new = BucketOutput(output, overwrite=True)
    new.__enter__()
    write_attempts(new, b"new")
    assert "_SUCCESS" not in objects(output)
    new.__exit__(RuntimeError, RuntimeError(), None)
    assert objects(output) == before


def test_missing_or_incomplete_file_is_an_error(output: UrlPath) -> None:
    def delete(path: UrlPath) -> None:
        store_of(path).delete([path])

    def shorten(path: UrlPath) -> None:
        store_of(path).put(path, b"n")

    for change in (delete, shorten):
        with BucketOutput(output) as new:
            files = write_attempts(new, b"new")
            change(output / files[0].name)
            with pytest.raises(OSError, match=r"missing|bytes were uploaded"):
                new.keep(files)
        assert objects(output) == {}


def test_late_task_cannot_complete_a_file(output: UrlPath, monkeypatch: pytest.MonkeyPatch) -> None:
    with BucketOutput(output) as new:
        files = write_attempts(new, b"x")
        late = [new.attempts.create(PATHS.data_file("t", 0, 9))[1] for _ in range(3)]
        for file in late:
            file.write(b"late")
        with monkeypatch.context() as patch:
            real, checks = BucketFiles.check, iter([lambda _: new.keep(files)])  # the first check is too early
            patch.setattr(BucketFiles, "check", lambda self: next(checks, real)(self))
            with pytest.raises(OSError, match="has ended"):
                late[0].close()
        with pytest.raises(OSError, match="has ended"):
            late[1].close()
        with new.create(PATHS.quarantine_file()) as file:
            file.write(b"x")
        new.publish("x")
    with pytest.raises(OSError, match="has ended"):
        late[2].close()
    assert is_complete(objects(output), b"x")


KILLED = """
import os, signal, sys
from bucket_exports import write_attempts
from kafkafmt.support.paths import UrlPath
from kafkafmt.exporting.bucket_output import BucketOutput

with BucketOutput(UrlPath(sys.argv[1])) as output:
    output.keep(write_attempts(output, b"killed"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_next_export_removes_what_a_killed_process_left(output: UrlPath) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(output)], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert set(objects(output)) > {LOCK}
    export(output, b"next")
    assert is_complete(objects(output), b"next")


def on_another_host(output: UrlPath) -> RunState:
    """Write a file and a lock as a run on another host does, and return the lock's content."""
    state = RunState("0123456789abcdef", "elsewhere", "00000000", 7, 7)
    store_of(output).put(output / LOCK, state.to_bytes())
    store_of(output).put(output / f"data/topic=t/partition=0/x-{state.run}-00000000.parquet", b"half")
    return state


def test_export_waits_for_the_lock_of_another_host_to_expire(output: UrlPath, monkeypatch: pytest.MonkeyPatch) -> None:
    on_another_host(output)
    before = objects(output)
    message = (
        r"host elsewhere \(process 7\) writes to this output; if that process was killed, repeat .* in 30\d seconds"
    )
    for overwrite in (False, True):
        with pytest.raises(OSError, match=message):
            export(output, b"new", overwrite)
        with pytest.raises(OSError, match=message):
            BucketOutput(output, overwrite).check()
    assert objects(output) == before
    monkeypatch.setattr(run_lock, "EXPIRY_SECONDS", -10.0)
    BucketOutput(output).check()
    export(output, b"new")
    assert is_complete(objects(output), b"new")


def test_export_whose_lock_was_taken_over_fails(output: UrlPath, monkeypatch: pytest.MonkeyPatch) -> None:
    with BucketOutput(output) as slow:
        files = write_attempts(slow, b"slow")
        slow.keep(files)
        late = slow.attempts.create(PATHS.data_file("t", 0, 9))[1]
        with monkeypatch.context() as patch:
            patch.setattr(run_lock, "EXPIRY_SECONDS", -10.0)
            patch.setattr(RunState, "has_ended", lambda _: False)
            export(output, b"fast")
        with pytest.raises(OSError, match="has ended"):
            late.close()
        with pytest.raises(LockLostError, match="another export has taken over"):
            slow.publish("slow")
    assert is_complete(objects(output), b"fast")


def test_lock_is_renewed_while_an_export_runs(in_memory: UrlPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lock, "RENEWAL_SECONDS", 0.01)
    with BucketOutput(in_memory):
        deadline = time.monotonic() + 20
        while lock_of(in_memory)["renewals"] < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert lock_of(in_memory)["renewals"] >= 3
    assert objects(in_memory) == {}


def test_large_file_is_uploaded_in_parts(output: UrlPath, proxy: Proxy) -> None:
    path, chunk = output / "large", os.urandom(1 << 20)
    upload = store_of(path).open_writer(path)
    for _ in range(31):
        upload.write(memoryview(chunk))
    parts = sum("partNumber" in query for method, query, _ in proxy.requests if method == "PUT")
    assert parts >= 6 - PARTS_AT_ONCE  # only some parts are held in memory
    assert objects(output) == {}
    upload.close()
    upload.close()
    assert upload.tell() == 31 << 20
    assert objects(output) == {"large": chunk * 31}
    assert sum("partNumber" in query for _, query, _ in proxy.requests) == 7


def test_discarded_upload_leaves_no_parts(output: UrlPath, proxy: Proxy) -> None:
    path = output / "large"
    upload = store_of(path).open_writer(path)
    for _ in range(7):
        upload.write(bytes(1 << 20))
    upload.abort()
    upload.close()
    assert objects(output) == {}
    # Parts that are uploaded at the same time can arrive after the DELETE. The server then refuses them.
    assert "DELETE" in [method for method, query, _ in proxy.requests if "uploadId" in query]


def test_object_that_is_not_a_lock_is_reported(output: UrlPath) -> None:
    store_of(output).put(output / LOCK, b"[]")
    with pytest.raises(OSError, match="this object is not the lock of an export"):
        BucketOutput(output, overwrite=True).check()


def test_output_needs_an_object_store(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"")
    done = inside("export", tmp_path, "--output", "memory://x/out")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "output can be written only to local files and to s3://, gs:// and az:// URLs" in done.stderr
