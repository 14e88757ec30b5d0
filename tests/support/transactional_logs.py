"""Write partitions with random transactions, and damage them."""

from __future__ import annotations

from pathlib import Path
from random import Random

from writing import FIRST

from kafkafmt.log import LogDirectory


def write_transactions(path: Path, chance: Random, rounds: int = 60) -> Path:
    """Write a partition with several segments, and with transactions that overlap.

    Batches have up to 30,000 bytes. Some transactions are aborted, some have no records, and some
    are still open at the end. Return the partition directory.
    """
    sequences: dict[int, int] = {}
    begun: set[int] = set()
    large = chance.random() < 0.7
    sizes = (10, 10, 200, 9_000, 30_000) if large else (10,)
    segment_bytes = chance.choice((100_000, 300_000) if large else (1_000, 4_000, 100_000))
    with LogDirectory(
        path, segment_bytes=segment_bytes, index_interval_bytes=chance.choice((1, 400, 4096))
    ) as directory:
        writer = directory.writer("t")
        for i in range(rounds):
            producer = chance.randrange(1, 5)
            action = chance.random()
            if action < 0.25:
                writer.end_transaction(producer, 0, commit=chance.random() < 0.5)
                begun.discard(producer)
            elif action < 0.4 and producer not in begun:
                writer.append([(b"k", b"v", FIRST + i)])
            else:
                n = chance.randrange(1, 4)
                records = [(b"k", chance.randbytes(chance.choice(sizes)), FIRST + i)] * n
                writer.append(
                    records,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequences.get(producer, 0),
                    transactional=True,
                )
                sequences[producer] = sequences.get(producer, 0) + n
                begun.add(producer)
        if chance.random() < 0.7:
            for producer in begun:
                writer.end_transaction(producer, 0, commit=chance.random() < 0.5)
    return path / "t-0"


def damage(partition: Path, chance: Random) -> None:
    """Change, zero or remove some bytes of one file, or remove a file."""
    file = chance.choice(sorted(f for f in partition.iterdir() if f.suffix != ".metadata"))
    data = bytearray(file.read_bytes())
    if file.suffix != ".log" and chance.random() < 0.4:
        file.unlink()
        return
    if not data:
        return
    at, n = chance.randrange(len(data)), chance.choice((1, 1, 8, 78, 500))
    way = chance.randrange(4)
    if way == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif way == 1:
        data[at : at + n] = bytes(len(data[at : at + n]))
    elif way == 2:
        data[at : at + n] = chance.randbytes(len(data[at : at + n]))
    else:
        del data[at : at + n]
    file.write_bytes(data)
