"""Check the output of an export to a bucket with injected faults."""

from __future__ import annotations

import itertools
from pathlib import Path

from bucket_exports import objects
from exporting import expected_rows, read_with_pyarrow, rows_of
from golden_cases import same_rows
from scenarios import GOLDEN

from kafkafmt.support.paths import UrlPath

numbers = itertools.count()


def assert_complete_in_bucket(url: str, tmp_path: Path, files: int | None = None) -> None:
    """Check that an output has all records once, and no other object."""
    copy, found = tmp_path / f"copy-{next(numbers)}", objects(UrlPath(url))
    for name, data in found.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(data)
    assert {name.partition("/")[0] for name in found} == {"data", "quarantine", "report.json", "_SUCCESS"}
    assert files is None or sum(name.startswith("data/") for name in found) == files
    same_rows(rows_of(read_with_pyarrow(copy / "data")), expected_rows(GOLDEN))
