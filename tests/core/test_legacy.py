"""Check how both cores read messages and wrapper messages of formats 0 and 1."""

from __future__ import annotations

import gzip
import itertools
import struct
import zlib
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from building import message, mutate, simple_batch
from decoding import MAX, MIN, decode, decode_steps, scan
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkafmt import _pure
from kafkafmt.errors import ChecksumError, StructureError

NATIVE = pytest.importorskip("kafkafmt._core")


def test_attribute_bits_of_format_2_are_ignored_in_messages(core: ModuleType) -> None:
    """0x20 is the control flag of format 2. A message with this bit is still a data record."""
    import kafkafmt

    data = message(1, b"k", b"v", attributes=-8, timestamp=7)
    table, _ = scan(core, data)
    assert table["attributes"].tolist() == [8]
    assert [r.value for r in kafkafmt.read_records(data)] == [b"v"]


def inner_table(core: ModuleType, wrapper: bytes, inner: bytes) -> npt.NDArray[np.void]:
    """Return the table row of a wrapper message whose payload is the decompressed message set."""
    table, result = scan(core, wrapper)
    assert (result.count, result.error) == (1, None)
    table["payload_position"], table["payload_size"] = 0, len(inner)
    return table


def wrap(magic: int, inner: bytes, offset: int, timestamp: int = 0, attributes: int = 1) -> bytes:
    return message(magic, None, gzip.compress(inner), offset=offset, timestamp=timestamp, attributes=attributes)


def repaired(data: bytes) -> bytes:
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


def test_crc32_equals_that_of_zlib(core: ModuleType) -> None:
    data = np.random.default_rng(5).bytes(5000)
    for n in [*range(70), 255, 256, 511, 512, 513, 1000, 5000]:
        assert core.crc32(data, 0, 0, n) == zlib.crc32(data[:n])
        assert core.crc32(data, zlib.crc32(b"before"), 0, n) == zlib.crc32(b"before" + data[:n])
    assert core.crc32(data, 0, 3, 4000) == zlib.crc32(data[3:4000])


def test_plain_message_is_a_row(core: ModuleType) -> None:
    zero, one = message(0, b"k", b"value", offset=7), message(1, None, b"", offset=8, timestamp=-5, attributes=8)
    table, result = scan(core, zero + one + simple_batch([b"new"], 9))
    assert (result.count, result.error) == (3, None)
    assert table["magic"].tolist() == [0, 1, 2]
    assert table["base_offset"].tolist() == [7, 8, 9]
    assert table["max_timestamp"].tolist()[:2] == [-1, -5]
    assert table["count"].tolist() == [1, 1, 1]
    assert table["attributes"].tolist() == [0, 8, 0]
    for name, value in (
        ("leader_epoch", -1),
        ("producer_id", -1),
        ("producer_epoch", -1),
        ("base_sequence", -1),
        ("last_offset_delta", 0),
    ):
        assert table[name].tolist()[:2] == [value, value]
    rows, error = decode(core, zero + one + simple_batch([b"new"], 9))
    assert error is None
    assert [r[:3] for r in rows] == [(7, -1, -1), (8, -5, 1), (9, rows[2][1], 0)]
    assert [r[4][1] for r in rows] == [5, 0, 3]
    assert [r[3][1] for r in rows] == [1, -1, -1]
    assert rows[0][5] == []


def test_inner_offsets_are_absolute_in_magic_0(core: ModuleType) -> None:
    inner = b"".join(message(0, None, b"v%d" % i, offset=o) for i, o in enumerate((10, 12, 17)))
    rows, error = decode(core, inner, inner_table(core, wrap(0, inner, 17), inner))
    assert error is None
    assert [r[0] for r in rows] == [10, 12, 17]
    assert {r[1:3] for r in rows} == {(-1, -1)}


@pytest.mark.parametrize(("offset", "expected"), [(100, [97, 98, 100]), (3, [0, 1, 3]), (0, [0, 1, 3])])
def test_inner_offsets_are_relative_in_magic_1(core: ModuleType, offset: int, expected: list[int]) -> None:
    inner = b"".join(message(1, None, b"v", offset=o, timestamp=50 + o) for o in (0, 1, 3))
    rows, error = decode(core, inner, inner_table(core, wrap(1, inner, offset), inner))
    assert error is None
    assert [r[0] for r in rows] == expected
    assert [r[1:3] for r in rows] == [(50, 0), (51, 0), (53, 0)]


def test_log_append_time_of_a_wrapper_overrides_timestamps(core: ModuleType) -> None:
    inner = message(1, None, b"v", offset=0, timestamp=5) + message(1, None, b"v", offset=1, timestamp=6, attributes=8)
    rows, _ = decode(core, inner, inner_table(core, wrap(1, inner, 1, timestamp=99, attributes=9), inner))
    assert [r[1:3] for r in rows] == [(99, 1), (99, 1)]
    rows, _ = decode(core, inner, inner_table(core, wrap(1, inner, 1, timestamp=99), inner))
    assert [r[1:3] for r in rows] == [(5, 0), (6, 0)]


@pytest.mark.parametrize("attributes", [1, 9])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_offsets_describe_the_records(core: ModuleType, magic: int, attributes: int) -> None:
    inner = b"".join(message(magic, None, b"v", offset=i, timestamp=t) for i, t in enumerate((50, 70, 60)))
    bad = mutate(inner, len(inner) - 1, b"w")
    for data, expected in ((inner, [0, 2, 3, 0]), (bad, [2, 2, -1, -1])):
        table = inner_table(core, wrap(magic, data, 2, timestamp=65, attributes=attributes), data)
        found = np.empty((4, 1), np.int64)
        core.message_offsets(data, table, *found)
        rows, _ = decode(core, data, table)
        if rows:
            expected[3] = max(r[1] for r in rows)
        assert found[:, 0].tolist() == expected
        assert bool(rows) == (data is inner)


def test_wrapper_is_decoded_in_chunks_and_ranges(core: ModuleType) -> None:
    inner = b"".join(message(1, b"k", b"v%d" % i, offset=i) for i in range(25))
    table = inner_table(core, wrap(1, inner, 124), inner)
    for capacity in (1, 4, 24, 25, 26):
        found = [
            r[0]
            for rows, error, _ in decode_steps(core, inner, table, capacity=capacity)
            for r in rows
            if error is None
        ]
        assert found == list(range(100, 125))
    rows, _ = decode(core, inner, table, first=105, end=108)
    assert [r[0] for r in rows] == [105, 106, 107]


GOOD = [message(1, b"k", b"v%d" % i, offset=i) for i in range(3)]


@pytest.mark.parametrize(
    ("inner", "position", "words"),
    [
        (b"", 0, "empty"),
        (GOOD[0][:-1], 0, "empty"),
        (GOOD[0][:11], 0, "empty"),
        (GOOD[0] + mutate(GOOD[1], 8, b"\x00\x00\x00\x05"), len(GOOD[0]), "does not fit"),
        (GOOD[0] + mutate(GOOD[1], 8, b"\x00\x00\x00\x15"), len(GOOD[0]), "does not fit"),
        (GOOD[0] + mutate(GOOD[1], 16, b"\x02"), len(GOOD[0]), "other than 0 and 1"),
        (GOOD[0] + message(1, None, b"x", attributes=1, offset=1), len(GOOD[0]), "itself compressed"),
        (GOOD[0] + mutate(GOOD[1], 20, b"\x01"), len(GOOD[0]), "CRC-32"),
        (GOOD[0] + repaired(mutate(GOOD[1], 29, b"\x7f")), len(GOOD[0]), "runs past"),
        (GOOD[0] + repaired(mutate(GOOD[1], 34, b"\x7f")), len(GOOD[0]), "runs past"),
    ],
)
def test_corrupted_inner_message_is_a_structure_error(
    core: ModuleType, inner: bytes, position: int, words: str
) -> None:
    table = inner_table(core, wrap(1, b"".join(GOOD), 102), inner)
    rows, error = decode(core, inner, table)
    assert rows == []
    assert isinstance(error, StructureError)
    assert (error.position, error.base_offset) == (position, 102)
    assert words in error.message


@pytest.mark.parametrize("size", [1, 4, 11, 12, 20, len(GOOD[2]) - 1])
def test_truncated_message_at_the_end_of_a_wrapper_is_ignored(core: ModuleType, size: int) -> None:
    inner = GOOD[0] + GOOD[1] + GOOD[2][:size]
    table = inner_table(core, wrap(1, inner, 101), inner)
    rows, error = decode(core, inner, table)
    assert ([r[0] for r in rows], error) == ([100, 101], None)
    for capacity in (1, 2, 3):
        steps = decode_steps(core, inner, table, capacity=capacity)
        assert [r[0] for rows, _, _ in steps for r in rows] == [100, 101]
    found = np.empty((4, 1), np.int64)
    core.message_offsets(inner, table, *found)
    assert found[:3, 0].tolist() == [100, 101, 2]


@pytest.mark.parametrize("attributes", [1, 9])
@pytest.mark.parametrize("magic", [0, 1])
def test_inner_messages_can_have_another_magic_than_their_wrapper(
    core: ModuleType, magic: int, attributes: int
) -> None:
    """The expected values follow from Kafka's LegacyRecord and AbstractLegacyRecordBatch."""
    inner = b"".join(message(i % 2, b"k", b"v%d" % i, offset=i, timestamp=70 + i) for i in range(4))
    table = inner_table(core, wrap(magic, inner, 3, timestamp=99, attributes=attributes), inner)
    times = {
        (0, 1): [(-1, -1), (71, -1), (-1, -1), (73, -1)],
        (0, 9): [(-1, -1), (71, -1), (-1, -1), (73, -1)],
        (1, 1): [(-1, -1), (71, 0), (-1, -1), (73, 0)],
        (1, 9): [(-1, -1), (99, 1), (-1, -1), (99, 1)],
    }
    for bounds in ({}, {"first": 0}):
        rows, error = decode(core, inner, table, **bounds)
        assert error is None
        assert [r[0] for r in rows] == [0, 1, 2, 3]
        assert [r[1:3] for r in rows] == times[magic, attributes]


@pytest.mark.parametrize("magic", [0, 1])
def test_bytes_after_the_value_of_a_message_are_ignored(core: ModuleType, magic: int) -> None:
    def longer(data: bytes) -> bytes:
        size = struct.pack(">I", len(data) + 3 - 12)
        return repaired(data[:8] + size + data[12:] + b"xyz")

    plain = longer(message(magic, b"k", b"value", offset=5)) + longer(message(magic, b"k", None, offset=6))
    rows, error = decode(core, plain)
    assert error is None
    assert [(r[0], r[3][1], r[4][1]) for r in rows] == [(5, 1, 5), (6, 1, -1)]
    wrapper = longer(wrap(magic, plain, 6))
    table, result = scan(core, wrapper)
    assert result.error is None
    at, size = int(table["payload_position"][0]), int(table["payload_size"][0])
    assert gzip.decompress(wrapper[at : at + size]) == plain
    rows, error = decode(core, plain, inner_table(core, wrapper, plain))
    assert ([r[0] for r in rows], error) == ([5, 6], None)


def test_inner_offset_above_that_of_the_wrapper_is_an_error(core: ModuleType) -> None:
    inner = b"".join(GOOD)
    _, error = decode(core, inner, inner_table(core, wrap(1, inner, 1), inner))
    assert isinstance(error, StructureError)
    assert "above" in error.message


def test_every_changed_byte_of_a_message_is_detected(core: ModuleType) -> None:
    """A changed offset is not detected, and a larger size makes the message look truncated."""
    data = message(1, b"key", b"value", offset=3, timestamp=77)
    for at in range(len(data)):
        for flip in (1, 0x80, 0xFF):
            _, result = scan(core, mutate(data, at, bytes([data[at] ^ flip])))
            if at < 8:
                assert result.count == 1
            elif at < 12 and result.error is None:
                assert result.count == 0
            else:
                assert result.error is not None, at
    assert isinstance(scan(core, mutate(data, 30, b"?"))[1].error, ChecksumError)


def test_find_batch_finds_messages_among_other_bytes(core: ModuleType) -> None:
    for needle in (
        message(0, None, b"v"),
        message(1, b"key", None, offset=9),
        message(0, None, gzip.compress(b"x"), attributes=1),
    ):
        data = b"\x00\x01\x02" * 30 + needle + b"\x01" * 40
        assert core.find_batch(data) == 90
        assert core.find_batch(data, 91) is None
        assert core.find_batch(data[:-40]) == 90
        assert core.find_batch(data, 0, len(data) - 41) is None


parts = st.one_of(
    st.builds(lambda m, k, v, o, a: message(m, k, v, offset=o, timestamp=5, attributes=a), st.integers(0, 1),
              st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=9),
              st.integers(0, 2**40) | st.sampled_from([-1, MIN, MAX - 1, MAX]), st.sampled_from([0, 8, 1])),
    st.binary(max_size=12),
)  # fmt: skip


@pytest.mark.parametrize("magic", [0, 1])
def test_cores_agree_on_offsets_at_the_limits_of_64_bits(magic: int) -> None:
    """The limits apply to the wrapper message and its inner messages, with and without a lowest offset."""
    bounds = (0, 1, 2, -1, MIN, MIN + 1, MAX - 1, MAX)
    for last in bounds:
        for offsets in itertools.product(bounds, repeat=2):
            inner = b"".join(message(magic, b"k", b"v", offset=o) for o in offsets)
            found = []
            for core in (NATIVE, _pure):
                table = inner_table(core, wrap(magic, inner, last), inner)
                for first in (MIN, MIN + 1):
                    rows, error = decode(core, inner, table, first=first)
                    found.append(([row[0] for row in rows], repr(error)))
            assert found[0] == found[2], (last, offsets)
            assert found[1] == found[3], (last, offsets)
            assert [o for o in found[0][0] if o > MIN] == found[1][0]


@settings(max_examples=400, deadline=None)
@given(st.lists(parts, max_size=6), st.integers(0, 400), st.integers(0, 255), st.integers(1, 9) | st.just(60))
def test_cores_agree_on_mutated_messages(chunks: list[bytes], at: int, byte: int, capacity: int) -> None:
    changed = bytearray(b"".join(chunks))
    if changed:
        changed[at % len(changed)] = byte
    data = bytes(changed)
    outcomes = []
    for core in (NATIVE, _pure):
        found = []
        for check in (True, False):
            table, result = scan(core, data, check_crc=check)
            found += [table.tolist(), result.count, result.position, repr(result.error)]
            for room in (None, 4, 64):
                steps = decode_steps(core, data, table, capacity=capacity, room=room)
                found += [(rows, repr(error), cursor) for rows, error, cursor in steps]
            for row in table:  # each message, and the whole input as a decompressed message set
                for start, size in ((int(row["position"]), int(row["size"])), (0, len(data))):
                    one = np.array([row], table.dtype)
                    one["payload_position"], one["payload_size"] = start, size
                    for room in (None, 4, 64):
                        steps = decode_steps(core, data, one, capacity=capacity, room=room)
                        found += [(rows, repr(error), cursor) for rows, error, cursor in steps]
        found += [core.find_batch(data), core.find_batch(data, 0, None, False)]
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
