"""Test that the sequences `Rows` and `Joined`, which create their items on request, behave like tuples."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from building import mutate, simple_batch

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage.parts import Run
from kafkafmt.log.findings.models import Damage
from kafkafmt.log.findings.rows import BLOCK, Joined, Rows
from kafkafmt.log.verifying.verify_api import verify_partition


def corrupted(i: int) -> bytes:
    return mutate(simple_batch([b"value"], i), 66, b"\xff")


def log_of(folder: Path, batches: list[bytes]) -> PartitionLog:
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return PartitionLog(discover([folder]).partitions[0])


@pytest.fixture(params=["runs", "damaged", "joined"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Rows[Run] | Rows[Damage]:
    """Return a sequence with many values."""
    damaged = [corrupted(i) if i % 3 else simple_batch([b"value"], i) for i in range(90)]
    log = log_of(tmp_path / "t-0", damaged)
    report = verify_partition(log)
    if request.param == "runs":
        assert isinstance(log.plan(log.segments[0]).runs, Rows)
        return log.plan(log.segments[0]).runs  # type: ignore[return-value]
    if request.param == "damaged":
        return report.damaged  # type: ignore[return-value]
    return Joined([report.damaged, [], list(report.damaged)])


def test_rows_behave_as_a_tuple(rows: Rows[Damage]) -> None:
    values = tuple(rows)
    assert len(rows) == len(values) > 20
    assert rows == values
    assert list(values) == rows
    if not isinstance(values[0], Run):  # a Run can be changed, so it has no hash
        assert hash(rows) == hash(values)
    assert repr(rows) == repr(values)
    assert [rows[i] for i in (0, 7, -1, -len(values))] == [values[i] for i in (0, 7, -1, -len(values))]
    for part in (slice(0), slice(3, 9), slice(9, 3), slice(-4, None), slice(None, None, 7), slice(None, None, -1)):
        assert tuple(rows[part]) == values[part]
    assert rows[1:] == values[1:]
    assert rows[1:] != values
    assert rows != "text"
    assert values[3] in rows
    with pytest.raises(IndexError):
        rows[len(values)]


def test_rows_can_be_pickled(rows: Rows[Damage]) -> None:
    assert pickle.loads(pickle.dumps(rows)) == tuple(rows)
    assert pickle.loads(pickle.dumps(rows[5:])) == tuple(rows)[5:]


def test_slice_of_a_slice_has_the_messages_of_its_rows(rows: Rows[Damage]) -> None:
    values = tuple(rows)
    assert tuple(rows[3:][4:]) == values[7:]


def test_iteration_builds_values_in_blocks() -> None:
    class Numbers(Rows[int]):
        def __init__(self) -> None:
            self.built: list[int] = []

        def __len__(self) -> int:
            return 2 * BLOCK + 5

        def _build(self, start: int, stop: int) -> list[int]:
            self.built.append(stop - start)
            return list(range(start, stop))

        def _sliced(self, start: int, stop: int) -> Sequence[int]:  # type: ignore[override]
            raise NotImplementedError

    numbers = Numbers()
    assert list(numbers) == list(range(2 * BLOCK + 5))
    assert numbers.built == [BLOCK, BLOCK, 5]
