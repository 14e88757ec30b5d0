"""Build the record data that is not sent from a file: converted batches, and batches without records."""

from __future__ import annotations

import struct

from .._backend import core
from ..constants import BATCH_HEADER_SIZE, ENTRY_OVERHEAD, MAGIC_V2, NO_PRODUCER_ID, NO_TIMESTAMP
from ..records import convert
from .checked_batches import Span
from .resources import Resources

_HEAD = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")


def in_format(resources: Resources, spans: list[Span], magic: int, max_batch_bytes: int) -> bytes:
    """Read batches, and return them in record format `magic`.

    Batches that already have this format are not changed. A compressed message remains one batch
    with the same codec.

    Raises
    ------
    OSError
        A file cannot be read, or has changed.
    KafkaFormatError
        A batch cannot be converted. If the format does not support the codec, the error is an
        `InvalidError`.
    """
    parts = [
        bytes(convert(read_span(resources, span), magic, max_batch_bytes=max_batch_bytes).records) for span in spans
    ]
    return b"".join(parts)


def read_span(resources: Resources, span: Span) -> bytes:
    """Return the bytes of a span.

    Raises
    ------
    OSError
        The file cannot be read, or has changed.
    """
    file = resources.files.acquire(span.path, span.inode)
    try:
        data = file.read(span.position, span.size)
    finally:
        resources.files.release(file)
    if len(data) != span.size or (span.inode and file.inode != span.inode):
        raise OSError(f"{span.path}: the file has changed since its batches were checked")
    return data


def empty_batch(start: int, end: int, leader_epoch: int) -> bytes:
    """Return a batch of format 2 without records that covers the offsets [start, end).

    A client that reads it continues at `end`. The log cleaner writes such batches if it removes all
    records of a batch.
    """
    delta = min(end - start, 2**31) - 1
    rest = _REST.pack(0, delta, NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER_ID, -1, -1, 0)
    length = BATCH_HEADER_SIZE - ENTRY_OVERHEAD
    return _HEAD.pack(start, length, leader_epoch, MAGIC_V2, core.crc32c(rest, 0)) + rest
