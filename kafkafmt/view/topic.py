"""Define the class `Topic`, which reads all partitions of a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from .._backend import core
from ..constants import READ_UNCOMMITTED, Isolation, OnError
from ..log import Damage
from ..log.catalog import existing_partitions
from ..log.reading import Time
from ..support import arguments
from ..support.hints import no_attribute
from ..support.notebook import html_table
from ..support.sharing import SharedIterator
from ..support.text import counted
from .find_arguments import FindArguments, HeaderConditions, Pattern, parse_limit
from .frames import Frames
from .many import read_batches, read_records
from .partition import PARTITION_COLUMNS, Partition, partition_rows
from .selection_arguments import SelectionArguments, parse_selection
from .value_arguments import ArrowArguments, ArrowPlan, ValueArguments, plan_topic, split_arguments
from .verified import Verified

if TYPE_CHECKING:
    import pyarrow as pa


OTHER_NAMES = {
    "batches": "topic[N].batches(), or to_batches for Arrow record batches",
    "schema": "to_reader().schema",
    "to_parquet": 'kafkafmt.export(topic, "DIRECTORY")',
}
"""Names that users know from `Partition` or other libraries, with the names to use instead."""


class Topic(Frames, Verified):
    """All partitions of a topic in an open log. They can be read as `Record` objects or Arrow data.

    `kafkafmt.open` returns a `Log`, and ``log[name]`` returns a `Topic`. ``topic[number]`` returns
    a `Partition`. Iterating over a topic returns its records. pandas, Polars and DuckDB can read a
    topic directly, because it supports the Arrow C stream interface.

    Attributes
    ----------
    name : str
        Name of the topic.
    partitions : list of Partition
        The live partitions, and the partitions whose directories were passed to `kafkafmt.open`,
        ordered by number.
    """

    def __init__(self, name: str, partitions: Sequence[Partition]) -> None:
        self.name: str = name
        self.partitions: list[Partition] = list(partitions)

    @property
    def damaged(self) -> list[Damage]:
        """Damaged byte ranges that the last read of each partition has skipped."""
        return [damage for p in self.partitions for damage in p.damaged]

    def __getitem__(self, partition: int) -> Partition:
        """Return the partition with the given number.

        Raises
        ------
        KeyError
            The log does not contain a partition of the topic with this number.
        TypeError
            `partition` is not an integer.
        """
        number = arguments.integer("partition", partition)
        for p in self.partitions:
            if p.partition == number:
                return p
        known = existing_partitions(sorted({p.partition for p in self.partitions}))
        raise KeyError(f"there is no partition {self.name}-{number}; {known}")

    def __len__(self) -> int:
        """Return the number of partitions."""
        return len(self.partitions)

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
        """Return an iterator of the selected records, one partition after another.

        `Record.partition` is the number of the partition. Several threads may share the iterator.

        Parameters
        ----------
        views : bool, default False
            Return keys and values as memoryviews instead of bytes. A memoryview is valid only until
            the next record is read.
        limit : int, optional
            Largest number of records to return, from all partitions together. By default, there is
            no limit.
        **selection
            Keyword arguments that select records in each partition: start, end, start_time,
            end_time, on_error, control, below_log_start, isolation and partial. `Partition.records`
            describes them.

        Returns
        -------
        iterator of Record
            The records of each partition are in offset order.

        Raises
        ------
        DamagedLogError
            The selected range of a partition contains damage, and `on_error` is "fail".
        TypeError, ValueError
            An argument is unknown or wrong.
        """
        return read_records(self.partitions, views, limit, selection)

    def head(self, n: int = 5) -> list[core.Record]:
        """Return the first `n` records of the topic as a list, like ``list(records(limit=n))``."""
        return list(self.records(limit=n))

    def count(self, **selection: Unpack[SelectionArguments]) -> int:
        """Return the number of selected records, mostly from the batch headers. See `Partition.count`."""
        return sum(p.count(**selection) for p in self.partitions)

    def find(
        self,
        *,
        key: str | bytes | None = None,
        key_regex: Pattern | None = None,
        value_regex: Pattern | None = None,
        headers: HeaderConditions | None = None,
        value_json: Mapping[str, Any] | None = None,
        limit: int | None = None,
        threads: int | None = None,
        **selection: Unpack[SelectionArguments],
    ) -> Iterator[tuple[Partition, core.Record]]:
        """Return an iterator of the records that meet all given conditions. Each item also contains the partition.

        Parameters
        ----------
        key, key_regex, value_regex, headers, value_json : optional
            Conditions that the records must meet. `Partition.find` describes them.
        limit : int, optional
            Largest number of records to return, from all partitions together. By default, there is
            no limit.
        threads : int, optional
            Number of threads, as in `Partition.find`.
        **selection
            Keyword arguments that select records in each partition: start, end, start_time,
            end_time, on_error, control, below_log_start, isolation and partial.

        Returns
        -------
        iterator of tuple of Partition and Record
            The matching records, one partition after another, in offset order. Several threads may
            share the iterator.

        Raises
        ------
        DamagedLogError
            The selected range of a partition contains damage, and `on_error` is "fail".
        TypeError, ValueError
            An argument is unknown or wrong, or a regular expression is invalid.
        """
        most = parse_limit(limit)
        given: FindArguments = {
            "key": key,
            "key_regex": key_regex,
            "value_regex": value_regex,
            "headers": headers,
            "value_json": value_json,
        }
        found = [(p, p.find(**given, limit=most, threads=threads, **selection)) for p in self.partitions]
        return SharedIterator(islice(((p, record) for p, records in found for record in records), most))

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        ordered: bool = True,
        limit: int | None = None,
        **options: Unpack[ArrowArguments],
    ) -> Iterator[pa.RecordBatch]:
        """Read the partitions in parallel, and return an iterator of Arrow record batches.

        One thread at a time reads and checks the batches of a partition. Several threads decompress and
        decode their records, also if the topic has only one partition. Several threads may share the
        iterator.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of the columns, in the order of the result. By default, all columns that
            `Partition.to_arrow` lists except `timestampMillis`.
        threads : int, optional
            Largest number of threads, 1 or higher. By default, the number of CPUs. If it is 1, or
            if `limit` is given, one partition after another is read without threads.
        ordered : bool, default True
            Return the Arrow record batches of one partition after another. If False, return each of
            them as soon as it is read. In both cases, those of one partition are in offset order.
        limit : int, optional
            Largest number of records to return, from all partitions together. By default, there is
            no limit.
        **options
            Keyword arguments that select records in each partition: start, end, start_time,
            end_time, on_error, control, below_log_start, isolation and partial. `Partition.records`
            describes them. Keyword arguments that decode keys and values: decode, registry, schema, framing,
            layout, raw and on_undecodable. `Partition.to_arrow` describes them.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Arrow record batches of about 8 MB. None of them is empty, and each contains records of
            only one partition.

        Raises
        ------
        DamagedLogError
            A partition contains damage, and `on_error` is "fail". Before the error is raised, the
            iterator returns the records of this partition before the damage.
        TypeError, ValueError
            An argument or column is unknown or wrong.

        Notes
        -----
        At most about four Arrow record batches and 16 MiB of stored batches per thread are in memory
        at the same time.
        """
        selection, values = split_arguments(options)
        plan = self._plan(columns, values, selection)
        return SharedIterator(read_batches(self.partitions, plan, threads, ordered, limit, selection))

    def to_reader(
        self,
        columns: Sequence[str] | None = None,
        *,
        threads: int | None = None,
        limit: int | None = None,
        **options: Unpack[ArrowArguments],
    ) -> pa.RecordBatchReader:
        """Return the selected records as a pyarrow RecordBatchReader.

        `to_batches` describes the parameters, the errors and the memory use. The Arrow record
        batches are ordered by partition and offset.
        """
        from ..arrow.builder import reader

        selection, values = split_arguments(options)
        plan = self._plan(columns, values, selection)
        batches = read_batches(self.partitions, plan, threads, True, limit, selection)
        return reader(plan.schema, SharedIterator(batches))

    def _plan(self, columns: Sequence[str] | None, values: ValueArguments, selection: SelectionArguments) -> ArrowPlan:
        parsed, _ = parse_selection(selection, "columns", "threads", "ordered", "limit")
        return plan_topic([p.log for p in self.partitions], columns, values, parsed)

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

        `to_batches` describes the parameters and the errors. `Partition.to_arrow` describes the
        columns. The rows are ordered by partition and offset. The whole table is in memory.
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
        """Export all records as an Arrow C stream with the default columns of `Partition.to_arrow`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _source_paths(self) -> list[str]:
        return [path for partition in self.partitions for path in partition.log.directory.places]

    if not TYPE_CHECKING:  # Otherwise, type checkers would accept every name.

        def __getattr__(self, name: str) -> Any:
            raise no_attribute("a Topic", name, OTHER_NAMES)

    def __repr__(self) -> str:
        return f"<kafkafmt.Topic {self.name!r} with {_numbers(self.partitions)}>"

    def _repr_html_(self) -> str:
        """Return an HTML table of the partitions for notebooks. At most the last segment of each is read."""
        caption = f"Topic {self.name}: {counted(len(self.partitions), 'partition')}"
        return html_table(caption, PARTITION_COLUMNS, partition_rows(self.partitions))


SHOWN = 20
"""The repr of a topic lists at most this number of partition numbers."""


def _numbers(partitions: Sequence[Partition]) -> str:
    """Return a phrase that lists at most `SHOWN` partition numbers."""
    known = sorted(p.partition for p in partitions)
    if len(known) > 2 and known == list(range(known[0], known[-1] + 1)):
        return f"partitions {known[0]} to {known[-1]}"
    listed = ", ".join(map(str, known[:SHOWN]))
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"partition{'s' * (len(known) > 1)} {listed}{more}"
