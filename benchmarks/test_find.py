"""Measure how many records per second `kafkafmt cat` prints and searches, compared with Python and DuckDB.

The records have values of 100 bytes, and a real broker wrote them without compression. The command
runs in this process, with one thread, and writes to /dev/null. Its peers are:

- Python: a loop over `Partition.records` that formats each record with the module json, or that
  compares its fields. It reads fewer records, because it is much slower.
- DuckDB: a query over the Arrow stream of the partition, with one thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conftest
import pytest
import report

import kafkafmt
from kafkafmt.cli.main import group
from kafkafmt.cli.output import BYTES
from kafkafmt.cli.record_lines import json_row, text_line
from kafkafmt.support.text import encode_json

RECORDS = 3_000_000
FEW = 200_000
"""Number of records that Python formats in each round."""
ROUNDS = 7
ABSENT = "no such text"

Work = tuple[Callable[[], Any], int]
"""A function, and the number of records that it reads."""


@pytest.fixture
def partition(topic: Callable[[str], Path]) -> kafkafmt.Partition:
    (found,) = kafkafmt.open(topic("none"))
    return found


def compare_rates(benchmark: Any, case: str, ours: Work, name: str, peer: Work) -> None:
    """Let `ours` and `peer` take turns, and add a row with millions of records per second."""
    for function, _ in (ours, peer):
        function()
    times: list[float] = []

    def turn() -> None:
        started = time.process_time()
        peer[0]()
        times.append(time.process_time() - started)

    benchmark.pedantic(ours[0], setup=turn, rounds=ROUNDS, iterations=1)
    rates = [ours[1] / seconds / 1e6 for seconds in benchmark.stats.stats.data]
    peers = [peer[1] / seconds / 1e6 for seconds in times]
    low, ratio, high = report.quartiles([a / b for a, b in zip(rates, peers, strict=True)])
    medians = [report.quartiles(values)[1] for values in (rates, peers)]
    row = report.Row(benchmark.group, case, medians[0], name, medians[1], "M records/s", ratio, low, high)
    conftest.put(benchmark, row)


def command(partition: kafkafmt.Partition, *options: str) -> Work:
    """Return the command `kafkafmt cat` with options, which reads RECORDS records."""
    arguments = ["cat", str(partition.log.directory.path), "-o", f":{RECORDS}", *options]

    def run() -> None:
        with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
            with group.make_context("kafkafmt", list(arguments)) as context:
                assert not group.invoke(context)

    return run, RECORDS


def loop(partition: kafkafmt.Partition, each: Callable[[Any], object]) -> Work:
    """Return a loop over FEW records that calls a function for each record."""

    def run() -> int:
        return sum(1 for record in partition.records(end=FEW) if each(record))

    return run, FEW


def duckdb_query(partition: kafkafmt.Partition, condition: str) -> Work:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(config={"threads": 1})

    def run() -> None:
        records = partition.to_reader(["key", "value"], end=RECORDS)
        assert records is not None
        _, read = connection.execute(f"select count(*) filter ({condition}), count(*) from records").fetchone()
        assert read == RECORDS

    return run, RECORDS


@pytest.mark.benchmark(group="cat: formats", timer=time.process_time)
@pytest.mark.parametrize("name", ["json", "text", "csv", "tsv", "%o %k %s\\n"])
def test_formats(benchmark: Any, partition: kafkafmt.Partition, name: str) -> None:
    line = text_line(BYTES["utf8"])
    with open(os.devnull, "w", encoding="utf-8") as null:
        in_json = loop(partition, lambda r: null.write(encode_json(json_row(partition, r, BYTES["utf8"])) + "\n"))
        as_text = loop(partition, lambda r: null.write(line(partition, r)))
        peer = in_json if name == "json" else as_text
        ours = command(partition, "--format", name)
        compare_rates(benchmark, name, ours, "the same in Python" if name == "json" else "text in Python", peer)


SEARCHES: dict[str, tuple[list[str], str]] = {
    "literal without matches": (["--grep", ABSENT], f"contains(decode(value), '{ABSENT}')"),
    "two literals without matches": (
        ["--grep", f"{ABSENT}|absent"],
        f"regexp_matches(decode(value), '{ABSENT}|absent')",
    ),
    "expression without matches": (["--grep", "[0-9]{4}#"], "regexp_matches(decode(value), '[0-9]{4}#')"),
    "key": (["--key", "key-000077"], "decode(key) = 'key-000077'"),
}


@pytest.mark.benchmark(group="cat: search", timer=time.process_time)
@pytest.mark.parametrize("case", SEARCHES)
@pytest.mark.parametrize("peer", ["DuckDB", "Python"])
def test_search(benchmark: Any, partition: kafkafmt.Partition, case: str, peer: str) -> None:
    options, condition = SEARCHES[case]
    if peer == "DuckDB":
        other = duckdb_query(partition, condition)
    elif options[0] == "--key":
        other = loop(partition, lambda r: r.key == options[1].encode())
    else:
        search = re.compile(options[1].encode()).search
        other = loop(partition, lambda r: search(r.value))
    compare_rates(benchmark, case, command(partition, *options), peer, other)
