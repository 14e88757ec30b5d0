"""Test that runs are in offset order, even if many batches are out of place."""

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from building import COMMIT, control_batch, message, mutate, simple_batch
from fuzz.mutate_bytes import mutate as mutate_bytes

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.catalog.partition_dir import SegmentFile
from kafkafmt.log.damage.plan import plan_segment
from kafkafmt.log.damage.segment_walker import Walker


def test_one_batch_of_each_pair_is_delivered_if_each_pair_is_swapped(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"".join(simple_batch([b"v"], i ^ 1) for i in range(4000)))
    log = PartitionLog(discover([path]).partitions[0])
    offsets = [record.offset for record in log.records(on_damage=lambda _: None)]
    assert offsets == sorted(offsets)
    assert len(offsets) == 2000


def small_segment(seed: int) -> bytes:
    """Return a segment of 30 batches, valid or with damage that depends on the seed."""
    chance = random.Random(seed)
    batches = [simple_batch([chance.randbytes(chance.randrange(300))], i) for i in range(30)]
    for _ in range(seed % 4):
        at = chance.randrange(30)
        batches[at] = chance.choice(
            (
                mutate(batches[at], 61, b"\xff"),
                mutate(batches[at], 8, struct.pack(">i", chance.randrange(2000))),
                mutate(batches[at], 0, struct.pack(">q", chance.randrange(60))),
                mutate(batches[at], 23, struct.pack(">i", chance.randrange(-2, 3)), repair=True),
                control_batch(COMMIT, base_offset=at, producer_id=7),
                message(chance.randrange(2), b"k", b"v", offset=at),
                bytes(len(batches[at])),
                b"",
                mutate_bytes(chance, batches[at]),
            )
        )
    return b"".join(batches)


@pytest.mark.parametrize("seed", range(120))
def test_small_segment_has_the_same_plan_as_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: Any, seed: int
) -> None:
    data = small_segment(seed)
    (tmp_path / f"{0:020}.log").write_bytes(data)
    segment = SegmentFile(tmp_path, f"{0:020}.log", last=seed % 2 == 0)
    results = []
    for in_steps in (False, True):
        seen: list[tuple[int, bytes]] = []
        if in_steps:
            monkeypatch.setattr(Walker, "_small", lambda *_: None)

        def see(position: int, buffer: Any, rows: Any, *_: object, seen: list[tuple[int, bytes]] = seen) -> None:
            starts = (rows["position"] + position).tolist()
            batches = (bytes(buffer[a : a + n]) for a, n in zip(rows["position"], rows["size"], strict=True))
            seen.extend(zip(starts, batches, strict=True))

        plan = plan_segment(segment, see=see)
        results.append((list(plan.runs), list(plan.damaged), list(plan.findings), plan.stats, seen))
    assert results[0] == results[1]
