"""Test `kafkafmt.scan_polars`: results equal those of Polars' own filters, and queries read only what they need."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from building import batch, record
from golden_cases import CASES, LEGACY, Case, case
from polars.testing import assert_frame_equal

import kafkafmt
from kafkafmt import LogDirectory, build_batch
from kafkafmt.log.finding.record_filter import ANYTHING, AllOf, AnyOf, Comparison
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.view.polars_source import filter_of

SEGMENTS = case("segments")
START = 1_700_000_000_000
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
offset, partition, topic, timestamp = (pl.col(name) for name in ("offset", "partition", "topic", "timestamp"))


def scan(golden: Case, **arguments: Any) -> pl.LazyFrame:
    return kafkafmt.scan_polars(
        golden.roots, internal=True, on_error="skip", replicas="longest" if golden.name == "jbod" else None, **arguments
    )


def condition(frame: pl.DataFrame, draw: random.Random) -> pl.Expr:
    """Return a random predicate with values at, next to and far from those of a row."""
    row = draw.choice(frame.rows(named=True))
    name = draw.choice(["topic", "partition", "offset", "timestamp"])
    column, own = pl.col(name), row[name]
    if name == "topic":
        value: Any = draw.choice([own, "zzz"])
    elif name == "timestamp":
        value = (own or MOMENT) + timedelta(milliseconds=draw.choice([0, 0, 1, -1, 10**9, -(10**9)]))
    else:
        value = own + draw.choice([0, 0, 1, -1, 10**6, -(10**6)])
    made: pl.Expr = draw.choice(
        [
            column == value, column != value, column < value, column <= value, column > value, column >= value,
            pl.lit(value) < column, column.is_in([value]), column.is_in([value, own]), column.is_between(pl.lit(own), pl.lit(value)),
            column.is_between(pl.lit(value), pl.lit(own), closed="none"), ~(column > value), column.is_null(),
        ]
    )  # fmt: skip
    depth = draw.random()
    if depth < 0.25:
        made &= condition(frame, draw)
    elif depth < 0.5:
        made |= condition(frame, draw)
    elif depth < 0.6:
        made = ~(made & condition(frame, draw))
    return made


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("golden", [*CASES, *LEGACY], ids=str)
@pytest.mark.slow
def test_any_predicate_gives_what_polars_filters(golden: Case) -> None:
    draw, lazy = random.Random(str(golden)), scan(golden)
    everything = lazy.collect()
    for _ in range(4 if everything.height else 0):
        predicate = condition(everything, draw)
        names = draw.sample(everything.columns, draw.randrange(1, 4))
        expected = everything.filter(predicate).select(names)
        assert_frame_equal(lazy.filter(predicate).select(names).collect(), expected)


def test_rows_and_types_are_those_of_to_arrow() -> None:
    lazy = scan(SEGMENTS)
    parts = [pl.DataFrame(p.to_arrow()) for p in kafkafmt.open(*SEGMENTS.roots)]
    assert_frame_equal(lazy.collect(), pl.concat(parts))
    assert lazy.collect_schema() == parts[0].schema
    assert kafkafmt.scan_polars(SEGMENTS.roots, ["timestampMillis"]).collect().columns == ["timestampMillis"]


def test_limit_before_and_after_a_filter() -> None:
    lazy = scan(SEGMENTS)
    everything = lazy.collect()
    for n in (0, 1, 7, 300):
        late = offset > 150
        assert_frame_equal(lazy.head(n).filter(late).collect(), everything.head(n).filter(late))
        assert_frame_equal(lazy.filter(late).head(n).collect(), everything.filter(late).head(n))
        assert lazy.slice(3, n).select("offset").collect().height == n
    assert_frame_equal(lazy.tail(3).collect(), everything.tail(3))
    assert lazy.select(pl.len()).collect().item() == everything.height


def test_isolation_and_log_start_are_arguments() -> None:
    transactions = case("transactions")
    committed = kafkafmt.scan_polars(transactions.roots, isolation="read_committed").collect()
    assert set(committed.select("topic", "partition", "offset").rows()) == set(transactions.expected(committed=True))
    deleted = case("delete-records")
    low, all_ = (kafkafmt.scan_polars(deleted.roots, below_log_start=b).collect().height for b in (False, True))
    assert low < all_


def test_internal_topics_are_read_on_request() -> None:
    topics = {b: set(scan_topics(internal=b)) for b in (False, True)}
    assert {t for t in topics[True] if t.startswith("__")}
    assert topics[False] == {t for t in topics[True] if not t.startswith("__")}


def scan_topics(internal: bool) -> list[str]:
    return (
        kafkafmt.scan_polars(case("internal").roots, internal=internal)
        .select("topic")
        .unique()
        .collect()["topic"]
        .to_list()
    )


def test_query_sees_records_that_were_appended_after_the_scan(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("a").append([(None, b"1", START)])
    lazy = kafkafmt.scan_polars(tmp_path)
    assert lazy.collect().height == 1
    with LogDirectory(tmp_path) as directory:
        directory.writer("a").append([(None, b"2", START)])
        directory.writer("b").append([(None, b"3", START)])
    assert lazy.select("value").collect()["value"].to_list() == [b"1", b"2", b"3"]


@pytest.fixture(scope="module")
def topic_of_24_mb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with a partition of 24 MB, in segments of 8 MB, one record per ms."""
    root = tmp_path_factory.mktemp("log")
    with LogDirectory(root, segment_bytes=8 << 20) as directory:
        writer = directory.writer("t", 0)
        for first in range(0, 60_000, 40):
            writer.append_batches(build_batch([(b"key", bytes(400), START + first + i) for i in range(40)]))
    return root


@pytest.mark.parametrize(
    ("query", "rows", "limit"),
    [
        (lambda lazy: lazy, 60_000, 1.02),
        (lambda lazy: lazy.filter(offset >= 59_990), 10, 0.05),
        (lambda lazy: lazy.filter(offset.is_between(30_000, 30_010)), 11, 0.1),
        (lambda lazy: lazy.filter(timestamp >= datetime.fromtimestamp((START + 59_990) / 1000, UTC)), 10, 0.15),
        (lambda lazy: lazy.filter(topic == "other"), 0, 0),
        (lambda lazy: lazy.filter(partition > 0), 0, 0),
        (lambda lazy: lazy.head(10), 10, 0.4),
        (lambda lazy: lazy.filter(offset < 20).head(10), 10, 0.4),
    ],
)
def test_query_reads_only_what_it_needs(
    topic_of_24_mb: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: Callable[[pl.LazyFrame], pl.LazyFrame],
    rows: int,
    limit: float,
) -> None:
    read, original = [0], FileView.read_into

    def counted(view: FileView, buffer: Any, position: int) -> int:
        got = original(view, buffer, position)
        read[0] += got
        return got

    lazy = kafkafmt.scan_polars(topic_of_24_mb)
    monkeypatch.setattr(FileView, "read_into", counted)
    assert query(lazy).collect().height == rows
    total = sum(path.stat().st_size for path in topic_of_24_mb.glob("t-0/*.log"))
    assert read[0] <= limit * total


def test_only_the_used_columns_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkafmt.arrow import builder as arrow

    decoded: list[list[str]] = []

    class Noted(arrow.ArrowBuilder):
        def __init__(self, topic: str, partition: int, schema: Any, **more: Any) -> None:
            decoded.append(schema.names)
            super().__init__(topic, partition, schema, **more)

    monkeypatch.setattr(arrow, "ArrowBuilder", Noted)
    scan(SEGMENTS).filter(offset > 5).select("value").collect()
    assert {name for names in decoded for name in names} == {"value", "offset"}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (offset >= 5, Comparison("offset", ">=", (5,))),
        (pl.lit(5) > offset, Comparison("offset", "<", (5,))),
        (topic.is_in(["a", "b"]), Comparison("topic", "in", ("a", "b"))),
        (partition == pl.lit(3, pl.Int64), Comparison("partition", "=", (3,))),
        ((offset < 3) | (offset > 9), AnyOf((Comparison("offset", "<", (3,)), Comparison("offset", ">", (9,))))),
        ((offset < 3) & (pl.col("value") == b"x"), AllOf((Comparison("offset", "<", (3,)), ANYTHING))),
        (timestamp >= date(2026, 1, 1), Comparison("timestamp", ">=", (1_767_225_600_000_000,))),
        (timestamp > MOMENT.astimezone(timezone(timedelta(hours=5))), Comparison("timestamp", ">", (1_767_225_600_000_000,))),
        (timestamp.dt.cast_time_unit("us") > MOMENT, Comparison("timestamp", ">", (1_767_225_600_000_000,))),
        (offset > 1.5, ANYTHING),
        (offset == partition, ANYTHING),
        (topic.str.starts_with("a"), ANYTHING),
        (offset.is_in([1, None]), ANYTHING),
    ],
)  # fmt: skip
def test_conditions_of_a_predicate_are_understood(predicate: pl.Expr, expected: object) -> None:
    """If a release of Polars changes the form of its expressions, this test fails, but results stay correct."""
    seen: list[Any] = []

    def source(_: Any, optimized: Any, __: Any, ___: Any) -> Any:
        seen.append(filter_of(optimized))
        yield pl.DataFrame(schema=schema)

    schema = scan(SEGMENTS).collect_schema()
    pl.io.plugins.register_io_source(source, schema=schema).filter(predicate).collect()
    assert seen == [expected]


def damaged(folder: Path) -> Path:
    data = bytearray(b"".join(batch([record(i) for i in range(5)], base_offset=at) for at in (0, 5, 10)))
    data[len(data) // 2] ^= 1
    (folder / "t-0").mkdir()
    (folder / "t-0" / f"{0:020}.log").write_bytes(data)
    return folder


def test_damage_raises_or_warns(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    with pytest.raises(kafkafmt.DamagedLogError):
        kafkafmt.scan_polars(path).collect()
    lazy = kafkafmt.scan_polars(path, on_error="skip")
    with pytest.warns(RuntimeWarning, match=r"t-0/0+\.log, \d+ bytes at position \d+, are omitted"):
        assert lazy.collect()["offset"].to_list() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert kafkafmt.scan_polars(path).filter(offset >= 10).collect().height == 5  # the damage is not read


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": ["nothing"]}, ValueError, "no column 'nothing'"),
        ({"on_error": "ignore"}, ValueError, "on_error is 'ignore'"),
        ({"isolation": "none"}, ValueError, "isolation is 'none'"),
        ({"threads": 0}, ValueError, "threads is 0"),
        ({"paths": "/does/not/exist"}, FileNotFoundError, "/does/not/exist"),
    ],
)
def test_wrong_arguments_raise_at_once(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kafkafmt.scan_polars(**({"paths": SEGMENTS.roots} | arguments))


def test_missing_polars_is_reported_with_a_remedy() -> None:
    code = (
        "import sys; sys.modules['polars'] = None\nimport kafkafmt\n"
        "try:\n    kafkafmt.scan_polars('.')\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("scan_polars needs polars 1.34 or newer: pip install 'polars>=1.34'")
