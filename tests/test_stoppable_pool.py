"""Test that calls in threads end before KeyboardInterrupt is raised, even if Ctrl-C interrupts the start of a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafkafmt.exporting.engine import JobProgress
from kafkafmt.exporting.local_engine import LocalEngine
from kafkafmt.log.verifying.run import Run


@pytest.fixture
def interrupted_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise KeyboardInterrupt directly after the first thread has started. Ctrl-C can have the same effect."""
    start = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        monkeypatch.undo()
        start(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)


def in_run(function: Callable[[int], None]) -> None:
    Run().map(function, range(4), 2, wait=True)


def in_local_engine(function: Callable[[int], None]) -> None:
    def describe(item: int, result: None) -> JobProgress:
        return JobProgress(1)

    LocalEngine(2).run([[i] for i in range(4)], function, describe, "test")


@pytest.mark.parametrize("call", [in_run, in_local_engine])
@pytest.mark.usefixtures("interrupted_start")
def test_no_call_is_running_after_an_interrupted_start(call: Callable[[Any], None]) -> None:
    entered, returned = [], []

    def slow(item: int) -> None:
        entered.append(item)
        time.sleep(0.3)
        returned.append(item)

    with pytest.raises(KeyboardInterrupt):
        call(slow)
    assert entered == returned
    time.sleep(0.1)
    assert entered == returned
