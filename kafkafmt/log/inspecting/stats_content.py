"""Collect the statistics of one partition or topic from batch headers and decoded records."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from ..._backend import core
from ...constants import CODEC_MASK, CODEC_NAMES, CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT
from ...support.text import decode_header_key
from ...types import BatchTable, Buffer, IntArray, RecordColumns, distinct
from ..scanning import total
from .key_counts import KeyCounter
from .stats_counts import MOST_BUCKETS, RateCounts, SizeCounts
from .stats_report import CodecStats, Content, Headers, Producers

MOST_PRODUCERS = 1 << 18  # largest number of producer ids that are counted
MOST_HEADER_NAMES = 1 << 14  # largest number of different header keys that are counted
MOST_NAME_BYTES = 256  # largest length of a header key that is counted by name, in bytes


class _Codec:
    """Counts the batches with one compression codec."""

    def __init__(self) -> None:
        self.batches = 0
        self.records: int | None = 0
        self.uncompressed: int | None = 0
        self.sizes = SizeCounts()

    def merge(self, other: _Codec) -> None:
        self.batches += other.batches
        self.records = total(self.records, other.records)
        self.uncompressed = total(self.uncompressed, other.uncompressed)
        self.sizes.merge(other.sizes)

    def result(self) -> CodecStats:
        return CodecStats(self.batches, self.records, self.sizes.sum, self.uncompressed, self.sizes.result())


class _Names(NamedTuple):
    """The keys and the header keys of a chunk of records."""

    keys: list[Any]
    """Keys that are not null."""
    key_bytes: int
    headers: Counter[Any]


class ContentCounts:
    """Counts batches, producers and, if `deep`, records, keys and headers of a partition or a topic."""

    # `collects`: keys and header keys are kept until the next `merge`. Their counts depend on the order of the
    # records, because their number is limited.

    def __init__(self, deep: bool, collects: bool = False) -> None:
        self.deep = deep
        self.bytes: int = 0
        self.damaged: int = 0
        self._codecs: dict[int, _Codec] = {}
        self._first: int | None = None
        self._last: int | None = None
        self._transactional = self._control = 0
        self._producers: Counter[int] = Counter()
        self._too_many_producers = False
        self._rate = RateCounts()
        self._sizes = SizeCounts()
        self._keys = KeyCounter()
        self._null_keys = self._null_values = self._tombstones = 0
        self._header_records = self._headers = 0
        self._names: Counter[Any] = Counter()
        self._collected: list[_Names] | None = [] if collects else None

    def add_batches(self, table: BatchTable, records: IntArray) -> None:
        """Update the statistics with batches of `records` data records each (-1: unknown from the header)."""
        attributes = table["attributes"]
        codecs = attributes & CODEC_MASK
        for codec in distinct(codecs).tolist():
            rows = codecs == codec
            self._add_codec(codec, table[rows], records[rows])
        self._transactional += int(np.count_nonzero(attributes & TRANSACTIONAL_BIT))
        self._control += int(np.count_nonzero(attributes & CONTROL_BIT))
        counts = np.maximum(records, 0)
        self._add_producers(table["producer_id"], counts)
        if self.deep:
            return
        data = ((attributes & CONTROL_BIT) == 0) & (table["max_timestamp"] >= 0)
        lasts = table["max_timestamp"][data]
        firsts = np.where(attributes & DELETE_HORIZON_BIT, -1, table["base_timestamp"])[data]
        self._add_times(firsts, lasts)
        self._rate.add_spans(np.where(firsts < 0, lasts, firsts), lasts, counts[data])

    def _add_codec(self, codec: int, table: BatchTable, records: IntArray) -> None:
        found = self._codecs.setdefault(codec, _Codec())
        found.batches += len(table)
        found.sizes.add(table["size"].astype(np.int64))
        size = int(table["size"].sum(dtype=np.int64))
        if self.deep:  # `add_decoded` later adds the record count and the decompressed size
            compressed = int(table["payload_size"].sum(dtype=np.int64)) if codec else 0
            found.uncompressed = total(found.uncompressed, size - compressed)
            return
        found.records = total(found.records, None if (records < 0).any() else int(records.sum()))
        found.uncompressed = total(found.uncompressed, None if codec else size)

    def _add_producers(self, ids: IntArray, records: IntArray) -> None:
        known, inverse = np.unique(ids, return_inverse=True)
        sums = np.bincount(inverse, records).astype(np.int64).tolist()
        for producer_id, n in zip(known.tolist(), sums, strict=True):
            if producer_id >= 0:
                if producer_id not in self._producers and len(self._producers) >= MOST_PRODUCERS:
                    self._too_many_producers = True
                else:
                    self._producers[producer_id] += n

    def _add_times(self, firsts: IntArray, lasts: IntArray) -> None:
        for times, earlier in ((firsts[firsts >= 0], True), (lasts[lasts >= 0], False)):
            if len(times) and earlier:
                low = int(times.min())
                self._first = low if self._first is None else min(self._first, low)
            elif len(times):
                high = int(times.max())
                self._last = high if self._last is None else max(self._last, high)

    def add_decoded(self, codec: int, size: int, records: int) -> None:
        """Add a number of records and their decompressed size to the statistics of a compression codec."""
        found = self._codecs.setdefault(codec, _Codec())
        found.uncompressed = total(found.uncompressed, size)
        found.records = total(found.records, records)

    def add_records(self, source: Buffer, columns: RecordColumns) -> None:
        """Add decoded records. The columns key, value, headers and timestamp are required."""
        n = columns.rows
        assert columns.timestamp is not None
        assert columns.key_position is not None
        assert columns.key_length is not None
        assert columns.value_length is not None
        times = columns.timestamp[:n]
        times = times[times >= 0]
        self._add_times(times, times)
        self._rate.add(times)
        key, value = columns.key_length[:n], columns.value_length[:n]
        null_key, null_value = key < 0, value < 0
        self._null_keys += int(np.count_nonzero(null_key))
        self._null_values += int(np.count_nonzero(null_value))
        self._tombstones += int(np.count_nonzero(null_value & ~null_key))
        key_sizes = np.maximum(key, 0).astype(np.int64)
        sizes = key_sizes + np.maximum(value, 0)
        keys = core.make_values(source, columns.key_position, columns.key_length, n)
        names: Counter[Any] = Counter()
        if columns.headers:
            names = self._add_headers(source, columns, sizes)
        self._sizes.add(sizes)
        keys = [k for k in keys if k is not None] if null_key.any() else keys
        found = _Names(keys, int(key_sizes.sum()), names)
        if self._collected is None:
            self._add_names(found)
        else:
            self._collected.append(found)

    def _add_names(self, found: _Names) -> None:
        self._keys.add(found.keys, found.key_bytes)
        for name, count in found.headers.items():
            if name in self._names or (len(self._names) < MOST_HEADER_NAMES and len(name) <= MOST_NAME_BYTES):
                self._names[name] += count

    def _add_headers(self, source: Buffer, columns: RecordColumns, sizes: IntArray) -> Counter[Any]:
        """Add the size of each record's headers to the record's size in `sizes`. Return the counts of the header keys."""
        assert columns.header_count is not None
        assert columns.header_key_position is not None
        assert columns.header_key_length is not None
        assert columns.header_value_length is not None
        n = columns.headers
        counts = columns.header_count[: columns.rows]
        lengths = columns.header_key_length[:n].astype(np.int64) + np.maximum(columns.header_value_length[:n], 0)
        sizes += np.bincount(np.repeat(np.arange(len(counts)), counts), lengths, len(counts)).astype(np.int64)
        self._header_records += int(np.count_nonzero(counts))
        self._headers += n
        return Counter(core.make_values(source, columns.header_key_position, columns.header_key_length, n))

    def merge(self, other: ContentCounts) -> None:
        """Add the counts of later records or of another partition. `other` must not be used afterwards."""
        self.bytes += other.bytes
        self.damaged += other.damaged
        for codec, found in other._codecs.items():
            self._codecs.setdefault(codec, _Codec()).merge(found)
        for times in (other._first, other._last):
            if times is not None:
                self._add_times(np.array([times]), np.array([times]))
        self._transactional += other._transactional
        self._control += other._control
        self._producers.update(other._producers)
        self._too_many_producers |= other._too_many_producers
        self._rate.merge(other._rate)
        self._sizes.merge(other._sizes)
        self._keys.merge(other._keys)
        self._null_keys += other._null_keys
        self._null_values += other._null_values
        self._tombstones += other._tombstones
        self._header_records += other._header_records
        self._headers += other._headers
        self._names.update(other._names)
        for names in other._collected or ():
            self._add_names(names)

    def result(self, top: int, buckets: int = MOST_BUCKETS) -> Content:
        """Return the statistics, with the `top` most frequent keys, header keys and producers."""
        codecs = {
            CODEC_NAMES[c] if c < len(CODEC_NAMES) else str(c): self._codecs[c].result() for c in sorted(self._codecs)
        }
        records: int | None = 0
        uncompressed: int | None = 0
        for codec in codecs.values():
            records = total(records, codec.records)
            uncompressed = total(uncompressed, codec.bytes_uncompressed)
        producers = Producers(
            None if self._too_many_producers else len(self._producers),
            self._transactional,
            self._control,
            dict(self._producers.most_common(top)),
        )
        names = {decode_header_key(name): n for name, n in self._names.most_common(top)}
        return Content(
            records=records,
            batches=sum(c.batches for c in codecs.values()),
            bytes=self.bytes,
            bytes_uncompressed=uncompressed,
            first_timestamp=self._first,
            last_timestamp=self._last,
            codecs=codecs,
            producers=producers,
            rate=self._rate.result(buckets),
            damaged=self.damaged,
            record_bytes=self._sizes.result() if self.deep else None,
            keys=self._keys.result(top) if self.deep else None,
            null_keys=self._null_keys if self.deep else None,
            null_values=self._null_values if self.deep else None,
            tombstones=self._tombstones if self.deep else None,
            headers=Headers(self._header_records, self._headers, names) if self.deep else None,
        )
