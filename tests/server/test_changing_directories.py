"""Change a partition directory at random while it is served, and compare what clients read with a model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from serving import Client

import kafkafmt
from kafkafmt import protocol

Start = Callable[..., kafkafmt.Server]
STEPS = 60


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
        self.create(0)

    def create(self, base: int) -> None:
        self.folder.mkdir(exist_ok=True)
        self.segments[base] = []
        self.path(base).touch()

    def path(self, base: int) -> Path:
        return self.folder / f"{base:020}.log"

    @property
    def end(self) -> int:
        batches = [batch for found in self.segments.values() for batch in found]
        ends = [batch.first + len(batch.values) for batch in batches[-1:]]
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

    def compact(self) -> None:
        """Replace a complete segment by one with fewer batches, as the log cleaner does."""
        for base in self.chance.sample(sorted(self.segments)[:-1], min(1, len(self.segments) - 1)):
            self.segments[base] = [batch for batch in self.segments[base] if self.chance.random() < 0.7]
            cleaned = self.folder / "new"
            cleaned.write_bytes(b"".join(batch.data for batch in self.segments[base]))
            cleaned.rename(self.path(base))

    def start_later(self) -> None:
        """Replace all segments by an empty one at a higher offset, as a replica does if its leader has deleted them."""
        end = self.end
        for base in sorted(self.segments):
            self.delete(base)
        self.create(end + self.chance.randint(0, 3))

    def replace(self) -> None:
        """Delete the topic, and create it again."""
        shutil.rmtree(self.folder)
        self.segments.clear()
        self.create(0)

    def records(self) -> list[tuple[int, bytes]]:
        batches = [batch for found in self.segments.values() for batch in found]
        return [(batch.first + i, value) for batch in batches for i, value in enumerate(batch.values)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("on_error", ["skip", "fail"])
def test_clients_read_what_a_changing_directory_contains(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, on_error: str
) -> None:
    monkeypatch.setattr("kafkafmt.server.growing_partition.CHECK_INTERVAL", 0.0)
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    chance = Random(seed)
    model = Model(tmp_path / "t-0", chance)
    changes = [model.append] * 3 + [model.roll, model.retain, model.truncate, model.compact, model.start_later]
    with Client(started(tmp_path, on_error=on_error).port) as client:
        for _ in range(STEPS):
            for _ in range(chance.randint(1, 4)):
                chance.choice(changes)()
            if chance.random() < 0.1:
                model.replace()
                client.ask(protocol.MetadataRequest(topics=None), 12)
            if chance.random() < 0.3:
                continue
            offsets = client.offset("t", 0, -2).offset, client.offset("t", 0, -1).offset
            assert offsets == (min(model.segments), model.end)
            records = model.records()
            assert [(record.offset, record.value) for record in client.read_all("t", 0)] == records
            if records:
                offset, _ = chance.choice(records)
                assert client.offset("t", 0, 1000 + offset).offset == offset
