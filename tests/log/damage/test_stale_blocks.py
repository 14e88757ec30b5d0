"""Read segments in which a disk has stored blocks of another file, or of another part of the same file.

Such blocks contain valid batches, but their offsets do not belong to this place.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from building import batch, message, simple_batch
from salvaging import partition

import kafkafmt
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.verifying.verify_api import verify_partition

BLOCK = 4096
COUNT = 300


def one(magic: int, codec: int, offset: int, rng: random.Random) -> bytes:
    value = b"%d " % offset + rng.randbytes(rng.randrange(150, 350))
    if magic == 2:
        return batch([(0, 0, None, value, ())], base_offset=offset, codec=codec)
    return message(magic, None, value, offset=offset, timestamp=1)


def log_of(magic: int, codec: int, base: int, rng: random.Random) -> list[bytes]:
    return [one(magic, codec, base + i, rng) for i in range(COUNT)]


def intact(batches: list[bytes], base: int, block: int) -> list[int]:
    """Return the offsets of the batches outside a block."""
    offsets, position = [], 0
    for offset, data in enumerate(batches, base):
        if position + len(data) <= block * BLOCK or position >= (block + 1) * BLOCK:
            offsets.append(offset)
        position += len(data)
    return offsets


@pytest.mark.parametrize("base", [0, 5000])
@pytest.mark.parametrize("block", [0, 3, 9])
@pytest.mark.parametrize("origin", ["later", "earlier", "other log"])
@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (2, 0), (2, 4)])
def test_only_the_batches_in_the_block_and_one_after_it_are_lost(
    magic: int, codec: int, origin: str, block: int, base: int, tmp_path: Path
) -> None:
    rng = random.Random(f"{magic} {origin} {block} {base}")
    batches = log_of(magic, codec, base, rng)
    data = bytearray(b"".join(batches))
    if origin == "later":
        stale = data[13 * BLOCK : 14 * BLOCK]
    elif origin == "earlier":
        stale = data[:BLOCK] if block else data[BLOCK : 2 * BLOCK]
    else:
        stale = bytearray(b"".join(log_of(magic, codec, 10**9, rng))[777 : 777 + BLOCK])
    data[block * BLOCK : (block + 1) * BLOCK] = stale
    source = partition(tmp_path / "source", bytes(data), base=base)
    expected = intact(batches, base, block)

    log = PartitionLog(discover([source]).partitions[0])
    damaged: list[object] = []
    read = {r.offset: r.value for r in log.records(on_damage=damaged.append)}
    # The last batch of the block can be cut off. According to its length, it contains the start of the next batch.
    after = next(offset for i, offset in enumerate(expected) if offset - base != i)
    assert sorted(read) in (expected, [offset for offset in expected if offset != after])
    expected = sorted(read)
    assert all(value is not None and value.startswith(b"%d " % offset) for offset, value in read.items())
    assert damaged
    assert verify_partition(log).records_recovered == len(expected)

    kafkafmt.salvage(source, tmp_path / "copy")
    copy = kafkafmt.open(tmp_path / "copy").partitions[0]
    assert [r.offset for r in copy.records()] == expected


def test_batches_in_a_value_are_not_read_after_a_plausible_gap(tmp_path: Path) -> None:
    """Two damaged batches explain why two offsets are missing. Therefore, the batches between them are not doubtful."""
    inner = simple_batch([b"inner"], base_offset=6) + simple_batch([b"inner"], base_offset=7)
    batches = [simple_batch([b"value %d" % i * 40], base_offset=i) for i in range(20)]
    batches[6:8] = [bytes(len(batches[6] + batches[7]))]
    batches[8] = simple_batch([inner + b"x" * 100], base_offset=9)[:-1] + b"y"
    source = partition(tmp_path, *batches)
    log = PartitionLog(discover([source]).partitions[0])
    values = [r.value for r in log.records(on_damage=lambda _: None)]
    assert b"inner" not in values
    assert len(values) == 17
