"""Read the records of the batches in a buffer, by default without control records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, overload

import numpy as np

from .._backend import core
from ..constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, MIN_OFFSET
from ..support import arguments
from ..types import BATCH_DTYPE, COLUMNS, Buffer, RecordColumns, view_of
from .damage import incomplete_batch
from .isolation import AbortedTransactions
from .reader import TABLE_ROWS, Chunk, RecordReader, scan_window


@overload
def read_records(
    buffer: Buffer | None,
    *,
    start: int | None = None,
    end: int | None = None,
    control: bool = False,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crc: bool = True,
    views: Literal[False] = False,
    columns: Collection[str] = COLUMNS,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[core.Record]: ...


@overload
def read_records(
    buffer: Buffer | None,
    *,
    start: int | None = None,
    end: int | None = None,
    control: bool = False,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crc: bool = True,
    views: bool,
    columns: Collection[str] = COLUMNS,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[core.Record[bytes | memoryview]]: ...


def read_records(
    buffer: Buffer | None,
    *,
    start: int | None = None,
    end: int | None = None,
    control: bool = False,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crc: bool = True,
    views: bool = False,
    columns: Collection[str] = COLUMNS,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[core.Record[bytes | memoryview]]:
    """Return an iterator over the records of the batches in a buffer.

    An incomplete batch at the end of the buffer is ignored, because fetch responses usually end with
    one. To detect data that was cut off, use `check_batches`. Several threads can share the iterator.

    Parameters
    ----------
    buffer : bytes-like or None
        Batches or messages (magic 0 to 2), back to back, for example the record data of a fetch
        response or the content of a ``.log`` file. None, which represents null record data in protocol messages, yields no records.
    start, end : int, optional
        Range of offsets to read, 0 or higher; `end` is exclusive. By default, all records are read.
    control : bool, default False
        Include control records.
    aborted : iterable of (int, int), optional
        Aborted transactions that a fetch response lists, as pairs of producer id and first offset.
        The records of these transactions are omitted. By default, no records are omitted.
    check_crc : bool, default True
        Check the CRC of each batch.
    views : bool, default False
        Return keys and values of uncompressed batches as memoryviews into the buffer instead of
        bytes.
    columns : collection of str
        The fields to decode: offset, timestamp, timestamp_type, key, value and headers. By default,
        all fields are decoded. Fields that are not decoded are -1, None or ().
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch in bytes after decompression. It also limits the number of headers
        of one record to ``max_batch_bytes // 128``, but at least 131,072.

    Returns
    -------
    iterator of Record
        The records in the order of the buffer.

    Raises
    ------
    KafkaFormatError
        A batch is damaged, or exceeds a limit (`TooLargeError`). The records before it have been
        returned.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Kafka's counterparts are ``MemoryRecords`` and, for `aborted`, ``CompletedFetch``.

    Examples
    --------
    >>> data = kafkafmt.build_batch([(b"k1", b"v1"), (b"k2", b"v2")], base_offset=5)
    >>> [(record.offset, record.key) for record in kafkafmt.read_records(data, start=6)]
    [(6, b'k2')]
    """
    chunks = read_chunks(
        buffer,
        columns,
        capacity=1024,
        start=start,
        end=end,
        control=control,
        aborted=aborted,
        check_crc=check_crc,
        max_batch_bytes=max_batch_bytes,
    )
    # This function is not a generator, because resuming a generator would cost 25 ns per record.
    return core.RecordIterator(
        core.make_records(source, rows, views=views and source is buffer) for source, rows in chunks
    )


def read_chunks(
    buffer: Buffer | None,
    names: Collection[str] | RecordColumns = COLUMNS,
    *,
    capacity: int = 16384,
    start: int | None = None,
    end: int | None = None,
    control: bool = False,
    aborted: Iterable[tuple[int, int]] | None = None,
    check_crc: bool = True,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    complete: bool = False,
) -> Iterator[Chunk]:
    """Yield chunks of decoded records from the batches in a buffer; `read_records` describes the arguments."""
    # `complete` raises TruncatedError if the buffer ends with an incomplete batch. A chunk is valid
    # until the next one is requested.
    first, last = (
        arguments.optional_integer("start", start, 0, "an offset"),
        arguments.optional_integer("end", end, 0, "an offset"),
    )
    if not isinstance(names, RecordColumns):
        names = arguments.names("columns", names, COLUMNS) or ()
    reader = RecordReader(
        names,
        capacity=capacity,
        first_offset=MIN_OFFSET if first is None else first,
        end_offset=last,
        selected=(MIN_OFFSET if first is None else first, last),
        max_batch_bytes=arguments.integer("max_batch_bytes", max_batch_bytes, 1),
    )
    transactions = None if aborted is None else AbortedTransactions(aborted, max_batch_bytes)
    if buffer is None:
        return iter(())
    # Check the type of the buffer now. Otherwise, TypeError would be raised when the first record is read.
    arguments.check_buffer(buffer)
    return _chunks(buffer, reader, transactions, control, check_crc, complete)


def _chunks(
    buffer: Buffer,
    reader: RecordReader,
    transactions: AbortedTransactions | None,
    control: bool,
    check_crc: bool,
    complete: bool,
) -> Iterator[Chunk]:
    table = np.empty(TABLE_ROWS, BATCH_DTYPE)
    position, last = 0, view_of(buffer).nbytes
    while position < last:
        if transactions is None:
            position = yield from reader.read_plain_batches(buffer, position, check_crc)
            if position == last:
                return
        scan = scan_window(buffer, table, position, last, check_crc)
        wanted = table[: scan.count]
        if transactions is not None:
            wanted = transactions.committed(buffer, wanted)
        # Copy the rows only if one of them is a control batch, because copying is much slower than this check.
        if not control and int(np.bitwise_or.reduce(wanted["attributes"])) & CONTROL_BIT:
            wanted = wanted[(wanted["attributes"] & CONTROL_BIT) == 0]
        yield from reader.read(buffer, wanted)
        if scan.error is not None:
            raise scan.error
        if scan.position == position:
            if complete:
                raise incomplete_batch(buffer, position)
            return
        position = scan.position
