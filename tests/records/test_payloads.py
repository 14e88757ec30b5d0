"""Test that payloads which cannot be decompressed do not affect the other batches."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Sequence

import lz4.frame
import numpy as np
import pytest
from building import compress, message, simple_batch

from kafkafmt import codecs as codecs_module
from kafkafmt.codecs import Arena, Decompressor
from kafkafmt.errors import KafkaFormatError
from kafkafmt.records import RecordReader, payloads
from kafkafmt.records.batch_errors import BatchErrors
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


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", range(1, 8))
def test_refused_payloads_have_the_errors_of_the_decompressor(codec: int, magic: int) -> None:
    """Some payloads begin with a header of a codec, and are not refused although they cannot be decompressed."""
    chance = random.Random(codec)
    starts = [b"\x1f\x8b", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\x82SNAPPY\x00", b""]
    payloads = [chance.choice(starts) + chance.randbytes(chance.randrange(40)) for _ in range(400)]
    table = np.zeros(len(payloads), BATCH_DTYPE)
    sizes = np.array([len(payload) for payload in payloads])
    table["payload_size"], table["payload_position"] = sizes, np.cumsum(sizes) - sizes
    table["attributes"], table["magic"] = codec, magic
    reader, data = PayloadReader(1 << 20), b"".join(payloads)
    expected = {
        found.begin + at: (type(error), error.message)
        for found in reader.read(data, table)
        for at, error in found.errors
    }
    refused = {at: (type(error), error.message) for rows, error in reader.refused(data, table) for at in rows.tolist()}
    assert refused.items() <= expected.items()
    assert refused


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


def without_details(result: bytes | str) -> bytes | None:
    """Return None for an error message. Do not change decompressed data."""
    return result if isinstance(result, bytes) else None


def small_gzip_payloads() -> list[bytes]:
    """Return valid, truncated and corrupted gzip data, data after a member, consecutive members, and bombs."""
    chance = random.Random(7)
    found = [gzip.compress(b"a") * 2, gzip.compress(b"") * 2, gzip.compress(b"a") + b"rest", gzip.compress(b"")]
    found += [b"\x1f\x8b\x08" + bytes([flags]) + gzip.compress(b"flags")[4:] for flags in (0x20, 0x40, 0x80)]
    found += [gzip.compress(bytes(200_000)), gzip.compress(bytes(250_000)) + b"\x1f", b"\x1f\x8b", b"", b"\x1f"]
    for _ in range(200):
        data = bytearray(gzip.compress(chance.randbytes(chance.randrange(90)) + b"x" * chance.randrange(90)))
        if chance.random() < 0.5:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.3:
            data += chance.choice((b"\x1f\x8b", b"rest", gzip.compress(b"next")))
        found.append(bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))]))
    return found


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("limit", [100, 100_000, 1 << 30])
@pytest.mark.parametrize("package", ["zlib", "isal"])
def test_small_gzip_payloads_have_the_results_of_the_decompressor(
    monkeypatch: pytest.MonkeyPatch, package: str, limit: int
) -> None:
    if package == "zlib":
        monkeypatch.setattr(codecs_module, "zlib", zlib)
    chance, small = random.Random(limit), small_gzip_payloads()
    codecs = [chance.choice((GZIP, GZIP, 0, LZ4, SNAPPY)) for _ in small]
    parts = [
        {GZIP: data, 0: b"plain" * chance.choice((1, 5000)), LZ4: compress(LZ4, data), SNAPPY: compress(SNAPPY, data)}[
            codec
        ]
        for codec, data in zip(codecs, small, strict=True)
    ]
    results = results_of(PayloadReader(limit), parts, table_of(parts, codecs))
    expected = [
        part if codec == 0 else decompressed(part, codec, limit) for codec, part in zip(codecs, parts, strict=True)
    ]
    assert list(map(without_details, results)) == list(map(without_details, expected))
    assert package == "isal" or results == expected  # isal has other error messages than zlib
    assert {type(result) for result in results} == {bytes, str}


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
def test_small_lz4_payloads_have_the_results_of_the_decompressor(magic: int, limit: int, stop_at_errors: bool) -> None:
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
def test_small_payloads_are_decompressed_together(monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    """A separate call of `Decompressor` for each payload takes twice as long."""
    parts = [compress(codec, b"%d" % i * 9) for i in range(3000)]
    monkeypatch.setattr(Decompressor, "_decompress", None)
    (found,) = PayloadReader(1 << 20).read(b"".join(parts), table_of(parts, [codec] * len(parts)))
    assert bytes(found.source) == b"".join(b"%d" % i * 9 for i in range(3000))


@pytest.mark.parametrize("codec", [GZIP, LZ4])
def test_equal_errors_of_small_payloads_have_their_own_positions(codec: int) -> None:
    parts = [message(1, None, compress(codec, b"value" * 9)[:-9], offset=i, attributes=codec) for i in range(3)]
    (table,) = iter_tables(b"".join(parts))
    errors: list[KafkaFormatError] = []
    assert not list(RecordReader(("offset",)).read(b"".join(parts), table, lambda _, error: errors.append(error)))
    assert [error.base_offset for error in errors] == [0, 1, 2]
    assert [error.position for error in errors] == table["position"].tolist()
    assert len({error.message for error in errors}) == 1


def snappy_payloads(chance: random.Random) -> list[bytes]:
    """Return snappy data of different sizes. Some of it is corrupted or truncated."""
    found = []
    for _ in range(300):
        data = chance.randbytes(chance.choice((0, 9, 90, 90, 90, 1500))) + b"x" * chance.choice((0, 30, 30, 30_000))
        packed = bytearray(compress(SNAPPY, data))
        if chance.random() < 0.1:
            packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
        found.append(bytes(packed[: chance.choice((len(packed),) * 9 + (len(packed) // 2,))]))
    return found


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("stop_at_errors", [False, True])
@pytest.mark.parametrize("limit", [100, 2000, 1 << 30])
def test_small_snappy_payloads_have_the_results_of_the_decompressor(limit: int, stop_at_errors: bool) -> None:
    chance = random.Random(limit)
    parts = snappy_payloads(chance)
    codecs = [chance.choice((SNAPPY,) * 9 + (0,)) for _ in parts]
    results = results_of(PayloadReader(limit), parts, table_of(parts, codecs), stop_at_errors)
    assert results == [
        part if codec == 0 else decompressed(part, codec, limit) for codec, part in zip(codecs, parts, strict=True)
    ]
    assert {type(result) for result in results} == {bytes, str}


def test_small_snappy_payloads_are_decompressed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the library for each payload would take most of the time."""
    parts = [compress(SNAPPY, b"%d" % i * 9) for i in range(3000)]
    monkeypatch.setattr(Decompressor, "_snappy", None)
    (found,) = PayloadReader(1 << 20).read(b"".join(parts), table_of(parts, [SNAPPY] * len(parts)))
    assert bytes(found.source) == b"".join(b"%d" % i * 9 for i in range(3000))


@pytest.mark.parametrize("magic", [1, 2])
def test_corrupted_snappy_payloads_are_not_decompressed(monkeypatch: pytest.MonkeyPatch, magic: int) -> None:
    """A hostile writer can create many such payloads, and each call of a decompressor takes several microseconds."""
    noise = random.Random(3)
    parts = [noise.randbytes(100) for _ in range(200)]
    table = table_of(parts, [SNAPPY] * len(parts))
    table["magic"], table["position"], table["count"] = magic, table["payload_position"], -1 if magic == 1 else 1
    calls = []
    monkeypatch.setattr(Decompressor, "_snappy", lambda *_: calls.append(1))
    errors = BatchErrors()
    assert not list(RecordReader(("offset",)).read(b"".join(parts), table, errors))
    assert len(errors) == len(parts)
    if magic == 1:
        assert (WrapperReader().read(b"".join(parts), table).count == -1).all()
    assert not calls


def test_small_corrupted_gzip_payloads_are_decompressed_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failed call of a decompressor creates an exception, which takes longer than a successful call."""
    noise = random.Random(5)
    whole = gzip.compress(noise.randbytes(100))
    parts = [whole[:10] + noise.randbytes(60) + whole[-8:] for _ in range(100)]
    parts += [whole[: -noise.randrange(9, 30)] for _ in range(100)]
    table = table_of(parts, [GZIP] * len(parts))
    table["position"] = table["payload_position"]
    calls = []
    monkeypatch.setattr(Decompressor, "_gzip", lambda *_: calls.append(1))
    errors = BatchErrors()
    assert not list(RecordReader(("offset",)).read(b"".join(parts), table, errors))
    assert len(errors) == len(parts)
    assert not calls
