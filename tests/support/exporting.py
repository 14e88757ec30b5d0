"""The rows of an export, however they were read, beside those that the Java consumer returned; and what must not be left lying."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa
from golden_cases import Case, Rows

from kafkafmt.constants import MAX_MILLIS


def assert_nothing_beside(out: Path) -> None:
    """No staging directory, and nothing in OUT but what belongs there."""
    assert [p.name for p in out.parent.iterdir() if ".kafkafmt-" in p.name] == []
    if out.exists():
        assert {p.name for p in out.iterdir()} <= {"data", "quarantine", "report.json", "_SUCCESS"}
        assert {p.suffix for p in out.glob("data/**/*") if p.is_file()} <= {".parquet"}


def rows_of(table: pa.Table) -> Rows:
    """A table of the export as the rows of golden_cases; a record that comes twice is an error. Timestamps stay microseconds, or None."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    stamps = table["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    columns = [table[name].to_pylist() for name in ("topic", "partition", "offset")] + [stamps.to_pylist()]
    columns += [table[name].to_pylist() for name in ("timestampType", "key", "value", "headers")]
    found: Rows = {}
    for topic, partition, offset, stamp, kind, key, value, headers in zip(*columns, strict=True):
        at = (str(topic), int(partition), int(offset))
        assert at not in found, f"{at} comes twice"
        pairs = [[h["key"], text(h["value"])] for h in headers] if headers is not None else []
        found[at] = [stamp, kind, text(key), text(value), pairs]
    return found


def wanted(case: Case) -> Rows:
    """What the consumer returned, its timestamps as the export's column has them."""
    return in_micros(case.expected())


def in_micros(rows: Rows) -> Rows:
    return {
        at: [None if kind < 0 or abs(stamp) > MAX_MILLIS else stamp * 1000, kind, *rest]
        for at, (stamp, kind, *rest) in rows.items()
    }


def read_with_pyarrow(folder: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(folder)
