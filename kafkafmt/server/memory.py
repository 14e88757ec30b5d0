"""Limit the memory of requests that are received or processed, and of responses that clients have not read yet.

A request that waits, for example for new batches or for other members of its group, reserves no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial

from ..messages import SchemaMessage
from ..messages.schema import Struct

FREE_FRAME = 1 << 10
"""The memory of requests up to this size in bytes is not limited. Even 4096 such requests need less than 200 MiB."""
FRAME_MEMORY = 64 << 20
"""Largest total size in bytes of the large requests that are being received."""
OBJECT_MEMORY = 256 << 20
"""Largest total memory in bytes for the objects of the large requests that are being processed."""
UNREAD_MEMORY = 64 << 20
"""Largest total size in bytes of responses that clients have not read yet."""
SHARE = 8
"""One connection can use at most this fraction of a limit."""
ELEMENT_BYTES = 512
"""Estimated memory in bytes for one element of a request and the corresponding element of the response."""
MOST_OBJECTS = OBJECT_MEMORY // SHARE // ELEMENT_BYTES
"""Largest number of objects in one request, such as topics and partitions."""
TURNS = 4
"""Largest number of large responses that are built at the same time."""
LARGE_RESPONSES = frozenset({3, 9, 15, 16, 32, 35, 61, 65, 66, 69, 74, 75})
"""Keys of the APIs whose responses can be much larger than the requests, such as Metadata."""

_NESTED: dict[int, tuple[str, ...]] = {}
"""Names of the array and structure fields, by the `id()` of the schema. Schemas are never deleted."""


class Budget:
    """Limits the bytes that are reserved at the same time. A larger request gets `capacity`."""

    # One event loop makes all calls.

    def __init__(self, capacity: int) -> None:
        self._capacity = self._free = capacity
        self._waiting: deque[asyncio.Future[None]] = deque()

    def has(self, size: int) -> bool:
        """Return whether `size` bytes of memory can be reserved without waiting."""
        return self._free >= min(size, self._capacity)

    @asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator[Callable[[], None]]:
        """Wait until `size` bytes are available, and reserve them. The function that is yielded releases them early."""
        size = min(size, self._capacity)
        while self._free < size:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                await waiting
            finally:
                with suppress(ValueError):
                    self._waiting.remove(waiting)
        self._free -= size
        held = [size]

        def release() -> None:
            if held:
                self._free += held.pop()
                while self._waiting:
                    waiting = self._waiting.popleft()
                    if not waiting.done():
                        waiting.set_result(None)

        try:
            yield release
        finally:
            release()


class HeldMemory:
    """Limits the memory that is used while the server waits for clients."""

    # If the limit is exceeded, the server closes the connection for which it has waited longest. A
    # single connection may use more than `capacity`.

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sizes: dict[asyncio.Timeout, int] = {}
        self._total = 0

    @contextmanager
    def held(self, limit: asyncio.Timeout, size: int) -> Iterator[Callable[[int], None]]:
        """Count `size` bytes as used."""
        # `limit` is the timeout of the block; the function that is yielded counts more bytes. If
        # the used memory exceeds the capacity, the timeouts of the blocks that were entered first
        # expire at once.
        self._add(limit, size)
        try:
            yield partial(self._add, limit)
        finally:
            self._total -= self._sizes.pop(limit, 0)

    def _add(self, limit: asyncio.Timeout, size: int) -> None:
        self._sizes[limit] = self._sizes.get(limit, 0) + size
        self._total += size
        while self._total > self._capacity and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._total -= self._sizes.pop(oldest)
            with suppress(RuntimeError):  # raised if the timeout has already expired
                oldest.reschedule(asyncio.get_running_loop().time())


class ServerMemory:
    def __init__(self) -> None:
        self.frames: HeldMemory = HeldMemory(FRAME_MEMORY)  # bytes of large requests received so far
        self.objects: Budget = Budget(OBJECT_MEMORY)  # memory of the objects of large requests and of their responses
        self.unread: HeldMemory = HeldMemory(UNREAD_MEMORY)  # responses that clients have not read yet
        # limits how many large responses are built at the same time
        self.turns: asyncio.Semaphore = asyncio.Semaphore(TURNS)


def count_elements(message: object) -> int:
    """Return the total number of array elements and unknown tagged fields in a message and its nested structures."""
    total = 0
    left = [message]
    while left:
        part = left.pop()
        if not isinstance(part, SchemaMessage):
            continue
        total += len(part.unknown_tagged_fields)
        for name in _nested_fields(part.SCHEMA):
            value = getattr(part, name)
            if not isinstance(value, list):
                left.append(value)
                continue
            total += len(value)
            if value and isinstance(value[0], SchemaMessage):
                left += value
    return total


def _nested_fields(schema: Struct) -> tuple[str, ...]:
    found = _NESTED.get(id(schema))
    if found is None:
        found = _NESTED[id(schema)] = tuple(f.name for f in schema.fields if f.array or f.struct is not None)
    return found
