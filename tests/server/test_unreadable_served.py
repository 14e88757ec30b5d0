"""Serve logs of which the disk cannot read some sectors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bad_sectors import SECTOR, BadSectors
from serving import Client

import kafkafmt
from kafkafmt.protocol import ErrorCode

BATCHES, RECORDS = 120, 4
FIRST_BAD, SINGLE_BAD = (20, 21), 60
Start = Callable[..., kafkafmt.server.Server]
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> BadSectors:
    return BadSectors(monkeypatch)


def write(folder: Path) -> Path:
    """Write a partition whose batches are slightly longer than half a sector, and return its only segment."""
    with kafkafmt.LogDirectory(folder) as log:
        writer = log.writer("t", 0)
        for _ in range(BATCHES):
            writer.append([(None, os.urandom(600), 1_700_000_000_000) for _ in range(RECORDS)])
    (path,) = (folder / "t-0").glob("*.log")
    return path


def lost_offsets(path: Path, sectors: tuple[int, ...]) -> list[int]:
    """Return the offsets of all batches that overlap the sectors."""
    lost: list[int] = []
    for batch in kafkafmt.iter_batches(path.read_bytes()):
        last_sector = (batch.position + batch.size - 1) // SECTOR
        if any(batch.position // SECTOR <= sector <= last_sector for sector in sectors):
            lost += range(batch.base_offset, batch.last_offset + 1)
    return lost


@pytest.mark.parametrize("fetch_bytes", [1, 10_000, 1 << 20])
def test_records_outside_unreadable_sectors_are_served(
    started: Start, disk: BadSectors, tmp_path: Path, fetch_bytes: int
) -> None:
    path = write(tmp_path)
    bad = (*FIRST_BAD, SINGLE_BAD)
    lost = lost_offsets(path, bad)
    values = [r.value for r in kafkafmt.read_records(path.read_bytes())]
    disk.add(path, bad)
    messages: list[str] = []
    with Client(started(tmp_path, on_message=messages.append).port) as client:
        for _ in range(2):
            read = client.read_all("t", 0, partition_max_bytes=fetch_bytes)
            assert [(r.offset, r.value) for r in read] == [
                (offset, value) for offset, value in enumerate(values) if offset not in lost
            ]
        at_damage = client.fetch("t", 0, lost[0])
        first, *_ = kafkafmt.iter_batches(bytes(at_damage.records))
        assert first.base_offset == next(o for o in range(lost[0], len(values)) if o not in lost)
    damaged = [message for message in messages if message.startswith("damaged")]
    assert len(damaged) == 2, messages
    for message, (start, end) in zip(damaged, ((20, 22), (60, 61)), strict=True):
        assert f"the disk cannot read bytes {start * SECTOR} to {end * SECTOR - 1}" in message


def test_unreadable_sector_is_an_error_with_on_error_fail(started: Start, disk: BadSectors, tmp_path: Path) -> None:
    path = write(tmp_path)
    lost = lost_offsets(path, FIRST_BAD)
    disk.add(path, FIRST_BAD)
    messages: list[str] = []
    with Client(started(tmp_path, on_error="fail", on_message=messages.append).port) as client:
        offset = 0
        while True:
            data = client.fetch("t", 0, offset)
            if data.error_code:
                break
            offset = [b.last_offset for b in kafkafmt.iter_batches(bytes(data.records))][-1] + 1
        assert (data.error_code, offset) == (ErrorCode.CORRUPT_MESSAGE, lost[0])
        for damaged in lost:
            assert client.fetch("t", 0, damaged).error_code == ErrorCode.CORRUPT_MESSAGE
        after = client.fetch("t", 0, lost[-1] + 1)
        assert not after.error_code
        read: list[Any] = list(kafkafmt.read_records(bytes(after.records)))
        assert read[0].offset == lost[-1] + 1
    assert any("the disk cannot read bytes" in message for message in messages), messages


def test_unreadable_end_of_a_log_is_served_up_to_the_damage(started: Start, disk: BadSectors, tmp_path: Path) -> None:
    path = write(tmp_path)
    last = path.stat().st_size // SECTOR
    lost = lost_offsets(path, (last,))
    disk.add(path, [last])
    messages: list[str] = []
    with Client(started(tmp_path, on_message=messages.append).port) as client:
        assert [r.offset for r in client.read_all("t", 0)] == list(range(lost[0]))
    assert [m for m in messages if "the disk cannot read" in m], messages


def test_damage_at_the_end_of_a_log_is_reported_once(started: Start, tmp_path: Path) -> None:
    path = write(tmp_path)
    *_, last = kafkafmt.iter_batches(path.read_bytes())
    with path.open("r+b") as file:
        file.seek(last.position + 200)
        file.write(b"damaged")
    messages: list[str] = []
    with Client(started(tmp_path, on_message=messages.append).port) as client:
        for _ in range(2):
            assert [r.offset for r in client.read_all("t", 0)] == list(range(last.base_offset))
    (message,) = (m for m in messages if m.startswith("damaged"))
    assert f"at {last.position}," in message
