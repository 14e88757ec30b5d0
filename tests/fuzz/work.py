"""Count the work of a call: bytes read, bytes covered by CRCs, decompressed bytes and scanned headers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kafkafmt.codecs import decompressor as codecs
from kafkafmt.errors import KafkaFormatError
from kafkafmt.log.storage import file_view
from kafkafmt.types import BatchTable


@dataclass
class Work:
    """Counts of bytes, except `reads` and `walks`, which are numbers of calls."""

    read: int = 0
    reads: int = 0
    checksummed: int = 0
    decompressed: int = 0
    scanned: int = 0
    walks: int = 0

    @property
    def total(self) -> int:
        return self.read + self.checksummed + self.decompressed + self.scanned


class _Counting:
    """A core that counts the bytes that it receives."""

    def __init__(self, core: Any, work: Work) -> None:
        self._core, self._work = core, work

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def crc32c(self, buffer: Any, value: int = 0, start: int = 0, end: int | None = None) -> int:
        self._work.checksummed += _length(buffer, start, end)
        return int(self._core.crc32c(buffer, value, start, end))

    def crc32(self, buffer: Any, value: int = 0, start: int = 0, end: int | None = None) -> int:
        self._work.checksummed += _length(buffer, start, end)
        return int(self._core.crc32(buffer, value, start, end))

    def scan_batches(
        self, buffer: Any, table: Any, start: int = 0, end: int | None = None, check_crc: bool = True
    ) -> Any:
        scan = self._core.scan_batches(buffer, table, start, end, check_crc)
        self._work.walks += 1
        self._work.scanned += (scan.position - start if check_crc else 61 * scan.count) + 61
        if scan.error is not None and scan.error.resume is not None and check_crc:
            self._work.scanned += max(scan.error.resume - scan.position, 0)
        return scan

    def find_batch(self, buffer: Any, start: int = 0, end: int | None = None, check_crc: bool = True) -> Any:
        found = self._core.find_batch(buffer, start, end, check_crc)
        self._work.walks += 1
        self._work.scanned += _length(buffer, start, end) if found is None else found - start
        return found


def _length(buffer: Any, start: int, end: int | None) -> int:
    size = memoryview(buffer).nbytes
    return max((size if end is None else min(end, size)) - start, 0)


@contextmanager
def counted() -> Iterator[Work]:
    """Count the work of all calls in a `with` block, in all loaded modules of the package."""
    import sys

    work = Work()
    modules = [
        m for n, m in list(sys.modules.items()) if n.startswith("kafkafmt.") and m is not None and "core" in vars(m)
    ]
    cores = [vars(m)["core"] for m in modules]
    read_into, decompress = file_view.FileView.read_into, codecs.Decompressor._decompress
    append = codecs.Decompressor.append

    def counted_read(self: Any, view: Any, position: int) -> int:
        got = read_into(self, view, position)
        work.read, work.reads = work.read + got, work.reads + 1
        return got

    def counted_decompress(self: Any, codec: int, view: memoryview, arena: Any) -> int | KafkaFormatError:
        before = arena.filled
        try:
            return decompress(self, codec, view, arena)
        finally:
            work.decompressed += max(arena.filled - before, 0) + view.nbytes

    for module, core in zip(modules, cores, strict=True):
        vars(module)["core"] = _Counting(core, work)
    file_view.FileView.read_into = counted_read  # type: ignore[method-assign]

    def counted_append(
        self: Any, view: memoryview, table: BatchTable, moved: BatchTable, row: int, arena: Any, enough: int
    ) -> int:
        end = append(self, view, table, moved, row, arena, enough)
        work.decompressed += int(table["payload_size"][row:end].sum() + moved["payload_size"][row:end].sum())
        return end

    codecs.Decompressor._decompress = counted_decompress  # type: ignore[method-assign]
    codecs.Decompressor.append = counted_append  # type: ignore[method-assign]
    try:
        yield work
    finally:
        file_view.FileView.read_into = read_into  # type: ignore[method-assign]
        codecs.Decompressor._decompress = decompress  # type: ignore[method-assign]
        codecs.Decompressor.append = append  # type: ignore[method-assign]
        for module, core in zip(modules, cores, strict=True):
            vars(module)["core"] = core
