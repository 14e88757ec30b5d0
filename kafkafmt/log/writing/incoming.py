"""Encoded batches that are to be appended: can they follow what is there?"""

from __future__ import annotations

import numpy as np

from ...constants import CONTROL_BIT, MAX_OFFSET, TRANSACTIONAL_BIT
from ...errors import InvalidError, TooLargeError


def check(table: np.ndarray, next_offset: int, segment_bytes: int) -> list[int]:
    """The last offsets of batches that can follow; InvalidError or TooLargeError where one cannot."""
    lasts, before = [], next_offset - 1
    names = ("base_offset", "last_offset_delta", "size", "position")
    for base, delta, size, position in zip(*(table[name].tolist() for name in names), strict=True):
        last = base + delta if delta > 0 else base
        if base <= before or last >= MAX_OFFSET:
            raise InvalidError(
                f"offsets {base} to {last} do not follow {before}", position, base, rule="offsets_in_order"
            )
        if size > segment_bytes:
            raise TooLargeError(f"a batch of {size} bytes is more than segment_bytes, {segment_bytes}", position)
        lasts.append(last)
        before = last
    return lasts


def check_transactions(table: np.ndarray, opened: set[int]) -> None:
    """No plain batch of a producer whose transaction is open: a broker would not even start on such a log."""
    names = ("producer_id", "attributes", "position", "base_offset")
    for producer_id, attributes, position, base in zip(*(table[name].tolist() for name in names), strict=True):
        if producer_id < 0:
            continue
        if attributes & CONTROL_BIT:
            opened.discard(producer_id)
        elif attributes & TRANSACTIONAL_BIT:
            opened.add(producer_id)
        elif producer_id in opened:
            message = f"producer {producer_id} has a transaction open, and this batch is not part of it"
            raise InvalidError(message, position, base, rule="transaction_state")
