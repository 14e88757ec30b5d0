"""Build the record data that is not sent from a file: converted batches, and batches without records."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from .._backend import core
from ..constants import BATCH_HEADER_SIZE, ENTRY_OVERHEAD, MAGIC_V2, NO_PRODUCER_ID, NO_TIMESTAMP
from ..errors import InvalidError, KafkaFormatError
from ..records import convert, iter_batches, iter_tables
from ..records.java_reads import rebuilt_batches
from .checked_batches import Span
from .resources import Resources

OnDamage = Callable[[Span, int, KafkaFormatError], None]
_HEAD = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")


def in_format(
    resources: Resources, spans: list[Span], magic: int, max_batch_bytes: int, on_damage: OnDamage | None
) -> bytes:
    """Read batches, and convert them to the record format `magic`."""
    # Batches in the target format are rebuilt only if Kafka's Java code does not read them to their
    # end. A compressed message is converted to one batch with the same codec. A batch that cannot
    # be decoded is omitted and passed to `on_damage`; if that is None, the error is raised.
    parts: list[bytes] = []
    for span in spans:
        data = read_span(resources, span)
        try:
            parts.append(_converted(data, magic, max_batch_bytes))
        except InvalidError:
            raise
        except KafkaFormatError:
            if on_damage is None:
                raise
            parts += _each_in_format(data, span, magic, max_batch_bytes, on_damage)
    return b"".join(parts)


def _each_in_format(data: bytes, span: Span, magic: int, max_batch_bytes: int, on_damage: OnDamage) -> Iterator[bytes]:
    """Yield the batches in `data`, converted to the record format `magic`. Omit batches that cannot be decoded."""
    for batch in iter_batches(data):
        try:
            part = data[batch.position : batch.position + batch.size]
            yield _converted(part, magic, max_batch_bytes)
        except KafkaFormatError as error:
            on_damage(span, span.position + batch.position, error)


def _converted(data: bytes, magic: int, max_batch_bytes: int) -> bytes:
    """Convert batches to the record format `magic`, and rebuild those that Kafka's Java code does not read."""
    records = bytes(convert(data, magic, max_batch_bytes=max_batch_bytes).records)
    parts, end = [], 0
    for table in iter_tables(records, check_crc=False):
        for i, rebuilt in rebuilt_batches(records, table, max_batch_bytes):
            position = int(table["position"][i])
            parts += [records[end:position], rebuilt]
            end = position + int(table["size"][i])
    return b"".join([*parts, records[end:]]) if parts else records


def read_span(resources: Resources, span: Span) -> bytes:
    """Read the byte range `span` of a segment."""
    # An `OSError` also means that the file has changed since it was checked.
    file = resources.files.acquire(span.path, span.inode)
    try:
        data = file.read(span.position, span.size)
    finally:
        resources.files.release(file)
    if len(data) != span.size or (span.inode and file.inode != span.inode):
        raise OSError(f"{span.path}: the file has changed since its batches were checked")
    return data


def empty_batch(start: int, end: int, leader_epoch: int) -> bytes:
    """Return a batch of record format 2 that contains no records and covers the offsets [start, end)."""
    # A client that reads it continues at `end`. Kafka's log cleaner also writes an empty batch if
    # it removes all records of a batch.
    delta = min(end - start, 2**31) - 1
    rest = _REST.pack(0, delta, NO_TIMESTAMP, NO_TIMESTAMP, NO_PRODUCER_ID, -1, -1, 0)
    length = BATCH_HEADER_SIZE - ENTRY_OVERHEAD
    return _HEAD.pack(start, length, leader_epoch, MAGIC_V2, core.crc32c(rest, 0)) + rest
