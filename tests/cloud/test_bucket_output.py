"""Publish exports in a bucket: `_SUCCESS` exists only if every file is complete."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bucket_exports import FILES, export, is_complete, objects
from command import inside
from object_server import BUCKET, Proxy
from obstore.store import MemoryStore

from kafkafmt.log.format import stores
from kafkafmt.log.format.stores import store_of
from kafkafmt.paths import UrlPath
from kafkafmt.spark.export.bucket_staging import PUBLISHING
from kafkafmt.spark.export.errors import OutputExistsError

numbers = itertools.count()
stores.register("testing", lambda _: stores.ObjectStore(MemoryStore()))


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
    assert put[0] == PUBLISHING
    assert put[-2:] == ["report.json", "_SUCCESS"]
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


@pytest.mark.parametrize("overwrite", [False, True])
def test_failed_request_leaves_no_output(in_memory: UrlPath, overwrite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request that changes the bucket fails in turn, once before and once after it is done."""
    output, reached = in_memory, 0
    for fails_at in itertools.count():
        for after in (False, True):
            if overwrite:
                export(output, b"old", overwrite=True)
            count = itertools.count()

            def failing(real: Callable[..., Any], at: int = fails_at, late: bool = after, n: Any = count) -> Any:
                def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                    fails = next(n) == at
                    if fails and not late:
                        raise OSError("injected")
                    result = real(self, *args, **kwargs)
                    if fails:
                        raise OSError("injected")
                    return result

                return call

            with monkeypatch.context() as patch:
                patch.setattr(stores.ObjectStore, "put", failing(stores.ObjectStore.put))
                patch.setattr(stores.ObjectStore, "delete", failing(stores.ObjectStore.delete))
                try:
                    export(output, b"new", overwrite)
                    failed = False
                except OSError:
                    failed = True
            found = objects(output)
            reached += failed
            rest = {name: data for name, data in found.items() if name != PUBLISHING}
            assert "_SUCCESS" not in found or is_complete(rest, b"new") or (overwrite and is_complete(rest, b"old"))
            store_of(output).delete(store_of(output).list_all(output))
        if not failed:
            break
    assert reached > 2 * FILES


KILLED = """
import os, sys
from kafkafmt.log.format import stores
from kafkafmt.log.format.stores import store_of
from bucket_exports import export
from kafkafmt.paths import UrlPath

real, left = stores.ObjectStore.put, int(sys.argv[2])

def put(self, path, content, create=False):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    real(self, path, content, create)

stores.ObjectStore.put = put
export(UrlPath(sys.argv[1]), b"killed")
"""


def test_killed_export_leaves_no_success_and_blocks_the_next(output: UrlPath, proxy: Proxy) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(output), str(FILES)], env=env, check=False)
    assert done.returncode == 9
    found = objects(output)
    assert "_SUCCESS" not in found
    assert PUBLISHING in found
    with pytest.raises(OutputExistsError):
        export(output, b"next")
    with pytest.raises(OSError, match=f"was killed while it did.*{PUBLISHING}"):
        export(output, b"next", overwrite=True)
    store_of(output).delete([output / PUBLISHING])
    export(output, b"next", overwrite=True)
    assert is_complete(objects(output), b"next")


def test_output_needs_an_object_store(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"")
    done = inside("export", tmp_path, "--output", "memory://x/out")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "output can be written to local files, s3://, gs:// and az:// only" in done.stderr
