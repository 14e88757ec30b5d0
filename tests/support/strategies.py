"""Hypothesis strategies for valid batches of format 2, and for batches with corrupted records."""

from __future__ import annotations

from typing import TypedDict

import building as build
from decoding import MAX, MIN
from hypothesis import HealthCheck
from hypothesis import strategies as st


class HypothesisSettings(TypedDict):
    """Keyword arguments of `hypothesis.settings`."""

    deadline: None
    suppress_health_check: list[HealthCheck]


QUICK: HypothesisSettings = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
"""Settings for tests whose examples take long to generate."""

small_bytes = st.one_of(st.none(), st.binary(max_size=6), st.binary(min_size=60, max_size=140))
headers = st.lists(st.tuples(st.binary(max_size=4), small_bytes), max_size=4)
timestamps = st.one_of(st.integers(0, 300), st.integers(-(2**63), 2**63 - 1))


@st.composite
def valid_records(draw: st.DrawFn) -> tuple[list[bytes], int]:
    """Generate records, usually in offset order, and the last offset delta. Kafka accepts every offset delta."""
    delta = -1
    made: list[bytes] = []
    for _ in range(draw(st.integers(0, 12))):
        delta += draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 2, 70, 70, 10_000, 10_000, 0, -1, -300]))
        record = build.record(delta, draw(timestamps), draw(small_bytes), draw(small_bytes), draw(headers))
        made.append(record)
    return made, delta


@st.composite
def valid_batch(draw: st.DrawFn) -> bytes:
    records, last = draw(valid_records())
    return build.batch(
        records,
        base_offset=draw(st.one_of(st.integers(0, 1000), st.integers(MIN, MAX))),
        flags=draw(
            st.sampled_from([0, 0, build.LOG_APPEND_TIME, build.CONTROL | build.TRANSACTIONAL, build.DELETE_HORIZON])
        ),
        base_timestamp=draw(st.one_of(st.integers(0, 10**13), st.integers(MIN, MAX))),
        max_timestamp=draw(st.integers(MIN, MAX)),
        last_offset_delta=max(last, 0) + draw(st.sampled_from([0, 0, 5])),
    )


@st.composite
def mutated_batch(draw: st.DrawFn) -> bytes:
    """Generate a valid batch, change bytes of its records or its header, and correct the CRC."""
    data = bytearray(draw(valid_batch()))
    records = st.integers(61, max(61, len(data) - 1))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.one_of(records, records, records, records, st.sampled_from([22, 26, 60]), st.integers(21, 60)))
        if at < len(data):
            data[at] = draw(st.one_of(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0x81, 0xFF]), st.integers(0, 255)))
    return build.repair_crc(data)


@st.composite
def loose_batch(draw: st.DrawFn) -> bytes:
    """Generate records with correct length fields. The remaining bytes are mostly small varints."""
    byte = st.one_of(
        st.integers(0, 8), st.integers(0, 20), st.sampled_from([0x7F, 0x80, 0x82, 0xFF]), st.integers(0, 255)
    )
    bodies = draw(st.lists(st.lists(byte, min_size=5, max_size=30).map(bytes), max_size=5))
    records = [build.sized(b"\x00\x00" + build.varint(i) + body) for i, body in enumerate(bodies)]
    spare = [build.record(90, value=bytes(draw(st.integers(0, 40))))]
    return build.batch(records + spare, last_offset_delta=90)


streams = st.lists(st.one_of(valid_batch(), valid_batch(), mutated_batch(), loose_batch()), max_size=4).map(b"".join)
