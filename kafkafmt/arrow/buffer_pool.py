"""Reuse the memory of large arrays that Arrow buffers refer to.

A consumer often releases an Arrow record batch before it requests the next one. In this case, the
next Arrow record batch is written to the same memory. This is faster than the memory pools of
pyarrow, which return unused pages to the operating system after a few milliseconds. Allocating new
pages takes about a third of the decoding time.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from functools import partial

import numpy as np

from ..types import ByteArray, view_of

ALIGNMENT = 64
"""Alignment of the arrays in bytes, as Arrow recommends for buffers."""
SMALLEST = 1 << 12
LIMIT = 256 << 20
"""Largest number of bytes that a pool keeps for reuse. Two threads that read use about 180 MiB, and one uses 80 MiB."""
IDLE_SECONDS = 1.0
"""If no array has been requested for this number of seconds, a pool releases its unused memory."""


class BufferPool:
    """Provides arrays of bytes, and reuses the memory of arrays that are no longer referenced."""

    # Arrays are not returned explicitly: the pool reuses memory after the array, all its views and
    # all Arrow buffers in it have been deleted, in any thread and in any library that imported an
    # Arrow array. The pool keeps at most `limit` bytes. Several threads can use it.

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._numbers = itertools.count()
        self._unused: dict[int, list[ByteArray]] = {}
        """Blocks that can be reused, by size. The sizes are powers of two."""
        self._last_request: dict[int, float] = {}
        self._lent: dict[int, weakref.ref[ByteArray]] = {}
        self._last_use = time.monotonic()
        self._watched = False

    @property
    def unused(self) -> int:
        """Number of bytes that the pool currently keeps for reuse."""
        return sum(size * len(blocks) for size, blocks in list(self._unused.items()))

    def take(self, size: int) -> ByteArray:
        self._last_use = time.monotonic()
        if not self._watched:
            self._watched = True
            threading.Thread(target=_release_when_idle, args=(weakref.ref(self),), daemon=True).start()
        block = max(1 << max(size - 1, 0).bit_length(), SMALLEST)
        self._last_request[block] = self._last_use
        memory = self._reusable(block)
        if memory is None:
            memory = _allocated(block)
        # Views must keep `array` alive, because the memory is reused when `array` is deleted.
        # Without the memoryview, views of `array` would reference `memory` instead of `array`.
        array = np.frombuffer(view_of(memory), np.uint8)
        number = next(self._numbers)
        self._lent[number] = weakref.ref(array, partial(_give_back, weakref.ref(self), number, memory))
        return array

    def _reusable(self, size: int) -> ByteArray | None:
        """Remove and return a block, or None. The one that was used last may still be in a cache."""
        try:
            return self._unused[size].pop()
        except LookupError:
            return None

    def idle(self) -> bool:
        """Return whether the last request for an array was at least IDLE_SECONDS ago."""
        return time.monotonic() - self._last_use >= IDLE_SECONDS

    def release_if_idle(self) -> bool:
        """If the pool is idle, release its unused memory. Return whether the pool is idle."""
        if not self.idle():
            return False
        self._watched = False
        self._unused.clear()
        return self.idle()  # Another thread may have requested an array in the meantime.

    def begin_in_child(self) -> None:
        """Update the pool in a forked process. The thread that releases memory does not run in this process."""
        self._watched = False


def _give_back(owner: weakref.ref[BufferPool], number: int, memory: ByteArray, _: weakref.ref[ByteArray]) -> None:
    """Keep the memory of a deleted array for reuse, unless the pool has been idle for IDLE_SECONDS."""
    # This function runs in the thread that deletes the last reference to the array, possibly in the
    # middle of another function. A lock could cause a deadlock. Therefore, it uses no lock and
    # starts no thread.
    pool = owner()
    if pool is not None:
        del pool._lent[number]
        if len(memory) > pool._limit or pool.idle():
            return
        excess = pool.unused + len(memory) - pool._limit
        if excess > 0:
            # Sizes that were requested long ago may not be requested again.
            for size in sorted(pool._unused, key=pool._last_request.__getitem__):
                while excess > 0 and pool._reusable(size) is not None:
                    excess -= size
        pool._unused.setdefault(len(memory), []).append(memory)


def _release_when_idle(owner: weakref.ref[BufferPool]) -> None:
    """Wait until the pool is idle, and then release its unused memory. If the pool is deleted first, return."""
    while True:
        time.sleep(IDLE_SECONDS)
        pool = owner()
        if pool is None or pool.release_if_idle():
            return
        del pool


def _allocated(size: int) -> ByteArray:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


shared_pool: BufferPool = BufferPool()
"""The pool for all Arrow record batches of this process."""
os.register_at_fork(after_in_child=shared_pool.begin_in_child)
