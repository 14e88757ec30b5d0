"""How contests are held: peer and ours take turns, round by round, in one process; the ratios are printed at the end."""

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
"""Bytes read of a large topic's first segment."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report", metavar="FILE", help="write the table of ratios there too, as Markdown")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not report.ROWS:
        return
    terminalreporter.section("ours beside its peers: median ratio, quartiles, the issue's target")
    for line in report.table(report.ROWS):
        terminalreporter.write_line(line)
    if file := config.getoption("--report"):
        Path(file).write_text(report.markdown(report.ROWS))


def put(benchmark: Any, row: report.Row) -> None:
    """A row into the table, and beside pytest-benchmark's own figures."""
    report.ROWS.append(row)
    benchmark.extra_info.update(
        {
            f"{row.unit} ours": row.ours,
            f"{row.unit} {row.peer_name}": row.peer,
            "ratio": row.ratio,
            "target": row.target,
        }
    )


@pytest.fixture
def contest(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., report.Row]:
    """contest(case, ours, name, peer, target=…): both are called in turn; each returns how many records it read.

    Both are one thread, and what counts is its processor time, so that whatever else the machine does disturbs less. For that the
    test's mark says `timer=time.process_time`.
    """

    def run(
        case: str,
        ours: Callable[[], int],
        name: str,
        peer: Callable[[], int],
        target: float | None = None,
        rounds: int = ROUNDS,
    ) -> report.Row:
        records = ours()
        assert peer() == records, "peer and ours read different numbers of records"
        times: list[float] = []

        def turn() -> None:
            started = time.process_time()
            peer()
            times.append(time.process_time() - started)

        benchmark.pedantic(ours, setup=turn, rounds=rounds, iterations=1)
        own = benchmark.stats.stats.data
        low, ratio, high = report.quartiles([b / a for a, b in zip(own, times, strict=True)])
        ns = [report.quartiles(seconds)[1] / records * 1e9 for seconds in (own, times)]
        row = report.Row(benchmark.group, case, ns[0], name, ns[1], "ns/record", ratio, low, high, target)
        put(benchmark, row)
        return row

    return run


@pytest.fixture
def beside(benchmark: Any) -> Callable[..., report.Row]:
    """beside(case, ours, name, figures, target=…): a peer that measures itself (ns per record of each repetition), in the middle
    of our rounds."""

    def run(
        case: str,
        ours: Callable[[], int],
        name: str,
        figures: Callable[[], Sequence[float]],
        target: float | None = None,
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
        own = report.quartiles([seconds / records * 1e9 for seconds in benchmark.stats.stats.data])
        peer = report.quartiles(theirs)
        row = report.Row(
            benchmark.group,
            case,
            own[1],
            name,
            peer[1],
            "ns/record",
            peer[1] / own[1],
            peer[0] / own[2],
            peer[2] / own[0],
            target,
        )
        put(benchmark, row)
        return row

    return run


@pytest.fixture(scope="session")
def topic() -> Callable[[str], Path]:
    """topic(name): the directory of a partition that a real broker wrote, made if need be, or a skip with the reason."""

    def find(name: str) -> Path:
        directory = topics.folder() / "data" / f"{name}-0"
        if not directory.exists() and (reason := java_tools.missing()):
            pytest.skip(f"no topic {name!r} yet, and nothing to make it with: {reason}")
        return topics.ensure(name)[name]

    return find
