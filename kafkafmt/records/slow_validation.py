"""Validate batches of any kind, report all errors, and rebuild batches if necessary.

`LogValidator` uses this module as a slow path for data that its fast path cannot handle.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._backend import core
from ..constants import (
    CODEC_NONE,
    CONTROL_BIT,
    LEGACY_KEY_AT,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MAX_OFFSET,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from ..errors import InvalidError, OffsetOverflowError, StructureError, TooLargeError
from ..types import BatchTable, Buffer, RecordColumns, byte_view, view_of
from .assign import codecs_of, scan_all, set_timestamp
from .builder import BatchBuilder
from .columns import decoded
from .java_reads import refused_by_java
from .odd_ends import OddEnd
from .reader import RecordReader
from .rules import Records, Rules
from .validated import Validated

REASONS = (None, "codec", "format", "inner_offsets")
_READ_BATCHES = 64
"""Number of batches that are decoded at a time, while they are still in the CPU cache."""


@dataclass(frozen=True)
class ValidatorSettings:
    """Settings of a `LogValidator`, after its constructor has checked the arguments."""

    rules: Rules
    codec: int | None
    """Id of the topic's codec. None means that each batch keeps its codec."""
    level: int | None
    magic: int
    create_time: bool
    """Whether ``message.timestamp.type`` of the topic is CreateTime."""
    client: bool
    """Whether the data comes from a client."""
    leader_epoch: int
    check_records: bool
    max_batch_bytes: int


class _Groups(NamedTuple):
    """Groups of adjacent batches, as arrays with one element per group."""

    # A group is a batch, a wrapper message, or adjacent uncompressed messages. A group that is
    # rebuilt becomes one batch.

    start: np.ndarray
    """Index of the first batch of the group."""
    stop: np.ndarray
    """Index after the last batch of the group."""
    first: np.ndarray
    """Index of the first record of the group."""
    end: np.ndarray
    """Index after the last record of the group."""
    codec: np.ndarray
    """Id of the group's codec in the result."""
    reason: np.ndarray
    """Reason why the group is rebuilt, as an index into REASONS; 0 if it is not rebuilt."""
    offset: np.ndarray
    """Offset that is assigned to the first record of the group."""


class SlowPath:
    """Validates batches of any kind with the settings of a `LogValidator`."""

    def __init__(self, settings: ValidatorSettings) -> None:
        self._settings = settings

    def validate(self, buffer: Buffer, next_offset: int, now: int) -> Validated:
        """Validate batches of any kind, report all errors, and rebuild batches if necessary."""
        table = scan_all(buffer)
        self._settings.rules.check_batches(table)
        if self._settings.check_records:
            _reject(refused_by_java(buffer, table))
        seen = self._read(buffer, table)
        self._settings.rules.check_records(table, seen, now)
        groups = self._groups(table, seen, next_offset)
        to_rebuild = np.flatnonzero(groups.reason).tolist()
        rebuilt = {i: self._build(buffer, table, groups, i, now) for i in to_rebuild}
        target = bytearray(buffer) if rebuilt else buffer
        latest = self._write(target, table, groups, seen, now)
        if rebuilt:
            target = _joined(target, table, groups, rebuilt)
        end_offset = int(groups.offset[-1] + self._spans(table, groups)[-1])
        return Validated(
            target, REASONS[int(groups.reason.max())], int(seen.ends[-1]), next_offset, end_offset, *latest
        )

    def _read(self, buffer: Buffer, table: BatchTable) -> Records:
        """Return the record fields that the rules check. Decoding the records also checks their structure."""
        counts = table["count"].astype(np.int64)
        empty = np.zeros(0, np.int64)
        if not self._settings.check_records and (table["magic"] == MAGIC_V2).all():
            return Records(empty, empty, empty.astype(bool), np.cumsum(counts))
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        reader = RecordReader(max_batch_bytes=self._settings.max_batch_bytes, check_offsets=False)
        wrapper = counts < 0
        if wrapper.any():
            borders = np.flatnonzero(wrapper | np.concatenate(([True], wrapper[:-1]))).tolist()
        else:
            borders = list(range(0, len(table), _READ_BATCHES))
        for start, stop in itertools.pairwise([*borders, len(table)]):
            before = len(parts)
            for source, columns in reader.read(buffer, table[start:stop]):
                assert columns.offset is not None
                assert columns.timestamp is not None
                assert columns.key_length is not None
                n = columns.rows
                if wrapper[start]:
                    _check_inner_magic(source, columns, table[start])
                parts.append((columns.offset[:n].copy(), columns.timestamp[:n].copy(), columns.key_length[:n] < 0))
            if wrapper[start]:
                counts[start] = sum(len(part[0]) for part in parts[before:])
        _reject(reader.take_odd_ends())
        offsets, timestamps, null_keys = map(
            np.concatenate, zip((empty, empty, empty.astype(bool)), *parts, strict=True)
        )
        return Records(offsets, timestamps, null_keys, np.cumsum(counts))

    def _groups(self, table: BatchTable, seen: Records, next_offset: int) -> _Groups:
        """Divide the batches into groups, decide which groups are rebuilt, and assign offsets to all groups."""
        plain = (table["magic"] < MAGIC_V2) & (codecs_of(table) == CODEC_NONE)
        begins = ~plain
        begins[0] = True
        begins[1:] |= ~plain[:-1]
        start = np.flatnonzero(begins)
        stop = np.append(start[1:], len(table))
        first, end = np.concatenate(([0], seen.ends))[start], seen.ends[stop - 1]
        magic, source = table["magic"][start], codecs_of(table)[start]
        codec = source if self._settings.codec is None else np.full(len(start), self._settings.codec, source.dtype)
        compressed = (source != CODEC_NONE) | (codec != CODEC_NONE)
        reason = np.where(compressed & (source != codec), 1, 0)
        reason[
            (reason == 0) & ((magic != self._settings.magic) | (compressed & (self._settings.magic == MAGIC_V0)))
        ] = 2
        # Control batches are never compressed, and batches without records have no data to compress.
        control = compressed & (source == CODEC_NONE) & ((table["attributes"][start] & CONTROL_BIT) != 0)
        reason[control | ((end == first) & (magic == self._settings.magic))] = 0
        # Wrapper messages must not have gaps between inner offsets. The same rule applies to all batches of a client.
        # A broker rebuilds a wrapper message. For a v2 batch, this fails, because the broker has not read keys and values.
        without_gaps = compressed & (reason == 0) & (self._settings.client | (magic != MAGIC_V2))
        for i in np.flatnonzero(without_gaps).tolist() if len(seen.offsets) else ():
            offsets = seen.offsets[first[i] : end[i]]
            if (offsets != np.arange(len(offsets)) + (0 if self._settings.client else offsets[0])).any():
                if magic[i] == MAGIC_V2:
                    row = table[start[i]]
                    message = "the offset deltas of a compressed batch must be 0, 1, 2 and so on"
                    raise InvalidError(message, int(row["position"]), int(row["base_offset"]), code="offset_deltas")
                reason[i] = 3
        groups = _Groups(start, stop, first, end, codec, reason, np.zeros(len(start), np.int64))
        spans = self._spans(table, groups)
        if int(spans.sum()) > MAX_OFFSET - next_offset:
            raise OffsetOverflowError(next_offset)
        groups.offset[:] = next_offset + np.cumsum(spans) - spans
        return groups

    def _spans(self, table: BatchTable, groups: _Groups) -> np.ndarray:
        """Return the number of offsets for each group. A v2 batch that is not rebuilt keeps its gaps."""
        stays = (table["magic"][groups.start] == MAGIC_V2) & (groups.reason == 0)
        spans: np.ndarray = np.where(
            stays, table["last_offset_delta"][groups.start].astype(np.int64) + 1, groups.end - groups.first
        )
        return spans

    def _build(self, buffer: Buffer, table: BatchTable, groups: _Groups, i: int, now: int) -> bytes:
        """Rebuild a group of batches as one batch in the topic's codec and format."""
        row = table[groups.start[i]]
        where = int(row["position"]), int(row["base_offset"])
        try:
            return self._append_all(self._builder(row, groups, i, now), buffer, table[groups.start[i] : groups.stop[i]])
        except InvalidError as error:
            # Set the position of the original batch, because the error contains a position in the rebuilt batch.
            error.position, error.base_offset = where
            raise

    def _builder(self, row: Any, groups: _Groups, i: int, now: int) -> BatchBuilder:
        return BatchBuilder(
            magic=self._settings.magic,
            codec=int(groups.codec[i]),
            level=self._settings.level if groups.codec[i] == self._settings.codec else None,
            base_offset=int(groups.offset[i]),
            producer_id=int(row["producer_id"]),
            producer_epoch=int(row["producer_epoch"]),
            base_sequence=int(row["base_sequence"]),
            transactional=bool(row["attributes"] & TRANSACTIONAL_BIT),
            control=bool(row["attributes"] & CONTROL_BIT) and row["magic"] == MAGIC_V2,
            leader_epoch=self._settings.leader_epoch,
            log_append_time=None if self._settings.create_time or self._settings.magic == MAGIC_V0 else now,
        )

    def _append_all(self, builder: BatchBuilder, buffer: Buffer, table: BatchTable) -> bytes:
        reader = RecordReader(max_batch_bytes=self._settings.max_batch_bytes, check_offsets=False)
        for source, columns in reader.read(buffer, table):
            given = decoded(source, columns)._replace(offsets=None)
            assert given.timestamps is not None
            # Timestamps below -1 are rejected even if the new format has no timestamps.
            if (given.timestamps[: given.rows] < NO_TIMESTAMP).any():
                raise InvalidError("a record's timestamp is negative but not -1", code="timestamp")
            if self._settings.magic == MAGIC_V0:
                given = given._replace(timestamps=None)
            if builder.append_columns(given) < given.rows:
                raise TooLargeError("the rebuilt batch would exceed the largest batch size", int(table["position"][0]))
        _reject(reader.take_odd_ends())
        return builder.finish()

    def _write(self, buffer: Buffer, table: BatchTable, groups: _Groups, seen: Records, now: int) -> tuple[int, int]:
        """Write offsets and timestamps into all batches that need not be rebuilt. Return as `_latest` does."""
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
        rows["leader_epoch"] = self._settings.leader_epoch
        core.write_offsets(buffer, rows)
        timestamps = latest[stays] if self._settings.create_time else np.full(len(rows), now)
        bit = 0 if self._settings.create_time else LOG_APPEND_TIME_BIT
        changes = ((rows["attributes"] & LOG_APPEND_TIME_BIT) != bit) | (rows["max_timestamp"] != timestamps)
        view = byte_view(buffer)
        for i in np.flatnonzero(changes & (rows["magic"] > MAGIC_V0)).tolist():
            set_timestamp(view, rows[i], not self._settings.create_time, int(timestamps[i]))
        return best, best_offset

    def _latest(
        self, table: BatchTable, groups: _Groups, seen: Records, assigned: np.ndarray, latest: np.ndarray, now: int
    ) -> tuple[int, int]:
        """Return the largest timestamp, and the offset of its first record. Each is -1 if it is unknown."""
        if not self._settings.create_time and (self._settings.magic > MAGIC_V0 or groups.reason.any()):
            return now, int(assigned[0])
        if self._settings.magic == MAGIC_V0:
            return NO_TIMESTAMP, -1
        best = int(latest.max())
        found = seen.timestamps == best
        # If the batch with the largest timestamp is empty, or if records were not checked, the offset is unknown.
        if best == NO_TIMESTAMP or not found.any():
            return best, -1
        i = int(np.argmax(found))
        row = int(np.searchsorted(seen.ends, i, "right"))
        group = int(np.searchsorted(groups.start, row, "right")) - 1
        if table["magic"][row] == MAGIC_V2 and groups.reason[group] == 0:
            delta = (int(seen.offsets[i]) - int(table["base_offset"][row])) % 2**64  # Decoded offsets wrap at 64 bits.
            return best, int(assigned[row]) + delta
        return best, int(groups.offset[group] + i - groups.first[group])


def _reject(batches: Iterable[OddEnd]) -> None:
    """Raise StructureError for the first batch that Kafka's Java code does not read to its end."""
    for batch in batches:
        if not batch.java_reads:
            raise StructureError(f"Kafka's Java code does not read the batch: {batch.oddity}", batch.position)


def _check_inner_magic(source: Buffer, columns: RecordColumns, row: Any) -> None:
    """Raise InvalidError if an inner message has another magic than its wrapper message."""
    assert columns.key_position is not None
    starts = columns.key_position[: columns.rows] - LEGACY_KEY_AT[MAGIC_V1] - 4
    # In a message of format 0, this is the first byte of its size, which is 0.
    is_v1 = np.frombuffer(byte_view(source), np.uint8)[starts + MAGIC_AT] == MAGIC_V1
    if (is_v1 != (row["magic"] == MAGIC_V1)).any():
        message = "an inner message has another magic than its wrapper message"
        raise InvalidError(message, int(row["position"]), int(row["base_offset"]), code="same_magic")


def _joined(buffer: Buffer, table: BatchTable, groups: _Groups, parts: dict[int, bytes]) -> bytearray:
    """Return the bytes of all groups in order. Rebuilt groups are taken from `parts`, and unchanged groups from `buffer`."""
    view, out = view_of(buffer), bytearray()
    for i, (start, stop) in enumerate(zip(groups.start.tolist(), groups.stop.tolist(), strict=True)):
        last = table[stop - 1]
        out += parts[i] if i in parts else view[int(table["position"][start]) : int(last["position"] + last["size"])]
    return out
