"""Measure creation of Record objects, and reading of all fields or of values, compared with aiokafka.

CRCs are checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import pytest
import readers


@pytest.mark.benchmark(group="Record objects, four fields", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "b", "f", "g"])
def test_records(compare: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    compare(letter, readers.objects(data), "aiokafka", readers.aiokafka_fields(data))


@pytest.mark.benchmark(group="Record objects, with headers", timer=time.process_time)
def test_headers(compare: Callable[..., object]) -> None:
    data = inputs.make("d")
    compare(
        "d",
        readers.objects(data, (*readers.FIELDS, "headers")),
        "aiokafka",
        readers.aiokafka_fields(data, headers=True),
    )


@pytest.mark.benchmark(group="only values", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "b"])
def test_values(compare: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    compare(letter, readers.values(data), "aiokafka", readers.aiokafka_values(data))
