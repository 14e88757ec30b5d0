"""Check batch headers and records against the rules that a broker applies to record data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..constants import (
    CODEC_ZSTD,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, RecordError
from ..types import BatchTable
from .assign import codecs_of

KAFKA_ERRORS = {
    **dict.fromkeys(
        ("no_batch", "one_batch", "same_magic", "base_offset", "record_count", "control", "base_sequence"),
        "INVALID_RECORD",
    ),
    "key": "INVALID_RECORD",
    "message_size": "MESSAGE_TOO_LARGE",
    "timestamp_bounds": "INVALID_TIMESTAMP",
    "timestamp_type": "INVALID_TIMESTAMP",
    "transactional_in_format": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "producer_id_in_format": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "codec_in_format": "UNSUPPORTED_COMPRESSION_TYPE",
    # Kafka has no error code for violations of the following rules. A broker usually raises an exception while it
    # rebuilds a batch that violates such a rule.
    **dict.fromkeys(
        (
            "codec",
            "timestamp",
            "offset_deltas",
            "headers_in_format",
            "control_in_format",
            "producer_id",
            "producer_epoch",
        ),
        "UNKNOWN_SERVER_ERROR",
    ),
    "corrupt_checksum": "CORRUPT_MESSAGE",
    "truncated": "CORRUPT_MESSAGE",
    "unsupported": "CORRUPT_MESSAGE",
    "corrupt_structure": "INVALID_RECORD",
    "too_large": "MESSAGE_TOO_LARGE",
}
"""Maps the `code` of a validation error to the name of the error that a broker returns.

The names of the errors are the names of the constants in Kafka's enum ``Errors``.
"""
_MAX_DESCRIBED = 3
"""Largest number of records that an error message describes."""
_MAX_LISTED = 1 << 16
"""Largest number of records that an error lists. Each takes about 300 bytes of memory."""


class Records(NamedTuple):
    """The record fields that the rules check, as arrays with one element per record."""

    offsets: np.ndarray
    timestamps: np.ndarray
    null_keys: np.ndarray
    ends: np.ndarray
    """Total number of records up to the end of each batch."""


class Rules(NamedTuple):
    """Settings of a topic that the rules use; see `LogValidator`."""

    magic: int
    create_time: bool
    before: int
    after: int
    compacted: bool
    max_message_bytes: int | None
    client: bool

    def time_bounds(self, now: int) -> tuple[int, int]:
        """Return the lowest and the highest timestamp that a record with the timestamp type CreateTime may have."""
        return max(now - self.before, MIN_OFFSET), min(now + self.after, MAX_OFFSET)

    def certainly_accept(self, row: Any, earliest: int, latest: int, null_key: bool, now: int) -> bool:
        """Return True if a summary of a batch shows that all its records comply; else, each must be checked."""
        # `earliest` and `latest` are the extreme timestamp deltas. `null_key` means that a record
        # has a null key.
        if self.compacted and null_key:
            return False
        base, highest, (low, high) = int(row["base_timestamp"]), int(row["max_timestamp"]), self.time_bounds(now)
        if not self.create_time:
            return True
        if base + latest != highest or highest < NO_TIMESTAMP:
            return False
        return (highest == NO_TIMESTAMP and earliest == latest) or (low <= base + earliest and highest <= high)

    def check_batches(self, table: BatchTable) -> None:
        """Raise InvalidError for the first batch whose header breaks a rule."""
        if not len(table):
            raise InvalidError("the buffer is empty; it must contain a batch", code="no_batch")
        attributes, v2, producer = (
            table["attributes"],
            table["magic"] == MAGIC_V2,
            table["producer_id"] != NO_PRODUCER_ID,
        )
        rules: list[tuple[str, str, np.ndarray]] = [
            (
                "same_magic",
                "the format of the batch differs from the format of the first batch",
                table["magic"] != table["magic"][0],
            ),
            ("codec", "the codec id is unknown", codecs_of(table) > CODEC_ZSTD),
            (
                "codec_in_format",
                "a wrapper message cannot be compressed with zstd",
                ~v2 & (codecs_of(table) == CODEC_ZSTD),
            ),
        ]
        if self.max_message_bytes is not None:
            rules.append(
                (
                    "message_size",
                    f"the size exceeds max_message_bytes ({self.max_message_bytes})",
                    table["size"] > self.max_message_bytes,
                )
            )
        if self.client:
            deltas = table["last_offset_delta"].astype(np.int64) + 1
            more = np.zeros(len(table), bool)
            more[1:] = bool(v2[0] or codecs_of(table).any())
            rules += [
                ("one_batch", "a client may send only one batch", more),
                ("base_offset", "the base offset of a client's batch must be 0", v2 & (table["base_offset"] != 0)),
                (
                    "record_count",
                    "the record count must be the last offset delta plus 1",
                    v2 & ((table["count"] != deltas) | (deltas < 1)),
                ),
                ("control", "a client may not send control records", v2 & ((attributes & CONTROL_BIT) != 0)),
                (
                    "base_sequence",
                    "the base sequence is negative, although the batch has a producer id",
                    v2 & producer & (table["base_sequence"] < 0),
                ),
            ]
        else:
            negative = (table["last_offset_delta"] < 0) | (v2 & (table["count"] < 0))
            rules.append(("record_count", "the record count or the last offset delta is negative", negative))
        if self.magic < MAGIC_V2:
            transactional = v2 & ((attributes & TRANSACTIONAL_BIT) != 0)
            rules.append(
                ("transactional_in_format", f"format {self.magic} does not support transactions", transactional)
            )
            rules.append(("producer_id_in_format", f"format {self.magic} does not support producer ids", v2 & producer))
        for code, message, wrong in rules:
            if wrong.any():
                row = table[int(np.argmax(wrong))]
                raise InvalidError(message, int(row["position"]), int(row["base_offset"]), code=code)

    def check_records(self, table: BatchTable, seen: Records, now: int) -> None:
        """Raise InvalidError if records break a rule. The error lists these records."""
        if not len(seen.offsets):
            return
        wrong: list[tuple[np.ndarray, str, Callable[[int], str]]] = []
        if self.compacted:
            wrong.append((seen.null_keys, "key", lambda _: "a compacted topic does not accept a record without a key"))
        has_timestamp = seen.timestamps != NO_TIMESTAMP
        if self.create_time:
            low, high = self.time_bounds(now)
            age = np.int64(now) - seen.timestamps  # The subtraction overflows silently, as in Java.
            outside = has_timestamp & ((age > self.before) | (-age > self.after))
            wrong.append(
                (
                    outside,
                    "timestamp_bounds",
                    lambda i: f"timestamp {seen.timestamps[i]} is not between {low} and {high}",
                )
            )
        append_time = np.repeat((table["attributes"] & LOG_APPEND_TIME_BIT) != 0, np.diff(seen.ends, prepend=0))
        if append_time.any():
            append_time &= ~has_timestamp if self.create_time else True
            wrong.append((append_time, "timestamp_type", lambda _: "only a broker may set LogAppendTime"))
        errors: dict[int, RecordError] = {}
        every = np.flatnonzero(np.logical_or.reduce([mask for mask, _, _ in wrong])) if wrong else np.zeros(0, np.int64)
        end = int(every[_MAX_LISTED - 1]) + 1 if len(every) > _MAX_LISTED else len(seen.offsets)
        for mask, code, text in wrong:
            for i in np.flatnonzero(mask[:end]).tolist():
                errors.setdefault(i, RecordError(i, code, text(i)))
        if not errors:
            return
        found = tuple(errors[i] for i in sorted(errors))
        at = int(np.searchsorted(seen.ends, found[0].batch_index, "right"))
        row = table[at]
        of_batch = (e.code for e in found if e.batch_index < seen.ends[at])
        code = next((code for code in of_batch if KAFKA_ERRORS.get(code) == "INVALID_TIMESTAMP"), found[0].code)
        message = "; ".join(f"record {e.batch_index}: {e.message}" for e in found[:_MAX_DESCRIBED])
        more = f"; and {len(found) - _MAX_DESCRIBED} more" if len(found) > _MAX_DESCRIBED else ""
        raise InvalidError(message + more, int(row["position"]), int(row["base_offset"]), code=code, records=found)
