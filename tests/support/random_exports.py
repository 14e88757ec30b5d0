"""Choose random options of an export, and compare exports with `kafkafmt cat` and `kafkafmt verify`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from damaged_logs import DAY
from writing import FIRST

VARIES = ("started", "finished", "output", "seconds", "steps", "worker_memory", "options")
"""Keys of a report whose values differ between two exports of the same log."""
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


def options_of(chance: Random) -> tuple[dict[str, Any], list[str]]:
    """Return random options of an export, and the options of `cat` that select the same records."""
    options: dict[str, Any] = {}
    arguments: list[str] = []
    if chance.random() < 0.5:
        options["isolation"] = "read_committed"
        arguments += ["--isolation", "read_committed"]
    for name in ("internal", "below_log_start"):
        if chance.random() < 0.3:
            options[name] = True
            arguments.append(f"--{name.replace('_', '-')}")
    if chance.random() < 0.4:
        options["offsets"] = f"{_bound(chance)}:{_bound(chance)}"
        arguments.append(f"--offsets={options['offsets']}")
    if chance.random() < 0.3:
        options["partition_by"] = chance.choice(("day", "hour"))
    options["join_small"] = chance.random() < 0.3
    if chance.random() < 0.6:
        options["split_bytes"] = chance.choice((1, 500, 5_000, 50_000))
    if chance.random() < 0.3:
        options["columns"] = tuple(chance.sample((*COLUMNS, "timestampMillis"), chance.randrange(3, 8)))
    options["compression"] = chance.choice(("zstd", "snappy", "lz4", "none"))
    return options, arguments


def _bound(chance: Random) -> str:
    return chance.choice(
        ("", f"{chance.randrange(250)}", f"-{chance.randrange(1, 200)}", f"@{FIRST + chance.randrange(-DAY, 12 * DAY)}")
    )


def rows_of(folder: Path) -> list[Row]:
    """Return all rows of an export. If a file has no column topic or partition, take the value from the directory names."""
    rows: list[Row] = []
    for path in sorted(folder.rglob("*.parquet")):
        found = rows_in(path)
        parts = dict(part.split("=", 1) for part in path.relative_to(folder).parts[:-1])
        assert {period_of(row["timestamp"], parts) for row in found if "timestamp" in row} <= {period_of(None, parts)}
        keys = [(row.get("partition"), row["offset"]) for row in found if "offset" in row]
        assert keys == sorted(keys)
        own = {
            name: int(parts[name]) if name == "partition" else parts[name]
            for name in ("topic", "partition")
            if name in parts
        }
        rows += [own | row for row in found]
    return rows


def rows_in(path: Path) -> list[Row]:
    """Return the rows of a Parquet file, with timestamps in microseconds."""
    table = pq.ParquetFile(path).read()
    if "timestamp" in table.column_names:
        at = table.schema.get_field_index("timestamp")
        micros = table["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        table = table.set_column(at, "timestamp", micros)
    found: list[Row] = table.to_pylist()
    return found


def period_of(micros: int | None, parts: dict[str, str]) -> tuple[str | None, str | None]:
    """Return the date and the hour of a timestamp. If `micros` is None, take them from the directory names `parts`."""
    if micros is None:
        return parts.get("date"), parts.get("hour")
    time = EPOCH + timedelta(microseconds=micros)
    return str(time.date()) if "date" in parts else None, f"{time.hour:02}" if "hour" in parts else None


def in_order(rows: list[Row], names: list[str]) -> list[str]:
    return sorted(repr([row[name] for name in names]) for row in rows)


def check_export(report: Row, out: Path, expected: list[Row], code: int) -> Row:
    """Check that an export has the rows and the exit code of `cat`, and that the quarantine contains all reported damage.

    Return the part of the report that is equal in all exports of the same log.
    """
    rows = rows_of(out / "data")
    names = sorted(rows[0]) if rows else []
    assert in_order(rows, names) == in_order(expected, names)
    assert (report["written"]["records"], report["ok"]) == (len(expected), code == 0)
    listed = [
        d | {"topic": p["topic"], "partition": p["partition"]}
        for p in report["partitions"]
        for d in p["quarantined"]["damaged"]
    ]
    stored = [
        {name: row[name] for name in row if name != "bytes"} for row in pq.read_table(out / "quarantine").to_pylist()
    ]
    assert stored == listed
    return {key: value for key, value in report.items() if key not in VARIES}


def compare_with_verify(report: Row, verified: Row, options: Row) -> None:
    """Check that the export reports the damage and the numbers of records that `verify` reports."""
    found = {(p["topic"], p["partition"]): p for p in verified["partitions"]}
    for p in report["partitions"]:
        other = found[p["topic"], p["partition"]]
        low = 0 if options.get("below_log_start") else other["log_start_offset"]
        high = other["last_stable_offset"] if "isolation" in options else other["next_offset"]
        damaged = [
            d
            for d in other["damaged"]
            if (d["last_offset"] is None or max(d["last_offset"], d["first_offset"] or 0) >= low)
            and (high == other["next_offset"] or (d["first_offset"] or 0) < high)
        ]
        assert p["quarantined"]["damaged"] == damaged
        if "isolation" not in options and "below_log_start" not in options:
            assert p["written"]["records"] == other["records_recovered"]
            assert p["next_offset"] == max(other["next_offset"], low)
