"""Test that brokers use the transaction index if an abort marker is damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import java_tools
import pytest
from command import kafkafmt
from kafka_broker import Broker
from salvaging import abort, commit, committed, corrupt, data, findings, partition

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

ENTRY = (7, 0, 1, 2)
Case = tuple[list[bytes], list[tuple[int, int, int, int]], tuple[str, ...], list[int]]
CASES: dict[str, Case] = {
    "commit-follows": ([data(0, 7), corrupt(abort(1)), data(2, 7), commit(3)], [ENTRY], (), [2]),
    "abort-follows": ([data(0, 7), corrupt(abort(1)), data(2, 7), abort(3), data(4)], [ENTRY, (7, 2, 3, 4)], (), [4]),
    "nothing-follows": ([data(0, 7), corrupt(abort(1)), data(2), data(3)], [ENTRY], (), [2, 3]),
    "several-producers": (
        [data(0, 7), data(1, 8), data(2, 9), corrupt(abort(3, 8)), data(4), corrupt(abort(5)), commit(6, 9), data(7, 7), commit(8)],
        [(8, 1, 3, 0), (7, 0, 5, 2)], (), [2, 4, 7],
    ),
    "other-entries-damaged": (
        [data(0, 7), corrupt(abort(1)), data(2, 7), commit(3), data(4, 8), abort(5, 8), data(6)], [ENTRY], (), [2, 6],
    ),
    "marker-at-the-end": ([data(0), data(1, 7), corrupt(abort(2))], [(7, 1, 2, 3)], (), [0]),
    "stop-at-first": ([data(0), data(1, 7), corrupt(abort(2)), data(3)], [(7, 1, 2, 3)], ("--stop-at-first",), [0]),
    "stop-and-abort": (
        [data(0), data(1, 7), corrupt(abort(2)), data(3)], [(7, 1, 2, 3)], ("--stop-at-first", "--abort-open-transactions"), [0],
    ),
    "abort-open": (
        [data(0, 7), corrupt(abort(1)), data(2, 7), data(3, 8), commit(4, 7), data(5)], [ENTRY], ("--abort-open-transactions",), [2, 5],
    ),
    "segment-missing": ([data(0, 7), data(1)], [(7, 0, 5, 6)], (), [1, 10, 12]),
}  # fmt: skip


def make(source: Path, name: str) -> None:
    parts, entries, _, _ = CASES[name]
    if name != "segment-missing":
        partition(source, *parts, name=f"{name}-0", index=entries)
        return
    folder = partition(source, *parts, name=f"{name}-0", index=entries)
    # the segment is deleted, but its transaction index is kept
    (folder / f"{0:020}.txnindex").rename(folder / f"{2:020}.txnindex")
    partition(source, data(10, 7), commit(11), data(12), name=f"{name}-0", base=10)


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[int]]]:
    """Return, for each topic, the offsets that a read_committed consumer receives."""
    scratch = tmp_path_factory.mktemp("aborted")
    broker = Broker(scratch / "broker", version=request.param)
    try:
        broker.start()
        broker.produce(*(f"topic={name} count=0" for name in CASES))
        broker.stop()
        for name, (_, _, flags, expected) in CASES.items():
            make(scratch / "in" / name, name)
            done = kafkafmt("salvage", scratch / "in" / name, "--output", scratch / "out" / name, *flags)
            assert done.returncode == 1, done.stderr
            assert committed(scratch / "out" / name) == expected
            assert not findings(scratch / "out" / name)
            target = broker.log_dirs[0] / f"{name}-0"
            for file in target.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for file in (scratch / "out" / name / f"{name}-0").iterdir():
                shutil.copy(file, target)
        broker.start()
        found: dict[str, list[int]] = {name: [] for name in CASES}
        for line in broker.consume(*CASES, committed=True):
            row = json.loads(line)
            found[row["topic"]].append(row["offset"])
        broker.stop()
        yield found
    finally:
        broker.close()


@pytest.mark.parametrize("name", CASES)
def test_broker_serves_the_committed_records_of_the_source(name: str, served: dict[str, list[int]]) -> None:
    assert served[name] == CASES[name][3]
