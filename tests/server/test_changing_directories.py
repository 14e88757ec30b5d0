"""Change a partition directory at random while it is served, and compare what clients read with a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from changing_log import Model
from serving import Client

import kafkafmt
from kafkafmt import protocol

Start = Callable[..., kafkafmt.server.Server]
STEPS = 60


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("on_error", ["skip", "fail"])
@pytest.mark.slow
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
