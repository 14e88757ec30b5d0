"""Define the results of `kafkafmt.stats`: statistics of topics and partitions.

All classes are immutable. Each `to_dict` method returns a dict as it appears in the JSON output.
The keys of these dicts are stable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from ...support.notebook import UNKNOWN, html_table
from ...support.report import Report
from ...support.text import counted
from ..catalog import INTERNAL_PREFIX
from ..verifying import EXIT_DAMAGE, EXIT_UNREADABLE, UnreadablePartition, unreadable_dict
from .stats_plot import MOST_BARS, MOST_TOPICS, ChartTopic, plot

OUTLIERS = 1000
SCHEMAS_TOPIC = "_schemas"


@dataclass(frozen=True)
class Sizes:
    """Mean, quantiles and maximum of sizes, in bytes. Quantiles of 511 or more are accurate to 0.4 %."""

    mean: float
    p50: int
    p99: int
    max: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"mean": round(self.mean, 1)}


@dataclass(frozen=True)
class CodecStats:
    """Statistics of the batches with one compression codec."""

    batches: int  # including control batches, which are never compressed
    records: int | None  # data records; None if unknown without decompression (wrapper messages)
    bytes: int  # as stored
    bytes_uncompressed: int | None  # None if unknown without decompression
    batch_bytes: Sizes | None  # as stored

    @property
    def ratio(self) -> float | None:
        """`bytes_uncompressed` divided by `bytes`. None if the ratio is unknown."""
        return self.bytes_uncompressed / self.bytes if self.bytes_uncompressed is not None and self.bytes else None

    def to_dict(self) -> dict[str, Any]:
        row = {f.name: getattr(self, f.name) for f in fields(self)}
        row["batch_bytes"] = None if self.batch_bytes is None else self.batch_bytes.to_dict()
        return row | {"ratio": None if self.ratio is None else round(self.ratio, 3)}


@dataclass(frozen=True)
class KeyCount:
    """A record key and the number of records with this key."""

    key: bytes
    records: int

    def to_dict(self) -> dict[str, Any]:
        r"""Return the key as it appears in the JSON output. Bytes that are not UTF-8 appear as `\xNN`."""
        return {"key": self.key.decode(errors="backslashreplace"), "records": self.records}


@dataclass(frozen=True)
class Keys:
    """Statistics of the record keys. Null keys are not counted."""

    distinct: int
    exact: bool  # False: `distinct` has a standard error of about 0.8 %, and `top` contains lower bounds
    top: tuple[KeyCount, ...]  # in descending order of frequency

    def to_dict(self) -> dict[str, Any]:
        return {"distinct": self.distinct, "exact": self.exact, "top": [k.to_dict() for k in self.top]}


@dataclass(frozen=True)
class Headers:
    records: int  # with at least one header
    headers: int  # in all records
    names: Mapping[str, int]  # headers by key, for the most frequent keys

    def to_dict(self) -> dict[str, Any]:
        return {"records": self.records, "headers": self.headers, "names": dict(self.names)}


@dataclass(frozen=True)
class Producers:
    """Statistics of the producers, from the batch headers."""

    ids: int | None  # number of producer ids; None if there are more than 262,144
    transactional_batches: int
    control_batches: int
    top: Mapping[int, int]  # number of records by producer id, for those with the most records

    def to_dict(self) -> dict[str, Any]:
        row = {f.name: getattr(self, f.name) for f in fields(self)}
        return row | {"top": [{"producer_id": p, "records": n} for p, n in self.top.items()]}


class RateBucket(NamedTuple):
    """The number of records in a time period that starts at `timestamp` (ms since 1970-01-01 UTC)."""

    timestamp: int
    records: int


@dataclass(frozen=True)
class Rate:
    """The number of records over time, in periods of equal length."""

    bucket_ms: int
    buckets: tuple[RateBucket, ...]  # periods that contain records, in time order

    def without_outliers(self, width: int) -> tuple[RateBucket, ...]:
        """Return the time buckets for a chart that is `width` buckets wide, without outlying timestamps."""
        # A few records whose timestamps are far from all others would make the chart mostly empty. At each end of the
        # chart, at most 0.1 % of the records are omitted.
        buckets, total = self.buckets, sum(b.records for b in self.buckets)
        low, high = 0, len(buckets)
        for at_end in (False, True):
            left = total // OUTLIERS
            while high - low > 1 and (n := buckets[high - 1 if at_end else low].records) <= left:
                left, low, high = left - n, low + (not at_end), high - at_end
        if high - low == len(buckets):
            return buckets
        whole = buckets[-1].timestamp - buckets[0].timestamp
        part = buckets[high - 1].timestamp - buckets[low].timestamp + self.bucket_ms
        return buckets if whole < max(width * self.bucket_ms, 4 * part) else buckets[low:high]

    def to_dict(self) -> dict[str, Any]:
        return {"bucket_ms": self.bucket_ms, "buckets": [b._asdict() for b in self.buckets]}


@dataclass(frozen=True)
class Content:
    """Statistics of one or more logs, from their log start offsets onwards.

    Attributes
    ----------
    records : int or None
        Number of data records that can be read. None if it is unknown without decompression,
        because there are wrapper messages.
    batches : int
        Number of batches.
    bytes : int
        Total size of the `.log` files.
    bytes_uncompressed : int or None
        Total size of the batches after decompression. None if it is unknown without decompression.
    first_timestamp, last_timestamp : int or None
        Smallest and largest timestamp, in milliseconds since 1970-01-01 UTC. None if no record has a
        timestamp. If only headers were read, `first_timestamp` is the smallest timestamp among the
        first records of the batches.
    codecs : mapping of str to CodecStats
        The batches of each codec.
    producers : Producers
        The producers.
    rate : Rate
        The number of records over time. If only headers were read, the records of a batch are spread
        evenly between the first and the largest timestamp of the batch.
    damaged : int
        Number of damaged byte ranges, and of ranges of lost offsets.
    record_bytes : Sizes or None
        Sizes of the records. The size of a record is the sum of the sizes of its key, its value,
        its header keys and its header values. None if the records were not read.
    keys : Keys or None
        The keys. None if the records were not read, or if there are too many keys and the package
        datasketches is missing.
    null_keys, null_values, tombstones : int or None
        Number of records with a null key, number of records with a null value, and number of
        records with a key and a null value. None if the records were not read.
    headers : Headers or None
        The headers. None if the records were not read.
    """

    records: int | None
    batches: int
    bytes: int
    bytes_uncompressed: int | None
    first_timestamp: int | None
    last_timestamp: int | None
    codecs: Mapping[str, CodecStats]
    producers: Producers
    rate: Rate
    damaged: int
    record_bytes: Sizes | None
    keys: Keys | None
    null_keys: int | None
    null_values: int | None
    tombstones: int | None
    headers: Headers | None

    @property
    def ratio(self) -> float | None:
        """The size of all batches after decompression, divided by their stored size. None if the ratio is unknown."""
        stored = sum(c.bytes for c in self.codecs.values())
        return self.bytes_uncompressed / stored if self.bytes_uncompressed is not None and stored else None

    def content_dict(self) -> dict[str, Any]:
        """Return the statistics as they appear in the JSON output."""
        row = {f.name: getattr(self, f.name) for f in fields(Content)}
        row["codecs"] = {name: c.to_dict() for name, c in self.codecs.items()}
        for name in ("producers", "rate", "record_bytes", "keys", "headers"):
            row[name] = None if row[name] is None else row[name].to_dict()
        return row | {"ratio": None if self.ratio is None else round(self.ratio, 3)}


@dataclass(frozen=True)
class PartitionStats:
    """Statistics of one partition.

    Attributes
    ----------
    partition : int
        Number of the partition.
    path : str
        The partition directory.
    content : Content
        Statistics of the partition's log.
    """

    partition: int
    path: str
    content: Content

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as it appears in the JSON output."""
        return {"partition": self.partition, "path": self.path} | self.content.content_dict()


@dataclass(frozen=True)
class SchemaUse:
    """The keys or values that were written with one schema.

    Attributes
    ----------
    id : int or None
        Id of the schema. None if the source of the schemas has no ids.
    subject : str
        Subject of the schema.
    version : int
        Version of the schema in the subject.
    records : int
        Number of records that could be decoded.
    offsets : dict of int to (int, int)
        For each partition, the first and the last offset of a record with this schema.
    """

    id: int | None
    subject: str
    version: int
    records: int
    offsets: dict[int, tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as it appears in the JSON output."""
        row = {"id": self.id, "subject": self.subject, "version": self.version, "records": self.records}
        ranges = [{"partition": p, "first_offset": a, "last_offset": b} for p, (a, b) in sorted(self.offsets.items())]
        return row | {"by_partition": ranges}


@dataclass(frozen=True)
class FieldContent:
    """The values of one field.

    Attributes
    ----------
    name : str
        Name of the field, such as "value.customer.country".
    nulls : int
        Number of decoded keys or values in which the field is null.
    min, max : object
        Smallest and largest value, in the form of `cat --decode`. None if there is none, or if the
        values of the type have no order.
    """

    name: str
    nulls: int
    min: Any
    max: Any

    def to_dict(self) -> dict[str, Any]:
        """Return the field as it appears in the JSON output."""
        return asdict(self)


@dataclass(frozen=True)
class DecodedSide:
    """The decoded keys or values of a topic.

    Attributes
    ----------
    records : int
        Number of keys or values that were decoded. Nulls are not counted.
    by_error : dict of str to int
        Number of keys or values that could not be decoded, by error code.
    by_schema : tuple of SchemaUse
        The schemas, ordered by subject and version.
    fields : tuple of FieldContent
        The fields that are not in an array or map, in the order of the schema.
    unknown_fields : int
        Number of Protobuf fields that the schemas do not have. They are ignored.
    """

    records: int
    by_error: dict[str, int]
    by_schema: tuple[SchemaUse, ...]
    fields: tuple[FieldContent, ...]
    unknown_fields: int = 0

    @property
    def undecodable(self) -> int:
        """Number of keys or values that could not be decoded."""
        return sum(self.by_error.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the side as it appears in the JSON output."""
        return {
            "records": self.records,
            "undecodable": self.undecodable,
            "by_error": self.by_error,
            "unknown_fields": self.unknown_fields,
            "by_schema": [schema.to_dict() for schema in self.by_schema],
            "fields": [field.to_dict() for field in self.fields],
        }


@dataclass(frozen=True)
class TopicStats:
    """Statistics of one topic.

    Attributes
    ----------
    topic : str
        Name of the topic.
    partitions : tuple of PartitionStats
        The partitions that were read, ordered by number.
    content : Content
        Statistics of all these partitions together.
    decoded : dict of str to DecodedSide, or None
        The decoded "key" and "value". None if nothing was to be decoded. A side without schemas is
        left out.
    """

    topic: str
    partitions: tuple[PartitionStats, ...]
    content: Content
    decoded: Mapping[str, DecodedSide] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the topic as it appears in the JSON output. The key `partitions` is the number of partitions."""
        row = {"topic": self.topic, "partitions": len(self.partitions)} | self.content.content_dict()
        if self.decoded is not None:
            row["decoded"] = {side: content.to_dict() for side, content in self.decoded.items()}
        return row | {"by_partition": [p.to_dict() for p in self.partitions]}

    @property
    def internal(self) -> bool:
        """Whether the topic belongs to Kafka or to a schema registry."""
        return self.topic.startswith(INTERNAL_PREFIX) or self.topic == SCHEMAS_TOPIC

    def chart_topic(self) -> ChartTopic:
        """Return the statistics of the topic that charts show: sizes in bytes, and numbers of records per period."""
        c = self.content
        counts = {b.timestamp: b.records for b in c.rate.without_outliers(MOST_BARS)}
        return ChartTopic(self.topic, c.bytes, c.bytes_uncompressed, c.rate.bucket_ms, counts)


@dataclass(frozen=True)
class StatsReport(Report):
    """Statistics of topics, as returned by `kafkafmt.stats`.

    Attributes
    ----------
    topics : tuple of TopicStats
        The topics, ordered by name.
    deep : bool
        Whether the records were read.
    unreadable : tuple of UnreadablePartition
        Partitions that could not be read.
    messages : tuple of str
        Other messages. They are not part of the JSON output.
    bytes_read : int
        Number of bytes that were read from the `.log` files. It is not part of the JSON output.
    """

    command = "stats"

    topics: tuple[TopicStats, ...]
    deep: bool
    unreadable: tuple[UnreadablePartition, ...] = ()
    messages: tuple[str, ...] = ()
    bytes_read: int = 0

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt stats``.

        3 if a partition could not be read, 1 if there is damage or something cannot be decoded, else 0.
        """
        if self.unreadable:
            return EXIT_UNREADABLE
        undecodable = any(side.undecodable for t in self.topics for side in (t.decoded or {}).values())
        return EXIT_DAMAGE if undecodable or any(t.content.damaged for t in self.topics) else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt stats --format json`` prints."""
        return {"topics": [t.to_dict() for t in self.topics]} | unreadable_dict(self.unreadable)

    def plot(self, path: str | os.PathLike[str], *, internal: bool = False) -> None:
        """Write charts of the ten largest topics to a file: the records over time, and the sizes.

        Parameters
        ----------
        path : str or os.PathLike
            File to write. Its suffix determines the format: ``.png`` and ``.svg`` require the
            package matplotlib, and ``.html`` requires plotly.
        internal : bool, default False
            Also show internal topics, whose names begin with ``__``, and ``_schemas``. If the
            report contains no other topics, they are always shown.

        Raises
        ------
        ValueError
            The suffix is not ``.png``, ``.svg`` or ``.html``.
        ImportError
            The package that the suffix requires (matplotlib or plotly) is not installed.
        OSError
            The file cannot be written.
        """
        shown = [t for t in self.topics if internal or not t.internal] or self.topics
        topics = sorted(shown, key=lambda t: -t.content.bytes)[:MOST_TOPICS]
        plot([t.chart_topic() for t in topics], path, omitted=len(self.topics) - len(topics))

    def _repr_html_(self) -> str:
        names = ("topic", "partitions", "records", "bytes", "ratio", "damaged spans")
        rows = [
            (
                t.topic,
                len(t.partitions),
                UNKNOWN if t.content.records is None else f"{t.content.records:,}",
                f"{t.content.bytes:,}",
                UNKNOWN if t.content.ratio is None else f"{t.content.ratio:.2f}",
                t.content.damaged,
            )
            for t in self.topics
        ]
        return html_table(
            f"{counted(len(rows), 'topic')}, {counted(len(self.unreadable), 'unreadable partition')}", names, rows
        )
