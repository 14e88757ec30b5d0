"""Test the directories and columns of an export that is divided by time, joins partitions or selects columns."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from exporting import READERS, RunExport, expected_rows, read_with_dataset, read_with_pyarrow, rows_of
from golden_cases import case, same_rows
from pyspark.sql import SparkSession

from kafkafmt import LogDirectory, build_batch
from kafkafmt.arrow.builder import OPTIONAL, SCHEMA, schema_of
from kafkafmt.exporting.bundles import Bundle
from kafkafmt.exporting.dates import by_period
from kafkafmt.exporting.files import MAX_OPEN_FILES, FileSet
from kafkafmt.exporting.options import COLUMN_NAMES
from kafkafmt.exporting.parquet import FileFormat
from kafkafmt.exporting.staging import StagedFiles
from kafkafmt.exporting.tasks import BundleResult, TaskSettings, write_bundle
from kafkafmt.exporting.timing import Stopwatch

GOLDEN = case("segments")
HOUR = 3_600_000
START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
NULL = "__HIVE_DEFAULT_PARTITION__"
PLAIN = {"key", "value", "offset", "timestamp", "timestampType", "headers"}
EXPORTED = {*PLAIN, "topic", "partition"}
WITHOUT_NULL_PARTITIONS = ("pyarrow", "pandas")
"""Readers that cannot convert a null partition: pyarrow cannot unify dictionaries with nulls."""


def hours_of(micros: int | None) -> tuple[date | None, int | None]:
    """Return the date and the hour that Python gives for a timestamp, or None if it has none."""
    if micros is None:
        return None, None
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return None, None
    return moment.date(), moment.hour


def as_date(value: Any) -> date | None:
    return date.fromisoformat(value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def unsorted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory in which each partition spans three days, and each batch spans several hours."""
    root = tmp_path_factory.mktemp("unsorted")
    with LogDirectory(root) as directory:
        for partition in (0, 1):
            writer = directory.writer("t", partition)
            for first in range(0, 700, 10):
                hours = [first // 10, 71 - first // 10, 5]
                records = [(b"k", b"v%d" % (first + i), START + hours[i % 3] * HOUR + i) for i in range(10)]
                writer.append_batches(build_batch(records))
    return root


@pytest.fixture(scope="module", params=["day", "hour"])
def by_time(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Any:
    """Return a period, and the output of an export of `codecs`, which has extreme and missing timestamps."""
    import kafkafmt

    out = tmp_path_factory.mktemp("by-time") / "out"
    kafkafmt.export(case("codecs").roots, out, partition_by=request.param)
    return request.param, out


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_returns_the_records_and_their_periods(by_time: Any, reader: str) -> None:
    period, out = by_time
    if reader in WITHOUT_NULL_PARTITIONS:
        out = without_null_partitions(out)
    table = READERS[reader](out / "data")
    added = {"date"} if period == "day" else {"date", "hour"}
    assert set(table.column_names) == EXPORTED | added
    expected = expected_rows(case("codecs"))
    if reader in WITHOUT_NULL_PARTITIONS:
        expected = {at: row for at, row in expected.items() if hours_of(row[0])[0] is not None}
    same_rows(rows_of(table), expected)
    stamps = table["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    dates = [as_date(value) for value in table["date"].to_pylist()]
    assert dates == [hours_of(micros)[0] for micros in stamps]
    if period == "hour":
        hours = [None if value is None else int(value) for value in table["hour"].to_pylist()]
        assert hours == [hours_of(micros)[1] for micros in stamps]


def without_null_partitions(out: Path) -> Path:
    """Return a copy of an export without the records that have no date."""
    copy = Path(shutil.copytree(out, out.with_name("copy"), dirs_exist_ok=True))
    nulls = list(copy.glob(f"data/*/*/date={NULL}"))
    for folder in nulls:
        shutil.rmtree(folder)
    return copy


def test_golden_log_has_records_with_and_without_a_date(by_time: Any) -> None:
    period, out = by_time
    names = {path.name for path in out.glob("data/*/*/*")}
    assert f"date={NULL}" in names
    assert len(names) > 2
    if period == "hour":
        assert (next(out.glob(f"data/*/*/date={NULL}")) / f"hour={NULL}").is_dir()


def test_spark_reads_the_date_as_a_date(by_time: Any, spark: SparkSession) -> None:
    period, out = by_time
    types = dict(spark.read.parquet(str(out / "data")).dtypes)
    assert types["date"] == "date"
    assert types.get("hour") == ("int" if period == "hour" else None)


def test_unsorted_timestamps_give_one_file_per_hour_with_rows_in_order(run_export: RunExport, unsorted: Path) -> None:
    report, out = run_export([unsorted], partition_by="hour")
    files = sorted(out.glob("data/topic=t/partition=0/date=*/hour=*/*.parquet"))
    found: list[int] = []
    for path in files:
        table = pq.read_table(path, partitioning=None)
        assert set(table.column_names) == PLAIN
        offsets = table["offset"].to_pylist()
        assert offsets == sorted(offsets)
        assert path.name == f"{offsets[0]:020d}.parquet"
        day, hour = path.parts[-3].removeprefix("date="), path.parts[-2].removeprefix("hour=")
        assert {t.strftime("%Y-%m-%d %H") for t in table["timestamp"].to_pylist()} == {f"{day} {hour}"}
        found += offsets
    assert sorted(found) == list(range(700))
    assert len(files) > 70  # MAX_OPEN_FILES is exceeded
    assert report["written"]["files"] == len(list(out.glob("data/**/*.parquet")))
    assert report["options"]["partition_by"] == "hour"


def test_records_of_many_hours_keep_only_some_files_open(tmp_path: Path) -> None:
    file_format = FileFormat(partition_by="hour")
    files = FileSet("t", file_format, StagedFiles(tmp_path), Stopwatch())
    schema = schema_of(file_format.decoded_columns)
    for start in range(0, 1000, 100):
        rows = [{"offset": start + i, "timestamp": (start + i) * HOUR * 1000} for i in range(100)]
        files.add(pa.RecordBatch.from_pylist(rows, schema), 0)
        assert len(files._open) <= MAX_OPEN_FILES
    files.close()
    assert sum(row for file in files.written for row in file.rows.values()) == 1000
    assert len({file.period for file in files.written}) == 1000


def test_batches_of_one_period_are_not_copied() -> None:
    batch = pa.record_batch({"timestamp": pa.array([START * 1000] * 5, pa.timestamp("us", "UTC"))})
    ((names, rows),) = by_period(batch, "day")
    assert names == ("date=2026-01-01",)
    assert rows is batch


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with 40 small partitions of one topic and 2 of another."""
    root = tmp_path_factory.mktemp("small")
    with LogDirectory(root) as directory:
        for topic, partitions in (("many", 40), ("few", 2)):
            for partition in range(partitions):
                rows = [(b"k", b"%d" % i, START + i) for i in range(partition + 1)]
                directory.writer(topic, partition).append_batches(build_batch(rows))
    return root


def test_joined_partitions_have_one_file_per_topic(run_export: RunExport, small: Path, spark: SparkSession) -> None:
    report, out = run_export([small], join_small=True)
    names = sorted(str(path.relative_to(out / "data")) for path in out.glob("data/**/*.parquet"))
    name = f"{0:010d}-{0:020d}.parquet"
    assert names == [f"topic=few/{name}", f"topic=many/{name}"]
    table = pq.read_table(out / "data" / names[1], partitioning=None)
    expected = [(p, o) for p in range(40) for o in range(p + 1)]
    assert list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == expected
    assert report["written"]["files"] == 2
    assert report["written"]["bytes"] == sum(path.stat().st_size for path in out.glob("data/**/*.parquet"))
    assert report["written"]["bytes"] == sum(p["written"]["bytes"] for p in report["partitions"])
    assert all(p["written"]["files"] == 1 for p in report["partitions"])
    types = dict(spark.read.parquet(str(out / "data")).dtypes)
    assert (types["topic"], types["partition"]) == ("string", "int")


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_returns_the_records_of_joined_partitions(run_export: RunExport, small: Path, reader: str) -> None:
    _, out = run_export([small], join_small=True)
    table = READERS[reader](out / "data")
    assert set(table.column_names) == EXPORTED
    found = set(rows_of(table))
    assert found == {(t, p, o) for t, n in (("many", 40), ("few", 2)) for p in range(n) for o in range(p + 1)}


def test_joined_golden_logs_equal_the_consumer(run_export: RunExport) -> None:
    for name in ("codecs", "torn", "transactions"):
        golden = case(name)
        for options in ({}, {"partition_by": "day"}, {"split_bytes": 2000}):
            plain, plain_out = run_export(golden.roots, overwrite=True)
            rows = rows_of(read_with_dataset(plain_out / "data"))
            joined, out = run_export(golden.roots, overwrite=True, join_small=True, **options)
            same_rows(rows_of(read_with_dataset(out / "data")), rows)
            for part in ("read", "quarantined", "in_doubt"):
                assert joined[part] == plain[part]
            assert joined["written"]["records"] == plain["written"]["records"]


def test_damage_in_one_joined_partition_costs_only_its_records(
    run_export: RunExport, small: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(small, tmp_path / "log"))
    (broken,) = (root / "many-7").glob("*.log")
    content = bytearray(broken.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    report, out = run_export([root], join_small=True)
    assert report["quarantined"]["spans"] == 1
    found = set(rows_of(read_with_pyarrow(out / "data")))
    expected = {(t, p, o) for t, n in (("many", 40), ("few", 2)) for p in range(n) for o in range(p + 1)}
    assert found == {at for at in expected if at[:2] != ("many", 7)}


def test_file_without_some_of_its_records_is_an_error(run_export: RunExport, small: Path, tmp_path: Path) -> None:
    def write_fewer(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        result = write_bundle(bundle, settings)
        result.files[0].rows[bundle.splits[0].partition] -= 1
        return result

    with pytest.raises(OSError, match=r"a task on host .* wrote \d+ of \d+ records; nothing is exported"):
        run_export([small], join_small=True, write=write_fewer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "joined", "stored"),
    [
        (("offset", "value"), False, ["offset", "value"]),
        (("value", "partition", "timestampMillis", "topic"), False, ["value", "timestampMillis"]),
        (("value",), True, ["partition", "value"]),
        (("key", "partition", "headers"), True, ["key", "partition", "headers"]),
    ],
)
def test_files_have_only_the_chosen_columns(
    run_export: RunExport, columns: tuple[str, ...], joined: bool, stored: list[str]
) -> None:
    report, out = run_export(GOLDEN.roots, columns=columns, join_small=joined)
    for path in out.glob("data/**/*.parquet"):
        assert pq.read_schema(path).names == stored
    whole, whole_out = run_export(GOLDEN.roots, columns=COLUMN_NAMES, output=out.with_name("whole"))
    names = sorted({*columns, "topic", "partition"})
    chosen, every = (read_with_dataset(o / "data").select(names).to_pylist() for o in (out, whole_out))
    assert sorted(map(repr, chosen)) == sorted(map(repr, every))
    for part, other in zip(report["partitions"], whole["partitions"], strict=True):
        for name in ("records", "first_offset", "last_offset", "min_timestamp", "max_timestamp"):
            assert part["written"][name] == other["written"][name]


def test_columns_of_the_export_are_those_of_arrow() -> None:
    assert list(COLUMN_NAMES) == SCHEMA.names + OPTIONAL.names


def test_export_without_records_has_the_chosen_columns(run_export: RunExport, spark: SparkSession) -> None:
    options: dict[str, Any] = {"columns": ("value",), "partition_by": "hour", "overwrite": True}
    for joined in (False, True):
        _, out = run_export(GOLDEN.roots, offsets="999999999:", join_small=joined, **options)
        types = dict(spark.read.parquet(str(out / "data")).dtypes)
        assert types == {"value": "binary", "topic": "string", "partition": "int", "date": "date", "hour": "int"}
