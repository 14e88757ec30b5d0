"""Convert the location of a file to a local path."""

from __future__ import annotations

from pathlib import Path

from kafkafmt.paths import Location


def local(location: Location) -> Path:
    """Return a location that is a local path."""
    assert isinstance(location, Path)
    return location
