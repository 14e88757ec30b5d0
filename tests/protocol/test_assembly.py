"""Check that the stream of a side of a TCP connection does not depend on the order and overlaps of its segments."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafmt.protocol import assembly
from kafkafmt.protocol.assembly import Hole, Stream

DATA = bytes(range(1, 251))
spans = st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 60)), max_size=30)
starts = st.sampled_from((0, 1, 2**31 - 100, 2**32 - 100, 2**32 - 1))


def started(sequence: int) -> Stream:
    stream = Stream()
    stream.start(sequence)
    return stream


def joined(parts: Iterable[bytes | Hole]) -> bytes:
    """Return the stream, with a zero for each missing byte."""
    return b"".join(bytes(part.size) if isinstance(part, Hole) else part for part in parts)


@given(first=starts, data=st.data())
def test_stream_is_the_same_for_any_order_and_overlap(first: int, data: st.DataObject) -> None:
    cuts = sorted({0, len(DATA), *data.draw(st.lists(st.integers(0, len(DATA)), max_size=12))})
    complete = [(a, b - a) for a, b in pairwise(cuts)]
    order = data.draw(st.permutations(complete + data.draw(spans)))
    stream = started(first)
    parts = [p for at, size in order for p in stream.add((first + at) & 0xFFFFFFFF, DATA[at : at + size])]
    assert Hole not in {type(part) for part in parts}
    assert joined(parts) == DATA
    assert list(stream.finish()) == []


@given(first=starts, order=spans)
def test_missing_bytes_are_the_ones_without_a_segment(first: int, order: list[tuple[int, int]]) -> None:
    stream = started(first)
    parts = [p for at, size in order for p in stream.add((first + at) & 0xFFFFFFFF, DATA[at : at + size])]
    parts += stream.finish()
    present = {n for at, size in order for n in range(at, min(at + size, len(DATA)))}
    end = max(present, default=-1) + 1
    assert joined(parts) == bytes(DATA[n] if n in present else 0 for n in range(end))
    assert stream.position == end


def test_acknowledged_bytes_without_a_segment_are_missing() -> None:
    stream = started(2**32 - 10)
    assert list(stream.add(2**32 - 10, b"0123456789")) == [b"0123456789"]
    assert list(stream.add(5, b"abc")) == []
    assert list(stream.acknowledge(0)) == []
    assert list(stream.acknowledge(3)) == [Hole(3)]
    assert list(stream.acknowledge(8)) == [Hole(2), b"abc"]
    assert list(stream.acknowledge(20)) == [Hole(12)]


def test_acknowledged_fin_is_not_a_missing_byte() -> None:
    stream = started(100)
    assert list(stream.acknowledge(101)) == []
    assert list(stream.add(100, b"ab", last=True)) == [b"ab"]
    assert stream.finished
    assert list(stream.acknowledge(103)) == []


def test_segments_that_wait_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_HELD_BYTES", 1000)
    stream = started(0)
    assert list(stream.add(10, bytes(500))) == []
    assert list(stream.add(10, bytes(500))) == []
    assert list(stream.add(700, bytes(350))) == [Hole(10), bytes(500)]
    assert list(stream.finish()) == [Hole(190), bytes(350)]
