"""Provide a fixture for all tests of log directories."""

from __future__ import annotations

import os

import pytest

from kafkafmt.log.storage import syncing


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace fsync, because no test cuts the power, and most of the time would be spent waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(syncing, "sync_file_system", lambda _: None)
