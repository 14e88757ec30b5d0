"""Test the option `where`: it delivers exactly the matching records, and reads only what can match."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from building import batch, record
from golden_cases import CASES, LEGACY, Case, case
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from source_rows import micros, plan, read

import kafkafmt.spark
from kafkafmt.log.finding.record_filter import (
    ANYTHING,
    NOTHING,
    AllOf,
    AnyOf,
    Comparison,
    Filter,
    for_partition,
    offset_range,
)
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.source.where import parse_where, where_text

FIRST = 1_700_000_000_000
NAMES = ("topic", "partition", "offset", "timestamp")
Row = tuple[str, int, int, int | None]
SIGNS: dict[str, Any] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


def matches(row: Row, where: list[Any]) -> bool:
    """Return whether a row matches, by the definition of `where` and independent of the package."""
    if where and isinstance(where[0][0], list | tuple):
        return any(matches(row, part) for part in where)
    for column, sign, value in where:
        own: Any = row[NAMES.index(column)]
        if own is None:
            return False
        if column == "timestamp":
            value = [v * 1000 for v in value] if isinstance(value, list) else value * 1000
        if not SIGNS[sign](own, value):
            return False
    return True


def rows_of(table: pa.Table) -> list[Row]:
    columns = [table.column(name).to_pylist() for name in NAMES[:3]]
    return sorted(zip(*columns, micros(table), strict=True))


def conditions(rows: list[Row], draw: random.Random) -> list[Any]:
    """Return random conditions with values at, between and outside those of the rows."""

    def one() -> tuple[str, str, Any]:
        column, sign = draw.choice(NAMES), draw.choice(list(SIGNS))

        def value() -> Any:
            own = draw.choice(rows)[NAMES.index(column)]
            if column == "topic":
                return draw.choice([own, "", "zzz"])
            number = 0 if own is None else int(own) // (1000 if column == "timestamp" else 1)
            return number + draw.choice([0, 0, 1, -1, 10**12, -(10**12)])

        return column, sign, [value() for _ in range(draw.randrange(4))] if "in" in sign else value()

    lists = [[one() for _ in range(draw.randrange(1, 4))] for _ in range(draw.randrange(1, 4))]
    return lists if draw.random() < 0.5 else lists[0]


@pytest.mark.parametrize("golden", [*CASES, *LEGACY], ids=str)
def test_where_delivers_exactly_the_matching_records(golden: Case) -> None:
    draw = random.Random(str(golden))
    options = {"replicas": "longest"} if golden.name == "jbod" else {}
    everything = rows_of(read(golden.roots, NAMES, **options))
    for _ in range(4 if everything else 1):
        where = conditions(everything or [("x", 0, 0, None)], draw)
        found = rows_of(read(golden.roots, NAMES, where=json.dumps(where), splitBytes="4k", **options))
        assert found == [row for row in everything if matches(row, where)], where


def log_with_unordered_times(folder: Path) -> list[Row]:
    """Write a log with unordered timestamps, in segments of 50 records without indexes. Return its rows."""
    draw = random.Random(5)
    rows: list[Row] = []
    (folder / "t-0").mkdir(parents=True)
    for base in range(0, 400, 50):
        data = b""
        for first in range(base, base + 50, 10):
            start = FIRST + draw.randrange(100_000)
            times = [start + draw.randrange(-5000, 5000) for _ in range(10)]
            rows += [("t", 0, first + i, time * 1000) for i, time in enumerate(times)]
            records = [record(i, timestamp_delta=time - times[0]) for i, time in enumerate(times)]
            data += batch(records, base_offset=first, base_timestamp=times[0], max_timestamp=max(times))
        (folder / "t-0" / f"{base:020}.log").write_bytes(data)
    return rows


def test_where_is_exact_if_timestamps_go_back(tmp_path: Path) -> None:
    everything = log_with_unordered_times(tmp_path)
    assert rows_of(read(tmp_path, NAMES)) == everything
    for at in range(FIRST - 10_000, FIRST + 110_000, 7_777):
        for sign in SIGNS.keys() - {"in", "not in"}:
            where = [("timestamp", sign, at), ("offset", "<", 333)]
            assert rows_of(read(tmp_path, NAMES, where=json.dumps(where))) == [
                row for row in everything if matches(row, where)
            ]


def test_columns_of_the_condition_need_not_be_selected() -> None:
    where = json.dumps([["offset", ">=", 190], ["timestamp", "<", FIRST + 197 * 7000]])
    found = read(case("segments").roots, ("partition",), subscribe="segments-time", where=where)
    assert found.column_names == ["partition"]
    assert found.num_rows == 7


def test_planning_skips_what_cannot_match() -> None:
    def splits(*where: tuple[str, str, Any]) -> set[tuple[str, int]]:
        _, partitions = plan(case("segments").roots, splitBytes="1", where=json.dumps(where))
        return {(s.topic, s.partition) for p in partitions for s in p.task.splits}

    def files(*where: tuple[str, str, Any]) -> set[str]:
        _, partitions = plan(case("segments").roots, splitBytes="1", subscribe="segments-time", where=json.dumps(where))
        pieces = [piece for p in partitions for s in p.task.splits for piece in s.pieces]
        return {segment.name for piece in pieces for segment in piece.directory.segments}

    assert splits(("topic", "=", "segments-time")) == {("segments-time", 0)}
    assert splits(("topic", "in", ["segments-size", "none"]), ("partition", ">", 0)) == {("segments-size", 1)}
    assert splits(("offset", "<", 0)) == set()
    every = files()
    assert len(every) > 3
    assert len(files(("offset", ">=", 199))) == 1
    assert len(files(("offset", "<", 1))) == 1
    assert len(files(("timestamp", ">=", FIRST + 199 * 7000))) == 1
    assert files(("timestamp", "<", FIRST + 7000)) == every  # later records can have earlier timestamps


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("offset > 5", "where is not JSON"),
        ("5", "where must be a list of conditions, such as"),
        ('["offset", ">", 5]', "where contains 'offset'; a condition is a column, an operator and a value"),
        ('[["value", "=", "x"]]', "where names the column 'value'; it can name topic, partition, offset, timestamp"),
        ('[["offset", "~", 5]]', "where has the operator '~'; the operators are =, !=, <"),
        ('[["offset", "in", 5]]', "where compares offset with 5; the operator in needs a list of values"),
        ('[["offset", "=", [5]]]', r"where compares offset with \[5\]; the operator = needs one value"),
        ('[["offset", "=", "5"]]', "where compares offset with '5'; the value must be a whole number"),
        ('[["offset", "=", true]]', "where compares offset with True; the value must be a whole number"),
        ('[["offset", "=", 1e3]]', "where compares offset with 1000.0; the value must be a whole number"),
        ('[["topic", "=", 5]]', "where compares topic with 5; the value must be a text"),
        ('[["timestamp", "=", "today"]]', "where compares timestamp with 'today', which is not a time in ISO 8601"),
        ('[["timestamp", "=", "2026-01-01"]]', "where compares timestamp with '2026-01-01', which has no time zone"),
        ('[["timestamp", "=", 9999999999999999]]', "which does not fit into 64 bits"),
    ],
)
def test_invalid_where_is_an_error(where: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read(case("segments").roots, where=where)


def test_times_in_where_are_exact_to_the_microsecond() -> None:
    moment = datetime(2026, 1, 1, 1, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert parse_where(where_text([("timestamp", ">", moment)])) == AllOf(
        (Comparison("timestamp", ">", (1_767_225_600_000_001,)),)
    )
    assert offset_range(parse_where('[["timestamp", ">", "2026-01-01T00:00:00.000001Z"]]')).time == 1_767_225_600_001
    for wrong in (datetime(2026, 1, 1), 1.5, True, None, object()):
        with pytest.raises(ValueError, match="where contains"):
            where_text([("timestamp", ">", wrong)])
    for no_list in ("offset > 5", 5):
        with pytest.raises(ValueError, match=r"where is .*; it must be a list of conditions"):
            where_text(no_list)  # type: ignore[arg-type]


def test_stream_and_sql_accept_where(spark: SparkSession, tmp_path: Path) -> None:
    root = case("segments").roots[0]
    where = json.dumps([["topic", "=", "segments-time"], ["offset", "in", [3, 150]]])
    stream = spark.readStream.format("kafkafmt").option("startingOffsets", "earliest").option("where", where)
    query = stream.load(str(root)).writeStream.format("memory").queryName("where_stream").trigger(availableNow=True)
    query.start().awaitTermination(120)
    assert sorted(row.offset for row in spark.table("where_stream").collect()) == [3, 150]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW where_view USING kafkafmt OPTIONS (path '{root}', where '{where}')")
    assert sorted(row.offset for row in spark.table("where_view").collect()) == [3, 150]


def test_read_delivers_what_sparks_own_filter_delivers(spark: SparkSession) -> None:
    roots, moment = case("segments").roots, datetime.fromtimestamp((FIRST + 100 * 7000) / 1000, UTC)
    where = [[("topic", "=", "segments-time"), ("timestamp", ">", moment)], [("partition", "not in", [0, 2])]]
    found = kafkafmt.spark.read(spark, roots, columns=["topic", "partition", "offset"], where=where).collect()
    expected = kafkafmt.spark.read(spark, roots).where(
        f"(topic = 'segments-time' AND timestamp > '{moment.isoformat()}') OR partition NOT IN (0, 2)"
    )
    assert sorted(found) == sorted(expected.select("topic", "partition", "offset").collect())
    assert len(found) > 99


FILTERS: st.SearchStrategy[Filter] = st.recursive(
    st.builds(
        lambda column, sign, values: Comparison(column, sign, values if "in" in sign else values[:1]),
        st.sampled_from(["partition", "offset", "timestamp"]),
        st.sampled_from(list(SIGNS)),
        st.lists(st.integers(-2, 12), min_size=1, max_size=3).map(tuple),
    ),
    lambda inner: (
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


def holds(filtered: Filter, partition: int, offset: int, time: int) -> bool:
    if isinstance(filtered, Comparison):
        own = {"partition": partition, "offset": offset, "timestamp": time}[filtered.column]
        return bool(SIGNS[filtered.operator](own, filtered.values if "in" in filtered.operator else filtered.values[0]))
    results = [holds(part, partition, offset, time) for part in filtered.parts]
    return all(results) if isinstance(filtered, AllOf) else any(results)


@given(FILTERS, st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_range_of_a_filter_contains_every_match(filtered: Filter, partition: int) -> None:
    own = for_partition(filtered, "t", partition)
    limits = offset_range(own)
    for offset in range(11):
        for time in range(11):
            match = holds(filtered, partition, offset, time)
            assert match == holds(own, -99, offset, time)  # the partition is no longer compared
            if match:
                assert limits.low <= offset < limits.high
                assert limits.time is None or time >= (limits.time - 1) * 1000
    assert own in (ANYTHING, NOTHING) or isinstance(own, Comparison) or len(own.parts) > 1


def test_times_at_the_ends_of_the_calendar_are_compared() -> None:
    latest = datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))  # in the year 10000 in UTC
    assert read(case("segments").roots, where=where_text([("timestamp", "<", latest)])).num_rows > 200


def test_set_of_different_types_is_an_error() -> None:
    with pytest.raises(ValueError, match="where compares topic with 1; the value must be a text"):
        where_text([("topic", "in", {"a", 1})])
