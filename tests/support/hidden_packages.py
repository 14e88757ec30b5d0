"""Hide the packages in KAFKAFMT_HIDDEN from kafkafmt's codecs, but not from the tests. This is also a pytest plugin."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Any

NAMES = os.environ.get("KAFKAFMT_HIDDEN", "").split()
_hidden: dict[str, Any] = dict.fromkeys(NAMES)
sys.modules.update(_hidden)
import kafkafmt.codecs.packages  # noqa: E402, F401

for _name in NAMES:
    del sys.modules[_name]


def hide_versions() -> None:
    """Hide the packages also from functions that look for their versions."""
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        if distribution_name in NAMES:
            raise importlib.metadata.PackageNotFoundError(distribution_name)
        return real(distribution_name)

    importlib.metadata.version = version
