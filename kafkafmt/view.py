"""Define the public interface for reading logs: `open_log`, `Log`, `Partition` and `Groups`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from . import arguments
from ._backend import core
from .constants import DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS, NO_END
from .log import Damage, NoLogError, PartitionDir, PartitionLog, discover
from .log.format.leader_epochs import end_offset_for
from .log.reading.discovery import Discovery
from .log.reading.follow import Follower
from .log.reading.following import POLL, Followers, paths_to_follow
from .log.reading.groups import GROUPS_TOPIC, CommittedOffset, Group, groups_dict, read_group_state
from .log.reading.lookups import find_max_timestamp, find_timestamp
from .log.reading.seek import Position, seek
from .log.reading.selection import like, select_partitions
from .log.reading.sendfile import HasFileno, Sent, send
from .notebook import html_table
from .scan import scan
from .sharing import SharedIterator

if TYPE_CHECKING:
    import pyarrow as pa

Time = int | datetime
ON_ERROR = ("fail", "skip")


class Selection(TypedDict, total=False):
    """Keyword arguments that select records of a partition; `Partition.records` describes them."""

    start: int | None
    end: int | None
    start_time: Time | None
    end_time: Time | None
    on_error: str
    control: bool
    below_log_start: bool
    isolation: str


class Partition:
    """One partition of a log: iterate it for `Record` objects, or read it as Arrow data.

    `kafkafmt.open` creates partitions; ``log[topic, partition]`` returns one. pandas, Polars and
    DuckDB accept a partition directly, through the Arrow C stream interface.

    Attributes
    ----------
    damaged : list of Damage
        The damaged spans that the latest read with ``on_error="skip"`` omitted. Every read begins
        with an empty list.
    """

    def __init__(
        self,
        directory: PartitionDir,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        mapped: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.log: PartitionLog = PartitionLog(directory, max_batch_bytes=max_batch_bytes, mapped=mapped, tell=tell)
        self.damaged: list[Damage] = []

    def __repr__(self) -> str:
        return f"<kafkafmt.Partition {self.topic}-{self.partition} at {str(self.log.directory.path)!r}>"

    def _repr_html_(self) -> str:
        """Return a table of the segments for notebooks. No file is read."""
        caption = f"Partition {self.topic}-{self.partition} ({self.state}), log start offset {self.log_start_offset}"
        rows = [(s.name, f"{s.size:,}") for s in self.log.segments]
        return html_table(f"{caption}, {self.log.directory.path}", ("segment", "bytes"), rows)

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.log.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.log.partition

    @property
    def state(self) -> str:
        """State of the partition, from the directory's name: "live", "delete", "stray" or "future"."""
        return self.log.directory.state

    @property
    def log_start_offset(self) -> int:
        """First offset that a broker shows to consumers.

        This is the offset in the checkpoint ``log-start-offset-checkpoint`` or the base offset of
        the first segment, whichever is higher. Kafka's counterpart is
        ``UnifiedLog.logStartOffset``.
        """
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction. If no transaction is open, `next_offset`.

        The first use reads the whole log. Kafka's counterpart is ``UnifiedLog.lastStableOffset``.
        """
        return self.log.transactions.last_stable_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last valid batch, which Kafka calls the log end offset.

        The first use reads the batches of the last segment.
        """
        return self.log.next_offset

    def offset_at(self, time: Time, below_log_start: bool = False) -> int:
        """Return the first offset whose record has a given timestamp or a later one.

        Parameters
        ----------
        time : int or datetime
            Milliseconds since 1970-01-01 UTC, or a timezone-aware datetime.
        below_log_start : bool, default False
            Consider records below the log start offset too.

        Returns
        -------
        int
            The offset. If no record has such a timestamp, `next_offset`.

        Raises
        ------
        TypeError, ValueError
            `time` is not a time, or a datetime has no time zone.

        Notes
        -----
        Kafka: ``UnifiedLog.fetchOffsetByTimestamp``, the request ListOffsets.
        """
        return self._offset_at("time", time, below_log_start)

    def _offset_at(self, name: str, time: Time, below_log_start: bool) -> int:
        hit = find_timestamp(self.log, arguments.millis(name, time), below_log_start)
        return self.next_offset if hit is None else hit.offset

    def seek(self, *, offset: int | None = None, timestamp: Time | str | None = None) -> Position:
        """Return the position of an offset or a time, like the broker request ListOffsets.

        Parameters
        ----------
        offset : int, optional
            Find the first record at or after this offset. Control records are not considered.
        timestamp : int, timezone-aware datetime, or str, optional
            Milliseconds since 1970-01-01 UTC, or a datetime. Find the first record, in offset
            order, with this timestamp or a later one. Three words are also accepted: "latest" (the
            log end offset), "earliest" (the log start offset) and "max-timestamp" (the first record
            with the largest timestamp).

        Returns
        -------
        Position
            The offset and timestamp of the record, its segment, and the position in the segment.
            These are None if there is no such record.

        Raises
        ------
        TypeError, ValueError
            Neither or both of the arguments are given, or an argument is wrong.
        OSError
            The partition cannot be read.

        Notes ----- As in a broker, a lookup by timestamp trusts the maximum timestamp in a batch
        header, and also finds control batches and aborted records.
        """
        return seek(self.log, offset=offset, timestamp=timestamp)

    def follow(
        self,
        *,
        start: int | None = None,
        start_time: Time | None = None,
        on_error: str = "fail",
        control: bool = False,
        below_log_start: bool = False,
        isolation: str = "read_uncommitted",
        poll: float = POLL,
        idle_timeout: float | None = None,
        on_message: Callable[[str], None] | None = None,
    ) -> Iterator[Any]:
        """Yield the records of a growing partition, and wait for more.

        Parameters
        ----------
        start, start_time, on_error, control, below_log_start, isolation
            Which records are selected. `Partition.records` describes these parameters.
        poll : float, default 0.2
            Seconds between two checks of the files.
        idle_timeout : float, optional
            End after this many seconds without a new record. By default, end only if the partition
            is deleted.
        on_message : callable, optional
            Called with a message if the log was truncated, deleted or shortened by retention.

        Yields
        ------
        Record
            In offset order.

        Raises
        ------
        DamagedLogError
            Damage was found, and `on_error` is "fail".
        TypeError, ValueError
            An argument is wrong.

        Notes ----- Only complete, valid batches are delivered. If the last batch is incomplete, a
        broker may still be writing it, so it is delivered only when it is complete. With
        "read_committed", records are delivered once their transaction has ended.
        """
        first = self._offset("start", start, start_time, below_log_start)
        arguments.one_of("on_error", on_error, ON_ERROR)
        arguments.one_of("isolation", isolation, ISOLATION_LEVELS)
        self.damaged = []
        follower = Follower(
            self.log.directory,
            [self.log.directory.path],
            first,
            committed=isolation == "read_committed",
            control=control,
            below_log_start=below_log_start,
            max_batch_bytes=self.log.max_batch_bytes,
            tell=on_message or self.log.tell,
        )
        on_damage = self.damaged.append if on_error == "skip" else None
        followers = Followers([self.log.directory], lambda _, __: follower)
        return (record for _, record in followers.records(lambda _: on_damage, poll, idle_timeout))

    @property
    def max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with the largest timestamp.

        The timestamp is in milliseconds since 1970-01-01 UTC. None if no record has a timestamp.
        Kafka's counterpart is ListOffsets with ``MAX_TIMESTAMP`` (KIP-734).
        """
        hit = find_max_timestamp(self.log)
        return None if hit is None else (hit.offset, hit.timestamp)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest leader epoch up to `epoch`, and the offset at which it ended.

        Parameters
        ----------
        epoch : int
            The requested leader epoch.

        Returns
        -------
        tuple of (int, int), or None
            The epoch and its end offset (exclusive). None if neither the checkpoint nor the batches
            name such an epoch.

        Notes ----- The epochs are read from the checkpoint ``leader-epoch-checkpoint``. If it is
        missing or damaged, the headers of all batches are read. Kafka's counterparts are
        ``LeaderEpochFileCache.endOffsetFor`` and the request OffsetsForLeaderEpoch.
        """
        return end_offset_for(self.log.leader_epochs, arguments.integer("epoch", epoch), self.next_offset)

    def send(
        self,
        target: int | HasFileno,
        start: int | None = None,
        max_bytes: int | None = None,
        *,
        whole_batches: bool = True,
    ) -> Sent:
        """Send batches to a file or a blocking socket without changing them.

        Parameters
        ----------
        target : int, or an object with ``fileno()``
            Where to send the batches: a file descriptor, a file or a socket.
        start : int, optional
            Offset that the first batch to send contains. A negative value counts back from the end
            of the log. By default the log start offset.
        max_bytes : int, optional
            Largest number of bytes to send. The first batch is sent even if it is larger. By
            default there is no limit.
        whole_batches : bool, default True
            Send complete batches only. If False, the last batch may be truncated at `max_bytes`, as
            in a fetch response.

        Returns
        -------
        Sent
            NamedTuple with two fields. `bytes` is the number of bytes sent. `next_offset` is the
            value of `start` for the next call.

        Raises
        ------
        KafkaFormatError
            The header of a batch is damaged. In the last segment, sending ends before this batch.
        OSError
            Reading or writing failed.

        Notes ----- As in a broker, only headers are read, and CRCs are not checked. Kafka's
        counterpart is ``FileRecords.writeTo``.
        """
        first = self._offset("start", start, None, False)
        most = arguments.optional_integer("max_bytes", max_bytes)
        return send(
            self.log, target, self.log_start_offset if first is None else first, most, whole_batches=whole_batches
        )

    def __iter__(self) -> Iterator[core.Record]:
        """Return an iterator of all records, as `records` does without arguments."""
        return self.records()

    @overload
    def records(self, *, views: Literal[False] = False, **selection: Unpack[Selection]) -> Iterator[core.Record]: ...

    @overload
    def records(self, *, views: bool, **selection: Unpack[Selection]) -> Iterator[core.Record[bytes | memoryview]]: ...

    def records(
        self, *, views: bool = False, **selection: Unpack[Selection]
    ) -> Iterator[core.Record[bytes | memoryview]]:
        """Return an iterator of the selected records.

        Several threads may share the iterator. Each record is returned to one thread only.

        Parameters
        ----------
        views : bool, default False
            Return keys and values as memoryviews instead of bytes. A memoryview is valid only until
            the next record is read, so threads cannot share such an iterator.
        start, end : int, optional
            Offsets; `end` is exclusive. A negative value counts back from the end of the log. By
            default the whole partition.
        start_time, end_time : int (milliseconds since 1970-01-01 UTC) or timezone-aware datetime,
            optional
            Replace `start` or `end` by the first offset whose record has this timestamp or a later
            one. If no record has, it is the end of the log.
        on_error : {"fail", "skip"}, default "fail"
            "fail" raises at the first damaged span, after the records before it. "skip" omits
            damaged spans and lists them in `damaged`.
        control : bool, default False
            Include control records (transaction markers).
        below_log_start : bool, default False
            Include records below the log start offset, which a broker hides.
        isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
            "read_committed" omits aborted records and ends at the last stable offset.

        Returns
        -------
        iterator of Record

        Raises
        ------
        DamagedLogError
            The selection contains damage and `on_error` is "fail".
        TypeError, ValueError
            A keyword is unknown, a datetime has no time zone, or an offset and a time are both
            given for one end.

        Notes
        -----
        "read_committed" follows Kafka's consumer (``CompletedFetch``). It reads the whole log
        first, because no broker names the aborted transactions.
        """
        chunks = self.log.chunks(capacity=1024, **self._selected(selection))
        return core.RecordIterator(core.make_records(source, columns, views=views) for source, columns in chunks)

    def to_batches(
        self, columns: Sequence[str] | None = None, **selection: Unpack[Selection]
    ) -> Iterator[pa.RecordBatch]:
        """Return an iterator of Arrow record batches of about 8 MB each.

        Memory use does not depend on the size of the partition. Several threads may share the
        iterator.

        Parameters
        ----------
        columns : sequence of str, optional
            Names and order of the columns. By default the eight columns that `to_arrow` lists.
        **selection
            The keyword arguments that `records` describes: start, end, start_time, end_time,
            on_error, control, below_log_start and isolation.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            No Arrow record batch is empty. Columns and types are those of `to_arrow`.

        Raises
        ------
        DamagedLogError
            The selection contains damage and `on_error` is "fail". The records before it have been
            returned.
        TypeError, ValueError
            A keyword or column is unknown, a datetime has no time zone, or an offset and a time are
            both given for one end.
        """
        from . import arrow

        schema = arrow.schema_of(columns)
        builder = arrow.ArrowBuilder(self.topic, self.partition, schema)
        return arrow.record_batches(self.log.chunks(builder.columns, **self._selected(selection)), builder)

    def to_reader(self, columns: Sequence[str] | None = None, **selection: Unpack[Selection]) -> pa.RecordBatchReader:
        """Return the selected records as a pyarrow RecordBatchReader.

        Memory use does not depend on the size of the partition.

        Parameters
        ----------
        columns : sequence of str, optional
            Names and order of the columns. By default the eight columns that `to_arrow` lists.
        **selection
            The keyword arguments that `records` describes: start, end, start_time, end_time,
            on_error, control, below_log_start and isolation.

        Returns
        -------
        pyarrow.RecordBatchReader
            A reader of the batches that `to_batches` returns. It has a schema even if no record is
            selected.

        Raises
        ------
        DamagedLogError
            The selection contains damage and `on_error` is "fail". The error is raised when a batch
            is read.
        TypeError, ValueError
            A keyword or column is unknown, a datetime has no time zone, or an offset and a time are
            both given for one end.
        """
        from . import arrow

        schema = arrow.schema_of(columns)
        return arrow.reader(schema, self.to_batches(schema.names, **selection))

    def to_arrow(self, columns: Sequence[str] | None = None, **selection: Unpack[Selection]) -> pa.Table:
        """Read the selected records into a pyarrow Table.

        Parameters
        ----------
        columns : sequence of str, optional
            Names and order of the columns. By default all columns listed below except
            `timestampMillis`.
        start, end : int, optional
            Offsets; `end` is exclusive. A negative value counts back from the end of the log. By
            default the whole partition.
        start_time, end_time : int (milliseconds since 1970-01-01 UTC) or timezone-aware datetime,
            optional
            Replace `start` or `end` by the first offset whose record has this timestamp or a later
            one. If no record has, it is the end of the log.
        on_error : {"fail", "skip"}, default "fail"
            "fail" raises at the first damaged span. "skip" omits damaged spans and lists them in
            `damaged`.
        control, below_log_start : bool, default False
            Include control records (transaction markers), and records below the log start offset,
            which a broker hides.
        isolation : {"read_uncommitted", "read_committed"}, default "read_uncommitted"
            "read_committed" omits aborted records and ends at the last stable offset.

        Returns
        -------
        pyarrow.Table
            One row per record, in offset order. The schema is that of Spark's Kafka source:

            - key, value: binary; null if the record's key or value is null
            - topic: string; partition: int32; offset: int64
            - timestamp: timestamp[us, tz=UTC]; null if the record has none, or one that int64
              microseconds cannot hold
            - timestampType: int32; 0 CreateTime, 1 LogAppendTime, -1 none (magic 0)
            - headers: list<element: struct<key: string, value: binary>>; null if the record has no
              headers
            - timestampMillis: int64; the timestamp as stored, in milliseconds; -1 if there is none

        Raises
        ------
        DamagedLogError
            The selection contains damage and `on_error` is "fail". No table is returned;
            `to_batches` returns the records before the damage.
        TypeError, ValueError
            A keyword or column is unknown, a datetime has no time zone, or an offset and a time are
            both given for one end.

        Notes
        -----
        The table is held in memory; `to_batches` and `to_reader` stream Arrow record batches of
        about 8 MB. "read_committed" follows Kafka's consumer (``CompletedFetch``), and reads the
        whole log first, because no broker names the aborted transactions.
        """
        return self.to_reader(columns, **selection).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the eight default columns of all records as an Arrow C stream, which pandas,
        Polars and DuckDB can read.

        Memory use does not depend on the size of the partition.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @staticmethod
    def _check(selection: Selection) -> None:
        """Raise TypeError or ValueError if a selection is wrong regardless of the partition."""
        for name in selection:
            if name not in Selection.__annotations__:
                raise TypeError(
                    f"there is no argument {name!r}; the arguments are {', '.join(Selection.__annotations__)}"
                )
        arguments.one_of("on_error", selection.get("on_error", "fail"), ON_ERROR)
        arguments.one_of("isolation", selection.get("isolation", "read_uncommitted"), ISOLATION_LEVELS)
        _check_bound("start", selection.get("start"), selection.get("start_time"))
        _check_bound("end", selection.get("end"), selection.get("end_time"))

    def _selected(self, selection: Selection) -> dict[str, Any]:
        self._check(selection)
        return self._selection(**selection)

    def _selection(
        self,
        start: int | None = None,
        end: int | None = None,
        start_time: Time | None = None,
        end_time: Time | None = None,
        on_error: str = "fail",
        control: bool = False,
        below_log_start: bool = False,
        isolation: str = "read_uncommitted",
    ) -> dict[str, Any]:
        self.damaged = []
        return {
            "start": self._offset("start", start, start_time, below_log_start),
            "end": self._offset("end", end, end_time, below_log_start),
            "control": control,
            "below_log_start": below_log_start,
            "committed": isolation == "read_committed",
            "on_damage": self.damaged.append if on_error == "skip" else None,
        }

    def _offset(self, name: str, offset: int | None, time: Time | None, below_log_start: bool) -> int | None:
        offset = _check_bound(name, offset, time)
        if time is not None:
            return self._offset_at(f"{name}_time", time, below_log_start)
        if offset is None:
            return None
        return min(offset, NO_END) if offset >= 0 else max(self.next_offset + offset, 0)


def _check_bound(name: str, offset: int | None, time: Time | None) -> int | None:
    """Return `offset` as an int or None. Raise an error if `offset` or `time` is wrong, or if both
    are given.
    """
    if offset is not None and time is not None:
        raise ValueError(f"{name} and {name}_time cannot both be given")
    if time is not None:
        arguments.millis(f"{name}_time", time)
    return arguments.optional_integer(name, offset, kind="an offset")


class Groups:
    """Consumer groups and their committed offsets, decoded from ``__consumer_offsets``.

    `Log.groups` creates this object.

    Attributes
    ----------
    offsets : list of CommittedOffset
        Committed offsets, ordered by group, topic and partition.
    groups : list of Group
        Groups with their members, ordered by name.
    damaged : list of Damage
        Damaged spans of the topic that were skipped. If there are any, a committed offset may not
        be the latest one.
    unreadable : int
        Number of records whose key or value cannot be decoded.
    """

    def __init__(self, logs: Iterable[PartitionLog], on_error: str = "fail") -> None:
        arguments.one_of("on_error", on_error, ON_ERROR)
        self.damaged: list[Damage] = []
        state = read_group_state(logs, (lambda _, damage: self.damaged.append(damage)) if on_error == "skip" else None)
        self.offsets: list[CommittedOffset] = state.offsets
        self.groups: list[Group] = state.groups
        self.unreadable: int = state.unreadable

    def __repr__(self) -> str:
        return f"<kafkafmt.Groups: {len(self.groups)} with {len(self.offsets)} committed offsets>"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt groups --format json`` prints."""
        return groups_dict(self.offsets, self.groups)

    def to_arrow(self) -> pa.Table:
        """Return the committed offsets as a pyarrow Table.

        Returns
        -------
        pyarrow.Table
            One row per committed offset, ordered by group, topic and partition:

            - group, topic: string; partition: int32; offset: int64
            - leader_epoch: int32; null if the commit has none
            - metadata: string
            - commit_timestamp: timestamp[ms, tz=UTC]
            - expire_timestamp: timestamp[ms, tz=UTC]; null if the commit does not contain it; only
              commits up to Kafka 2.0 do
        """
        from . import arrow

        return arrow.committed_offsets(self.offsets)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table that `to_arrow` returns as an Arrow C stream, which pandas, Polars and
        DuckDB can read.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Log:
    """The partitions of one or more log directories. Iterate over them, or get one with
    ``log[topic, partition]``.

    `kafkafmt.open` creates logs. Files are open only while they are read, so a log need not be
    closed.

    Attributes
    ----------
    messages : list of str
        Messages about unusual names and about files that retention has removed. They are collected
        when the log is opened and while it is read.
    """

    discovery: Discovery

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        replicas: str | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        mapped: bool = False,
    ) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._replicas = replicas
        self.discovery = found = discover(self._paths, replicas)
        self.messages: list[str] = found.messages
        self._partitions = [Partition(d, max_batch_bytes, mapped, self.messages.append) for d in found.partitions]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that are live or whose own path was opened, ordered by topic and number."""
        return [p for p in self._partitions if p.log.directory.readable]

    @property
    def not_live(self) -> list[Partition]:
        """The partitions in ``-delete``, ``-stray`` and ``-future`` directories whose own path was
        not opened.
        """
        return [p for p in self._partitions if not p.log.directory.readable]

    @property
    def topics(self) -> list[str]:
        """Sorted names of the topics in `partitions`."""
        return sorted({p.topic for p in self.partitions})

    def groups(self, on_error: str = "fail") -> Groups:
        """Read consumer groups and their committed offsets from ``__consumer_offsets``.

        The log directory of a broker contains the groups for which this broker has a partition of
        the topic. To get all groups of a cluster, open the directories of all brokers.

        Parameters
        ----------
        on_error : {"fail", "skip"}, default "fail"
            "fail" raises at damage. "skip" omits damaged spans and lists them in `Groups.damaged`.

        Returns
        -------
        Groups

        Raises
        ------
        NoLogError
            There is no partition of ``__consumer_offsets``.
        DamagedLogError
            The topic is damaged and `on_error` is "fail".
        ValueError
            `on_error` is wrong.

        Notes ----- In Kafka, ``GroupMetadataManager`` and ``GroupCoordinatorService`` load the
        topic in the same way.
        """
        logs = [p.log for p in self.partitions if p.topic == GROUPS_TOPIC]
        if not logs:
            raise NoLogError(f"no partition of {GROUPS_TOPIC} was opened; consumer groups are stored there")
        return Groups(logs, on_error)

    def follow(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        start: int | None = None,
        start_time: Time | None = None,
        on_error: str = "fail",
        control: bool = False,
        below_log_start: bool = False,
        isolation: str = "read_uncommitted",
        poll: float = POLL,
        idle_timeout: float | None = None,
    ) -> Iterator[tuple[Partition, Any]]:
        """Yield the records of growing partitions, and wait for more.

        Partitions that are created later are followed too.

        Parameters
        ----------
        topics : str or iterable of str, optional
            Topic globs. By default all topics except Kafka's internal topics (``__…``).
        start, start_time, on_error, control, below_log_start, isolation
            Which records are selected in the partitions that exist now. `Partition.records`
            describes these parameters. Partitions that are created later are read from their start.
        poll : float, default 0.2
            Seconds between two checks of the files. New partitions are found within about 3
            seconds.
        idle_timeout : float, optional
            End after this many seconds without a new record. By default, never end.

        Yields
        ------
        tuple of Partition and Record
            Records of the same partition are in offset order. If `on_error` is "skip",
            `Partition.damaged` lists the damaged spans that were skipped.

        Raises
        ------
        DamagedLogError
            Damage was found, and `on_error` is "fail".
        OSError
            A path cannot be read.
        TypeError, ValueError
            An argument is wrong.

        Notes ----- A message about each new, truncated or deleted partition is added to `messages`.
        """
        arguments.one_of("on_error", on_error, ON_ERROR)
        arguments.one_of("isolation", isolation, ISOLATION_LEVELS)
        globs = () if topics is None else [topics] if isinstance(topics, str) else list(topics)
        known = {(p.topic, p.partition): p for p in self.partitions}

        def make(directory: PartitionDir, at_first: bool) -> Follower:
            model = known.get(directory.key)
            if model is None:
                limit = next((p.log.max_batch_bytes for p in self._partitions), DEFAULT_MAX_BATCH_BYTES)
                model = known[directory.key] = Partition(directory, limit, tell=self.messages.append)
            model.damaged = []
            return Follower(
                directory,
                paths_to_follow(directory, self._paths),
                model._offset("start", start, start_time, below_log_start) if at_first else None,
                committed=isolation == "read_committed",
                control=control,
                below_log_start=below_log_start,
                max_batch_bytes=model.log.max_batch_bytes,
                tell=self.messages.append,
            )

        def rescan() -> list[PartitionDir]:
            return select_partitions(discover(self._paths, self._replicas).partitions, globs)

        def on_damage(follower: Follower) -> Callable[[Damage], None] | None:
            return known[follower.log.directory.key].damaged.append if on_error == "skip" else None

        chosen = select_partitions(self.discovery.partitions, globs)
        followers = Followers(chosen, make, rescan, self.messages.append)
        records = followers.records(on_damage, poll, idle_timeout)
        return ((known[follower.log.directory.key], record) for follower, record in records)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        ordered: bool = True,
        **selection: Unpack[Selection],
    ) -> Iterator[pa.RecordBatch]:
        """Read all `partitions` in parallel, and return an iterator of Arrow record batches.

        Each partition is read by one thread. Several threads may share the iterator.

        Parameters
        ----------
        columns : sequence of str, optional
            Names and order of the columns. By default the eight columns that `Partition.to_arrow`
            lists.
        threads : int, optional
            Number of partitions that are read at the same time, 1 or higher. By default the number
            of CPUs.
        ordered : bool, default True
            Return the batches of each partition after those of the partitions before it. If False,
            return batches as they are read. The batches of one partition are in offset order in
            both cases.
        **selection
            The keyword arguments that `Partition.records` describes, applied to every partition:
            start, end, start_time, end_time, on_error, control, below_log_start and isolation.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Arrow record batches of about 8 MB, none of which is empty. Each contains records of one
            partition. If the iterator is closed, the threads end at their next batch, and `close`
            waits for them.

        Raises
        ------
        DamagedLogError
            A partition contains damage and `on_error` is "fail". The error is raised after the
            batches of this partition that precede the damage. If `ordered` is True, all batches of
            earlier partitions have been returned too.
        TypeError, ValueError
            An argument is wrong, a keyword or column is unknown, a datetime has no time zone, or an
            offset and a time are both given for one end.

        Notes ----- About four batches per thread are held in memory at most: two that wait, one
        that was read, and one under construction. With ``on_error="skip"``, `Partition.damaged` of
        each partition lists its damaged spans. Internal topics (``__consumer_offsets``) are
        partitions too.
        """
        from . import arrow

        names = arrow.schema_of(columns).names
        Partition._check(selection)
        count = arguments.optional_integer("threads", threads, 1) or os.cpu_count() or 1
        sources = [partial(p.to_batches, names, **selection) for p in self.partitions]
        return SharedIterator(scan(sources, count, bool(ordered)))

    def __getitem__(self, key: tuple[str, int]) -> Partition:
        """Return the partition with a given topic and number, such as ``log["orders", 0]``.

        Raises
        ------
        KeyError
            There is no such partition. The message names similar ones.
        TypeError
            The key is not a topic and a number.
        """
        if not isinstance(key, tuple) or len(key) != 2:
            raise TypeError(f'log[...] takes a topic and a partition number, such as log["orders", 0], not {key!r}')
        topic, partition = key[0], arguments.integer("partition", key[1])
        for p in self.partitions:
            if (p.topic, p.partition) == (topic, partition):
                return p
        known = sorted(p.partition for p in self.partitions if p.topic == topic)
        hint = f"the topic has partitions {', '.join(map(str, known))}" if known else like(str(topic), self.topics)
        raise KeyError(f"there is no partition {topic}-{partition}; {hint}")

    def __contains__(self, key: object) -> bool:
        """Return whether `key` is a partition of this log, or its topic and number."""
        return any(key == (p.topic, p.partition) or key is p for p in self.partitions)

    def __len__(self) -> int:
        """Return the number of `partitions`."""
        return len(self.partitions)

    def __iter__(self) -> Iterator[Partition]:
        """Return an iterator over `partitions`."""
        return iter(self.partitions)

    def __enter__(self) -> Log:
        """Return the log itself, so that it can be used in a ``with`` statement. There is nothing
        to close.
        """
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: files are open only while they are read."""

    def __repr__(self) -> str:
        return f"<kafkafmt.Log: {len(self.partitions)} partitions of {len(self.topics)} topics>"

    def _repr_html_(self) -> str:
        """Return a table of the partitions for notebooks. No file is read."""
        rows = [
            (
                p.topic,
                p.partition,
                p.state,
                p.log_start_offset,
                len(p.log.segments),
                f"{sum(s.size for s in p.log.segments):,}",
            )
            for p in self.partitions
        ]
        caption = f"{len(rows)} partitions of {len(self.topics)} topics"
        return html_table(caption, ("topic", "partition", "state", "log start offset", "segments", "bytes"), rows)


def open_log(
    *paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    mapped: bool = False,
) -> Log:
    """Open Kafka log directories, partition directories or `.log` files for reading.

    Parameters
    ----------
    *paths : str, os.PathLike, or a list or tuple of these
        One or more paths. The result contains the partitions of all paths.
    replicas : "longest", optional
        If two paths contain the same partition, read the copy with the higher end offset. By
        default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage, with the error "too_large". A batch is also reported as "too_large" if one of its
        records has more than ``max_batch_bytes // 128`` headers and more than 131,072 headers.
    mapped : bool, default False
        Memory-map the files instead of reading them. Use this only for directories that no broker
        writes to. If a mapped file is truncated while it is read, the operating system ends the
        process with SIGBUS; Python cannot catch this. A file that was truncated before it was
        mapped is reported as damage.

    Returns
    -------
    Log
        ``log[topic, partition]`` is a `Partition`. Files are open only while they are read, so
        there is nothing to close.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. If a path contains no Kafka log, the error is a
        `NoLogError`.
    TypeError, ValueError
        An argument is wrong. If two paths contain the same partition and `replicas` is not given,
        the error is a `DuplicatePartitionError`, which is a ValueError.

    Notes ----- This function reads directories and checkpoints. Kafka's counterpart is
    ``LogManager.loadLogs``. Batches are read later, when they are needed, except to compare
    replicas.
    """
    given: list[str | os.PathLike[str]] = []
    for path in paths:
        for one in path if isinstance(path, list | tuple) else [path]:
            if not isinstance(one, str | os.PathLike):
                raise TypeError(f"a path must be a str or a Path, not {one!r}")
            given.append(one)
    if not given:
        raise TypeError("at least one path is needed")
    return Log(given, replicas, arguments.integer("max_batch_bytes", max_batch_bytes, 1), mapped)
