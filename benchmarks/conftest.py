"""Compare kafkafmt with another program (the peer). Both take turns in one process, and ratios are printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "java"), str(HERE.parent / "tests" / "broker")]

import java_tools  # noqa: E402
import report  # noqa: E402
import topics  # noqa: E402

ROUNDS = 11
LIMIT = 256 << 20
"""Number of bytes to read from the first segment of a large topic."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--save", action="store_true", help="save the results in results.json and RESULTS.md")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not report.ROWS:
        return
    terminalreporter.section("our code compared with peers: median ratio, quartiles")
    for line in report.table(report.ROWS):
        terminalreporter.write_line(line)
    if config.getoption("--save"):
        report.save(report.ROWS)


def put(benchmark: Any, row: report.Row) -> None:
    """Add a result to the printed table, and to the figures of pytest-benchmark."""
    report.ROWS.append(row)
    benchmark.extra_info.update(
        {
            f"{row.unit} ours": row.ours,
            f"{row.unit} {row.peer_name}": row.peer,
            "ratio": row.ratio,
        }
    )


@pytest.fixture
def compare(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., report.Row]:
    """Return compare(case, ours, name, peer). It calls `ours` and `peer` in turn.

    Both functions use one thread, and return the number of records that they read. CPU time is
    measured, because other processes affect it less. Therefore, the test needs a mark with
    `timer=time.process_time`.
    """

    def run(
        case: str,
        ours: Callable[[], int],
        name: str,
        peer: Callable[[], int],
        rounds: int = ROUNDS,
    ) -> report.Row:
        records = ours()
        assert peer() == records, "the peer read another number of records"
        times: list[float] = []

        def turn() -> None:
            started = time.process_time()
            peer()
            times.append(time.process_time() - started)

        benchmark.pedantic(ours, setup=turn, rounds=rounds, iterations=1)
        our_times = benchmark.stats.stats.data
        low, ratio, high = report.quartiles([b / a for a, b in zip(our_times, times, strict=True)])
        ns = [report.quartiles(seconds)[1] / records * 1e9 for seconds in (our_times, times)]
        row = report.Row(benchmark.group, case, ns[0], name, ns[1], "ns/record", ratio, low, high)
        put(benchmark, row)
        return row

    return run


@pytest.fixture
def compare_self_timed(benchmark: Any) -> Callable[..., report.Row]:
    """Return compare_self_timed(case, ours, name, figures), for a peer that measures its own time.

    `figures` returns the ns per record of each repetition of the peer. It is called after half of
    our rounds.
    """

    def run(
        case: str,
        ours: Callable[[], int],
        name: str,
        figures: Callable[[], Sequence[float]],
        rounds: int = 10,
    ) -> report.Row:
        records = ours()
        theirs: list[float] = []
        turns = iter(range(rounds))

        def turn() -> None:
            if next(turns) == rounds // 2:
                theirs.extend(figures())
                ours()

        benchmark.pedantic(ours, setup=turn, rounds=rounds, iterations=1)
        our_times = report.quartiles([seconds / records * 1e9 for seconds in benchmark.stats.stats.data])
        peer = report.quartiles(theirs)
        row = report.Row(
            benchmark.group,
            case,
            our_times[1],
            name,
            peer[1],
            "ns/record",
            peer[1] / our_times[1],
            peer[0] / our_times[2],
            peer[2] / our_times[0],
        )
        put(benchmark, row)
        return row

    return run


@pytest.fixture(scope="session")
def topic() -> Callable[[str], Path]:
    """Return topic(name), which returns the directory of a partition that a real broker wrote.

    A missing topic is created. If this is not possible, the test is skipped with the reason.
    """

    def find(name: str) -> Path:
        directory = topics.folder() / "data" / f"{name}-0"
        if not directory.exists() and (reason := java_tools.missing()):
            pytest.skip(f"topic {name!r} does not exist and cannot be created: {reason}")
        return topics.ensure(name)[name]

    return find
