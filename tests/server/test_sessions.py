"""Check the fetch sessions of a server and their limits."""

from __future__ import annotations

from random import Random

import pytest

from kafkafmt.protocol import ErrorCode
from kafkafmt.server import sessions
from kafkafmt.server.fetch_request import PartitionRequest, WantedFetch
from kafkafmt.server.sessions import FetchSession, FetchSessions


def request(session_id: int, epoch: int, numbers: range, forgotten: tuple[int, ...] = ()) -> WantedFetch:
    partitions = [PartitionRequest(number, -1, 0, 1000) for number in numbers]
    return WantedFetch(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[("t", partitions)] if partitions else [],
        forgotten=[("t", list(forgotten))] if forgotten else [],
    )


def test_session_that_grows_above_the_limit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_PARTITIONS", 100)
    known = FetchSessions(10)
    found = known.find(request(0, 0, range(60)), False)
    assert isinstance(found, FetchSession)
    assert known.find(request(found.session_id, 1, range(60, 100)), False) is found
    assert known.find(request(found.session_id, 2, range(100, 101)), False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(known) == 0
    assert known.find(request(found.session_id, 3, range(0)), False) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    whole = known.find(request(0, 0, range(101)), False)
    assert isinstance(whole, FetchSession)
    assert (whole.session_id, len(known)) == (0, 0)


def test_least_recently_used_sessions_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_PARTITIONS", 100)
    chance, known, open_sessions = Random(3), FetchSessions(7), dict[int, FetchSession]()
    for _ in range(3000):
        session = chance.choice([*open_sessions.values(), None])
        first = chance.randrange(60)
        numbers = range(first, first + chance.randrange(25))
        if session is None or chance.random() < 0.1:
            wanted = request(0 if session is None else session.session_id, chance.choice((0, -1)), numbers)
        else:
            wanted = request(session.session_id, session.epoch, numbers, tuple(range(first + 25, first + 40)))
        found = known.find(wanted, False)
        if isinstance(found, FetchSession) and found.session_id:
            open_sessions[found.session_id] = found
        open_sessions = {key: known._sessions[key] for key in open_sessions if key in known._sessions}
        total = sum(len(session.partitions) for session in known._sessions.values())
        assert known._partitions == total <= 100
        assert len(known) <= 7
    assert open_sessions
