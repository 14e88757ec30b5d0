"""Define the class `Partition`, which reads one partition of an open log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from .._backend import core
from ..constants import DEFAULT_MAX_BATCH_BYTES, READ_UNCOMMITTED, Isolation, OnError
from ..errors import KafkaFormatError
from ..log import Damage, PartitionDir, PartitionLog
from ..log.damage import ReadLimits
from ..log.finding import Found, PartitionSearch, Search
from ..log.reading import (
    POLL,
    Follower,
    Followers,
    HasFileno,
    OffsetInterval,
    OnDamage,
    Selection,
    Sent,
    Time,
    offset_bound,
    read_pieces,
    send,
)
from ..support import arguments
from ..support.hints import no_attribute
from ..support.notebook import MOST_ROWS, UNKNOWN, html_table
from ..support.paths import UrlPath
from ..support.sharing import SharedIterator
from ..types import COLUMNS, Buffer, RecordColumns
from .finding import Finding
from .frames import Frames
from .offsets import PartitionOffsets
from .pieces import PartitionBatches
from .selection_arguments import SelectionArguments, parse_selection
from .stored_batches import StoredBatches
from .value_arguments import ArrowArguments, ArrowPlan, ValueArguments, plan_topic, split_arguments, topic_writers
from .verified import Verified

if TYPE_CHECKING:
    import pyarrow as pa

    from ..log.catalog import Source
    from ..log.finding import RowTest
    from ..registry import SchemaRegistry
    from ..values.sides import Decode


PARTITION_COLUMNS = ("partition", "state", "log start offset", "next offset", "segments", "bytes")
"""Header of `partition_rows`."""

OTHER_NAMES = {
    "end_offset": "next_offset",
    "high_watermark": "next_offset",
    "iter_batches": "batches, or to_batches for Arrow record batches",
    "iter_records": "records",
    "number": "partition",
    "schema": "to_reader().schema",
    "segments": "path, the directory of the segments, or batches",
    "start_offset": "log_start_offset",
    "to_parquet": 'kafkafmt.export(partition, "FILE.parquet")',
}
"""Names of other libraries, with the names to use instead."""


class Partition(Finding, Frames, StoredBatches, PartitionOffsets, Verified):
    """A partition of an open log. It can be read as `Record` objects or as Arrow data.

    `kafkafmt.open` returns a `Log`, and ``log[topic, partition]`` returns a partition. pandas,
    Polars and DuckDB can read a partition directly, because it supports the Arrow C stream
    interface.
    """

    def __init__(
        self,
        directory: PartitionDir,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(PartitionLog(directory, ReadLimits(max_batch_bytes), tell=tell))
        self.damaged: list[Damage] = []
        """Damaged ranges of bytes that the latest read omitted because of ``on_error="skip"``.

        Each read starts with a new list.
        """
        self._on_message = tell

    def _tell(self, message: str) -> None:
        if self._on_message is not None:
            self._on_message(f"{self.topic}-{self.partition}: {message}")

    def _source_paths(self) -> list[str]:
        return self.log.directory.places

    if not TYPE_CHECKING:  # Otherwise, type checkers would accept every name.

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("a Partition", name, OTHER_NAMES)

    def __repr__(self) -> str:
        return f"<kafkafmt.Partition {self.topic}-{self.partition} at {str(self.log.directory.path)!r}>"

    def _repr_html_(self) -> str:
        """Return an HTML table of the segments for notebooks. At most the last segment is read."""
        caption = f"Partition {self.topic}-{self.partition} ({self.state}), log start offset {self.log_start_offset}"
        if (known := _shown_next_offset(self)) is not None:
            caption += f", next offset {known}"
        rows = [(s.name, f"{s.size:,}") for s in self.log.segments]
        return html_table(f"{caption}, {self.log.directory.path}", ("segment", "bytes"), rows)

    def head(self, n: int = 5) -> list[core.Record]:
        """Return the first `n` records as a list, like ``list(records(limit=n))``."""
        return list(self.records(limit=n))

    def follow(
        self,
        *,
        start: int | None = None,
        start_time: Time | None = None,
        on_error: OnError = "fail",
        control: bool = False,
        below_log_start: bool = False,
        isolation: Isolation = READ_UNCOMMITTED,
        poll: float = POLL,
        idle_timeout: float | None = None,
        on_message: Callable[[str], None] | None = None,
    ) -> Iterator[core.Record]:
        """Yield the records of a growing partition, and wait for new records.

        Parameters
        ----------
        start, start_time, on_error, control, below_log_start, isolation : optional
            Records to yield. `records` describes these arguments.
        poll : float, default 0.2
            Time between two checks of the files, in seconds.
        idle_timeout : float, optional
            The iteration ends if there is no new record for this number of seconds. By default, the
            iteration ends only if the partition is deleted.
        on_message : callable, optional
            Function to call with a message if the log was truncated or deleted, or if retention
            removed records that were not read.

        Yields
        ------
        Record
            The next record of the partition, in offset order.

        Raises
        ------
        DamagedLogError
            Damage was found, and `on_error` is "fail".
        TypeError, ValueError
            An argument is wrong.

        Notes
        -----
        Only the records of complete, valid batches are returned. If the last batch is incomplete, a
        broker may still be writing it, and its records are returned when it is complete. With
        "read_committed", the records of a transaction are returned after the transaction has ended.
        """
        selection, skip = parse_selection(
            {
                "start": start,
                "start_time": start_time,
                "on_error": on_error,
                "control": control,
                "below_log_start": below_log_start,
                "isolation": isolation,
            }
        )
        on_damage = self._on_damage(skip)
        follower = Follower(
            self.log.directory,
            [self.log.directory.path],
            selection,
            self.log.limits,
            tell=on_message or self.log.tell,
        )
        followers = Followers([self.log.directory], lambda _, __: follower)
        return (record for _, record in followers.records(lambda _: on_damage, poll, idle_timeout))

    def send(
        self,
        target: int | HasFileno,
        start: int | None = None,
        max_bytes: int | None = None,
        *,
        whole_batches: bool = True,
    ) -> Sent:
        """Send unchanged record batches to a file or a blocking socket.

        Parameters
        ----------
        target : int, file or socket
            Destination of the batches, as a file descriptor or an object with the method
            ``fileno``.
        start : int, optional
            Offset at which to start. The first batch that is sent contains this offset. A negative
            value counts back from the end of the log. By default, sending starts at the log start
            offset.
        max_bytes : int, optional
            Largest number of bytes to send. The first batch is sent even if it is larger. By
            default, there is no limit.
        whole_batches : bool, default True
            Send only complete batches. If False, the last batch may be truncated at `max_bytes`, as
            in a fetch response.

        Returns
        -------
        Sent
            A NamedTuple with two fields: `bytes` is the number of bytes that were sent, and
            `next_offset` is the argument `start` for the next call.

        Raises
        ------
        KafkaFormatError
            The header of a batch is damaged. If this batch is in the last segment, sending ends
            before the batch, and no error is raised.
        OSError
            Reading or writing failed.

        Notes
        -----
        As in a broker, only headers are read, and CRCs are not checked. Kafka's counterpart is
        ``FileRecords.writeTo``.
        """
        bound = offset_bound("start", start, None)
        first = self.log_start_offset if bound is None else bound.resolve(self.log)
        most = arguments.optional_integer("max_bytes", max_bytes)
        return send(self.log, target, first, most, whole_batches=whole_batches)

    def __iter__(self) -> Iterator[core.Record]:
        """Return an iterator of all records, like `records` without arguments."""
        return self.records()

    @overload
    def records(
        self, *, views: Literal[False] = False, limit: int | None = None, **selection: Unpack[SelectionArguments]
    ) -> Iterator[core.Record]: ...

    @overload
    def records(
        self, *, views: bool, limit: int | None = None, **selection: Unpack[SelectionArguments]
    ) -> Iterator[core.Record[bytes | memoryview]]: ...

    def records(
        self, *, views: bool = False, limit: int | None = None, **selection: Unpack[SelectionArguments]
    ) -> Iterator[core.Record[bytes | memoryview]]:
        """Return an iterator of the selected records.

        Several threads may share the iterator. Each record is returned to only one thread.

        Parameters
        ----------
        views : bool, default False
            Return keys and values as memoryviews instead of bytes. A memoryview is valid only until
            the next record is read. Therefore, threads cannot share such an iterator.
        limit : int, optional
            Largest number of records to return. By default, there is no limit.
        start, end : int, optional
            Offsets; `end` is exclusive. A negative value counts back from the end of the log. By
            default, the whole partition is read.
        start_time, end_time : int, timezone-aware datetime, timedelta or str, optional
            Replace `start` or `end` with the first offset whose record has this timestamp or a
            later one. An int is a number of milliseconds since 1970-01-01 UTC. A str is an ISO
            time, which is in UTC by default, or a time before now, such as "-7d" or "-36h". A
            timedelta is a duration before now. If there is no such record, the end of the log is
            used.
        on_error : {"fail", "skip"}, default "fail"
            If data is damaged, "fail" returns the records before the damage, and then raises an
            error. "skip" omits damaged ranges of bytes and lists them in `Partition.damaged`.
        control : bool, default False
            Include control records (transaction markers).
        below_log_start : bool, default False
            Include records below the log start offset. A broker does not return such records.
        isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
            "read_committed" omits aborted records and ends at the last stable offset.
        partial : bool, default False
            If records of a batch are damaged, include the records of this batch before them. The
            batch is still listed in `Partition.damaged`. Requires ``on_error="skip"``.

        Returns
        -------
        iterator of Record
            The records in offset order.

        Raises
        ------
        DamagedLogError
            The selected range contains damage, and `on_error` is "fail".
        TypeError, ValueError
            An argument is unknown or wrong, a datetime has no time zone, or both a time and an
            offset are given for the start or for the end.

        Notes
        -----
        "read_committed" omits the same records as Kafka's consumer (``CompletedFetch``). To find
        the outcomes of transactions, the headers of the selected batches and of the following
        batches are read first. If any of these batches is damaged, the whole log is read.
        """
        return core.RecordIterator(self.record_lists(views, limit, selection))

    def record_lists(
        self, views: bool, limit: int | None, selection: SelectionArguments
    ) -> Iterator[list[core.Record[Any]]]:
        """Return an iterator of lists of the selected records. For the parameters, see the method `records`."""
        most = arguments.optional_integer("limit", limit, 0)
        parsed, skip = parse_selection(selection, "views", "limit")
        on_damage = self._on_damage(skip)
        chunks = self.log.chunks(COLUMNS, parsed.resolve(self.log), on_damage=on_damage, capacity=1024)
        topic, partition = self.topic, self.partition
        lists = (
            core.make_records(source, columns, views=views, topic=topic, partition=partition)
            for source, columns in chunks
        )
        return lists if most is None else _first_records(lists, most)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        limit: int | None = None,
        **options: Unpack[ArrowArguments],
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator of Arrow record batches of about 8 MB each.

        One thread reads and checks the batches, and several threads decode their records. Several
        threads may share the iterator.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of the columns, in the order of the result. By default, all columns that
            `to_arrow` lists except `timestampMillis`.
        threads : int, optional
            Largest number of threads, 1 or higher. By default, the number of CPUs. If `limit` is
            given, or if the partition is small, no threads are started.
        limit : int, optional
            Largest number of records to return. By default, there is no limit.
        **options
            Keyword arguments that select records: start, end, start_time, end_time, on_error,
            control, below_log_start, isolation and partial. `records` describes them. Keyword
            arguments that decode keys and values: decode, registry, schema, framing, layout,
            raw and on_undecodable. `to_arrow` describes them.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            No Arrow record batch is empty. The columns have the types that `to_arrow` lists.

        Raises
        ------
        DamagedLogError
            The selected range contains damage, and `on_error` is "fail". The iterator returns the
            records before the damage first.
        UndecodableError
            A key or value cannot be decoded, and `on_undecodable` is "fail".
        TypeError, ValueError
            An argument or column is unknown or wrong, a datetime has no time zone, or both a time
            and an offset are given for the start or for the end.

        Notes
        -----
        At most about four Arrow record batches and 16 MiB of stored batches per thread are in memory
        at the same time.
        """
        chosen, values = split_arguments(options)
        return self.plan_batches(self._plan(columns, values, chosen), threads, limit, chosen)

    def _plan(self, columns: Sequence[str] | None, values: ValueArguments, selection: SelectionArguments) -> ArrowPlan:
        return plan_topic([self.log], columns, values, parse_selection(selection, "columns", "threads", "limit")[0])

    def plan_batches(
        self, plan: ArrowPlan, threads: int | None, limit: int | None, selection: SelectionArguments
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator of Arrow record batches, as `to_batches`."""
        from ..arrow.builder import record_batches

        count = arguments.optional_integer("threads", threads, 1) or os.cpu_count() or 1
        most = arguments.optional_integer("limit", limit, 0)
        parsed, skip = parse_selection(selection, "columns", "threads", "limit")
        interval, on_damage = parsed.resolve(self.log), self._on_damage(skip)
        if most is None:
            return SharedIterator(read_pieces([PartitionBatches(self.log, plan, lambda: interval, on_damage)], count))
        builder = plan.builder(self.topic, self.partition)
        chunks = self.log.chunks(builder.columns, interval, on_damage=on_damage)
        return SharedIterator(plan.arranged(record_batches(chunks, builder, most)))

    def arrow_pieces(self, plan: ArrowPlan, selection: SelectionArguments) -> PartitionBatches:
        """Return the selected records as Arrow record batches that several threads can read."""
        parsed, skip = parse_selection(selection)
        damaged: list[Damage] = []

        def interval() -> OffsetInterval:
            self.damaged = damaged
            return parsed.resolve(self.log)

        return PartitionBatches(self.log, plan, interval, damaged.append if skip else None)

    def to_reader(
        self,
        columns: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        limit: int | None = None,
        **options: Unpack[ArrowArguments],
    ) -> pa.RecordBatchReader:
        """Return the selected records as a pyarrow RecordBatchReader.

        `to_batches` describes the parameters, the errors and the memory use. The reader raises an
        error about damage when it reaches the damage. It has a schema even if no record is selected.
        """
        from ..arrow.builder import reader

        selection, values = split_arguments(options)
        plan = self._plan(columns, values, selection)
        return reader(plan.schema, self.plan_batches(plan, threads, limit, selection))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        limit: int | None = None,
        start: int | None = None,
        end: int | None = None,
        start_time: Time | None = None,
        end_time: Time | None = None,
        on_error: OnError = "fail",
        control: bool = False,
        below_log_start: bool = False,
        isolation: Isolation = READ_UNCOMMITTED,
        partial: bool = False,
        **values: Unpack[ValueArguments],
    ) -> pa.Table:
        """Read the selected records into a pyarrow Table.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of the columns, in the order of the result. By default, all columns listed below
            except `timestampMillis`. A field of a decoded key or value has a name such as
            "value.customer.country".
        threads : int, optional
            Number of threads, as in `to_batches`.
        limit : int, optional
            Largest number of records to return. By default, there is no limit.
        start, end, start_time, end_time, on_error, control, below_log_start, isolation, partial : optional
            Records to return. `records` describes these arguments.
        decode : bool, "key", "value", list of both, or mapping, default False
            Decode keys, values or both (True) into typed columns, by the schemas of a schema
            registry. Bytes are returned for a side that has no schemas. A mapping has the format of
            each side, such as ``{"key": "string", "value": "avro:orders.avsc"}``. The formats are:

            - "auto": by the schemas of the subject that is named after the topic, or that the first
              values name. "auto:SUBJECT" names it, and "auto#MESSAGE" the message of Protobuf, which
              is by default that of the first value.
            - "avro:FILE", "protobuf:FILE#MESSAGE", "json:FILE": by the schema in a file.
            - "json": JSON whose columns are inferred from the first 10,000 selected records.
            - "string", "uuid", "short", "int32", "int64", "float", "double": as Kafka's own
              serializers write them.
            - "bytes": not decoded.
        registry : SchemaRegistry, str or os.PathLike, optional
            The schemas, or what `kafkafmt.schemas` accepts. By default, those of the topic
            ``_schemas`` in the same log directory.
        schema : "union", "latest", int or "id:N", default "union"
            Which schemas decide the columns: all versions of the subject, merged by the names of
            their fields, the latest version, one version, or the schema with an id.
        framing : {"auto", "confluent", "apicurio", "single-object", "none"}, default "auto"
            What precedes keys and values: the schema id of Confluent's serializers (four bytes, a
            GUID, or in a header), the id of Apicurio's (eight bytes), the fingerprint of Avro's
            single-object encoding, or nothing. By default, the id of Confluent's serializers, or
            nothing if the schema is in a file.
        layout : {"nested", "flat"}, default "nested"
            "flat" returns the fields of the value as columns of their own, those of the key with the
            prefix ``key_``, and all other columns with the prefix ``kafka_``.
        raw : bool, default False
            Return the bytes of all decoded keys and values too.
        on_undecodable : {"keep", "fail"}, default "keep"
            What to do with a key or value that cannot be decoded: return null, the reason and the
            bytes, or raise an error.

        Returns
        -------
        pyarrow.Table
            One row per record, in offset order. The columns are those of Spark's Kafka source, and
            `timestampMillis`:

            - key, value: binary; null if the record's key or value is null
            - topic: string; partition: int32; offset: int64
            - timestamp: timestamp[us, tz=UTC]; null if the record has no timestamp, or if int64
              microseconds cannot represent it
            - timestampType: int32; 0 is CreateTime, 1 is LogAppendTime, -1 means no timestamp
              (magic 0)
            - headers: list<element: struct<key: string, value: binary>>; null if the record has no
              headers
            - timestampMillis: int64; the stored timestamp in milliseconds, or -1 if there is none

            A decoded key or value has the type of its schema. It is followed by the columns
            `value_error` (string) and `value_raw` (binary), or `key_error` and `key_raw`, which are
            null unless it cannot be decoded.

        Raises
        ------
        DamagedLogError
            The selected range contains damage, and `on_error` is "fail". No table is returned. To
            get the records before the damage, use `to_batches`.
        UndecodableError
            A key or value cannot be decoded, and `on_undecodable` is "fail".
        TypeError, ValueError
            An argument or column is unknown or wrong, a datetime has no time zone, or both a time
            and an offset are given for the start or for the end.

        Notes
        -----
        The whole table is in memory. `to_batches` and `to_reader` stream Arrow record batches of
        about 8 MB instead.
        """
        return self.to_reader(
            columns,
            threads=threads,
            limit=limit,
            start=start,
            end=end,
            start_time=start_time,
            end_time=end_time,
            on_error=on_error,
            control=control,
            below_log_start=below_log_start,
            isolation=isolation,
            partial=partial,
            **values,
        ).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all records as an Arrow C stream with the eight default columns of `to_arrow`.

        pandas, Polars and DuckDB can read this stream. The memory use does not depend on the size
        of the partition.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _on_damage(self, skip: bool) -> OnDamage | None:
        """Empty `damaged`, and return a callback that adds to it; None if `skip` is False, so that damage is raised."""
        self.damaged = []
        return self.damaged.append if skip else None

    def _found(
        self, search: Search[core.Record], threads: int, given: SelectionArguments, *named: str
    ) -> Iterator[Found[core.Record]]:
        """Return an iterator of the selected records that meet the conditions of a search."""
        selection, skip = parse_selection(given, *named)
        on_damage, interval = self._on_damage(skip), selection.resolve(self.log)
        return read_pieces([PartitionSearch(self.log, lambda: interval, on_damage, search)], threads)

    def _made(self, source: Buffer, columns: RecordColumns, start: int, stop: int) -> list[core.Record]:
        return core.make_records(source, columns, start, stop, topic=self.topic, partition=self.partition)

    def _decoded_test(
        self, where: str, decode: Decode, registry: SchemaRegistry | Source | None, framing: str
    ) -> RowTest:
        from ..values.record_decoder import RecordDecoder
        from ..values.record_test import RecordTest
        from ..values.where import parse_where

        test = parse_where(where)
        writers = topic_writers([self.log], decode, registry, Selection(), framing=framing, any_subject=True)
        return RecordTest({side: RecordDecoder(found, side) for side, found in writers.items()}, test).matching


def _first_records(lists: Iterable[list[core.Record[Any]]], limit: int) -> Iterator[list[core.Record[Any]]]:
    """Yield the lists of records. End after `limit` records in total."""
    if not limit:
        return
    for records in lists:
        yield records[:limit]
        limit -= min(limit, len(records))
        if not limit:
            return


def partition_rows(partitions: Sequence[Partition]) -> list[tuple[object, ...]]:
    """Return the rows of an HTML table. Rows that are not shown are empty, so that only shown segments are read."""
    # The numbers of records are left out: they need the headers of all batches, and the next offset
    # needs only those at the end of the last segment.
    return [
        (
            p.partition,
            p.state,
            p.log_start_offset,
            _shown_next_offset(p),
            len(p.log.segments),
            f"{sum(s.size for s in p.log.segments):,}",
        )
        if i < MOST_ROWS
        else ()
        for i, p in enumerate(partitions)
    ]


def _shown_next_offset(partition: Partition) -> int | str | None:
    # A table never waits for a network.
    if isinstance(partition.log.directory.path, UrlPath):
        return None
    try:
        return partition.next_offset
    except (OSError, KafkaFormatError):
        return UNKNOWN
