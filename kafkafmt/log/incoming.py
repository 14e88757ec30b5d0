"""Encoded batches that are to be appended: are they whole and sound, and can they follow what is there?"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._backend import core
from ..constants import CONTROL_BIT, MAGIC_V2, MAX_OFFSET, TRANSACTIONAL_BIT
from ..errors import InvalidError, TooLargeError, TruncatedError
from ..types import BATCH_DTYPE

AT_A_TIME = 8192


def scan(buffer: Any) -> np.ndarray:
    """The table of all batches of a buffer, each of them whole, its CRC right."""
    tables, at, full = [], 0, True
    while full:
        table = np.zeros(AT_A_TIME, BATCH_DTYPE)
        found = core.scan_batches(buffer, table, at)
        if found.error is not None:
            raise found.error
        tables.append(table[: found.count])
        at, full = found.position, found.count == AT_A_TIME
    if at < memoryview(buffer).nbytes:
        raise TruncatedError("the last batch is not whole", at)
    return np.concatenate(tables)


def assign(buffer: bytearray, table: np.ndarray, offset: int, leader_epoch: int) -> None:
    """Give batches of format 2 the offsets from one on, and a leader epoch: both stand outside their CRC."""
    for i, (at, delta) in enumerate(zip(table["position"].tolist(), table["last_offset_delta"].tolist(), strict=True)):
        if table["magic"][i] < MAGIC_V2:
            raise InvalidError("offsets are assigned to batches of format 2 only", at, rule="format")
        if delta < 0 or offset + delta >= MAX_OFFSET:
            raise InvalidError(f"last offset delta {delta} leaves no offset", at, rule="last_offset_delta")
        buffer[at : at + 8] = offset.to_bytes(8, "big")
        buffer[at + 12 : at + 16] = leader_epoch.to_bytes(4, "big", signed=True)
        table["base_offset"][i] = offset
        offset += delta + 1
    table["leader_epoch"] = leader_epoch


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
