"""What a broker does to record data before it appends it: validation, and offsets assigned (Kafka: LogValidator).

All is checked before a byte is written. Then a batch is either changed where it lies (offset, leader epoch; timestamp
type and maximum timestamp, and only with these the CRC), or, where codec or format of the topic are others or inner
offsets do not count from 0, its records are built anew.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, NamedTuple, Unpack

import numpy as np

from .._backend import core
from ..arguments import fitting, integer
from ..constants import (
    BATCH_HEADER_SIZE,
    CODEC_MASK,
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
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, KafkaFormatError, OffsetOverflowError, StructureError, TooLargeError
from ..types import BATCH_DTYPE, Buffer, byte_view, view_of
from .assign import codecs_of, next_offset_of, scan_all, set_timestamp
from .builder import BatchBuilder, codec_id, format_number
from .columns import decoded
from .reader import RecordReader
from .renumber import with_rising_deltas
from .rules import Records, Rules
from .signatures import ValidatorOptions

ORIGINS = ("client", "coordinator", "raft_leader")
TIMESTAMP_TYPES = {"CreateTime": CREATE_TIME, "LogAppendTime": LOG_APPEND_TIME}
_AT_ONCE = 64
"""Batches read at a time: what the scan has read is then still in the cache."""
_KEPT = 1 << 22
"""Bytes of decompressed records that a validator keeps room for from call to call."""


class Validated(NamedTuple):
    """Record data ready to be appended.

    records: the buffer given, if nothing had to be rebuilt and it can be written to. rebuilt: why some of it was built anew:
    "codec", "format" or "inner_offsets"; None if all was done in place. count: records. max_timestamp, and the offset of
    the first record that has it (-1 where there is none, or records were not looked at). bytes(result) are the records' too, and from
    Python 3.12 on it is a buffer itself.
    """

    records: Buffer
    rebuilt: str | None
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody misses
    first_offset: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int

    def __bytes__(self) -> bytes:
        return bytes(self.records)

    def __buffer__(self, flags: int) -> memoryview:
        return view_of(self.records)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items() if name != "records")
        return f"Validated(records=<{view_of(self.records).nbytes} bytes>, {said})"

    @property
    def in_place(self) -> bool:
        return self.rebuilt is None


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


class _Decompressed:
    """A batch's records, decompressed into a buffer that is kept for the next. Not for two threads at once."""

    def __init__(self, max_batch_bytes: int) -> None:
        from ..codecs import Arena, Decompressor

        self._decompressor, self._arena = Decompressor(max_batch_bytes), Arena(1 << 16)

    @property
    def room(self) -> int:
        return len(self._arena.view)

    def look_at(
        self, payload: memoryview, codec: int, count: int, last_offset_delta: int
    ) -> tuple[int, int, int, bool] | None:
        self._arena.filled = 0
        size = self._decompressor.decompress(codec, payload, self._arena)
        return core.look_at_payload(self._arena.view[:size], count, last_offset_delta)


REASONS = (None, "codec", "format", "inner_offsets")


def validate_and_assign_offsets(buffer: Buffer, next_offset: int, **settings: Unpack[ValidatorOptions]) -> Validated:
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
        magic = format_number(magic)
        before_max_ms, after_max_ms = (
            integer("before_max_ms", before_max_ms, 0),
            integer("after_max_ms", after_max_ms, 0),
        )
        if now_ms is not None:
            now_ms = fitting("now_ms", integer("now_ms", now_ms, 0), 64)
        if max_message_bytes is not None:
            max_message_bytes = min(integer("max_message_bytes", max_message_bytes, 0), MAX_OFFSET)
        if codec != "producer" or level is not None:
            BatchBuilder(
                codec=CODEC_NONE if codec == "producer" else codec, level=level
            )  # a wrong level is told before anything is done
        self._shown = f"codec={codec!r}, magic={magic}, timestamp_type={timestamp_type!r}, origin={origin!r}"
        self._codec = None if codec == "producer" else codec_id(codec)
        self._create_time, self._client = TIMESTAMP_TYPES[timestamp_type] == CREATE_TIME, origin == "client"
        self._rules = Rules(
            magic, self._create_time, before_max_ms, after_max_ms, compacted, max_message_bytes, self._client
        )
        self._level, self._magic, self._now = level, magic, now_ms
        self._leader_epoch = fitting("leader_epoch", leader_epoch, 32)
        self._check_records, self._max_batch_bytes = check_records, max_batch_bytes
        self._spare: list[_Decompressed] = []  # one for each thread that is at work, at the most

    def __repr__(self) -> str:
        return f"<kafkafmt.LogValidator: {self._shown}>"

    def validate(self, buffer: Buffer, next_offset: int) -> Validated:
        """Check, then assign offsets from `next_offset` on. A writable buffer is changed where nothing is rebuilt; on error never.

        InvalidError for a broken rule, which its `rule` names; the other KafkaFormatErrors for data that is damaged. KAFKA_ERRORS
        has what a broker would answer, by the `rule` of either.
        """
        next_offset = next_offset_of(next_offset)
        now = int(time.time() * 1000) if self._now is None else self._now
        must_copy = view_of(buffer).readonly and view_of(buffer).c_contiguous
        target = bytearray(view_of(buffer)) if must_copy else buffer
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

    def _at_once(self, buffer: Buffer, next_offset: int, now: int) -> Validated | None:
        """The outcome where all batches are of format 2 and stay what they are, as nearly all do: one look at each."""
        if self._magic != MAGIC_V2 or now > MAX_OFFSET // 2:
            return None
        told = self._number(buffer, next_offset, now, self._check_records)
        if told is None and self._check_records:
            told = self._compressed_at_once(buffer, next_offset, now)
        if told is None:
            return None
        count, following, max_timestamp, offset_of_max = told
        return Validated(buffer, None, count, next_offset, following, max_timestamp, offset_of_max)

    def _number(self, buffer: Buffer, next_offset: int, now: int, check_records: bool) -> tuple[int, int, int, int] | None:
        return core.validate_buffer(
            buffer, next_offset, self._leader_epoch, self._client, self._codec, self._rules.max_message_bytes, check_records,
            self._rules.compacted, *self._rules.time_bounds(now), None if self._create_time else now,
        )  # fmt: skip

    def _compressed_at_once(self, buffer: Buffer, next_offset: int, now: int) -> tuple[int, int, int, int] | None:
        """The same for a single compressed batch, as clients send it."""
        table = np.empty(1, BATCH_DTYPE)
        row = table[0]
        if not core.scan_batches(buffer, table, 0, None, False).count or row["magic"] != MAGIC_V2:
            return None
        codec, end = int(row["attributes"]) & CODEC_MASK, int(row["position"] + row["size"])
        view = byte_view(buffer)
        if not CODEC_NONE < codec <= CODEC_ZSTD or end < len(view) or self._codec not in (None, codec):
            return None
        try:
            records = self._spare.pop()
        except IndexError:
            records = _Decompressed(self._max_batch_bytes)
        try:
            seen = records.look_at(view[BATCH_HEADER_SIZE:], codec, int(row["count"]), int(row["last_offset_delta"]))
        except KafkaFormatError:
            return None
        if records.room <= _KEPT:
            self._spare.append(records)
        if seen is None or not self._rules.are_kept_by(row, *seen, now):
            return None
        told = self._number(buffer, next_offset, now, False)
        if told is None or not self._create_time or told[2] == NO_TIMESTAMP:
            return told
        return (*told[:3], next_offset + seen[2])

    def _with_care(self, buffer: Buffer, next_offset: int, now: int) -> Validated:
        """The same for any batches: what is wrong with them is found here, and what has to be built anew."""
        table = scan_all(buffer)
        self._rules.check_batches(table)
        seen = self._read(buffer, table)
        self._rules.check_records(table, seen, now)
        groups = self._groups(table, seen, next_offset)
        anew = np.flatnonzero(groups.reason).tolist()
        parts = {i: self._build(buffer, table, groups, i, now) for i in anew}
        target = bytearray(buffer) if anew else buffer
        latest = self._write(target, table, groups, seen, now)
        if anew:
            target = _joined(target, table, groups, parts)
        end_offset = int(groups.offset[-1] + self._spans(table, groups)[-1])
        return Validated(
            target, REASONS[int(groups.reason.max())], int(seen.ends[-1]), next_offset, end_offset, *latest
        )

    def _counted_anew(self, buffer: Buffer, next_offset: int, now: int) -> Validated | None:
        """A client's batch that is refused for nothing but its offset deltas, where it is built anew for its codec or format."""
        table = scan_all(buffer)
        stays = self._magic == MAGIC_V2 and self._codec in (None, int(codecs_of(table)[0]))
        if not self._client or len(table) > 1 or table["magic"][0] != MAGIC_V2 or stays:
            return None
        batch = with_rising_deltas(byte_view(buffer), self._max_batch_bytes)
        if batch is None:
            return None
        try:
            return self._with_care(batch, next_offset, now)
        except StructureError:
            return None

    def _read(self, buffer: Buffer, table: np.ndarray) -> Records:
        """Walk all records, which checks their structure too."""
        counts = table["count"].astype(np.int64)
        empty = np.zeros(0, np.int64)
        if not self._check_records and (table["magic"] == MAGIC_V2).all():
            return Records(empty, empty, empty.astype(bool), np.cumsum(counts))
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        reader = RecordReader(max_batch_bytes=self._max_batch_bytes, check_offsets=False)
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
        offsets, timestamps, null_keys = map(
            np.concatenate, zip((empty, empty, empty.astype(bool)), *parts, strict=True)
        )
        return Records(offsets, timestamps, null_keys, np.cumsum(counts))

    def _groups(self, table: np.ndarray, seen: Records, next_offset: int) -> _Groups:
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
        reason[control | ((end == first) & (magic == self._magic))] = (
            0  # nor is there anything to compress where no record is
        )
        numbered = compressed & (reason == 0) & (self._client | (magic != MAGIC_V2))  # a log's batches may have gaps
        for i in np.flatnonzero(numbered).tolist() if len(seen.offsets) else ():
            offsets = seen.offsets[first[i] : end[i]]
            if (offsets != np.arange(len(offsets)) + (0 if self._client else offsets[0])).any():
                reason[i] = 3
        groups = _Groups(start, stop, first, end, codec, reason, np.zeros(len(start), np.int64))
        spans = self._spans(table, groups)
        if int(spans.sum()) > MAX_OFFSET - next_offset:
            raise OffsetOverflowError(next_offset)
        groups.offset[:] = next_offset + np.cumsum(spans) - spans
        return groups

    def _spans(self, table: np.ndarray, groups: _Groups) -> np.ndarray:
        """How many offsets each group takes: a batch that stays where it lies keeps its gaps."""
        stays = (table["magic"][groups.start] == MAGIC_V2) & (groups.reason == 0)
        spans: np.ndarray = np.where(
            stays, table["last_offset_delta"][groups.start].astype(np.int64) + 1, groups.end - groups.first
        )
        return spans

    def _build(self, buffer: Buffer, table: np.ndarray, groups: _Groups, i: int, now: int) -> bytes:
        """A group's records in the topic's codec and format, as one batch."""
        row = table[groups.start[i]]
        where = int(row["position"]), int(row["base_offset"])
        try:
            return self._append_all(self._builder(row, groups, i, now), buffer, table[groups.start[i] : groups.stop[i]])
        except InvalidError as error:  # its place is one in the batch that is built
            error.position, error.base_offset = where
            raise

    def _builder(self, row: Any, groups: _Groups, i: int, now: int) -> BatchBuilder:
        return BatchBuilder(
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

    def _append_all(self, builder: BatchBuilder, buffer: Buffer, table: np.ndarray) -> bytes:
        reader = RecordReader(max_batch_bytes=self._max_batch_bytes, check_offsets=False)
        for source, columns in reader.read(buffer, table):
            given = decoded(source, columns)._replace(offsets=None)
            assert given.timestamps is not None
            if (given.timestamps[: given.rows] < NO_TIMESTAMP).any():  # also where the format has none
                raise InvalidError("a record's timestamp is negative and not -1", rule="timestamp")
            if (
                builder.append_columns(given if self._magic > MAGIC_V0 else given._replace(timestamps=None))
                < given.rows
            ):
                raise TooLargeError(
                    "messages in a row make a larger batch than there can be", int(table["position"][0])
                )
        return builder.finish()

    def _write(self, buffer: Buffer, table: np.ndarray, groups: _Groups, seen: Records, now: int) -> tuple[int, int]:
        """What stays where it lies gets its offsets and timestamps; the maximum timestamp of all, and its offset."""
        counts = np.diff(seen.ends, prepend=0)
        latest = table["max_timestamp"].copy()
        if len(seen.timestamps):
            filled = np.flatnonzero(counts)
            latest[filled] = np.maximum(
                np.maximum.reduceat(seen.timestamps, (seen.ends - counts)[filled]), NO_TIMESTAMP
            )
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
        view = byte_view(buffer)
        for i in np.flatnonzero(other & (rows["magic"] > MAGIC_V0)).tolist():
            set_timestamp(view, rows[i], not self._create_time, int(timestamps[i]))
        return best, best_offset

    def _latest(
        self, table: np.ndarray, groups: _Groups, seen: Records, assigned: np.ndarray, latest: np.ndarray, now: int
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
            delta = (
                int(seen.offsets[i]) - int(table["base_offset"][row])
            ) % 2**64  # the decoded offset wraps after 64 bits
            return best, int(assigned[row]) + delta
        return best, int(groups.offset[group] + i - groups.first[group])


def _joined(buffer: Buffer, table: np.ndarray, groups: _Groups, parts: dict[int, bytes]) -> bytearray:
    """The groups in their order, some as they lie in the buffer, some built anew."""
    view, out = view_of(buffer), bytearray()
    for i, (start, stop) in enumerate(zip(groups.start.tolist(), groups.stop.tolist(), strict=True)):
        last = table[stop - 1]
        out += parts[i] if i in parts else view[int(table["position"][start]) : int(last["position"] + last["size"])]
    return out
