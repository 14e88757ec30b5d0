"""Replace a function wherever it was imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest


def patch_everywhere(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], replacement: Callable[..., Any]
) -> None:
    """Replace a function of kafkafmt in each loaded module that has imported it."""
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] == "kafkafmt"]:
        for name, value in list(vars(module).items()):
            if value is function:
                monkeypatch.setattr(module, name, replacement)
