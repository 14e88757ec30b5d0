"""Publish small exports in a bucket without Spark."""

from __future__ import annotations

import json
from typing import Any

from kafkafmt.exporting.bucket_output import BucketOutput
from kafkafmt.exporting.output import PATHS, Output, WrittenFile
from kafkafmt.log.storage.stores import store_of
from kafkafmt.support.paths import UrlPath

FILES = 3


def write_attempts(output: Output, content: bytes) -> list[WrittenFile]:
    """Write the data files of tasks. Each task is run twice, and one task also fails halfway."""
    files = []
    for number in range(FILES):
        target = PATHS.data_file("t", 0, number)
        for _ in range(2):
            name, file = output.attempts.create(target)
            file.write(content)
            file.close()
        files.append(WrittenFile(name, target, len(content)))
    name, file = output.attempts.create(PATHS.data_file("t", 0, 0))
    file.write(content)
    output.attempts.discard(name, file)
    return files


def export(url: UrlPath, content: bytes, overwrite: bool = False) -> None:
    with BucketOutput(url, overwrite) as output:
        output.keep(write_attempts(output, content))
        with output.create(PATHS.quarantine_file()) as file:
            file.write(content)
        output.publish(content.decode())


def objects(output: UrlPath) -> dict[str, bytes]:
    """Return the content of all objects of an output, by their paths in it."""
    store = store_of(output)
    return {str(p).removeprefix(f"{output}/"): store.load(p).content for p in store.list_all(output)}


def is_complete(found: dict[str, bytes], content: bytes) -> bool:
    """Return whether an output contains `_SUCCESS`, and all files of one run, and nothing else."""
    if "_SUCCESS" not in found:
        return False
    contents = {data for name, data in found.items() if name != "_SUCCESS"}
    runs = {
        name.rpartition("/")[2].split("-")[1].removesuffix(".parquet") for name in found if name.endswith(".parquet")
    }
    return len(found) == FILES + 3 and contents == {content} and runs == {found["_SUCCESS"].decode()}


def lock_of(output: UrlPath) -> dict[str, Any]:
    """Return the content of the lock of an output."""
    lock: dict[str, Any] = json.loads(store_of(output).load(output / "_export.lock").content)
    return lock
