"""Define `open`, and the class `Log`, which reads the topics and partitions of log directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, overload

from .._backend import core
from ..constants import DEFAULT_MAX_BATCH_BYTES, READ_UNCOMMITTED, Isolation, OnError
from ..log import Damage, NoLogError, PartitionDir, discover
from ..log.catalog import AnyPath, Discovery, Source, choose_partitions, like, resolve, select_partitions
from ..log.groups import GROUPS_TOPIC
from ..log.reading import POLL, Follower, Followers, Time, paths_to_follow
from ..support import arguments
from ..support.hints import no_attribute
from ..support.notebook import html_table
from ..support.sharing import SharedIterator
from ..support.text import counted, shortened, shown
from .groups import Groups
from .many import read_batches
from .partition import PARTITION_COLUMNS, Partition, partition_rows
from .selection_arguments import SelectionArguments, parse_selection
from .topic import Topic
from .value_arguments import ArrowPlan
from .verified import Verified

if TYPE_CHECKING:
    import pyarrow as pa


OTHER_NAMES = {
    "records": "log[topic].records()",
    "scan": "to_reader(ordered=False)",
    "to_batches": "to_reader",
    "to_pandas": "to_reader().read_pandas()",
}
"""Names that users know from `Topic` or other libraries, with the names to use instead."""


class Log(Verified):
    """An open Kafka log: the partitions of one or more log directories.

    Iterating over a log returns its partitions. ``log[topic]`` returns a `Topic`, and
    ``log[topic, partition]`` returns a `Partition`.

    `kafkafmt.open` returns a `Log`. Files are open only while they are read. Therefore, a log need
    not be closed.

    Attributes
    ----------
    messages : list of str
        Messages about unusual file names, and about files that retention has removed. Messages are
        added while the log is opened and read.
    """

    discovery: Discovery

    def __init__(
        self,
        paths: Iterable[AnyPath],
        replicas: str | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    ) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._replicas = replicas
        self._max_batch_bytes = max_batch_bytes
        self.discovery = found = discover(self._paths, replicas)
        self.messages: list[str] = found.messages
        self._partitions = [Partition(d, max_batch_bytes, self.messages.append) for d in found.partitions]

    @property
    def paths(self) -> list[str]:
        """The paths that were opened."""
        return list(self._paths)

    @property
    def replicas(self) -> str | None:
        """The argument `replicas` that was passed when the log was opened."""
        return self._replicas

    @property
    def partitions(self) -> list[Partition]:
        """Partitions, sorted by topic and number. Partitions in `not_live` are not included."""
        return [p for p in self._partitions if p.log.directory.readable]

    @property
    def not_live(self) -> list[Partition]:
        """Partitions in ``-delete``, ``-stray`` and ``-future`` directories.

        A partition is in `partitions` instead of `not_live` if the path of its directory was passed
        to `kafkafmt.open`.
        """
        return [p for p in self._partitions if not p.log.directory.readable]

    @property
    def topics(self) -> list[str]:
        """Names of the topics in `partitions`, sorted."""
        return sorted({p.topic for p in self.partitions})

    def groups(self, on_error: OnError = "fail", *, at_time: Time | None = None) -> Groups:
        """Read the consumer groups, their committed offsets and their lags.

        A broker's log directory contains only the groups whose partition of ``__consumer_offsets``
        is stored on that broker. To get all groups of a cluster, open the log directories of all
        brokers.

        Parameters
        ----------
        on_error : {"fail", "skip"}, default "fail"
            "fail" raises an error if data is damaged. "skip" omits damaged ranges of bytes and
            lists them in `Groups.damaged`.
        at_time : int, timezone-aware datetime or str, optional
            Time of the state to return. An int is a number of milliseconds since 1970-01-01 UTC. By
            default, the latest state is returned.

        Returns
        -------
        Groups
            The groups, their members, their committed offsets and their lags.

        Raises
        ------
        NoLogError
            The log contains no partition of ``__consumer_offsets``.
        DamagedLogError
            ``__consumer_offsets`` is damaged, and `on_error` is "fail".
        TypeError, ValueError
            `on_error` or `at_time` is wrong.

        Notes
        -----
        Kafka's counterparts are ``GroupMetadataManager`` and ``GroupCoordinatorService``. The lag
        is the log end offset minus the committed offset, as in Kafka's ``ConsumerGroupCommand``.

        With the argument `at_time`, the returned state contains:

        - offset commits whose commit timestamp is `at_time` or earlier, except commits whose expiry time
          is `at_time` or earlier;
        - groups, members and deletions whose record timestamp is `at_time` or earlier;
        - commits in a transaction, if the timestamp of its commit marker is `at_time` or earlier.

        With the argument `at_time`, the log end offset of a partition is the offset of the first
        record whose timestamp is `at_time` or later. If producers set the timestamps, this is only
        an estimate. If it is below the committed offset, the lag is 0.

        Compaction removes older commits. If it may have removed commits that were valid at the time
        `at_time`, a message is added to `Log.messages`.
        """
        if GROUPS_TOPIC not in self.topics:
            raise NoLogError(f"the log contains no partition of {GROUPS_TOPIC}, the topic that stores consumer groups")
        return Groups([p.log for p in self.partitions], on_error, at_time, self.messages.append)

    def follow(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        start: int | None = None,
        start_time: Time | None = None,
        on_error: OnError = "fail",
        control: bool = False,
        below_log_start: bool = False,
        isolation: Isolation = READ_UNCOMMITTED,
        poll: float = POLL,
        idle_timeout: float | None = None,
    ) -> Iterator[tuple[Partition, core.Record]]:
        """Yield the records of growing partitions, and wait for new records.

        If new partitions are created, their records are also yielded.

        Parameters
        ----------
        topics : str or iterable of str, optional
            Glob patterns for topic names. By default, all topics except Kafka's internal topics
            (``__…``) are followed.
        start, start_time, on_error, control, below_log_start, isolation : optional
            Records to yield from each partition. `Partition.records` describes these arguments.
            Partitions that are created later are read from their start.
        poll : float, default 0.2
            Time between two checks of the files, in seconds. New partitions are found within about
            3 seconds.
        idle_timeout : float, optional
            The iteration ends if there is no new record for this number of seconds. By default, the
            iteration never ends.

        Yields
        ------
        tuple of Partition and Record
            A record and its partition. Records of the same partition are in offset order. If
            `on_error` is "skip", `Partition.damaged` lists the damaged ranges of bytes.

        Raises
        ------
        DamagedLogError
            Damage was found, and `on_error` is "fail".
        OSError
            A path cannot be read.
        TypeError, ValueError
            An argument is wrong.

        Notes
        -----
        A message about each new, truncated or deleted partition is added to `messages`.
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
        globs = _patterns(topics)
        known = {(p.topic, p.partition): p for p in self.partitions}

        def make(directory: PartitionDir, at_first: bool) -> Follower:
            model = known.get(directory.key)
            if model is None:
                model = known[directory.key] = Partition(directory, self._max_batch_bytes, tell=self.messages.append)
            model.damaged = []
            return Follower(
                directory,
                paths_to_follow(directory, self._paths),
                selection if at_first else replace(selection, start=None),
                model.log.limits,
                tell=self.messages.append,
            )

        def rescan() -> list[PartitionDir]:
            return select_partitions(discover(self._paths, self._replicas).partitions, globs)

        def on_damage(follower: Follower) -> Callable[[Damage], None] | None:
            return known[follower.log.directory.key].damaged.append if skip else None

        chosen = select_partitions(self.discovery.partitions, globs)
        followers = Followers(chosen, make, rescan, self.messages.append)
        records = followers.records(on_damage, poll, idle_timeout)
        return ((known[follower.log.directory.key], record) for follower, record in records)

    def to_reader(
        self,
        columns: Sequence[str] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
        threads: int | None = None,
        ordered: bool = True,
        limit: int | None = None,
        **selection: Unpack[SelectionArguments],
    ) -> pa.RecordBatchReader:
        """Return a pyarrow RecordBatchReader for the records of several topics.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of the columns, in the order of the result. By default, all columns that
            `Partition.to_arrow` lists except `timestampMillis`.
        topics : str or iterable of str, optional
            Glob patterns for topic names. By default, all topics except Kafka's internal topics
            (``__…``) are read.
        threads : int, optional
            Largest number of threads, 1 or higher. By default, the number of CPUs. If it is 1, or
            if `limit` is given, one partition after another is read without threads.
        ordered : bool, default True
            Read the partitions in the order of topic and number. If False, the reader returns each
            Arrow record batch as soon as it is complete. In both cases, those of one partition are
            in offset order.
        limit : int, optional
            Largest number of records, from all partitions together. By default, there is no limit.
        **selection
            Keyword arguments that select records in each partition: start, end, start_time,
            end_time, on_error, control, below_log_start, isolation and partial. `Partition.records`
            describes them.

        Returns
        -------
        pyarrow.RecordBatchReader
            A reader of Arrow record batches of about 8 MB. Each contains records of only one
            partition. At most about four of them and 16 MiB of stored batches per thread are in
            memory at the same time.

        Raises
        ------
        DamagedLogError
            A partition contains damage, and `on_error` is "fail". The reader raises this error when
            it reaches the damage.
        PartitionNotFoundError
            None of the patterns in `topics` matches a topic. If only some of the patterns match no
            topic, no error is raised, but a message for each of these patterns is added to
            `messages`.
        TypeError, ValueError
            An argument or column is unknown or wrong.
        """
        from ..arrow.builder import reader, schema_of

        schema = schema_of(columns)
        found = choose_partitions(self.discovery, _patterns(topics), internal=False, on_message=self.messages.append)
        chosen = {directory.key for directory in found}
        partitions = [p for p in self.partitions if (p.topic, p.partition) in chosen]
        batches = read_batches(partitions, ArrowPlan(schema), threads, ordered, limit, selection)
        return reader(schema, SharedIterator(batches))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        topics: str | Iterable[str] | None = None,
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
    ) -> pa.Table:
        """Read the records of several topics into a pyarrow Table.

        `to_reader` describes the parameters and the errors. `Partition.to_arrow` describes the
        columns. The rows are ordered by topic, partition and offset. The whole table is in memory.
        """
        return self.to_reader(
            columns,
            topics=topics,
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
        ).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the records of all topics, except internal topics, as an Arrow C stream.

        The columns of the stream are the default columns of `Partition.to_arrow`.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @overload
    def __getitem__(self, key: str) -> Topic: ...

    @overload
    def __getitem__(self, key: tuple[str, int]) -> Partition: ...

    def __getitem__(self, key: str | tuple[str, int]) -> Topic | Partition:
        """Return a topic, such as ``log["orders"]``, or a partition, such as ``log["orders", 0]``.

        Raises
        ------
        KeyError
            The topic or the partition does not exist. The message suggests similar names.
        TypeError
            The key is neither a topic name nor a tuple of a topic name and a partition number.
        """
        if isinstance(key, str):
            return Topic(key, self._partitions_of(key))
        if not isinstance(key, tuple) or len(key) != 2:
            raise TypeError(
                'the key of log[...] must be a topic, as in log["orders"], or a topic and a partition number, '
                f'as in log["orders", 0], not {shown(key)}'
            )
        topic, number = key
        return Topic(topic, self._partitions_of(topic))[number]

    def _partitions_of(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic. Raise KeyError if the topic does not exist."""
        found = [p for p in self.partitions if p.topic == topic]
        if not found:
            raise KeyError(f"there is no topic {shortened(str(topic))}; {like('topic', str(topic), self.topics)}")
        return found

    def _source_paths(self) -> list[str]:
        return self.paths

    def __contains__(self, key: object) -> bool:
        """Return whether the log contains a topic or a partition.

        `key` is a topic name, a tuple of a topic name and a partition number, or a `Partition`.
        """
        return any(key == p.topic or key == (p.topic, p.partition) or key is p for p in self.partitions)

    def __len__(self) -> int:
        """Return the number of partitions in the attribute `partitions`."""
        return len(self.partitions)

    def __iter__(self) -> Iterator[Partition]:
        """Return an iterator over `partitions`."""
        return iter(self.partitions)

    def __enter__(self) -> Log:
        """Return the log itself, so that a ``with`` statement can be used.

        A log need not be closed.
        """
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing. Files are open only while they are read."""

    if not TYPE_CHECKING:  # Otherwise, type checkers would accept every name.

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("a Log", name, OTHER_NAMES)

    def __repr__(self) -> str:
        return f"<kafkafmt.Log: {counted(len(self.partitions), 'partition')} of {counted(len(self.topics), 'topic')}>"

    def _repr_html_(self) -> str:
        """Return an HTML table of the partitions for notebooks. At most the last segment of each is read."""
        rows = [(p.topic, *row) for p, row in zip(self.partitions, partition_rows(self.partitions), strict=True)]
        caption = f"{counted(len(rows), 'partition')} of {counted(len(self.topics), 'topic')}"
        return html_table(caption, ("topic", *PARTITION_COLUMNS), rows)


def _patterns(topics: str | Iterable[str] | None) -> list[str]:
    return [] if topics is None else [topics] if isinstance(topics, str) else list(topics)


def open(
    *paths: Source | Sequence[Source],
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Log:
    """Open Kafka log directories, partition directories or `.log` files for reading.

    Parameters
    ----------
    *paths : str, os.PathLike, Log, Topic, Partition, or a sequence of these
        One or more paths. The result contains the partitions of all paths. A path can be a URL,
        such as ``s3://bucket/backup``, and it can contain the wildcards ``*``, ``?`` and ``[...]``.
        An open log, topic or partition is read from its paths, which are listed again.
    replicas : "longest", optional
        If two paths contain the same partition, read the copy with the higher end offset. By
        default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage, with the error "too_large". The argument also limits the number of headers of one
        record to 131,072 or ``max_batch_bytes // 128``, whichever is higher.

    Returns
    -------
    Log
        ``log[topic, partition]`` is a `Partition`. Files are open only while they are read.
        Therefore, a log need not be closed.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. The subclass `NoLogError` is raised if a path
        contains no Kafka log.
    TypeError, ValueError
        An argument is wrong. `DuplicatePartitionError`, a ValueError, is raised if two paths
        contain the same partition and `replicas` is not given.

    Notes
    -----
    This function reads only directories and checkpoints. With `replicas`, it also reads batches to
    compare the copies. Other batches are read when they are needed. Kafka's counterpart is
    ``LogManager.loadLogs``.
    """
    given = []
    for path in paths:
        one = resolve(path, replicas)
        given += one[0]
        replicas = one[1]
    if not given:
        raise TypeError("at least one path is needed")
    return Log(given, replicas, arguments.integer("max_batch_bytes", max_batch_bytes, 1))
