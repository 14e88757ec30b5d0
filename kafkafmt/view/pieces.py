"""Divide the records of partitions into pieces, and decode the pieces in several threads.

One thread at a time reads the batches of a partition and checks them, in file order, as if there
were only one thread. It thus decides alone which batches are delivered and what is damage. The
batches are collected in pieces. Other threads decompress and decode the records of each piece, and
build Arrow record batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ..constants import MAX_OFFSET
from ..log import Damage, PartitionLog
from ..log.reading import Decoding, OffsetInterval, OnDamage, Part, PartBuffers
from ..support.parallel import Piece, read_parallel
from ..support.paths import UrlPath
from ..types import BatchTable, ByteArray, byte_view

if TYPE_CHECKING:
    import pyarrow as pa

    from ..arrow.builder import ArrowBuilder
    from ..records import Chunk, RecordReader

PIECE_BYTES = 16 << 20
"""Largest size of the stored batches of a piece, unless it is a single `Part`."""
SMALL_BYTES = 4 << 20
"""Local logs of at most this size are read without threads, because starting threads takes time."""

Item: TypeAlias = "pa.RecordBatch | Callable[[], None]"
"""An Arrow record batch, or a function that the consumer calls to report damage."""
Checked: TypeAlias = "tuple[list[Damage], Part, BatchTable]"
"""The damage before a `Part`, the `Part`, and its selected batches."""


@dataclass
class _Content:
    """The stored batches of a piece."""

    parts: list[Checked] = field(default_factory=list)
    stored: int = 0
    buffers: list[ByteArray] = field(default_factory=list)
    after: list[Damage] = field(default_factory=list)


class PartitionBatches:
    """The selected records of a partition as Arrow record batches."""

    # `interval` is called before anything is read. If it returns None, there are no records. If `on_damage` is None,
    # damage is raised.

    def __init__(
        self,
        log: PartitionLog,
        schema: pa.Schema,
        interval: Callable[[], OffsetInterval | None],
        on_damage: OnDamage | None,
    ) -> None:
        self._log, self._schema, self._interval, self._on_damage = log, schema, interval, on_damage
        self._decoders: list[tuple[ArrowBuilder, RecordReader]] = []
        self._growth = 1.0
        """Size of the Arrow record batches of the latest piece, divided by the size of its stored batches."""
        self._buffers = PartBuffers()

    @property
    def size(self) -> int:
        """Size of the segments in bytes. If they have URLs, MAX_OFFSET, because threads then always save time."""
        segments = self._log.segments
        return MAX_OFFSET if any(isinstance(s.folder, UrlPath) for s in segments) else sum(s.size for s in segments)

    def plain(self) -> Iterator[pa.RecordBatch]:
        """Yield the Arrow record batches, all of which are read in this thread."""
        from ..arrow.builder import record_batches

        interval = self._interval()
        if interval is not None:
            builder = self._new_builder()
            yield from record_batches(self._log.chunks(builder.columns, interval, on_damage=self._on_damage), builder)

    def pieces(self) -> Iterator[Piece[Item]]:
        """Read and check the batches, and yield functions that decode them."""
        from ..arrow.columns import TARGET_BYTES

        interval = self._interval()
        if interval is None:
            return
        skips = self._on_damage is not None
        decoding = Decoding(self._log, interval, skips)
        piece, damage = _Content(), list[Damage]()
        note = (lambda found: damage.append(found)) if skips else None

        try:
            for part, table in decoding.parts(note, note, self._buffers):
                size = len(byte_view(part.buffer))
                if piece.parts and piece.stored + size > PIECE_BYTES:
                    yield partial(self._decoded, decoding, piece)
                    piece = _Content()
                piece.parts.append((damage.copy(), part, table))
                piece.buffers += self._buffers.take()
                piece.stored += size
                damage.clear()
                # Two ranges of a segment are a little smaller than TARGET_BYTES.
                if piece.stored * self._growth >= 0.9 * TARGET_BYTES:
                    yield partial(self._decoded, decoding, piece)
                    piece = _Content()
        except Exception:
            yield partial(self._decoded, decoding, replace(piece, after=damage))
            raise
        yield partial(self._decoded, decoding, replace(piece, after=damage))

    def _decoded(self, decoding: Decoding, piece: _Content) -> Iterator[Item]:
        """Yield the Arrow record batches of a piece, and then a function that reports its damage."""
        from ..arrow.builder import record_batches

        on_damage = self._on_damage
        found: list[Damage] = []
        if piece.parts:
            builder, reader = self._decoder(decoding)
            builder.target_bytes = _even_size(piece.stored * self._growth)
            before = builder.built_bytes

            def chunks() -> Iterator[Chunk]:
                for damage, part, table in piece.parts:
                    found.extend(damage)
                    yield from decoding.chunks(reader, part, table, found.append if on_damage else None)

            try:
                yield from record_batches(chunks(), builder)
            except Exception:
                yield partial(_report, on_damage, found)
                raise
            self._growth = (builder.built_bytes - before) / max(piece.stored, 1)
            self._decoders.append((builder, reader))
            self._buffers.give_back(piece.buffers)
        found.extend(piece.after)
        if found:
            yield partial(_report, on_damage, found)

    def _decoder(self, decoding: Decoding) -> tuple[ArrowBuilder, RecordReader]:
        try:
            return self._decoders.pop()
        except IndexError:  # Another thread may have taken the last one.
            builder = self._new_builder()
            return builder, decoding.reader(builder.columns)

    def _new_builder(self) -> ArrowBuilder:
        from ..arrow.builder import ArrowBuilder

        return ArrowBuilder(self._log.topic, self._log.partition, self._schema)


def _even_size(expected: float) -> int:
    """Return the target size of the Arrow record batches of a piece, so that the last one is not small."""
    from ..arrow.columns import TARGET_BYTES

    number = max(round(expected / TARGET_BYTES), 1)
    return max(int(1.1 * expected / number), TARGET_BYTES // number)


def _report(on_damage: OnDamage | None, found: list[Damage]) -> None:
    if on_damage is not None:
        for damage in found:
            on_damage(damage)


def read_partitions(
    partitions: Sequence[PartitionBatches], threads: int, ordered: bool = True
) -> Iterator[pa.RecordBatch]:
    """Yield the Arrow record batches of several partitions. At most `threads` threads read them."""
    if threads == 1 or sum(p.size for p in partitions) <= SMALL_BYTES:
        yield from chain.from_iterable(p.plain() for p in partitions)
        return
    for item in read_parallel([p.pieces for p in partitions], threads, ordered):
        if callable(item):
            item()
        else:
            yield item
