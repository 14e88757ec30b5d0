"""Check `gather`, which copies spans into Arrow's binary layout."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafmt import _pure


def spans(pairs: list[tuple[int, int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    return np.array([p for p, _ in pairs], np.int64), np.array([n for _, n in pairs], np.int32)


def gathered(
    core: ModuleType,
    source: bytes,
    pairs: list[tuple[int, int]],
    room: int | None = None,
    row: int = 0,
    filled: int = 0,
) -> tuple[int, int, npt.NDArray[np.int32], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    positions, lengths = spans(pairs)
    offsets = np.zeros(row + len(pairs) + 1, np.int32)
    validity = np.zeros((row + len(pairs) + 7) // 8, np.uint8)
    data = np.zeros(filled + core.total_length(lengths, len(pairs)) if room is None else room, np.uint8)
    end, nulls = core.gather(source, positions, lengths, len(pairs), offsets, data, validity, row, filled)
    return end, nulls, offsets, data, validity


def as_arrow(
    count: int, nulls: int, offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8], validity: npt.NDArray[np.uint8]
) -> list[bytes | None]:
    buffers = [pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    values: list[bytes | None] = pa.Array.from_buffers(pa.binary(), count, buffers, nulls).to_pylist()
    return values


SOURCE = bytes(range(256)) * 4


def expected(pairs: list[tuple[int, int]]) -> list[bytes | None]:
    return [None if n < 0 else SOURCE[p : p + n] for p, n in pairs]


def test_gather_writes_offsets_data_and_validity(core: ModuleType) -> None:
    end, nulls, offsets, data, validity = gathered(core, b"abcdef", [(1, 2), (0, -1), (3, 0), (5, 1)])
    assert (end, nulls) == (3, 1)
    assert offsets.tolist() == [0, 2, 2, 2, 3]
    assert data.tobytes() == b"bcf"
    assert validity.tolist() == [0b1101]


@pytest.mark.parametrize("size", [1, 31, 32, 33, 127, 128, 129, 160, 161, 500])
def test_gather_copies_spans_of_every_size(core: ModuleType, size: int) -> None:
    pairs = [(i, size) for i in range(0, len(SOURCE) - size + 1, 7)] + [(len(SOURCE) - size, size)]
    end, nulls, offsets, data, validity = gathered(core, SOURCE, pairs)
    assert (end, nulls) == (size * len(pairs), 0)
    assert as_arrow(len(pairs), nulls, offsets, data, validity) == expected(pairs)


def test_several_calls_fill_one_array(core: ModuleType) -> None:
    pairs = [(i * 3, i if i % 3 else -1) for i in range(50)]
    positions, lengths = spans(pairs)
    offsets, validity, data = np.zeros(51, np.int32), np.full(7, 0xAA, np.uint8), np.zeros(4000, np.uint8)
    filled = nulls = row = 0
    for n in (1, 7, 8, 0, 21, 13):
        filled, more = core.gather(SOURCE, positions[row:], lengths[row:], n, offsets, data, validity, row, filled)
        nulls, row = nulls + more, row + n
    assert filled == core.total_length(lengths, 50)
    assert as_arrow(50, nulls, offsets, data, validity) == expected(pairs)
    assert validity[6] >> 2 == 0xAA >> 2  # bits after the last row do not change


def test_gather_works_without_a_validity_array(core: ModuleType) -> None:
    positions, lengths = spans([(0, 3), (0, -1)])
    offsets, data = np.zeros(3, np.int32), np.zeros(3, np.uint8)
    assert core.gather(SOURCE, positions, lengths, 2, offsets, data, None) == (3, 1)
    assert offsets.tolist() == [0, 3, 3]


def test_gather_accepts_empty_spans(core: ModuleType) -> None:
    end, nulls, offsets, _, _ = gathered(core, b"", [])
    assert (end, nulls, offsets.tolist()) == (0, 0, [0])
    assert gathered(core, b"", [(0, 0), (0, -5)])[:2] == (0, 1)
    assert core.total_length(np.zeros(0, np.int32), 0) == 0


def test_total_length_goes_beyond_32_bits(core: ModuleType) -> None:
    assert core.total_length(np.full(3, 2**31 - 1, np.int32), 3) == 3 * (2**31 - 1)
    assert core.total_length(np.array([5, -1, -(2**31), 7], np.int32), 4) == 12
    assert core.total_length(np.array([5, 6, 7], np.int32), 2) == 11


@pytest.mark.parametrize(
    "pair", [(-1, 1), (0, 1025), (1024, 1), (1025, 0), (2**63 - 1, 2), (-(2**63), 1), (1020, 2**31 - 1)]
)
def test_spans_outside_the_buffer_are_a_value_error(core: ModuleType, pair: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="span 1 "):
        gathered(core, SOURCE, [(0, 5), pair], room=3000)


@pytest.mark.parametrize("room", [0, 1, 9])
def test_full_data_array_is_a_value_error(core: ModuleType, room: int) -> None:
    with pytest.raises(ValueError, match="full"):
        gathered(core, SOURCE, [(0, 10)], room=room)


@pytest.mark.parametrize(
    "changes",
    [
        {"count": -1},
        {"count": 4},
        {"count": 2**61 + 1},
        {"row": -1},
        {"row": 2},
        {"row": 2**62},
        {"row": 2**63 - 1},
        {"filled": -1},
        {"filled": 101},
        {"offsets": np.zeros(3, np.int32)},
        {"validity": np.zeros(0, np.uint8)},
    ],
    ids=repr,
)
def test_wrong_argument_is_a_value_error(core: ModuleType, changes: dict[str, Any]) -> None:
    positions, lengths = spans([(0, 1)] * 3)
    arguments = {"positions": positions, "lengths": lengths, "count": 3, "row": 0, "filled": 0}
    arguments |= {
        "offsets": np.zeros(5, np.int32),
        "data": np.zeros(100, np.uint8),
        "validity": np.zeros(1, np.uint8),
    } | changes
    with pytest.raises(ValueError):
        core.gather(SOURCE, **arguments)


def test_wrong_count_is_a_value_error(core: ModuleType) -> None:
    lengths = np.ones(3, np.int32)
    for count in (-1, 4, 2**62, 2**70):
        with pytest.raises(ValueError):
            core.total_length(lengths, count)
        with pytest.raises(ValueError):
            core.make_values(SOURCE, lengths.astype(np.int64), lengths, count)


def test_arrays_of_other_types_are_rejected(native: ModuleType) -> None:
    positions, lengths = spans([(0, 1)])
    offsets, data = np.zeros(2, np.int32), np.zeros(9, np.uint8)
    right = {"positions": positions, "lengths": lengths, "count": 1, "offsets": offsets, "data": data, "validity": None}
    for name, wrong in (
        ("positions", lengths),
        ("lengths", positions),
        ("offsets", positions),
        ("data", positions),
        ("validity", lengths),
    ):
        with pytest.raises(ValueError):
            native.gather(SOURCE, **right | {name: wrong})
    for name in ("positions", "lengths", "offsets", "data"):
        with pytest.raises(TypeError):
            native.gather(SOURCE, **right | {name: None})


class WrongLength(bytearray):
    def __len__(self) -> int:
        return 1000


def test_capacity_is_that_of_the_buffer(native: ModuleType) -> None:
    positions, lengths = spans([(0, 500)])
    with pytest.raises(ValueError, match="full"):
        native.gather(SOURCE, positions, lengths, 1, np.zeros(2, np.int32), WrongLength(4), None)


@given(
    st.lists(st.tuples(st.integers(0, 1024), st.integers(-2, 200)), max_size=40), st.integers(0, 9), st.integers(0, 200)
)
def test_arrow_reads_any_gathered_spans(pairs: list[tuple[int, int]], row: int, spare: int) -> None:
    pairs = [(p, min(n, len(SOURCE) - p)) for p, n in pairs]
    for core in (pytest.importorskip("kafkafmt._core"), _pure):
        total = core.total_length(spans(pairs)[1], len(pairs))
        end, nulls, offsets, data, validity = gathered(core, SOURCE, pairs, room=total + spare, row=row)
        assert end == total
        whole = as_arrow(row + len(pairs), -1, offsets, data, validity)
        assert whole[row:] == expected(pairs)
        assert nulls == sum(n < 0 for _, n in pairs)
