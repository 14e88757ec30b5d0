"""Check whether encoded batches can be appended to a log."""

from __future__ import annotations

from ...constants import CONTROL_BIT, MAX_OFFSET, TRANSACTIONAL_BIT
from ...errors import InvalidError, TooLargeError
from ...support.text import offset_range
from ...types import BatchTable


def check(table: BatchTable, next_offset: int, segment_bytes: int) -> list[int]:
    """Return the last offset of each batch to append. InvalidError: offsets are wrong."""
    # TooLargeError: a batch is too large.
    lasts, before = [], next_offset - 1
    names = ("base_offset", "last_offset_delta", "size", "position")
    for base, delta, size, position in zip(*(table[name].tolist() for name in names), strict=True):
        last = base + delta if delta > 0 else base
        if base <= before or last >= MAX_OFFSET:
            raise InvalidError(
                f"the batch has {offset_range(base, last)}, which cannot follow offset {before}",
                position,
                base,
                code="offsets_in_order",
            )
        if size > segment_bytes:
            raise TooLargeError(f"the batch has {size} bytes, more than segment_bytes ({segment_bytes})", position)
        lasts.append(last)
        before = last
    return lasts


def check_transactions(table: BatchTable, opened: set[int]) -> None:
    """Raise InvalidError if a producer with an open transaction appends a non-transactional batch. Update `opened`."""
    # A broker does not start if a log contains such a batch. `opened` are producers with an open transaction.
    names = ("producer_id", "attributes", "position", "base_offset")
    for producer_id, attributes, position, base in zip(*(table[name].tolist() for name in names), strict=True):
        if producer_id < 0:
            continue
        if attributes & CONTROL_BIT:
            opened.discard(producer_id)
        elif attributes & TRANSACTIONAL_BIT:
            opened.add(producer_id)
        elif producer_id in opened:
            message = f"producer {producer_id} has an open transaction, but the batch is not transactional"
            raise InvalidError(message, position, base, code="transaction_state")
