"""Check which log messages of a server are omitted."""

from __future__ import annotations

from collections import deque

import pytest

from kafkafmt.server.messages import MOST_CLOSED, REPEAT_SECONDS, Messages


def test_reasons_of_closed_connections_are_logged_at_a_bounded_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("kafkafmt.server.messages.time.monotonic", lambda: now)
    kept, reported = deque[str](), list[str]()
    log = Messages(kept, reported.append)
    for port in range(500):
        log.add_closed(f"host:{port}: connection closed: authentication of user 'u{port}' failed")
        log.add(f"message {port}")
    closed = [line for line in kept if "connection" in line]
    assert len(closed) == MOST_CLOSED + 1
    assert closed[-1] == "many connections are closed; further reasons are not logged for a minute"
    assert len(kept) == 500 + len(closed)
    now += REPEAT_SECONDS
    log.add_closed("host:1: connection closed: again")
    assert list(kept)[-2:] == [
        "the reasons of 440 closed connections were not logged",
        "host:1: connection closed: again",
    ]
    assert reported == list(kept)
