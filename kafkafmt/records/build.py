"""Build batches from lists or iterators of records, and from columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from ..errors import TooLargeError
from ..support.hints import batches_have_codecs
from ..support.sharing import shared
from .builder import BatchBuilder
from .columns import Columns
from .signatures import BatchOptions, BuilderOptions, RecordLike

DEFAULT_BATCH_BYTES = 16384
"""Default value of the setting ``batch.size`` of Kafka's producer, in bytes."""
_CHUNK_ROWS = 1024
"""Number of records that are taken from an iterator and passed to the builder in one call."""


@batches_have_codecs
def build_batch(records: Iterable[RecordLike], **options: Unpack[BuilderOptions]) -> bytes:
    """Build a single batch that contains all records.

    Parameters
    ----------
    records : iterable of tuple or Record
        Tuples ``(key, value[, timestamp[, headers[, offset]]])``, or Record objects, which keep
        their offsets; see `BatchBuilder`. Keys and values are bytes-like or None. Timestamps are in
        ms since 1970-01-01 UTC; -1 means none.
    **options
        Keyword arguments of `BatchBuilder`.

    Returns
    -------
    bytes
        The batch, or b"" if there are no records. In formats 0 and 1, the batch is a wrapper
        message, or a sequence of messages if the codec is none.

    Raises
    ------
    InvalidError
        A record breaks one of Kafka's rules, or offsets do not increase.
    TooLargeError
        The records do not fit into one batch.
    TypeError, ValueError, OverflowError
        An argument is wrong, or Records that keep their offsets are mixed with records that have no
        offset.

    Notes
    -----
    Kafka's counterpart is ``MemoryRecordsBuilder``.

    Examples
    --------
    >>> batch = kafkafmt.build_batch([(b"key", b"value", 1_700_000_000_000)], codec="zstd")
    >>> [(record.offset, record.timestamp) for record in kafkafmt.read_records(batch)]
    [(0, 1700000000000)]
    """
    builder, given = BatchBuilder(**options), _as_list(records)
    taken = builder.extend(given)
    if taken < len(given):
        raise TooLargeError(f"only {taken} of {len(given)} records fit into one batch", builder.size)
    return builder.finish()


@shared
@batches_have_codecs
def build_batches(
    records: Iterable[RecordLike], max_bytes: int | None = DEFAULT_BATCH_BYTES, **options: Unpack[BatchOptions]
) -> Iterator[bytes]:
    """Build batches from records. Each batch is as large as `max_bytes` allows.

    Several threads can share the iterator.

    Parameters
    ----------
    records : iterable of tuple or Record
        Tuples ``(key, value[, timestamp[, headers[, offset]]])``, or Record objects, which keep
        their offsets; see `BatchBuilder`. The records are read lazily, while batches are built.
    max_bytes : int, optional, default 16384
        Largest size of a batch in bytes; see `BatchBuilder`. If None, only the limit of the format
        applies.
    **options
        Other keyword arguments of `BatchBuilder`.

    Yields
    ------
    bytes
        A batch with at least one record.

    Raises
    ------
    InvalidError
        A record breaks one of Kafka's rules, or offsets do not increase. Earlier batches have been
        yielded.
    TypeError, ValueError, OverflowError
        An argument is wrong, or Records that keep their offsets are mixed with records that have no
        offset.

    Examples
    --------
    >>> records = [(b"key", b"x" * 10_000, 1_700_000_000_000)] * 3
    >>> [len(batch) for batch in kafkafmt.build_batches(records, max_bytes=16384)]
    [10075, 10075, 10075]
    """
    builder = BatchBuilder(max_bytes=max_bytes, **options)
    source = iter(records)
    chunks: Iterable[Sequence[RecordLike]] = (
        [records]
        if type(records) is list or type(records) is tuple
        else iter(lambda: list(itertools.islice(source, _CHUNK_ROWS)), [])
    )
    # extend() rejects a list that mixes records with and without offsets.
    # Each chunk begins with the last record of the previous chunk, so that `extend` compares records across chunks.
    before: list[RecordLike] = []
    for chunk in chunks:
        given = [*before, *chunk] if before else chunk
        taken = len(before)
        while (taken := builder.extend(given, taken)) < len(given):
            yield builder.finish()
        before = list(given[-1:])
    if builder.count:
        yield builder.finish()


@shared
def build_columns(
    columns: Columns, max_bytes: int | None = DEFAULT_BATCH_BYTES, **options: Unpack[BatchOptions]
) -> Iterator[bytes]:
    """Build batches from columns. Each batch is as large as `max_bytes` allows.

    Several threads can share the iterator.

    Parameters
    ----------
    columns : Columns
        The result of `columns_of`.
    max_bytes : int, optional, default 16384
        Largest size of a batch in bytes; see `BatchBuilder`. If None, only the limit of the format
        applies.
    **options
        Other keyword arguments of `BatchBuilder`.

    Yields
    ------
    bytes
        A batch with at least one record.

    Raises
    ------
    InvalidError
        A record breaks one of Kafka's rules. Earlier batches have been yielded.
    TypeError, ValueError, OverflowError
        An argument is wrong.

    Examples
    --------
    >>> columns = kafkafmt.records.columns_of(key=[b"a", None], value=[b"1", b"2"])
    >>> data = b"".join(kafkafmt.records.build_columns(columns, codec="lz4"))
    >>> [record.key for record in kafkafmt.read_records(data)]
    [b'a', None]
    """
    if not isinstance(columns, Columns):
        raise TypeError(f"columns is {type(columns).__name__}; it must be the result of columns_of(…)")
    builder = BatchBuilder(max_bytes=max_bytes, **options)
    taken = 0
    while taken < columns.rows:
        taken, batches = builder.append_many(columns, taken)
        yield from batches
    if builder.count:
        yield builder.finish()


def _as_list(records: Iterable[RecordLike]) -> Sequence[RecordLike]:
    return records if type(records) is list or type(records) is tuple else list(records)
