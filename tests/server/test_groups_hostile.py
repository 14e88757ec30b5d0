"""Send random requests to the group, describe and SASL handlers. No request may raise an exception."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from handler_calls import Caller, internal_catalog, run
from random_messages import random_message

from kafkafmt import protocol
from kafkafmt.server.describe import DescribeApis
from kafkafmt.server.groups import GroupApis, GroupLimits
from kafkafmt.server.handlers import Handlers
from kafkafmt.server.sasl import SaslApis
from kafkafmt.server.users import Users

NAMES = ("", "g", "h", "source", "sink", "missing", "client-1", "state-open", "PLAIN", "SCRAM-SHA-256")
LIMITS = GroupLimits(groups=20, bytes=200_000, min_session_timeout=0.0)


def tame(message: Any, version: int, chance: Random) -> Any:
    """Replace most strings with existing names and most integers with small ones, so that requests are plausible."""
    for field in message.SCHEMA.fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        values = value if isinstance(value, list) else [value]
        changed = []
        for one in values:
            if hasattr(one, "SCHEMA"):
                one = tame(one, version, chance)
            elif isinstance(one, str) and chance.random() < 0.8:
                one = chance.choice(NAMES)
            elif isinstance(one, int) and not isinstance(one, bool) and chance.random() < 0.8:
                one = chance.choice((-1, 0, 1, 2)) if field.type != "int32" else chance.choice((-1, 0, 1, 50, 7000))
            changed.append(one)
        setattr(message, field.name, changed if isinstance(value, list) else changed[0])
    return message


@pytest.fixture
def handlers(tmp_path: Path) -> Iterator[Handlers]:
    catalog = internal_catalog()
    groups = GroupApis(catalog, groups_file=tmp_path / "groups", limits=LIMITS)
    describe = DescribeApis(catalog, catalog.settings, lambda: {"source": {"retention.ms": "1"}})
    users = Users({"g": "secret"})
    yield {**groups.handlers(), **describe.handlers(), **SaslApis(users).handlers()}
    coordinator = groups.coordinator
    assert len(coordinator.groups) <= LIMITS.groups
    assert coordinator._size + coordinator.offsets.size <= LIMITS.bytes
    assert coordinator._size == sum(coordinator._sizes.values())
    groups.close()
    catalog.close()


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_raise_no_exception_and_respect_limits(
    handlers: Handlers, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafmt.server.sasl.FAILURE_DELAY", 0.0)
    chance = Random(seed)

    async def main() -> None:
        callers = [Caller(handlers, client_id=name) for name in ("a", "b", "")]
        waiting: set[asyncio.Task[Any]] = set()
        for _ in range(1500):
            key = chance.choice(list(handlers))
            low, high, _handler = handlers[key]
            version = chance.randint(low, high)
            message = random_message(chance, protocol.message_class(key, "request"), version)
            message = tame(message, version, chance)
            task = asyncio.create_task(chance.choice(callers)(message, version))
            done, _ = await asyncio.wait([task], timeout=0.2 if key not in (11, 14) else 0.001)
            if not done:
                waiting.add(task)
            for finished in [*done, *(t for t in waiting if t.done())]:
                waiting.discard(finished)
                finished.result()  # raises the exception of the handler, if any
        for task in waiting:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    run(main())
