"""The open log as a user holds it: partitions that give records, record batches, tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from . import arguments
from ._backend import core
from .constants import DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS, NO_END
from .log import Damage, NoLogError, PartitionDir, PartitionLog, discover
from .log.format.leader_epochs import end_offset_for
from .log.reading.groups import GROUPS_TOPIC, CommittedOffset, Group, read_group_state
from .log.reading.lookups import find_max_timestamp, find_timestamp
from .log.reading.selection import like
from .log.reading.sendfile import HasFileno, Sent, send

if TYPE_CHECKING:
    import pyarrow as pa

Time = int | datetime
ON_ERROR = ("fail", "skip")


class Selection(TypedDict, total=False):
    """Which records of a partition are meant; see Partition."""

    start: int | None
    end: int | None
    start_time: Time | None
    end_time: Time | None
    on_error: str
    control: bool
    below_log_start: bool
    isolation: str


class Partition:
    """One partition of an open log: iterate it for Record objects, or take it as Arrow.

    Everything takes the same selection, by keyword:
        start, end: offsets, end exclusive; negative ones count from the log's end.
        start_time, end_time: instead of an offset, the first one whose timestamp is at or after a time (milliseconds
            since 1970 UTC, or a datetime with a zone).
        on_error: "fail" (default) raises DamagedLogError once what precedes the damage was given; "skip" goes on
            behind it, and `damaged` tells what was left out.
        control: control records too. below_log_start: records that a broker would hide too.
        isolation: "read_committed" leaves out aborted records and what is not decided yet.
    """

    def __init__(
        self,
        directory: PartitionDir,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        mapped: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.log = PartitionLog(directory, max_batch_bytes=max_batch_bytes, mapped=mapped, tell=tell)
        self.damaged: list[Damage] = []

    def __repr__(self) -> str:
        return f"<kafkafmt.Partition {self.topic}-{self.partition} at {str(self.log.directory.path)!r}>"

    @property
    def topic(self) -> str:
        return self.log.topic

    @property
    def partition(self) -> int:
        return self.log.partition

    @property
    def state(self) -> str:
        """live, delete, stray or future."""
        return self.log.directory.state

    @property
    def log_start_offset(self) -> int:
        """The first offset that a broker would show."""
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset that is not decided yet: of the oldest open transaction, else the log's end. Walks the log."""
        return self.log.transactions.last_stable_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last sound batch. Reads the last segment's batches."""
        return self.log.next_offset

    def offset_at(self, time: Time, below_log_start: bool = False) -> int:
        """The first offset whose record's timestamp is at or after a time; the log's end where there is none."""
        return self._offset_at("time", time, below_log_start)

    def _offset_at(self, name: str, time: Time, below_log_start: bool) -> int:
        hit = find_timestamp(self.log, arguments.millis(name, time), below_log_start)
        return self.next_offset if hit is None else hit.offset

    @property
    def max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp (ms) of the first record with the largest timestamp; None where no record has one."""
        hit = find_max_timestamp(self.log)
        return None if hit is None else (hit.offset, hit.timestamp)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest leader epoch not above the one asked for, and the offset where it ended, as OffsetsForLeaderEpoch answers.

        By the directory's checkpoint, else by the batches, each of which is then looked at; None where these do not tell.
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
        """Send the batches from an offset (or the log start) on to a file or socket that blocks, as they lie: how many bytes,
        and the offset to go on with. A negative offset counts from the log's end. max_bytes: no more, but at least one batch;
        without whole_batches the last may be cut."""
        first = self._offset("start", start, None, False)
        most = arguments.optional_integer("max_bytes", max_bytes)
        return send(
            self.log, target, self.log_start_offset if first is None else first, most, whole_batches=whole_batches
        )

    def __iter__(self) -> Iterator[core.Record]:
        return self.records()

    @overload
    def records(self, *, views: Literal[False] = False, **selection: Unpack[Selection]) -> Iterator[core.Record]: ...

    @overload
    def records(self, *, views: bool, **selection: Unpack[Selection]) -> Iterator[core.Record[bytes | memoryview]]: ...

    def records(
        self, *, views: bool = False, **selection: Unpack[Selection]
    ) -> Iterator[core.Record[bytes | memoryview]]:
        """Return an iterator of Record objects, which several threads may share: each record goes to one of them.

        With `views`, keys and values are memoryviews. They are valid until the next record, so threads cannot share these.
        """
        chunks = self.log.chunks(capacity=1024, **self._selected(selection))
        return core.RecordIterator(core.make_records(source, columns, views=views) for source, columns in chunks)

    def to_batches(
        self, columns: Sequence[str] | None = None, **selection: Unpack[Selection]
    ) -> Iterator[pa.RecordBatch]:
        """pyarrow record batches of about 8 MB, in constant memory. columns: names of the schema, None for the standard eight."""
        from . import arrow

        schema = arrow.schema_of(columns)
        builder = arrow.ArrowBuilder(self.topic, self.partition, schema)
        return arrow.record_batches(self.log.chunks(builder.columns, **self._selected(selection)), builder)

    def to_reader(self, columns: Sequence[str] | None = None, **selection: Unpack[Selection]) -> pa.RecordBatchReader:
        """The same as a pyarrow RecordBatchReader."""
        from . import arrow

        schema = arrow.schema_of(columns)
        return arrow.reader(schema, self.to_batches(schema.names, **selection))

    def to_arrow(self, columns: Sequence[str] | None = None, **selection: Unpack[Selection]) -> pa.Table:
        """A pyarrow Table of the whole selection."""
        return self.to_reader(columns, **selection).read_all()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The standard columns for whoever takes Arrow streams (pandas, Polars, DuckDB), in constant memory."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _selected(self, selection: Selection) -> dict[str, Any]:
        for name in selection:
            if name not in Selection.__annotations__:
                raise TypeError(f"a selection has no {name!r}; it can have {', '.join(Selection.__annotations__)}")
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
        arguments.one_of("on_error", on_error, ON_ERROR)
        arguments.one_of("isolation", isolation, ISOLATION_LEVELS)
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
        if offset is not None and time is not None:
            raise ValueError(f"{name} and {name}_time cannot both be given")
        if time is not None:
            return self._offset_at(f"{name}_time", time, below_log_start)
        if offset is None:
            return None
        offset = arguments.integer(name, offset, kind="an offset")
        return min(offset, NO_END) if offset >= 0 else max(self.next_offset + offset, 0)


class Groups:
    """Consumer groups as `__consumer_offsets` has them: committed offsets, also as Arrow, and the groups with their members.

    offsets: in order of group, topic and partition. groups: by name. damaged: what of the topic could not be read, so that a
    commit may be older than the last. unreadable: how many records are of no form that is known.
    """

    def __init__(self, logs: Iterable[PartitionLog], on_error: str = "fail") -> None:
        arguments.one_of("on_error", on_error, ON_ERROR)
        self.damaged: list[Damage] = []
        state = read_group_state(logs, (lambda _, damage: self.damaged.append(damage)) if on_error == "skip" else None)
        self.offsets: list[CommittedOffset] = state.offsets
        self.groups: list[Group] = state.groups
        self.unreadable = state.unreadable

    def __repr__(self) -> str:
        return f"<kafkafmt.Groups: {len(self.groups)} with {len(self.offsets)} committed offsets>"

    def to_arrow(self) -> pa.Table:
        """The committed offsets as a pyarrow Table; timestamps are UTC, in milliseconds."""
        from . import arrow

        return arrow.committed_offsets(self.offsets)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The same for whoever takes Arrow streams (pandas, Polars, DuckDB)."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class Log:
    """One or several open log directories: `log[topic, partition]`, `log.partitions`, `log.topics`.

    messages: what was worth a line, when the log was opened and since: odd names, files that retention removed meanwhile.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        replicas: str | None = None,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        mapped: bool = False,
    ) -> None:
        found = discover(paths, replicas)
        self.messages = found.messages
        self._partitions = [Partition(d, max_batch_bytes, mapped, self.messages.append) for d in found.partitions]

    @property
    def partitions(self) -> list[Partition]:
        """Every partition that is live, or that was itself a path; in order of topic and partition."""
        return [p for p in self._partitions if p.state == "live" or p.log.directory.named]

    @property
    def not_live(self) -> list[Partition]:
        """The `-delete`, `-stray` and `-future` directories of the log directories."""
        return [p for p in self._partitions if p.state != "live" and not p.log.directory.named]

    @property
    def topics(self) -> list[str]:
        return sorted({p.topic for p in self.partitions})

    def groups(self, on_error: str = "fail") -> Groups:
        """Consumer groups and their committed offsets, as `__consumer_offsets` among the partitions has them.

        A broker's directory holds the groups that it coordinates: those of a cluster are in all of them together.
        """
        logs = [p.log for p in self.partitions if p.topic == GROUPS_TOPIC]
        if not logs:
            raise NoLogError(f"there is no partition of {GROUPS_TOPIC}")
        return Groups(logs, on_error)

    def __getitem__(self, key: tuple[str, int]) -> Partition:
        if not isinstance(key, tuple) or len(key) != 2:
            raise TypeError(f"log[topic, partition] is a partition; {key!r} is not both of these")
        topic, partition = key[0], arguments.integer("partition", key[1])
        for p in self.partitions:
            if (p.topic, p.partition) == (topic, partition):
                return p
        known = sorted(p.partition for p in self.partitions if p.topic == topic)
        there = f"that topic has partitions {', '.join(map(str, known))}" if known else like(str(topic), self.topics)
        raise KeyError(f"{topic}-{partition} is not there; {there}")

    def __contains__(self, key: object) -> bool:
        return any(key == (p.topic, p.partition) or key is p for p in self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.partitions)

    def __enter__(self) -> Log:
        """`with kafkafmt.open(…) as log` is as good: files are open only while they are read, so there is nothing to close."""
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"<kafkafmt.Log: {len(self.partitions)} partitions of {len(self.topics)} topics>"


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
        One path or more. The result contains the partitions of all of them.
    replicas : "longest", optional
        If two paths contain the same partition, read the copy with the higher end offset. By default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as damage, with the error "too_large". So
        is a batch with a record of more than ``max_batch_bytes // 128`` headers, if these are also more than 131,072.
    mapped : bool, default False
        Map the files into memory instead of reading them. Use it only for directories that no broker writes to. If a mapped file is
        truncated while it is read, the operating system ends the process with SIGBUS; Python cannot catch this. A file that was
        truncated before it was mapped is reported as damage.

    Returns
    -------
    Log
        ``log[topic, partition]`` is a `Partition`. Files are open only while they are read, so there is nothing to close.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. `NoLogError`, a subclass, if a path contains no Kafka log.
    TypeError, ValueError
        An argument is wrong. `DuplicatePartitionError`, a ValueError, if two paths contain the same partition and `replicas` is not given.

    Notes
    -----
    Opening reads directories and checkpoints; Kafka's counterpart is ``LogManager.loadLogs``. Batches are read on demand, or to
    compare replicas.
    """
    given: list[str | os.PathLike[str]] = []
    for path in paths:
        for one in path if isinstance(path, list | tuple) else [path]:
            if not isinstance(one, str | os.PathLike):
                raise TypeError(f"a path is a str or a Path, not {one!r}")
            given.append(one)
    if not given:
        raise TypeError("at least one path is needed")
    return Log(given, replicas, arguments.integer("max_batch_bytes", max_batch_bytes, 1), mapped)
