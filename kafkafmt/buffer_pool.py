"""Reuse the memory of large arrays that Arrow buffers refer to.

A consumer often releases an Arrow record batch before it requests the next one. The next batch is
then written to the same memory. Without this module, decoding would take longer: the memory pools
of pyarrow return unused pages to the operating system after some milliseconds, and allocating new
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

from .types import ByteArray

ALIGNMENT = 64
"""Alignment of the arrays in bytes, as Arrow recommends for buffers."""
SMALLEST = 1 << 12
LIMIT = 64 << 20
"""Largest number of bytes that a pool keeps for reuse."""
MOST_SURPLUS = 2
"""Largest ratio of the size of reused memory to the requested size."""
IDLE_SECONDS = 1.0
"""Time without a request, in seconds, after which a pool releases the memory that it keeps."""


class BufferPool:
    """Lends arrays of bytes, and reuses the memory of an array when nothing refers to it any more.

    An array is not given back explicitly. Its memory is reused after the array, all views of it,
    and all Arrow buffers of them have been deleted. References in other threads, and in libraries
    that imported an Arrow array, count too. A pool can be used in several threads.

    Parameters
    ----------
    limit : int, default 67108864 (64 MiB)
        Largest number of bytes that are kept for reuse.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._numbers = itertools.count()
        self._unused: dict[int, memoryview] = {}
        self._lent: dict[int, weakref.ref[ByteArray]] = {}
        self._last_use = time.monotonic()
        self._watched = False

    @property
    def unused(self) -> int:
        """Number of bytes that are kept for reuse."""
        return sum(map(len, list(self._unused.values())))

    def take(self, size: int) -> ByteArray:
        """Return an uninitialized array of at least `size` bytes."""
        self._last_use = time.monotonic()
        if not self._watched:
            self._watched = True
            threading.Thread(target=_release_when_idle, args=(weakref.ref(self),), daemon=True).start()
        memory = self._reusable(size) or _allocated(max(1 << max(size - 1, 0).bit_length(), SMALLEST))
        # The views of an array refer to this array, and not to the array in which `memory` was
        # allocated, because NumPy follows only the bases that are arrays.
        array = np.frombuffer(memory, np.uint8)
        number = next(self._numbers)
        self._lent[number] = weakref.ref(array, partial(_give_back, weakref.ref(self), number, memory))
        return array

    def _reusable(self, size: int) -> memoryview | None:
        """Remove the smallest suitable block from the memory that is kept, and return the block."""
        most = MOST_SURPLUS * max(size, SMALLEST)
        kept = sorted((len(memory), number) for number, memory in list(self._unused.items()))
        for length, number in kept:
            # another thread may have taken the memory in the meantime
            if size <= length <= most and (memory := self._unused.pop(number, None)) is not None:
                return memory
        return None

    def idle(self) -> bool:
        """Return whether no array was requested for IDLE_SECONDS."""
        return time.monotonic() - self._last_use >= IDLE_SECONDS

    def release_if_idle(self) -> bool:
        """Release the kept memory if the pool is idle. Return whether the pool is idle."""
        if not self.idle():
            return False
        self._watched = False
        self._unused.clear()
        return self.idle()  # another thread may have requested an array in the meantime

    def begin_in_child(self) -> None:
        """Record that no thread releases memory, because a forked process does not inherit threads."""
        self._watched = False


def _give_back(owner: weakref.ref[BufferPool], number: int, memory: memoryview, _: weakref.ref[ByteArray]) -> None:
    """Keep the memory of an array that was deleted, unless its pool keeps too much or is idle.

    This function runs in the thread that deletes the last reference to the array, possibly in the
    middle of any other function. Therefore, it uses no lock and starts no thread.
    """
    pool = owner()
    if pool is not None:
        del pool._lent[number]
        if pool.unused + len(memory) <= pool._limit and not pool.idle():
            pool._unused[number] = memory


def _release_when_idle(owner: weakref.ref[BufferPool]) -> None:
    """Wait until a pool is idle or deleted, and release the memory that it keeps."""
    while True:
        time.sleep(IDLE_SECONDS)
        pool = owner()
        if pool is None or pool.release_if_idle():
            return
        del pool


def _allocated(size: int) -> memoryview:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return memoryview(raw[start : start + size].data)


shared_pool: BufferPool = BufferPool()
"""The pool of all Arrow record batches of a process."""
os.register_at_fork(after_in_child=shared_pool.begin_in_child)
