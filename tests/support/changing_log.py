"""Change a partition directory as a broker does, and keep a model of its content."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple

import kafkafmt


class Batch(NamedTuple):
    first: int
    values: list[bytes]
    data: bytes


class Model:
    """A partition directory, and the batches of its segments by base offset."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self.folder = folder
        self.chance = chance
        self.segments: dict[int, list[Batch]] = {}
        self.written = 0
        """Number of batches that were written. Each value contains this number, so all values are different."""
        self.log_start = 0
        """The log start offset in the checkpoint of the log directory. The model does not write this file."""
        self.create(0)

    def create(self, base: int) -> None:
        self.folder.mkdir(exist_ok=True)
        self.segments[base] = []
        self.path(base).touch()

    def path(self, base: int) -> Path:
        return self.folder / f"{base:020}.log"

    @property
    def start(self) -> int:
        return max(self.log_start, min(self.segments))

    @property
    def end(self) -> int:
        ends = [batch.first + len(batch.values) for batch in self.batches()[-1:]]
        return max([*ends, *self.segments])

    def append(self) -> None:
        """Append some batches."""
        for _ in range(self.chance.randint(1, 4)):
            self.written += 1
            values = [b"%d-%d" % (self.written, i) + b"x" * self.chance.choice([0, 30, 3000]) for i in range(3)]
            first = self.end
            rows = [(None, value, 1000 + first + i) for i, value in enumerate(values)]
            data = kafkafmt.build_batch(rows, base_offset=first, codec=self.chance.choice(["none", "lz4"]))
            self.segments[max(self.segments)].append(Batch(first, values, data))
            with self.path(max(self.segments)).open("ab") as file:
                file.write(data)

    def roll(self) -> None:
        """Begin a new segment."""
        if self.segments[max(self.segments)]:
            self.create(self.end)

    def retain(self) -> None:
        """Delete the first segments, as retention does."""
        while len(self.segments) > 1 and self.chance.random() < 0.7:
            self.delete(min(self.segments))

    def delete(self, base: int) -> None:
        del self.segments[base]
        self.path(base).unlink()

    def truncate(self) -> None:
        """Remove the last batches, as a replica does after an election."""
        for _ in range(self.chance.randint(1, 4)):
            last = max(self.segments)
            if self.segments[last]:
                self.segments[last].pop()
            elif len(self.segments) > 1:
                self.delete(last)
        last = max(self.segments)
        os.truncate(self.path(last), sum(len(batch.data) for batch in self.segments[last]))
        self.log_start = min(self.log_start, self.end)

    def compact(self) -> None:
        """Replace a complete segment with one that has fewer batches, as the log cleaner does."""
        for base in self.chance.sample(sorted(self.segments)[:-1], min(1, len(self.segments) - 1)):
            self.segments[base] = [batch for batch in self.segments[base] if self.chance.random() < 0.7]
            cleaned = self.folder / "new"
            cleaned.write_bytes(b"".join(batch.data for batch in self.segments[base]))
            cleaned.rename(self.path(base))

    def start_later(self) -> None:
        """Replace all segments with an empty one at a higher offset, as a replica does if its leader has deleted them."""
        end = self.end
        for base in sorted(self.segments):
            self.delete(base)
        self.create(end + self.chance.randint(0, 3))

    def delete_folder(self) -> None:
        shutil.rmtree(self.folder)
        self.segments.clear()
        self.log_start = 0

    def replace(self) -> None:
        """Delete the topic, and create it again."""
        self.delete_folder()
        self.create(0)

    def batches(self) -> list[Batch]:
        return [batch for base in sorted(self.segments) for batch in self.segments[base]]

    def records(self) -> list[tuple[int, bytes]]:
        return [(batch.first + i, value) for batch in self.batches() for i, value in enumerate(batch.values)]
