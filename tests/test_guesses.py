"""Check calls that users of other libraries guess: they work, or the error says what to use.

Not answered are `len(p)`, `p[100]`, `p[10:20]`, `async for`, `dataclasses.asdict(record)`, `record._asdict()`,
unpacking of records, and iteration over a report.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from golden_cases import case

import kafkafmt
from kafkafmt import protocol

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NOW = int(datetime.now(UTC).timestamp() * 1000)
RECORDS: list[Any] = [(b"k%d" % n, b"v%d" % n, NOW - 100 + n, [("h", b"x")]) for n in range(200)]


@dataclass
class Given:
    """What the guesses use."""

    path: Path
    copy: Path
    out: Path
    log: Any
    topic: Any
    p: Any
    record: Any
    file: Path
    buffer: bytes
    table: Any
    kafkafmt: Any = kafkafmt

    @property
    def report(self) -> Any:
        return self.kafkafmt.verify(self.path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    found = []
    for name in ("data", "copy"):
        path = tmp_path_factory.mktemp(name)
        with kafkafmt.LogDirectory(path) as directory:
            for number in range(2):
                directory.writer("orders", number).append(RECORDS, codec="gzip")
        found.append(path)
    return found[0], found[1]


@pytest.fixture
def given(written: tuple[Path, Path], tmp_path: Path) -> Given:
    path, other = written
    log = kafkafmt.open(path)
    p = log["orders", 0]
    file = next(p.path.glob("*.log"))
    return Given(path, other, tmp_path, log, log["orders"], p, p.head(1)[0], file, file.read_bytes(), p.to_arrow())


def used_with(value: Any) -> Any:
    with value as entered:
        return entered


def append(g: Given, record: Any) -> Any:
    with g.kafkafmt.LogDirectory(g.out / "new") as directory:
        return directory.writer("t", 0).append([record])


def export(g: Given, source: Any, **options: Any) -> Any:
    return g.kafkafmt.export(source, g.out / "exported", engine="local", **options)


def duckdb_rows(rows: Any) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql("SELECT count(*) FROM rows").fetchall()[0]


WORKS: dict[str, Callable[[Given], Any]] = {
    # the first table of the notes
    "with kafkafmt.open(d)": lambda g: used_with(kafkafmt.open(g.path)),
    "log.topics": lambda g: g.log.topics == ["orders"],
    "for p in log": lambda g: len(list(g.log)) == 2,
    'log["orders"][0]': lambda g: g.topic[0],
    'log["orders", 0]': lambda g: g.log["orders", 0],
    "topic.partitions": lambda g: len(g.topic.partitions) == 2,
    "topic.name": lambda g: g.topic.name == "orders",
    "pl.DataFrame(p)": lambda g: len(pl.DataFrame(g.p)) == 200,
    "pl.from_arrow(p)": lambda g: pl.from_arrow(g.p) is not None,
    "pa.table(p)": lambda g: pa.table(g.p).num_rows == 200,
    "duckdb over a reader": lambda g: duckdb_rows(g.p.to_reader()) == (200,),
    "duckdb over a partition": lambda g: duckdb_rows(g.p) == (200,),
    "read_records(bytes)": lambda g: len(list(kafkafmt.read_records(g.buffer))) == 200,
    "open(Path)": lambda g: kafkafmt.open(g.path),
    "open(.log)": lambda g: kafkafmt.open(g.file),
    "start_time=text": lambda g: g.p.to_arrow(start_time="2020-01-01").num_rows == 200,
    "start_time=int": lambda g: g.p.to_arrow(start_time=NOW).num_rows == 100,
    "record.key.decode()": lambda g: g.record.key.decode() == "k0",
    "dict(record.headers)": lambda g: dict(g.record.headers) == {"h": b"x"},
    "pickle of a record": lambda g: pickle.loads(pickle.dumps(g.record)) == g.record,
    "pickle of a report": lambda g: pickle.loads(pickle.dumps(g.report)) == g.report,
    "pickle of a log": lambda g: pickle.loads(pickle.dumps(g.log)).topics == ["orders"],
    "copy.copy(record)": lambda g: copy.copy(g.record) == g.record,
    "p.log_start_offset": lambda g: g.p.log_start_offset == 0,
    "verify().ok": lambda g: g.report.ok is True,
    "bool(verify())": lambda g: bool(g.report),
    "verify().partitions": lambda g: len(g.report.partitions) == 2,
    "print(verify())": lambda g: "every batch, record and index checked" in str(g.report),
    "verify(log)": lambda g: kafkafmt.verify(g.log),
    "export(path, x.parquet, topics=)": lambda g: kafkafmt.export(
        g.path, g.out / "x.parquet", topics="orders", engine="local"
    ),
    "pq.write_table(p.to_arrow())": lambda g: (
        pytest.importorskip("pyarrow.parquet").write_table(g.table, g.out / "t") is None
    ),
    "log.groups()": lambda g: kafkafmt.open(*case("internal").roots).groups().offsets,
    'p.find(key="…")': lambda g: len(list(g.p.find(key="k7"))) == 1,
    "topic.find(…)": lambda g: len(list(g.topic.find(key="k7"))) == 2,
    "p.to_batches()": lambda g: list(g.p.to_batches()),
    "to_arrow(limit=)": lambda g: g.p.to_arrow(limit=3).num_rows == 3,
    "to_arrow(columns=)": lambda g: g.p.to_arrow(columns=["value"]).column_names == ["value"],
    "scan_polars": lambda g: len(kafkafmt.scan_polars(g.path).collect()) == 400,
    "writer.append([Record])": lambda g: append(g, g.record),
    "build_batch and read_records": lambda g: (
        next(iter(kafkafmt.read_records(kafkafmt.build_batch(RECORDS)))).key == b"k0"
    ),
    'codec="zstd"': lambda g: kafkafmt.build_batch(RECORDS, codec="zstd"),
    "to_arrow(bytes)": lambda g: kafkafmt.to_arrow(g.buffer).num_rows == 200,
    "protocol.read_request": lambda g: callable(protocol.read_request),
    "__version__": lambda g: kafkafmt.__version__,
    "with serve()": lambda g: used_with(kafkafmt.serve(g.path)),
    "records(start=-3)": lambda g: len(list(g.p.records(start=-3))) == 3,
    '"orders" in log': lambda g: "orders" in g.log,
    "log.to_arrow(topics=)": lambda g: g.log.to_arrow(topics="orders").num_rows == 400,
    # the second table of the notes
    "p.to_pandas()": lambda g: len(g.p.to_pandas()) == 200,
    "p.to_polars()": lambda g: len(g.p.to_polars()) == 200,
    "topic.to_pandas()": lambda g: len(g.topic.to_pandas()) == 400,
    "export(log, …)": lambda g: export(g, g.log).written.records == 400,
    'export(log["orders"], …)': lambda g: export(g, g.topic).written.records == 400,
    "log.verify()": lambda g: g.log.verify() == g.report,
    "p.verify()": lambda g: len(g.p.verify().partitions) == 1,
    "topic.verify()": lambda g: len(g.topic.verify().partitions) == 2,
    "verify(partition)": lambda g: len(kafkafmt.verify(g.p).partitions) == 1,
    "verify(a, b)": lambda g: len(kafkafmt.verify(g.topic[0], g.topic[1]).partitions) == 2,
    "len(topic)": lambda g: len(g.topic) == 2,
    "p.count()": lambda g: g.p.count() == 200,
    "p.head(5)": lambda g: [r.offset for r in g.p.head(5)] == [0, 1, 2, 3, 4],
    "p.path": lambda g: g.p.path == g.path / "orders-0",
    "p.batches()": lambda g: [b.codec for b in g.p.batches()] == ["gzip"],
    "start_time=timedelta(days=-7)": lambda g: g.p.to_arrow(start_time=timedelta(days=-7)).num_rows == 200,
    "start_time=timedelta(hours=1)": lambda g: g.p.to_arrow(start_time=timedelta(hours=1)).num_rows == 200,
    "report.to_json()": lambda g: json.loads(g.report.to_json()) == g.report.to_dict(),
    "r.topic": lambda g: g.record.topic == "orders",
    "r.partition": lambda g: [r.partition for r in g.topic][::200] == [0, 1],
    "r.datetime": lambda g: g.record.datetime == datetime.fromtimestamp(g.record.timestamp / 1000, UTC),
    "r.to_dict()": lambda g: len(pd.DataFrame([r.to_dict() for r in g.p])) == 200,
    "Record(key=…, value=…)": lambda g: append(g, kafkafmt.Record(key=b"k", value=b"v")),
    "make([{…}])": lambda g: kafkafmt.make([{"key": "a", "value": "b"}, {"value": "c"}], g.out / "made", topic="t"),
}
if hasattr(pd.DataFrame, "from_arrow"):  # since pandas 3
    WORKS["pd.DataFrame.from_arrow(p)"] = lambda g: len(pd.DataFrame.from_arrow(g.p)) == 200
"""Guesses that work. The result is true."""


ADVICE: dict[str, tuple[Callable[[Given], Any], type[Exception], str]] = {
    "open(missing)": (lambda g: kafkafmt.open(g.path / "x"), FileNotFoundError, "No such file"),
    'log["oders"]': (lambda g: g.log["oders"], KeyError, "orders"),
    'log["orders", 9]': (lambda g: g.log["orders", 9], KeyError, "the existing partitions are 0 and 1"),
    "p.to_parquet(f)": (lambda g: g.p.to_parquet("f"), AttributeError, "use kafkafmt.export"),
    "log.scan()": (lambda g: g.log.scan(), AttributeError, "use to_reader"),
    "p.number": (lambda g: g.p.number, AttributeError, "use partition"),
    "p.schema": (lambda g: g.p.schema, AttributeError, r"use to_reader\(\)\.schema"),
    "p.segments": (lambda g: g.p.segments, AttributeError, "use path"),
    "p.high_watermark": (lambda g: g.p.high_watermark, AttributeError, "use next_offset"),
    "p.end_offset": (lambda g: g.p.end_offset, AttributeError, "use next_offset"),
    "p.iter_batches()": (lambda g: g.p.iter_batches(), AttributeError, "use batches"),
    "p.seek(100)": (lambda g: g.p.seek(100), TypeError, r"use records\(start=N\)"),
    "start_time=naive": (lambda g: g.p.records(start_time=datetime(2026, 1, 1)), ValueError, "add a time zone"),
    "read_table(path)": (lambda g: g.kafkafmt.read_table(g.path), AttributeError, r"use kafkafmt.open\(path\)"),
    "read_records(path)": (lambda g: kafkafmt.read_records(str(g.path)), TypeError, "kafkafmt.open reads files"),  # type: ignore[call-overload]
    "read_records(file)": (lambda g: kafkafmt.read_records(io.BytesIO()), TypeError, "kafkafmt.open reads files"),  # type: ignore[call-overload]
    "open(file)": (lambda g: kafkafmt.open(io.BytesIO()), TypeError, "pass the path of the file"),  # type: ignore[arg-type]
    "kafkafmt.groups": (lambda g: g.kafkafmt.groups, AttributeError, r"use kafkafmt.open\(path\).groups"),
    "kafkafmt.ls": (lambda g: g.kafkafmt.ls, AttributeError, r"use kafkafmt.describe\(path\)"),
    "kafkafmt.seek": (lambda g: g.kafkafmt.seek, AttributeError, r"\.seek\(offset=N\)"),
    'build_batch(compression="zstd")': (lambda g: g.kafkafmt.build_batch([], compression="zstd"), TypeError, "'codec'"),
    'make(compression="zstd")': (lambda g: g.kafkafmt.make([], g.out, compression="zstd"), TypeError, "'codec'"),
    'export(codec="zstd")': (lambda g: export(g, g.log, codec="zstd"), TypeError, "'compression'"),
    'append([("k", "v")])': (lambda g: append(g, ("k", "v")), TypeError, "bytes"),
    "append([{…}])": (lambda g: append(g, {"key": b"k"}), TypeError, "tuple"),
}
"""Guesses that fail, with the error and a part of its message that says what to do."""


@pytest.mark.parametrize("guess", WORKS)
def test_guess_works(given: Given, guess: str) -> None:
    result = WORKS[guess](given)
    assert result is not None
    assert result is not False


@pytest.mark.parametrize("guess", ADVICE)
def test_guess_gets_advice_in_one_line(given: Given, guess: str) -> None:
    call, error, words = ADVICE[guess]
    with pytest.raises(error, match=words) as caught:
        call(given)
    assert "\n" not in str(caught.value)
