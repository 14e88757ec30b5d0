"""Measure decoding of uncompressed batches into columns, compared with aiokafka's C extension.

kafkafmt and aiokafka read the same fields and check CRCs. `columns` are spans in reused arrays.
`arrow` are Arrow record batches with copied keys and values.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import inputs
import pytest
import readers

INPUTS = ("a", "b", "c", "d", "f", "g")
WITH_HEADERS = (*readers.FIELDS, "headers")


@pytest.mark.benchmark(group="columns", timer=time.process_time)
@pytest.mark.parametrize("letter", INPUTS)
def test_columns(compare: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    case = f"{letter}: {inputs.INPUTS[letter].title}"
    compare(case, readers.reader(data), "aiokafka", readers.aiokafka_fields(data))


@pytest.mark.benchmark(group="columns with headers", timer=time.process_time)
def test_headers(compare: Callable[..., object]) -> None:
    data = inputs.make("d")
    compare(
        "d: 3 headers, decoded",
        readers.reader(data, WITH_HEADERS),
        "aiokafka",
        readers.aiokafka_fields(data, headers=True),
    )


@pytest.mark.benchmark(group="Arrow, keys and values gathered", timer=time.process_time)
@pytest.mark.parametrize("letter", INPUTS)
def test_arrow(compare: Callable[..., object], letter: str) -> None:
    data = inputs.make(letter)
    compare(letter, readers.to_arrow(data), "aiokafka into pyarrow", readers.aiokafka_to_arrow(data))
