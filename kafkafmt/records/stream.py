"""A buffer of batches as a stream: its records, control batches and aborted ones left out unless wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, overload

import numpy as np

from .. import arguments
from .._backend import core
from ..constants import CONTROL_BIT, DEFAULT_MAX_BATCH_BYTES, MIN_OFFSET
from ..types import BATCH_DTYPE, COLUMNS, Buffer, RecordColumns, view_of
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
    """Return an iterator of the records of a buffer of batches, which several threads may share.

    Parameters
    ----------
    buffer : bytes-like or None
        Batches back to back: a fetch response's record data, a ``.log`` file's bytes. A batch cut off at the end is a normal end.
        None, which a message may contain in place of record data, has no records.
    start, end : int, optional
        Offsets, 0 or higher; `end` is exclusive. By default all records.
    control : bool, default False
        Include control records.
    aborted : iterable of (producer id, first offset), optional
        Aborted transactions, as a fetch response names them. Their records are left out.
    check_crc : bool, default True
        Compare the CRC of each batch.
    views : bool, default False
        Return keys and values of uncompressed batches as memoryviews of the buffer.
    columns : collection of str
        The fields to decode. Others are -1, None or ().
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. One record may have a 128th as many headers, but always 131,072.

    Returns
    -------
    iterator of Record

    Raises
    ------
    KafkaFormatError
        A batch is damaged, or above a limit (`TooLargeError`); the records before it have been returned.
    TypeError, ValueError
        An argument is wrong.
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
    return core.RecordIterator(  # not a generator of records: resuming one costs 25 ns a record
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
) -> Iterator[Chunk]:
    """The same as decoded columns, each chunk valid until the next one. names, capacity: as RecordReader takes them."""
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
        max_batch_bytes=arguments.integer("max_batch_bytes", max_batch_bytes, 1),
    )
    transactions = None if aborted is None else AbortedTransactions(aborted, max_batch_bytes)
    if buffer is None:
        return iter(())
    view_of(buffer)  # what is no buffer is told here and now
    return _chunks(buffer, reader, transactions, control, check_crc)


def _chunks(
    buffer: Buffer, reader: RecordReader, transactions: AbortedTransactions | None, control: bool, check_crc: bool
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
        if (
            not control and int(np.bitwise_or.reduce(wanted["attributes"])) & CONTROL_BIT
        ):  # to look is cheap, to take rows is not
            wanted = wanted[(wanted["attributes"] & CONTROL_BIT) == 0]
        yield from reader.read(buffer, wanted)
        if scan.error is not None:
            raise scan.error
        if scan.position == position:
            return
        position = scan.position
