"""Test that payloads which cannot be decompressed do not affect the other batches."""

from __future__ import annotations

import random
from collections.abc import Sequence

import lz4.frame
import numpy as np
import pytest
from building import compress, message, simple_batch

from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.errors import KafkaFormatError
from kafkafmt.records import RecordReader, payloads
from kafkafmt.records.lz4v0 import with_right_checksum, xxh32_short
from kafkafmt.records.payloads import PayloadReader
from kafkafmt.records.reader import iter_tables
from kafkafmt.records.wrappers import WrapperReader
from kafkafmt.types import BATCH_DTYPE, BatchTable

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def wrapper(offset: int, codec: int, magic: int = 1, valid: bool = True) -> bytes:
    """Return a wrapper message that contains two messages. The offset of the last one is `offset`."""
    first = 0 if magic else offset - 1
    inner = b"".join(message(magic, None, b"value", offset=first + k) for k in range(2))
    value = compress(codec, inner) if codec < ZSTD and valid else b"no compressed data"
    return message(magic, None, value, offset=offset, attributes=codec)


@pytest.fixture(params=[1, 768 * 1024])
def few_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "ARENA_BYTES", request.param)


def mixed() -> tuple[bytes, BatchTable, list[int]]:
    """Return batches, their table, and the indexes of the batches that cannot be decompressed."""
    parts = [
        wrapper(1, GZIP),
        wrapper(3, GZIP, valid=False),
        message(1, None, b"value", offset=4),
        wrapper(6, SNAPPY),
        wrapper(8, ZSTD),
        wrapper(10, LZ4, valid=False),
        simple_batch([], 11),
        wrapper(13, LZ4),
        simple_batch([b"value"], 14),
        wrapper(16, GZIP, magic=0),
        wrapper(18, GZIP, magic=0, valid=False),
    ]
    data = b"".join(parts)
    tables = [np.frombuffer(table.tobytes(), BATCH_DTYPE) for table in iter_tables(data)]
    return data, np.concatenate(tables), [1, 4, 5, 10]


@pytest.mark.usefixtures("few_at_once")
def test_errors_are_reported_between_the_records_of_other_batches() -> None:
    data, table, bad = mixed()
    events: list[int] = []

    def note(row: np.void, error: KafkaFormatError) -> None:
        assert error.position == row["position"]
        events.append(-int(row["base_offset"]))

    reader = RecordReader(("offset",))
    for _, columns in reader.read(data, table, note):
        assert columns.offset is not None
        events += columns.offset[: columns.rows].tolist()
    assert events == [0, 1, -3, 4, 5, 6, -8, -10, 12, 13, 14, 15, 16, -18]
    assert table["base_offset"][bad].tolist() == [3, 8, 10, 18]
    assert reader.decompressed_bytes == 4 * 2 * len(message(1, None, b"value")) - 2 * 8


@pytest.mark.usefixtures("few_at_once")
def test_inner_offsets_are_unknown_if_a_wrapper_cannot_be_decompressed() -> None:
    data, table, bad = mixed()
    wrappers = table[(table["count"] < 0) & (table["magic"] < 2)]
    found = WrapperReader().read(data, wrappers)
    assert found.last.tolist() == wrappers["base_offset"].tolist()
    unknown = np.isin(wrappers["base_offset"], table["base_offset"][bad])
    assert found.count.tolist() == np.where(unknown, -1, 2).tolist()
    assert (found.first == found.last - np.where(unknown, 0, 1)).all()


def test_read_stops_at_the_first_error_on_request() -> None:
    data, table, bad = mixed()
    reader = PayloadReader(1 << 20)
    assert bad == [1, 4, 5, 10]
    found = [(len(each.table), len(each.errors)) for each in reader.read(data, table, stop_at_errors=True)]
    assert found == [(2, 1), (3, 1), (1, 1), (5, 1)]


def table_of(payloads: Sequence[bytes], codecs: Sequence[int]) -> BatchTable:
    """Return a table of batches whose payloads directly follow each other."""
    table = np.zeros(len(payloads), BATCH_DTYPE)
    sizes = np.array([len(payload) for payload in payloads])
    table["payload_size"], table["payload_position"] = sizes, np.cumsum(sizes) - sizes
    table["attributes"], table["magic"] = codecs, 2
    return table


def results_of(
    reader: PayloadReader, payloads: Sequence[bytes], table: BatchTable, stop_at_errors: bool = False
) -> list[bytes | str]:
    """Return the result or the error message of each payload."""
    results: list[bytes | str] = []
    for found in reader.read(b"".join(payloads), table, stop_at_errors):
        assert found.begin == len(results)
        errors = {at: error.message for at, error in found.errors}
        assert not stop_at_errors or list(errors) in ([], [len(found.table) - 1])
        for at, row in enumerate(found.table):
            start, size = int(row["payload_position"]), int(row["payload_size"])
            assert (size < 0) == (at in errors)
            results.append(errors.get(at) or bytes(found.source[start : start + size]))
    return results


def decompressed(payload: bytes, codec: int, limit: int) -> bytes | str:
    """Return the result of a decompressor, or its error message."""
    arena = Arena(16)
    try:
        Decompressor(limit).decompress(codec, payload, arena)
    except KafkaFormatError as error:
        return error.message
    return bytes(arena.view[: arena.filled])


def lz4_payloads(chance: random.Random) -> list[bytes]:
    """Return frames with different flags, data after a frame, bombs, and corrupted and truncated frames."""
    frame = lz4.frame.compress(b"value" * 20, store_size=False)
    found = [frame * 2, frame + b"rest", frame[:-4], b"\x04\x22\x4d\x18", b"", frame[:15], frame[:16]]
    found += [b"\x50\x2a\x4d\x18\x04\0\0\0skip" + frame, b"\x02\x21\x4c\x18" + frame[4:]]
    found += [lz4.frame.compress(bytes(n), store_size=False) for n in (0, 200_000, 250_000, 300_000)]
    found += [with_content_size(frame, 100), with_content_size(frame, 1 << 50)]
    for _ in range(400):
        data = bytearray(
            lz4.frame.compress(
                chance.randbytes(chance.randrange(90)) + b"x" * chance.randrange(90),
                store_size=chance.random() < 0.1,
                block_linked=chance.random() < 0.5,
                content_checksum=chance.random() < 0.5,
                block_checksum=chance.random() < 0.5,
            )
        )
        if chance.random() < 0.5:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        found.append(bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))]))
    return found


def with_content_size(frame: bytes, size: int) -> bytes:
    """Add the size of the content to the header of an lz4 frame."""
    header = bytes([frame[4] | 0x08, frame[5]]) + size.to_bytes(8, "little")
    return frame[:4] + header + bytes([xxh32_short(header) >> 8 & 0xFF]) + frame[7:]


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("stop_at_errors", [False, True])
@pytest.mark.parametrize("limit", [100, 1 << 30])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_lz4_payloads_have_the_results_of_the_decompressor(magic: int, limit: int, stop_at_errors: bool) -> None:
    chance = random.Random(limit)
    parts = lz4_payloads(chance)
    codecs = [chance.choice((LZ4,) * 9 + (0,)) for _ in parts]
    table = table_of(parts, codecs)
    table["magic"] = magic
    expected: list[bytes | str] = []
    for codec, part in zip(codecs, parts, strict=True):
        data = with_right_checksum(memoryview(part)) if magic == 0 else part
        expected.append(part if codec == 0 else decompressed(bytes(data), codec, limit))
    assert results_of(PayloadReader(limit), parts, table, stop_at_errors) == expected
    assert {type(result) for result in expected} == {bytes, str}


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_equal_errors_of_payloads_have_their_own_positions(codec: int) -> None:
    parts = [message(1, None, compress(codec, b"value" * 9)[:-9], offset=i, attributes=codec) for i in range(3)]
    (table,) = iter_tables(b"".join(parts))
    errors: list[KafkaFormatError] = []
    assert not list(RecordReader(("offset",)).read(b"".join(parts), table, lambda _, error: errors.append(error)))
    assert [error.base_offset for error in errors] == [0, 1, 2]
    assert [error.position for error in errors] == table["position"].tolist()
    assert len({error.message for error in errors}) == 1
