"""Test that extents are in offset order, even if many batches are out of place."""

import random
from pathlib import Path

import pytest
from building import simple_batch

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading.out_of_place import _Around, _Delivered
from kafkafmt.log.reading.parts import Run, RunColumns


@pytest.fixture
def runs() -> list[Run]:
    """Return 3,000 extents of one batch each, in offset order."""
    return [Run(70 * i, 70 * i + 70, 2 * i, 2 * i, 1, 1, True) for i in range(3000)]


@pytest.mark.parametrize("first", [0, 1, 1000])
def test_extents_stay_in_offset_order_in_small_blocks(runs: list[Run], first: int) -> None:
    rest = random.Random(7).sample(runs, len(runs))
    kept = sorted(rest[:first], key=lambda run: run.first_offset)
    around = _Around(kept)
    for number, run in enumerate(rest[first:]):
        around.insert(run)
        if number % 500 == 0:
            assert sorted(around.extents, key=lambda r: r.first_offset) == around.extents
    assert around.extents == runs
    assert max(map(len, around._blocks)) < 2 * _Around.BLOCK


def test_neighbours_are_found_across_blocks(runs: list[Run]) -> None:
    around = _Around(runs[::2])
    for before, piece, after in zip(runs[::2], runs[1::2], runs[2::2], strict=False):
        assert around.before(piece) == (before, after)
    assert around.before(runs[-1]) == (runs[-2], None)


def test_all_batches_are_delivered_if_each_pair_is_swapped(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"".join(simple_batch([b"v"], i ^ 1) for i in range(4000)))
    log = PartitionLog(discover([path]).partitions[0])
    offsets = [record.offset for record in log.records(on_damage=lambda _: None)]
    assert offsets == sorted(offsets)
    assert len(offsets) >= 3996


def test_inserted_runs_are_merged_with_the_columns_of_the_others(runs: list[Run]) -> None:
    delivered = _Delivered(RunColumns.of(runs[::2]))
    assert delivered.before(runs[3]) == (runs[2], runs[4])
    assert not delivered.gap_for(runs[3], 0)
    for run in runs[1::2]:
        delivered.insert(run)
    assert delivered.extents == runs
    assert delivered.before(runs[3]) == (runs[3], runs[4])
    assert delivered.before(runs[-1]) == (runs[-1], None)
