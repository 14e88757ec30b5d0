"""What a broker asks of record data that is to be appended: of its headers, and of every record."""

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
    # what it meets unprepared, most of it while it builds a batch anew
    **dict.fromkeys(
        ("codec", "timestamp", "headers_in_format", "control_in_format", "producer_id", "producer_epoch"),
        "UNKNOWN_SERVER_ERROR",
    ),
    "corrupt_checksum": "CORRUPT_MESSAGE",
    "truncated": "CORRUPT_MESSAGE",
    "unsupported": "CORRUPT_MESSAGE",
    "corrupt_structure": "INVALID_RECORD",
    "too_large": "MESSAGE_TOO_LARGE",
}
"""What a broker answers, by the `rule` of the error that validation raises."""
_SHOWN = 3
_MOST_ERRORS = 1 << 16
"""Records that one error lists. Each takes some 300 bytes of memory, and 7 on the wire."""
"""How many records an error's message tells of."""


class Records(NamedTuple):
    """What the rules ask of every record, and how many there are up to the end of each row of the table."""

    offsets: np.ndarray
    timestamps: np.ndarray
    null_keys: np.ndarray
    ends: np.ndarray


class Rules(NamedTuple):
    """The settings of a topic that rules are about; see LogValidator."""

    magic: int
    create_time: bool
    before: int
    after: int
    compacted: bool
    max_message_bytes: int | None
    client: bool

    def time_bounds(self, now: int) -> tuple[int, int]:
        """Between which times a CreateTime may be."""
        return max(now - self.before, MIN_OFFSET), min(now + self.after, MAX_OFFSET)

    def are_kept_by(self, row: Any, earliest: int, latest: int, delta_of_latest: int, null_key: bool, now: int) -> bool:
        """Whether it is clear at once that the records of a batch keep the rules, by what the core has seen of them."""
        if self.compacted and null_key:
            return False
        base, highest, (low, high) = int(row["base_timestamp"]), int(row["max_timestamp"]), self.time_bounds(now)
        if not self.create_time:
            return True
        if base + latest != highest or highest < NO_TIMESTAMP:
            return False
        return (highest == NO_TIMESTAMP and earliest == latest) or (low <= base + earliest and highest <= high)

    def check_batches(self, table: np.ndarray) -> None:
        """The rules that headers alone can break."""
        if not len(table):
            raise InvalidError("there is no batch", rule="no_batch")
        attributes, v2, producer = (
            table["attributes"],
            table["magic"] == MAGIC_V2,
            table["producer_id"] != NO_PRODUCER_ID,
        )
        rules: list[tuple[str, str, np.ndarray]] = [
            ("same_magic", "format is not that of the first batch", table["magic"] != table["magic"][0]),
            ("codec", "there is no such codec", codecs_of(table) > CODEC_ZSTD),
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
                    f"size is above {self.max_message_bytes} bytes",
                    table["size"] > self.max_message_bytes,
                )
            )
        if self.client:
            deltas = table["last_offset_delta"].astype(np.int64) + 1
            more = np.zeros(len(table), bool)
            more[1:] = bool(v2[0] or codecs_of(table).any())
            rules += [
                ("one_batch", "there is more than one batch", more),
                ("base_offset", "base offset of a client's batch is not 0", v2 & (table["base_offset"] != 0)),
                (
                    "record_count",
                    "record count is not last offset delta + 1",
                    v2 & ((table["count"] != deltas) | (deltas < 1)),
                ),
                ("control", "clients may not write control records", v2 & ((attributes & CONTROL_BIT) != 0)),
                (
                    "base_sequence",
                    "base sequence is negative beside a producer id",
                    v2 & producer & (table["base_sequence"] < 0),
                ),
            ]
        else:
            negative = (table["last_offset_delta"] < 0) | (v2 & (table["count"] < 0))
            rules.append(("record_count", "record count or last offset delta is negative", negative))
        if self.magic < MAGIC_V2:
            transactional = v2 & ((attributes & TRANSACTIONAL_BIT) != 0)
            rules.append(("transactional_in_format", f"format {self.magic} has no transactions", transactional))
            rules.append(("producer_id_in_format", f"format {self.magic} has no producer ids", v2 & producer))
        for rule, message, wrong in rules:
            if wrong.any():
                row = table[int(np.argmax(wrong))]
                raise InvalidError(message, int(row["position"]), int(row["base_offset"]), rule=rule)

    def check_records(self, table: np.ndarray, seen: Records, now: int) -> None:
        """The rules that single records can break."""
        if not len(seen.offsets):
            return
        wrong: list[tuple[np.ndarray, str, Callable[[int], str]]] = []
        if self.compacted:
            wrong.append((seen.null_keys, "key", lambda _: "a compacted topic takes no record without a key"))
        given = seen.timestamps != NO_TIMESTAMP
        if self.create_time:
            low, high = self.time_bounds(now)
            since = np.int64(now) - seen.timestamps  # leaves 64 bits as in Java
            outside = given & ((since > self.before) | (-since > self.after))
            wrong.append(
                (
                    outside,
                    "timestamp_bounds",
                    lambda i: f"timestamp {seen.timestamps[i]} is not within {low} and {high}",
                )
            )
        stamped = np.repeat((table["attributes"] & LOG_APPEND_TIME_BIT) != 0, np.diff(seen.ends, prepend=0))
        if stamped.any():
            stamped &= ~given if self.create_time else True
            wrong.append((stamped, "timestamp_type", lambda _: "only a broker sets LogAppendTime"))
        errors: dict[int, RecordError] = {}
        every = np.flatnonzero(np.logical_or.reduce([mask for mask, _, _ in wrong])) if wrong else np.zeros(0, np.int64)
        end = int(every[_MOST_ERRORS - 1]) + 1 if len(every) > _MOST_ERRORS else len(seen.offsets)
        for mask, rule, text in wrong:
            for i in np.flatnonzero(mask[:end]).tolist():
                errors.setdefault(i, RecordError(i, rule, text(i)))
        if not errors:
            return
        found = tuple(errors[i] for i in sorted(errors))
        at = int(np.searchsorted(seen.ends, found[0].batch_index, "right"))
        row = table[at]
        of_batch = (e.rule for e in found if e.batch_index < seen.ends[at])
        rule = next((rule for rule in of_batch if KAFKA_ERRORS.get(rule) == "INVALID_TIMESTAMP"), found[0].rule)
        told = "; ".join(f"record {e.batch_index}: {e.message}" for e in found[:_SHOWN])
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InvalidError(told + more, int(row["position"]), int(row["base_offset"]), rule=rule, records=found)
