"""Serve batches with odd record offsets: a client gets the stored bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from odd_offsets import DELTAS, mixed_log
from serving import Client

import kafkafmt


@pytest.mark.parametrize("kind", DELTAS)
def test_odd_batches_are_served_unchanged(
    started: Callable[..., kafkafmt.server.Server], tmp_path: Path, kind: str
) -> None:
    expected = mixed_log(tmp_path, kind)
    data = next((tmp_path / "t-0").glob("*.log")).read_bytes()
    with Client(started(tmp_path).port) as client:
        assert bytes(client.fetch("t", 0, 100).records) == data
        part = bytes(client.fetch("t", 0, 115).records)
    assert data.endswith(part)
    assert [(r.offset, r.value) for r in kafkafmt.read_records(part)] == expected[15:]
