"""Encoded batches that are to be appended: can they follow what is there?"""

from __future__ import annotations

import numpy as np

from ..constants import CONTROL_BIT, MAX_OFFSET, TRANSACTIONAL_BIT
from ..errors import InvalidError, TooLargeError


def check(table: np.ndarray, next_offset: int, segment_bytes: int) -> np.ndarray:
    """The last offsets of batches that can follow; InvalidError or TooLargeError where one cannot."""
    lasts: np.ndarray = table["base_offset"] + np.maximum(table["last_offset_delta"], 0)
    before = np.concatenate(([next_offset - 1], lasts))[: len(lasts)]
    wrong = (table["base_offset"] <= before) | (lasts < table["base_offset"]) | (lasts == MAX_OFFSET)
    if wrong.any():
        i = int(np.argmax(wrong))
        message = f"offsets {table['base_offset'][i]} to {lasts[i]} do not follow {before[i]}"
        raise InvalidError(message, int(table["position"][i]), int(table["base_offset"][i]), rule="offsets_in_order")
    large = table["size"] > segment_bytes
    if large.any():
        i = int(np.argmax(large))
        raise TooLargeError(f"a batch of {table['size'][i]} bytes is more than segment_bytes, {segment_bytes}", int(table["position"][i]))
    return lasts


def check_transactions(table: np.ndarray, opened: set[int]) -> None:
    """No plain batch of a producer whose transaction is open: a broker would not even start on such a log."""
    rows = table[table["producer_id"] >= 0]
    if not opened and not (rows["attributes"] & TRANSACTIONAL_BIT).any():
        return
    for row in rows:
        producer_id, attributes = int(row["producer_id"]), int(row["attributes"])
        if attributes & CONTROL_BIT:
            opened.discard(producer_id)
        elif attributes & TRANSACTIONAL_BIT:
            opened.add(producer_id)
        elif producer_id in opened:
            message = f"producer {producer_id} has a transaction open, and this batch is not part of it"
            raise InvalidError(message, int(row["position"]), int(row["base_offset"]), rule="transaction_state")
