"""Share a fixture among the tests of log directories."""

from __future__ import annotations

import os

import pytest

from kafkafmt.log.format import syncing


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test ends the machine's own power, and waiting for its disk would be most of the time that they take."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(syncing, "sync_file_system", lambda _: None)
