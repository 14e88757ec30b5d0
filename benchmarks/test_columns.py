"""How fast do uncompressed batches become columns, CRC checked, beside aiokafka's C extension reading the same fields?

`columns` is spans in reused arrays, `arrow` pyarrow record batches, keys and values copied together; both as users call them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import pytest
import readers

COLUMNS = {"a": 15, "b": 15, "c": None, "d": None, "f": 15, "g": 13}
WITH_HEADERS = (*readers.FIELDS, "headers")


@pytest.mark.benchmark(group="columns", timer=time.process_time)
@pytest.mark.parametrize("letter", COLUMNS)
def test_columns(contest: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    case = f"{letter}: {inputs.INPUTS[letter].title}"
    contest(case, readers.reader(data), "aiokafka", readers.aiokafka_fields(data), COLUMNS[letter])


@pytest.mark.benchmark(group="columns with headers", timer=time.process_time)
def test_headers(contest: Callable[..., object]) -> None:
    data = inputs.make("d")
    contest(
        "d: 3 headers, decoded",
        readers.reader(data, WITH_HEADERS),
        "aiokafka",
        readers.aiokafka_fields(data, headers=True),
    )


@pytest.mark.benchmark(group="Arrow, keys and values gathered", timer=time.process_time)
@pytest.mark.parametrize("letter", COLUMNS)
def test_arrow(contest: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    target = 15 if letter == "a" else None
    contest(letter, readers.to_arrow(data), "aiokafka into pyarrow", readers.aiokafka_to_arrow(data), target)
