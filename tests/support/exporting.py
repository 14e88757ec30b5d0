"""Read an export as rows that can be compared with the Java consumer's, and check for leftover files."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from golden_cases import Case, Rows

from kafkafmt.constants import MAX_MILLIS

if TYPE_CHECKING:
    from kafkafmt.exporting.job import WriteBundle
    from kafkafmt.exporting.options import Progress
    from kafkafmt.log.reading.record_selection import OffsetBound


class RunExport(Protocol):
    """Type of the fixture `run_export`."""

    def __call__(
        self,
        paths: Sequence[Path],
        *,
        offsets: str | tuple[OffsetBound | None, OffsetBound | None] = ":",
        progress: Progress | None = None,
        write: WriteBundle = ...,
        tell: Callable[[str], None] | None = None,
        **options: Any,
    ) -> tuple[dict[str, Any], Path]:
        """Run an export, and return the report and the output directory."""


def assert_no_leftovers(out: Path) -> None:
    """Check that there is no staging directory, and that OUT contains only files of an export."""
    assert [p.name for p in out.parent.iterdir() if ".kafkafmt-" in p.name] == []
    if out.exists():
        assert {p.name for p in out.iterdir()} <= {"data", "quarantine", "reports", "report.json", "_SUCCESS"}
        assert {p.suffix for p in out.glob("data/**/*") if p.is_file()} <= {".parquet"}


def rows_of(table: pa.Table) -> Rows:
    """Convert a table of an export to rows of golden_cases. Raise an error if a record occurs twice.

    Timestamps remain in microseconds, or None.
    """

    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    stamps = table["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = [table[name].to_pylist() for name in ("topic", "partition", "offset")] + [stamps.to_pylist()]
    columns += [table[name].to_pylist() for name in ("timestampType", "key", "value", "headers")]
    found: Rows = {}
    for topic, partition, offset, stamp, kind, key, value, headers in zip(*columns, strict=True):
        at = (str(topic), int(partition), int(offset))
        assert at not in found, f"the record {at} occurs twice"
        pairs = [[h["key"], text(h["value"])] for h in headers] if headers is not None else []
        found[at] = [stamp, kind, text(key), text(value), pairs]
    return found


def expected_rows(case: Case) -> Rows:
    """Return the consumer's records, with timestamps like those in the export."""
    return in_micros(case.expected())


def in_micros(rows: Rows) -> Rows:
    return {
        at: [None if kind < 0 or abs(stamp) > MAX_MILLIS else stamp * 1000, kind, *rest]
        for at, (stamp, kind, *rest) in rows.items()
    }


def read_with_pyarrow(folder: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(folder)


def read_with_spark(folder: Path) -> pa.Table:
    from kafkafmt.spark.session import make_session

    return make_session("local[2]", "tests").read.parquet(str(folder)).toArrow()


def read_with_pandas(folder: Path) -> pa.Table:
    import pandas

    return pa.Table.from_pandas(pandas.read_parquet(folder))


def read_with_polars(folder: Path) -> pa.Table:
    import polars

    return polars.read_parquet(folder).to_arrow()


def read_with_duckdb(folder: Path) -> pa.Table:
    import duckdb

    relation = duckdb.sql(f"SELECT * FROM '{folder}/**/*.parquet'")
    assert relation is not None
    return relation.to_arrow_table()


def read_with_dataset(folder: Path) -> pa.Table:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(folder, partitioning="hive").to_table()


READERS = {
    "spark": read_with_spark,
    "dataset": read_with_dataset,
    "pyarrow": read_with_pyarrow,
    "pandas": read_with_pandas,
    "polars": read_with_polars,
    "duckdb": read_with_duckdb,
}
