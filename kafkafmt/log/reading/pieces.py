"""Divide the records of partitions into pieces, and process the pieces in several threads.

One thread at a time reads the batches of a partition and checks them, in file order, as if there
were only one thread. It thus decides alone which batches are delivered and what is damage. The
batches are collected in pieces. Other threads decompress and decode the records of each piece, and
make items of them, such as Arrow record batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from ...constants import MAX_OFFSET
from ...records.reader import Chunk, RecordReader
from ...support.parallel import Piece, read_parallel
from ...support.paths import UrlPath
from ...types import BatchTable, ByteArray, RecordColumns, byte_view
from ..findings import Damage
from .part import Part, PartBuffers
from .partition import Decoding, OffsetInterval, PartitionLog
from .segment_reader import OnDamage

T = TypeVar("T")

PIECE_BYTES = 16 << 20
"""Largest size of the stored batches of a piece, unless it is a single `Part`."""
SMALL_BYTES = 4 << 20
"""Local logs of at most this size are read without threads, because starting threads takes time."""

Report: TypeAlias = "Callable[[], None]"
"""A function that the consumer calls to report damage. It takes the place of an item."""
Checked: TypeAlias = "tuple[list[Damage], Part, BatchTable]"
"""The damage before a `Part`, the `Part`, and its selected batches."""
Convert: TypeAlias = "Callable[[Iterable[Chunk], int], Iterator[T]]"
"""A function that makes items of the records of a piece. The number is the size of its stored batches, or 0 if all
records are read in one thread.
"""


@dataclass
class _Content:
    """The stored batches of a piece."""

    parts: list[Checked] = field(default_factory=list)
    stored: int = 0
    buffers: list[ByteArray] = field(default_factory=list)
    after: list[Damage] = field(default_factory=list)


class PartitionPieces(ABC, Generic[T]):
    """The selected records of a partition, of which several threads make items."""

    # `interval` is called before anything is read. If it returns None, there are no records. If `on_damage` is None,
    # damage is raised.

    def __init__(
        self, log: PartitionLog, interval: Callable[[], OffsetInterval | None], on_damage: OnDamage | None
    ) -> None:
        self._log, self._interval, self._on_damage = log, interval, on_damage
        self._decoders: list[tuple[RecordReader, Convert[T]]] = []
        self._buffers = PartBuffers()

    @abstractmethod
    def _decoder(self) -> tuple[RecordColumns, Convert[T]]:
        """Return new columns to decode records into, and a function for their chunks. One thread at a time uses them."""

    @abstractmethod
    def _is_full(self, stored: int) -> bool:
        """Return whether a piece with this size of stored batches is large enough."""

    @property
    def size(self) -> int:
        """Size of the segments in bytes. If they have URLs, MAX_OFFSET, because threads then always save time."""
        segments = self._log.segments
        return MAX_OFFSET if any(isinstance(s.folder, UrlPath) for s in segments) else sum(s.size for s in segments)

    def plain(self) -> Iterator[T]:
        """Yield the items, all of which are made in this thread."""
        interval = self._interval()
        if interval is not None:
            columns, convert = self._decoder()
            yield from convert(self._log.chunks(columns, interval, on_damage=self._on_damage), 0)

    def pieces(self) -> Iterator[Piece[T | Report]]:
        """Read and check the batches, and yield functions that decode them."""
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
                if self._is_full(piece.stored):
                    yield partial(self._decoded, decoding, piece)
                    piece = _Content()
        except Exception:
            yield partial(self._decoded, decoding, replace(piece, after=damage))
            raise
        yield partial(self._decoded, decoding, replace(piece, after=damage))

    def _decoded(self, decoding: Decoding, piece: _Content) -> Iterator[T | Report]:
        """Yield the items of a piece. Before an item, yield a function that reports the damage before it."""
        # A piece yields at least one item, so that the limit of waiting items also limits the pieces.
        found: list[Damage] = []
        delivered = False
        if piece.parts:
            try:
                reader, convert = self._decoders.pop()
            except IndexError:  # Another thread may have taken the last one.
                columns, convert = self._decoder()
                reader = decoding.reader(columns)

            def chunks() -> Iterator[Chunk]:
                for damage, part, table in piece.parts:
                    found.extend(damage)
                    yield from decoding.chunks(reader, part, table, found.append if self._on_damage else None)

            try:
                for item in convert(chunks(), piece.stored):
                    if found:
                        yield self._report(found)
                    yield item
                    delivered = True
            except Exception:
                if found:
                    yield self._report(found)
                raise
            self._decoders.append((reader, convert))
            self._buffers.give_back(piece.buffers)
        found.extend(piece.after)
        if found or not delivered:
            yield self._report(found)

    def _report(self, found: list[Damage]) -> Report:
        """Return a function that reports damage, and empty the list."""
        damaged = found.copy()
        found.clear()
        return partial(_report_all, self._on_damage, damaged)


def _report_all(on_damage: OnDamage | None, damaged: list[Damage]) -> None:
    if on_damage is not None:
        for damage in damaged:
            on_damage(damage)


def read_pieces(
    partitions: Sequence[PartitionPieces[T]], threads: int, ordered: bool = True
) -> Generator[T, None, None]:
    """Yield the items of several partitions. At most `threads` threads make them."""
    if threads == 1 or sum(p.size for p in partitions) <= SMALL_BYTES:
        yield from chain.from_iterable(p.plain() for p in partitions)
        return
    for item in read_parallel([p.pieces for p in partitions], threads, ordered):
        if callable(item):
            item()
        else:
            yield item
