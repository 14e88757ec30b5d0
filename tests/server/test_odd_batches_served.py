"""Check that the server rebuilds batches that Kafka's Java code does not read, and sends all others unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from odd_batches import batch_with_two_oddities, batches_that_java_refuses, batches_with_odd_ends, write_log
from serving import Client

import kafkafmt
from kafkafmt import build_batch

Start = Callable[..., kafkafmt.server.Server]
NORMAL = bytes(build_batch([(None, b"normal")] * 3, codec="zstd"))
CASES = {**batches_with_odd_ends(), **{name: (batch, False) for name, batch in batches_that_java_refuses().items()}}


@pytest.mark.parametrize("name", CASES)
def test_odd_batches_are_rebuilt_if_java_does_not_read_them(started: Start, tmp_path: Path, name: str) -> None:
    batch, java_reads = CASES[name]
    log = write_log(tmp_path, NORMAL, batch, NORMAL)
    stored = (log / f"{0:020}.log").read_bytes()
    with Client(started(tmp_path).port) as client:
        sent = bytes(client.fetch("t", 0, 0).records)
        assert kafkafmt.check_batches(sent).ok
        assert (sent == stored) == java_reads
        assert sent.startswith(NORMAL)
        assert list(kafkafmt.read_records(sent)) == list(client.read_all("t", 0, partition_max_bytes=100))
        if batch[60]:
            assert list(kafkafmt.read_records(sent)) == list(kafkafmt.read_records(stored))


def test_batch_with_two_oddities_is_sent_once(started: Start, tmp_path: Path) -> None:
    write_log(tmp_path, NORMAL, batch_with_two_oddities(), NORMAL)
    with Client(started(tmp_path).port) as client:
        sent = bytes(client.fetch("t", 0, 0).records)
    assert kafkafmt.check_batches(sent).ok
    assert [r.offset for r in kafkafmt.read_records(sent)] == list(range(46))


def test_appended_odd_batches_are_rebuilt(started: Start, tmp_path: Path) -> None:
    path = write_log(tmp_path, NORMAL) / f"{0:020}.log"
    with Client(started(tmp_path).port) as client:
        assert bytes(client.fetch("t", 0, 0).records) == NORMAL
        offset = 3
        for name in ("gzip-no-trailer", "lz4-no-end-mark", "zstd-garbage"):
            batch = offset.to_bytes(8, "big") + CASES[name][0][8:]
            with path.open("ab") as file:
                file.write(batch)
            sent = bytes(client.fetch("t", 0, offset, max_wait_ms=5000).records)
            assert kafkafmt.check_batches(sent).ok
            assert [r.offset for r in kafkafmt.read_records(sent)] == list(range(offset, offset + 40))
            offset += 40
