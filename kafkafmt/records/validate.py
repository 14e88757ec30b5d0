"""What a broker does to record data before it appends it: validation, and offsets assigned (Kafka: LogValidator).

All is checked before a byte is written. Then a batch is either changed where it lies (offset, leader epoch; timestamp
type and maximum timestamp, and only with these the CRC), or, where codec or format of the topic are others or inner
offsets do not count from 0, its records are built anew.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..arguments import integer
from ..constants import (
    CODEC_NONE,
    CODEC_ZSTD,
    CONTROL_BIT,
    CREATE_TIME,
    DEFAULT_MAX_BATCH_BYTES,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    MAGIC_V0,
    MAGIC_V2,
    MAX_OFFSET,
    MIN_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, RecordError, StructureError
from ..types import Buffer
from .assign import codecs_of, scan_all, set_timestamp
from .builder import BatchBuilder, codec_id
from .columns import decoded
from .reader import RecordReader
from .renumber import with_rising_deltas

KAFKA_ERRORS = {
    "message_size": "MESSAGE_TOO_LARGE",
    "timestamp_bounds": "INVALID_TIMESTAMP",
    "timestamp_type": "INVALID_TIMESTAMP",
    "transactional_in_format": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "producer_id_in_format": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "codec_in_format": "UNSUPPORTED_COMPRESSION_TYPE",
}
"""What a broker answers by rule; INVALID_RECORD by any other."""
ORIGINS = ("client", "coordinator", "raft_leader")
TIMESTAMP_TYPES = {"CreateTime": CREATE_TIME, "LogAppendTime": LOG_APPEND_TIME}
_AT_ONCE = 64
"""Batches read at a time: what the scan has read is then still in the cache."""
SHOWN = 3
"""How many records an error's message tells of."""


class Validated(NamedTuple):
    """Record data ready to be appended.

    records: the buffer given, if nothing had to be rebuilt and it can be written to. rebuilt: why some of it was built anew:
    "codec", "format" or "inner_offsets"; None if all was done in place. count: records. max_timestamp, and the offset of
    the first record that has it (-1 where there is none, or records were not looked at).
    """

    records: Any
    rebuilt: str | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody misses
    first_offset: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items() if name != "records")
        return f"Validated(records=<{memoryview(self.records).nbytes} bytes>, {said})"

    @property
    def in_place(self) -> bool:
        return self.rebuilt is None


class _Records(NamedTuple):
    """What the rules ask of every record, and how many there are up to the end of each row of the table."""

    offsets: np.ndarray
    timestamps: np.ndarray
    null_keys: np.ndarray
    ends: np.ndarray


class _Groups(NamedTuple):
    """Rows of the table that become one batch if they are built anew: a batch or wrapper, or plain messages in a row.

    Arrays, an element a group: its rows, its records, the codec it gets, why it is built anew (an index of REASONS; 0: it is
    not), its first offset.
    """

    start: np.ndarray
    stop: np.ndarray
    first: np.ndarray
    end: np.ndarray
    codec: np.ndarray
    reason: np.ndarray
    offset: np.ndarray


REASONS = (None, "codec", "format", "inner_offsets")


def validate_and_assign_offsets(buffer: Buffer, next_offset: int, **settings: Any) -> Validated:
    """`LogValidator(**settings).validate(buffer, next_offset)`."""
    return LogValidator(**settings).validate(buffer, next_offset)


class LogValidator:
    """A broker's rules for what is appended to a partition.

    codec, level: the topic's compression.type; "producer" keeps each batch's. magic: the topic's format. timestamp_type:
    CreateTime or LogAppendTime. before_max_ms, after_max_ms: how far from `now_ms` (None: the clock's) a CreateTime may
    be. compacted: every record needs a key. leader_epoch: written into batches. max_message_bytes: of a batch or message, its
    first 12 bytes included. origin: "client" asks for what a produce request has to be: one batch of format 2 (or one
    wrapper, or messages) from offset 0 on, no control records; "coordinator" and "raft_leader" take any number of batches.
    check_records: False believes the headers of batches of format 2, for data that was validated before.

    Stricter than Kafka in one point: in an uncompressed batch that stays as it is, offset deltas that do not rise up to the last one
    are an error. Kafka does not look at them there, and appends a batch that contradicts itself.
    """

    def __init__(
        self,
        *,
        codec: str | int = "producer",
        level: int | None = None,
        magic: int = MAGIC_V2,
        timestamp_type: str = "CreateTime",
        now_ms: int | None = None,
        before_max_ms: int = 2**63 - 1,
        after_max_ms: int = 3_600_000,
        compacted: bool = False,
        leader_epoch: int = 0,
        max_message_bytes: int | None = None,
        origin: str = "client",
        check_records: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        if origin not in ORIGINS:
            raise ValueError(f"origin is {origin!r}; it can be {', '.join(ORIGINS)}")
        if timestamp_type not in TIMESTAMP_TYPES:
            raise ValueError(f"timestamp_type is {timestamp_type!r}; it can be {', '.join(TIMESTAMP_TYPES)}")
        if magic not in (0, 1, 2):
            raise ValueError(f"magic is {magic!r}; it can be 0, 1 or 2")
        integer("before_max_ms", before_max_ms)
        integer("after_max_ms", after_max_ms)
        self._shown = f"codec={codec!r}, magic={magic}, timestamp_type={timestamp_type!r}, origin={origin!r}"
        self._codec = None if codec == "producer" else codec_id(codec)
        self._level, self._magic, self._compacted, self._leader_epoch = level, magic, compacted, leader_epoch
        self._create_time = TIMESTAMP_TYPES[timestamp_type] == CREATE_TIME
        self._now, self._before, self._after = now_ms, before_max_ms, after_max_ms
        self._max_message_bytes, self._client, self._check_records = max_message_bytes, origin == "client", check_records
        self._max_batch_bytes = max_batch_bytes

    def __repr__(self) -> str:
        return f"<kafkafmt.LogValidator: {self._shown}>"

    def validate(self, buffer: Buffer, next_offset: int) -> Validated:
        """Check, then assign offsets from `next_offset` on. A writable buffer is changed where nothing is rebuilt; on error never.

        InvalidError for a broken rule, which its `rule` names (KAFKA_ERRORS has what a broker would answer); the other
        KafkaFormatErrors for data that is damaged.
        """
        integer("next_offset", next_offset, 0)
        now = int(time.time() * 1000) if self._now is None else self._now
        raw: Any = buffer
        target: Any = bytearray(raw) if memoryview(raw).readonly and memoryview(raw).c_contiguous else raw
        told = self._at_once(target, next_offset, now)
        if told is not None:
            return told
        try:
            return self._with_care(target, next_offset, now)
        except StructureError:
            told = self._counted_anew(target, next_offset, now)
            if told is None:
                raise
            return told

    def _at_once(self, buffer: Any, next_offset: int, now: int) -> Validated | None:
        """The outcome where all batches are of format 2 and stay what they are, as nearly all do: one look at each."""
        if self._magic != MAGIC_V2 or not self._create_time or not 0 <= now < MAX_OFFSET // 2:
            return None
        told = core.validate_buffer(
            buffer, next_offset, self._leader_epoch, self._client, self._codec, self._max_message_bytes, self._check_records,
            self._compacted, *self._time_bounds(now),
        )  # fmt: skip
        if told is None:
            return None
        count, following, max_timestamp, offset_of_max = told
        return Validated(buffer, None, count, next_offset, following, max_timestamp, offset_of_max)

    def _time_bounds(self, now: int) -> tuple[int, int]:
        return max(now - self._before, MIN_OFFSET), min(now + self._after, MAX_OFFSET)

    def _with_care(self, buffer: Any, next_offset: int, now: int) -> Validated:
        """The same for any batches: what is wrong with them is found here, and what has to be built anew."""
        table = scan_all(buffer)
        self._check_batches(table)
        seen = self._read(buffer, table)
        self._check_each(table, seen, now)
        groups = self._groups(table, seen, next_offset)
        anew = np.flatnonzero(groups.reason).tolist()
        parts = {i: self._build(buffer, table, groups, i, now) for i in anew}
        target = bytearray(buffer) if anew else buffer
        latest = self._write(target, table, groups, seen, now)
        if anew:
            target = _joined(target, table, groups, parts)
        end_offset = int(groups.offset[-1] + self._spans(table, groups)[-1])
        return Validated(target, REASONS[int(groups.reason.max())], int(seen.ends[-1]), next_offset, end_offset, *latest)

    def _counted_anew(self, buffer: Any, next_offset: int, now: int) -> Validated | None:
        """A client's batch that is refused for nothing but its offset deltas, where it is built anew for its codec or format."""
        table = scan_all(buffer)
        stays = self._magic == MAGIC_V2 and self._codec in (None, int(codecs_of(table)[0]))
        if not self._client or len(table) > 1 or table["magic"][0] != MAGIC_V2 or stays:
            return None
        batch = with_rising_deltas(memoryview(buffer).cast("B"), self._max_batch_bytes)
        if batch is None:
            return None
        try:
            return self._with_care(batch, next_offset, now)
        except StructureError:
            return None

    def _check_batches(self, table: np.ndarray) -> None:
        """The rules that headers alone can break."""
        if not len(table):
            raise InvalidError("there is no batch", rule="no_batch")
        attributes, v2, producer = table["attributes"], table["magic"] == MAGIC_V2, table["producer_id"] != NO_PRODUCER_ID
        rules: list[tuple[str, str, np.ndarray]] = [
            ("same_magic", "format is not that of the first batch", table["magic"] != table["magic"][0]),
            ("codec", "there is no such codec", codecs_of(table) > CODEC_ZSTD),
            ("codec_in_format", "a wrapper message cannot be compressed with zstd", ~v2 & (codecs_of(table) == CODEC_ZSTD)),
        ]
        if self._max_message_bytes is not None:
            rules.append(("message_size", f"size is above {self._max_message_bytes} bytes", table["size"] > self._max_message_bytes))
        if self._client:
            deltas = table["last_offset_delta"].astype(np.int64) + 1
            more = np.zeros(len(table), bool)
            more[1:] = bool(v2[0] or codecs_of(table).any())
            rules += [
                ("one_batch", "there is more than one batch", more),
                ("base_offset", "base offset of a client's batch is not 0", v2 & (table["base_offset"] != 0)),
                ("record_count", "record count is not last offset delta + 1", v2 & ((table["count"] != deltas) | (deltas < 1))),
                ("control", "clients may not write control records", v2 & ((attributes & CONTROL_BIT) != 0)),
                ("base_sequence", "base sequence is negative beside a producer id", v2 & producer & (table["base_sequence"] < 0)),
            ]
        else:
            negative = (table["last_offset_delta"] < 0) | (v2 & (table["count"] < 0))
            rules.append(("record_count", "record count or last offset delta is negative", negative))
        if self._magic < MAGIC_V2:
            transactional = v2 & ((attributes & TRANSACTIONAL_BIT) != 0)
            rules.append(("transactional_in_format", f"format {self._magic} has no transactions", transactional))
            rules.append(("producer_id_in_format", f"format {self._magic} has no producer ids", v2 & producer))
        for rule, message, wrong in rules:
            if wrong.any():
                row: Any = table[int(np.argmax(wrong))]
                raise InvalidError(message, int(row["position"]), int(row["base_offset"]), rule=rule)

    def _read(self, buffer: Buffer, table: np.ndarray) -> _Records:
        """Walk all records, which checks their structure too."""
        counts = table["count"].astype(np.int64)
        empty = np.zeros(0, np.int64)
        if not self._check_records and (table["magic"] == MAGIC_V2).all():
            return _Records(empty, empty, empty.astype(bool), np.cumsum(counts))
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        reader = RecordReader(max_batch_bytes=self._max_batch_bytes)
        wrapper = counts < 0
        if wrapper.any():
            borders = np.flatnonzero(wrapper | np.concatenate(([True], wrapper[:-1]))).tolist()
        else:
            borders = list(range(0, len(table), _AT_ONCE))
        for start, stop in itertools.pairwise([*borders, len(table)]):
            before = len(parts)
            for _, columns in reader.read(buffer, table[start:stop]):
                assert columns.offset is not None
                assert columns.timestamp is not None
                assert columns.key_length is not None
                n = columns.rows
                parts.append((columns.offset[:n].copy(), columns.timestamp[:n].copy(), columns.key_length[:n] < 0))
            if wrapper[start]:
                counts[start] = sum(len(part[0]) for part in parts[before:])
        offsets, timestamps, null_keys = map(np.concatenate, zip((empty, empty, empty.astype(bool)), *parts, strict=True))
        return _Records(offsets, timestamps, null_keys, np.cumsum(counts))

    def _check_each(self, table: np.ndarray, seen: _Records, now: int) -> None:
        """The rules that single records can break."""
        if not len(seen.offsets):
            return
        wrong: list[tuple[np.ndarray, str, Callable[[int], str]]] = []
        if self._compacted:
            wrong.append((seen.null_keys, "key", lambda _: "a compacted topic takes no record without a key"))
        given = seen.timestamps != NO_TIMESTAMP
        if self._create_time:
            low, high = self._time_bounds(now)
            since = np.int64(now) - seen.timestamps  # leaves 64 bits as in Java
            outside = given & ((since > self._before) | (-since > self._after))
            wrong.append((outside, "timestamp_bounds", lambda i: f"timestamp {seen.timestamps[i]} is not within {low} and {high}"))
        stamped = np.repeat((table["attributes"] & LOG_APPEND_TIME_BIT) != 0, np.diff(seen.ends, prepend=0))
        if stamped.any():
            stamped &= ~given if self._create_time else True
            wrong.append((stamped, "timestamp_type", lambda _: "only a broker sets LogAppendTime"))
        errors: dict[int, RecordError] = {}
        for mask, rule, text in wrong:
            for i in np.flatnonzero(mask).tolist():
                errors.setdefault(i, RecordError(i, rule, text(i)))
        if not errors:
            return
        found = tuple(errors[i] for i in sorted(errors))
        at = int(np.searchsorted(seen.ends, found[0].batch_index, "right"))
        row: Any = table[at]
        of_batch = (e.rule for e in found if e.batch_index < seen.ends[at])
        rule = next((rule for rule in of_batch if KAFKA_ERRORS.get(rule) == "INVALID_TIMESTAMP"), found[0].rule)
        told = "; ".join(f"record {e.batch_index}: {e.message}" for e in found[:SHOWN])
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise InvalidError(told + more, int(row["position"]), int(row["base_offset"]), rule=rule, records=found)

    def _groups(self, table: np.ndarray, seen: _Records, next_offset: int) -> _Groups:
        plain = (table["magic"] < MAGIC_V2) & (codecs_of(table) == CODEC_NONE)
        begins = ~plain
        begins[0] = True
        begins[1:] |= ~plain[:-1]
        start = np.flatnonzero(begins)
        stop = np.append(start[1:], len(table))
        first, end = np.concatenate(([0], seen.ends))[start], seen.ends[stop - 1]
        magic, source = table["magic"][start], codecs_of(table)[start]
        codec = source if self._codec is None else np.full(len(start), self._codec, source.dtype)
        compressed = (source != CODEC_NONE) | (codec != CODEC_NONE)
        reason = np.where(compressed & (source != codec), 1, 0)
        reason[(reason == 0) & ((magic != self._magic) | (compressed & (self._magic == MAGIC_V0)))] = 2
        control = compressed & (source == CODEC_NONE) & ((table["attributes"][start] & CONTROL_BIT) != 0)
        reason[control | ((end == first) & (magic == self._magic))] = 0  # nor is there anything to compress where no record is
        numbered = compressed & (reason == 0) & (self._client | (magic != MAGIC_V2))  # a log's batches may have gaps
        for i in np.flatnonzero(numbered).tolist() if len(seen.offsets) else ():
            offsets = seen.offsets[first[i] : end[i]]
            if (offsets != np.arange(len(offsets)) + (0 if self._client else offsets[0])).any():
                reason[i] = 3
        groups = _Groups(start, stop, first, end, codec, reason, np.zeros(len(start), np.int64))
        spans = self._spans(table, groups)
        groups.offset[:] = next_offset + np.cumsum(spans) - spans
        return groups

    def _spans(self, table: np.ndarray, groups: _Groups) -> np.ndarray:
        """How many offsets each group takes: a batch that stays where it lies keeps its gaps."""
        stays = (table["magic"][groups.start] == MAGIC_V2) & (groups.reason == 0)
        spans: np.ndarray = np.where(stays, table["last_offset_delta"][groups.start].astype(np.int64) + 1, groups.end - groups.first)
        return spans

    def _build(self, buffer: Buffer, table: np.ndarray, groups: _Groups, i: int, now: int) -> bytes:
        """A group's records in the topic's codec and format, as one batch."""
        row: Any = table[groups.start[i]]
        where = int(row["position"]), int(row["base_offset"])
        builder = BatchBuilder(
            magic=self._magic,
            codec=int(groups.codec[i]),
            level=self._level if groups.codec[i] == self._codec else None,
            base_offset=int(groups.offset[i]),
            producer_id=int(row["producer_id"]),
            producer_epoch=int(row["producer_epoch"]),
            base_sequence=int(row["base_sequence"]),
            transactional=bool(row["attributes"] & TRANSACTIONAL_BIT),
            control=bool(row["attributes"] & CONTROL_BIT) and row["magic"] == MAGIC_V2,
            leader_epoch=self._leader_epoch,
            log_append_time=None if self._create_time or self._magic == MAGIC_V0 else now,
        )
        reader = RecordReader(max_batch_bytes=self._max_batch_bytes)
        for source, columns in reader.read(buffer, table[groups.start[i] : groups.stop[i]]):
            given = decoded(source, columns)._replace(offsets=None)
            assert given.timestamps is not None
            if (given.timestamps[: given.rows] < NO_TIMESTAMP).any():
                raise InvalidError("a record's timestamp is negative and not -1", *where, rule="timestamp")
            try:
                builder.append_columns(given if self._magic > MAGIC_V0 else given._replace(timestamps=None))
            except InvalidError as error:  # its place is one in the batch that is built
                error.position, error.base_offset = where
                raise
        return builder.finish()

    def _write(self, buffer: Any, table: np.ndarray, groups: _Groups, seen: _Records, now: int) -> tuple[int, int]:
        """What stays where it lies gets its offsets and timestamps; the maximum timestamp of all, and its offset."""
        counts = np.diff(seen.ends, prepend=0)
        latest = table["max_timestamp"].copy()
        if len(seen.timestamps):
            filled = np.flatnonzero(counts)
            latest[filled] = np.maximum(np.maximum.reduceat(seen.timestamps, (seen.ends - counts)[filled]), NO_TIMESTAMP)
        sizes = groups.stop - groups.start
        assigned = np.repeat(groups.offset, sizes) + seen.ends - counts - np.repeat(groups.first, sizes)
        best, best_offset = self._latest(table, groups, seen, assigned, latest, now)
        stays = np.repeat(groups.reason == 0, sizes)
        rows = table[stays]
        rows["base_offset"] = np.where(rows["count"] < 0, assigned[stays] + counts[stays] - 1, assigned[stays])
        rows["leader_epoch"] = self._leader_epoch
        core.write_offsets(buffer, rows)
        timestamps = latest[stays] if self._create_time else np.full(len(rows), now)
        bit = 0 if self._create_time else LOG_APPEND_TIME_BIT
        other = ((rows["attributes"] & LOG_APPEND_TIME_BIT) != bit) | (rows["max_timestamp"] != timestamps)
        view = memoryview(buffer).cast("B")
        for i in np.flatnonzero(other & (rows["magic"] > MAGIC_V0)).tolist():
            set_timestamp(view, rows[i], not self._create_time, int(timestamps[i]))
        return best, best_offset

    def _latest(
        self, table: np.ndarray, groups: _Groups, seen: _Records, assigned: np.ndarray, latest: np.ndarray, now: int
    ) -> tuple[int, int]:
        if not self._create_time and (self._magic > MAGIC_V0 or groups.reason.any()):
            return now, int(assigned[0])
        if self._magic == MAGIC_V0:
            return NO_TIMESTAMP, -1
        best = int(latest.max())
        found = seen.timestamps == best
        if best == NO_TIMESTAMP or not found.any():  # of an empty batch, or no record was looked at
            return best, -1
        i = int(np.argmax(found))
        row = int(np.searchsorted(seen.ends, i, "right"))
        group = int(np.searchsorted(groups.start, row, "right")) - 1
        if table["magic"][row] == MAGIC_V2 and groups.reason[group] == 0:
            return best, int(assigned[row] + seen.offsets[i] - table["base_offset"][row])
        return best, int(groups.offset[group] + i - groups.first[group])


def _joined(buffer: Any, table: np.ndarray, groups: _Groups, parts: dict[int, bytes]) -> bytearray:
    """The groups in their order, some as they lie in the buffer, some built anew."""
    view, out = memoryview(buffer), bytearray()
    for i, (start, stop) in enumerate(zip(groups.start.tolist(), groups.stop.tolist(), strict=True)):
        last: Any = table[stop - 1]
        out += parts[i] if i in parts else view[int(table["position"][start]) : int(last["position"] + last["size"])]
    return out
