"""Test that a broker appends the batches that kafkafmt builds, and that a consumer can read them."""

from __future__ import annotations

import base64
import socket
import struct
import time
from collections.abc import Iterator

import java_tools
import pytest
from golden_cases import Rows, rows
from kafka_broker import Broker

from kafkafmt import read_records
from kafkafmt.records import BatchBuilder, build_columns, columns_of, validate_and_assign_offsets
from kafkafmt.typing import Codec

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = int(time.time() * 1000)
RECORDS = [
    (b"key", b"value", NOW, [("h", b"x"), ("h", None), ("ключ", b"")]),
    (None, b"", NOW - 5, []),
    (b"", None, -1, []),
    *((b"k%d" % i, b"words and words " * (i % 50), NOW + i % 7, []) for i in range(300)),
]
NOT_READY = (3, 5, 6)  # error codes: unknown topic, leader not available, not leader


def produce(connection: socket.socket, topic: str, batch: bytes) -> int:
    """Send one batch in a Produce request, and return the base offset in the broker's answer."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    partition = struct.pack(">iii", 1, 0, len(batch)) + batch
    body = struct.pack(">hhi", -1, -1, 30_000) + struct.pack(">i", 1) + name + partition
    for _ in range(100):
        request = struct.pack(">hhih", 0, 7, 1, -1) + body
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = receive(connection)
        error, base_offset = struct.unpack_from(">hq", answer, 4 + 4 + len(name) + 4 + 4)
        if error not in NOT_READY:
            assert error == 0, f"{topic}: error {error}"
            return int(base_offset)
        time.sleep(0.1)
    raise AssertionError(f"{topic} did not become ready")


def receive(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)


def sent(codec: Codec) -> Iterator[bytes]:
    """Yield batches that were built in three ways: record by record, from many records, and from columns."""
    single_appends = BatchBuilder(codec=codec)
    for record in RECORDS:
        assert single_appends.append(*record)
    yield single_appends.finish()
    idempotent = BatchBuilder(codec=codec, producer_id=4711, producer_epoch=0, base_sequence=0)
    idempotent.extend(RECORDS[:100])
    yield idempotent.finish()
    columns = columns_of(*([record[i] for record in RECORDS] for i in range(4)))
    yield from build_columns(columns, 4096, codec=codec)


def from_zero(batch: bytes) -> bytes:
    """Return the batch with base offset 0, as clients send it."""
    return bytes(8) + batch[8:]


@pytest.fixture(scope="module")
def kept() -> dict[str, Rows]:
    """Return, by topic, the records that were sent and the records that a consumer read."""
    with Broker() as broker:
        broker.produce(*(f"topic={codec}" for codec in CODECS))
        expected: Rows = {}
        with socket.create_connection(("127.0.0.1", broker.port)) as connection:
            for codec in CODECS:
                following = 0
                for batch in sent(codec):
                    ready = validate_and_assign_offsets(from_zero(batch), following)
                    assert produce(connection, codec, from_zero(batch)) == following
                    for r in read_records(ready.records):
                        key, value = (None if b is None else base64.b64encode(b).decode() for b in (r.key, r.value))
                        headers = [[name, None if b is None else base64.b64encode(b).decode()] for name, b in r.headers]
                        expected[codec, 0, r.offset] = [r.timestamp, r.timestamp_type, key, value, headers]
                    following = ready.next_offset
        read = rows(broker.consume(*CODECS))
    return {"expected": expected, "read": read}


@pytest.mark.parametrize("codec", CODECS)
def test_consumer_reads_the_built_batches(kept: dict[str, Rows], codec: Codec) -> None:
    expected, read = ({at: row for at, row in kept[which].items() if at[0] == codec} for which in ("expected", "read"))
    assert len(expected) == len(RECORDS) * 2 + 100
    assert read == expected
