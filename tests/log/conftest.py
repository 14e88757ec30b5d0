"""Share a fixture among the tests of log directories."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test ends the machine's own power, and waiting for its disk would be most of the time that they take."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
