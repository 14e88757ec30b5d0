"""Publish small exports in a bucket without Spark."""

from __future__ import annotations

from kafkafmt.log.format.stores import store_of
from kafkafmt.paths import UrlPath
from kafkafmt.spark.export.bucket_staging import PUBLISHING, BucketStaging
from kafkafmt.spark.export.staging import Staging

FILES = 3


def fill(staging: Staging, content: bytes) -> None:
    """Stage data files, a quarantine file and a report."""
    layout = staging.layout
    for number in range(FILES):
        (layout.attempts / str(number)).write_bytes(content)
        staging.place(str(number), layout.data_file("t", 0, number), len(content))
    layout.quarantine.mkdir()
    layout.quarantine_file.write_bytes(content)
    layout.report.write_bytes(content)
    staging.close_attempts()


def export(output: UrlPath, content: bytes, overwrite: bool = False) -> None:
    with BucketStaging(output, overwrite) as staging:
        fill(staging, content)
        staging.publish()


def objects(output: UrlPath) -> dict[str, bytes]:
    """Return the content of all objects of an output, by their paths in it."""
    store = store_of(output)
    return {str(p).removeprefix(f"{output}/"): bytes(store.begin(p, 100)[1]) for p in store.list_all(output)}


def is_complete(found: dict[str, bytes], content: bytes) -> bool:
    return len(found) == FILES + 3 and PUBLISHING not in found and set(found.values()) == {content, b""}
