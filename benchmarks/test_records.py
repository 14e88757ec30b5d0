"""How fast does one get Python objects, CRC checked, beside aiokafka's: whole records of which four fields are read, or values alone?"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import pytest
import readers


@pytest.mark.benchmark(group="Record objects, four fields", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "b", "f", "g"])
def test_records(contest: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    contest(letter, readers.objects(data), "aiokafka", readers.aiokafka_fields(data), 2.2 if letter == "a" else None)


@pytest.mark.benchmark(group="Record objects, with headers", timer=time.process_time)
def test_headers(contest: Callable[..., object]) -> None:
    data = inputs.make("d")
    contest(
        "d",
        readers.objects(data, (*readers.FIELDS, "headers")),
        "aiokafka",
        readers.aiokafka_fields(data, headers=True),
    )


@pytest.mark.benchmark(group="values alone", timer=time.process_time)
@pytest.mark.parametrize("letter", ["a", "b"])
def test_values(contest: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    contest(letter, readers.values(data), "aiokafka", readers.aiokafka_values(data), 5 if letter == "a" else None)
