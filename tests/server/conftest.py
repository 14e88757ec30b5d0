"""Provide a fixture that starts servers for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import kafkafmt


@pytest.fixture
def started() -> Iterator[Callable[..., kafkafmt.server.Server]]:
    """Return a function that starts a server in a thread. The server is closed after the test."""
    with ExitStack() as stack:

        def start(log: Any, **options: Any) -> kafkafmt.server.Server:
            return stack.enter_context(kafkafmt.serve(log, **options))

        yield start
