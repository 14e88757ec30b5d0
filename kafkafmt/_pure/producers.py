"""Track the states of a partition's producers."""

from __future__ import annotations

import struct
from heapq import heapify, heappop, heappush

from ..constants import (
    CONTROL_ABORT,
    CONTROL_BIT,
    CONTROL_COMMIT,
    MAX_OFFSET,
    MAX_SEQUENCE,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
)
from ..types import BatchTable, Buffer, MarkerT
from .runs import producer_fields
from .varint import view_of

State = tuple[int, int, int, int, int, int, int, int]
"""The fields of an entry in a producer snapshot, in the order of the file."""
_STATE = struct.Struct(">qhiqiqiq")
_TIMESTAMP, _COORDINATOR_EPOCH, _FIRST_OFFSET = 5, 6, 7
_LAST_OFFSET = 3
_SPARE_ITEMS = 1024
"""Least number of ended transactions that are removed from the heap together."""


class ProducerTable:
    """The states of a partition's producers. See `_core.pyi`."""

    def __init__(self, states: Buffer = b"") -> None:
        self._states: dict[int, State] = {state[0]: state for state in _read(states)}
        self._find_open()

    def __len__(self) -> int:
        return len(self._states)

    def _find_open(self) -> None:
        self._open = {i: state[_FIRST_OFFSET] for i, state in self._states.items() if state[_FIRST_OFFSET] >= 0}
        self._find_oldest()

    def _find_oldest(self) -> None:
        self._oldest = [(first, producer_id) for producer_id, first in self._open.items()]
        """A heap that contains all open transactions, and some that have ended."""
        heapify(self._oldest)

    def _put(self, state: State) -> None:
        producer_id, first = state[0], state[_FIRST_OFFSET]
        self._states[producer_id] = state
        if first < 0:
            self._open.pop(producer_id, None)
        elif self._open.get(producer_id) != first:
            self._open[producer_id] = first
            if len(self._oldest) > 2 * len(self._open) + _SPARE_ITEMS:
                self._find_oldest()
            else:
                heappush(self._oldest, (first, producer_id))

    def update(self, rows: BatchTable, markers: dict[int, MarkerT]) -> list[tuple[int, int, int, int]]:
        aborted = []
        batches = producer_fields(rows[rows["producer_id"] != NO_PRODUCER_ID])
        for producer_id, epoch, base, delta, sequence, timestamp, attributes in batches:
            before = self._states.get(producer_id, (producer_id, -1, -1, -1, 0, -1, -1, -1))
            first = before[_FIRST_OFFSET]
            if attributes & CONTROL_BIT:
                marker = markers.get(base)
                if marker is None or marker[0] not in (CONTROL_ABORT, CONTROL_COMMIT):
                    continue
                # If the epoch changes, discard the last sequence number, because sequence numbers restart at 0.
                kept = before[2:5] if before[1] == epoch else (-1, -1, 0)
                self._put((producer_id, epoch, *kept, marker[1], marker[2], -1))
                if first >= 0 and marker[0] == CONTROL_ABORT:
                    stable = self.first_open()
                    aborted.append((producer_id, first, base, base + 1 if stable is None else stable))
                continue
            if attributes & TRANSACTIONAL_BIT and first < 0:
                first = base
            last_sequence = (sequence + delta) % (MAX_SEQUENCE + 1) if sequence >= 0 else -1
            last_offset = min(max(base + delta, MIN_OFFSET), MAX_OFFSET)
            state = (
                producer_id,
                epoch,
                last_sequence,
                last_offset,
                delta,
                timestamp,
                before[_COORDINATOR_EPOCH],
                first,
            )
            self._put(state)
        return aborted

    def forget(self, before: int) -> None:
        self._states = {
            i: state for i, state in self._states.items() if state[_TIMESTAMP] >= before or state[_FIRST_OFFSET] >= 0
        }
        self._find_open()

    def first_open(self) -> int | None:
        while self._oldest and self._open.get(self._oldest[0][1]) != self._oldest[0][0]:
            heappop(self._oldest)
        return self._oldest[0][0] if self._oldest else None

    def state_of(self, producer_id: int) -> bytes | None:
        state = self._states.get(producer_id)
        return None if state is None else _STATE.pack(*state)

    def all_states(self) -> bytes:
        return b"".join(_STATE.pack(*self._states[producer_id]) for producer_id in sorted(self._states))

    def open_states(self) -> bytes:
        return b"".join(_STATE.pack(*self._states[i]) for _, i in sorted((first, i) for i, first in self._open.items()))

    def contains(self, states: Buffer) -> bool:
        return all(self._states.get(state[0]) == state for state in _read(states))

    def differing(self, states: Buffer, offset: int) -> bytes:
        found = []
        for state in _read(states):
            own = self._states.get(state[0])
            if (
                own is None
                or max(state[_LAST_OFFSET], state[_FIRST_OFFSET]) >= offset
                or own[:_TIMESTAMP] != state[:_TIMESTAMP]
                or own[_FIRST_OFFSET] != state[_FIRST_OFFSET]
            ):
                found.append(_STATE.pack(*state))
        return b"".join(found)

    def open_besides(self, states: Buffer) -> tuple[int, bytes | None]:
        known = {state[0] for state in _read(states)}
        others = [producer_id for producer_id in self._open if producer_id not in known]
        return len(others), self.state_of(others[0]) if others else None


def _read(states: Buffer) -> list[State]:
    data = view_of(states)
    if len(data) % _STATE.size:
        raise ValueError(f"`states` has {len(data)} bytes, which is not a multiple of {_STATE.size}")
    return list(_STATE.iter_unpack(data))
