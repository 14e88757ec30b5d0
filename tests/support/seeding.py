"""Choose the seeds of random tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def seeds(few: int, values: Iterable[int]) -> list[Any]:
    """Return seeds for `parametrize`. Only the first `few` belong to `make test`."""
    return [pytest.param(value, marks=() if i < few else pytest.mark.slow) for i, value in enumerate(values)]
