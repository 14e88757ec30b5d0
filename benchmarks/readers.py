"""Read all records of a buffer with each library, with CRCs checked, and return their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import aiokafka.record.memory_records
import kafka.record
import numpy as np
import pyarrow as pa

import kafkafmt
from kafkafmt import records
from kafkafmt.arrow import builder as arrow
from kafkafmt.types import BATCH_DTYPE, RecordColumns

FIELDS = ("offset", "timestamp", "key", "value")
ROWS = 16384
WINDOW = 256 * 1024
"""Number of bytes to scan before decoding: the size of a CPU's second-level cache."""

Read = Callable[[], int]


def batches_of(data: Any, window: int = WINDOW) -> int:
    """Return the number of batches that fit into a window."""
    table = np.zeros(1, BATCH_DTYPE)
    kafkafmt._backend.core.scan_batches(data, table, 0, None, False)
    return max(1, window // int(table["size"][0]))


def columns(data: Any, names: Sequence[str] = FIELDS, core: Any = None, check_crc: bool = True) -> Read:
    """Decode uncompressed batches into reused columns, with only the core.

    The table, the columns and the cursor are created only once.
    """
    core = core or kafkafmt._backend.core
    table, out, size = np.zeros(batches_of(data), BATCH_DTYPE), RecordColumns(ROWS, names), len(data)

    def read() -> int:
        position = count = 0
        while position < size:
            scan = core.scan_batches(data, table, position, None, check_crc)
            rows = table[: scan.count]
            out.reset()
            while out.cursor[0] < scan.count:
                core.decode_records(data, rows, out)
                count += out.rows
                out.clear()
            if scan.count == 0:  # a batch at the end of the data is truncated
                break
            position = scan.position
        return count

    return read


def chunks(data: Any, names: Sequence[str] | RecordColumns, capacity: int = ROWS) -> Iterator[records.Chunk]:
    """Yield decompressed chunks of columns, through the public API."""
    return records.read_chunks(data, names, capacity=capacity)


def reader(data: Any, names: Sequence[str] = FIELDS) -> Read:
    return lambda: sum(chunk.columns.rows for chunk in chunks(data, names))


def to_arrow(data: Any, names: Sequence[str] = ("key", "value", "offset", "timestamp")) -> Read:
    """Decode into Arrow record batches of 8 MB, with copied keys, values and headers."""

    def read() -> int:
        schema = arrow.schema_of(names)
        builder = arrow.ArrowBuilder("topic", 0, schema)
        return sum(batch.num_rows for batch in arrow.record_batches(chunks(data, builder.columns), builder))

    return read


def objects(data: Any, names: Sequence[str] = FIELDS) -> Read:
    """Read four fields of Record objects, and with "headers" also a fifth.

    Offsets start at 0 and have no gaps, so the last offset determines the number of records.
    """
    return lambda: read_fields([kafkafmt.read_records(data, columns=names)], "headers" in names)


def values(data: Any) -> Read:
    """Make lists of values as bytes."""

    def read() -> int:
        count = 0
        for source, out in chunks(data, ("value",), 1024):
            assert out.value_position is not None
            assert out.value_length is not None
            count += len(kafkafmt._backend.core.make_values(source, out.value_position, out.value_length, out.rows))
        return count

    return read


def read_fields(groups: Iterable[Iterable[Any]], headers: bool) -> int:
    """Read four or five fields of each record, in a loop as users write it.

    Return the number of records, provided that the first record has offset 0.
    """
    record = None
    for group in groups:
        if headers:
            for record in group:
                record.offset  # noqa: B018
                record.timestamp  # noqa: B018
                record.key  # noqa: B018
                record.value  # noqa: B018
                record.headers  # noqa: B018
        else:
            for record in group:
                record.offset  # noqa: B018
                record.timestamp  # noqa: B018
                record.key  # noqa: B018
                record.value  # noqa: B018
    return 0 if record is None else int(record.offset) + 1


def aiokafka_batches(data: bytes) -> Iterator[Any]:
    """Yield all batches, with CRCs checked, through aiokafka's C extension."""
    batches = aiokafka.record.memory_records.MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        yield batch


def aiokafka_fields(data: bytes, headers: bool = False) -> Read:
    """Read offset, timestamp, key and value of each record through aiokafka's C extension."""
    return lambda: read_fields(aiokafka_batches(data), headers)


def aiokafka_values(data: bytes) -> Read:
    """Read only the value of each record through aiokafka."""

    def read() -> int:
        record = None
        for batch in aiokafka_batches(data):
            for record in batch:
                record.value  # noqa: B018
        return 0 if record is None else int(record.offset) + 1

    return read


def aiokafka_to_arrow(data: bytes, rows: int = 65536) -> Read:
    """Build Arrow record batches of four columns from lists of aiokafka's values."""
    schema = arrow.schema_of(("key", "value", "offset"))

    def read() -> int:
        count = 0
        keys: list[bytes | None] = []
        payloads: list[bytes | None] = []
        offsets: list[int] = []
        times: list[int] = []

        def flush() -> int:
            arrays = [pa.array(keys, pa.binary()), pa.array(payloads, pa.binary()), pa.array(offsets, pa.int64())]
            when = pa.array(times, pa.timestamp("ms", tz="UTC"))
            batch = pa.RecordBatch.from_arrays([*arrays, when], names=[*schema.names, "timestamp"])
            for part in (keys, payloads, offsets, times):
                part.clear()
            return int(batch.num_rows)

        for batch in aiokafka_batches(data):
            for record in batch:
                keys.append(record.key)
                payloads.append(record.value)
                offsets.append(record.offset)
                times.append(record.timestamp)
            if len(keys) >= rows:
                count += flush()
        return count + flush()

    return read


def kafka_python_batches(data: bytes) -> Iterator[Any]:
    for batch in kafka.record.MemoryRecords(data):
        assert batch.validate_crc()
        yield batch


def kafka_python_fields(data: bytes) -> Read:
    """Read four fields of each record through kafka-python, which is pure Python."""
    return lambda: read_fields(kafka_python_batches(data), False)
