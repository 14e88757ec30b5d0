"""Define `kafkafmt.stats`, which also decodes keys and values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..constants import DEFAULT_MAX_BATCH_BYTES
from ..log import PartitionLog, discover
from ..log.catalog import Sources, choose_partitions, listed, resolve
from ..log.damage import ReadLimits
from ..log.inspecting import TOP, DecodedSide, FieldContent, SchemaUse, StatsReport
from ..log.inspecting import stats as content_of
from ..log.reading import Selection, ignore, read_pieces
from ..log.verifying import Globs, Numbers, OnMessage, Progress
from .pieces import PartitionBatches
from .value_arguments import ArrowPlan, ValueArguments, plan_topic

if TYPE_CHECKING:
    from ..arrow.builder import ArrowBuilder
    from ..log.catalog import Source
    from ..registry import SchemaRegistry
    from ..values.sides import Decode


def stats(
    paths: Sources,
    *more: Source,
    topics: Globs | None = None,
    partitions: Numbers | None = None,
    deep: bool = False,
    top: int = TOP,
    decode: Decode = False,
    registry: SchemaRegistry | Source | None = None,
    framing: str = "auto",
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    threads: int | None = None,
    progress: Progress | None = None,
    on_message: OnMessage | None = None,
) -> StatsReport:
    """Compute statistics of topics: records, sizes, codecs, keys, headers, producers and rates.

    Parameters
    ----------
    deep : bool, default False
        Read all records. By default, only batch headers are read, and statistics that require the
        records are None.
    top : int, default 10
        Number of keys, header keys and producers to list.
    decode, registry, framing : optional
        Keys and values to decode, as in `Partition.to_arrow`. All records are then read. Each topic
        with schemas has the numbers of records by schema, what cannot be decoded, and the nulls and
        the range of each field. pyarrow is needed.
    paths, *more, topics, partitions, replicas, max_batch_bytes, threads, progress, on_message
        As in `verify`. `StatsReport.messages` contains all messages.

    Returns
    -------
    StatsReport
        The statistics of each topic and partition.

    Raises
    ------
    OSError, PartitionNotFoundError, TypeError, ValueError
        As in `verify`. A ValueError is also raised if no topic has schemas to decode with.

    Notes
    -----
    Without `deep`, the CRC of a batch is checked only if the batch is small (up to 8 KiB) or if its
    segment contains an impossible header. With `deep`, all CRCs are checked.

    At most 131,072 distinct keys are held in memory for each thread and for each topic that is
    being read. If there are more distinct keys, sketches of the package datasketches replace the
    exact counts: HyperLogLog for the number of keys, and Misra-Gries for the most frequent keys.
    """
    given = listed(paths, more)
    report = content_of(
        given,
        topics=topics,
        partitions=partitions,
        deep=deep,
        top=top,
        replicas=replicas,
        max_batch_bytes=max_batch_bytes,
        threads=threads,
        progress=progress,
        on_message=on_message,
    )
    values: ValueArguments = {"decode": decode, "registry": registry, "framing": framing}
    if decode is False:
        return report
    read = {(t.topic, p.partition) for t in report.topics for p in t.partitions}
    limits = ReadLimits(max_batch_bytes)
    logs: dict[str, list[PartitionLog]] = {}
    for directory in choose_partitions(discover(*resolve(given, replicas)), internal=True):
        if directory.key in read:
            logs.setdefault(directory.topic, []).append(PartitionLog(directory, limits))
    return _with_decoded(report, logs, values, threads or os.cpu_count() or 1)


def _with_decoded(
    report: StatsReport, logs: Mapping[str, list[PartitionLog]], values: ValueArguments, threads: int
) -> StatsReport:
    """Return a report with the decoded keys and values of its topics. ValueError: no topic has schemas."""
    from ..values.errors import NoSchemasError

    topics, problem = list(report.topics), None
    for index, topic in enumerate(topics):
        try:
            plan = plan_topic(logs[topic.topic], None, values, Selection())
        except NoSchemasError as error:
            problem = problem or error
        else:
            decoded = _TopicCounts(plan)
            for log in logs[topic.topic]:
                decoded.read(log, threads)
            topics[index] = replace(topic, decoded=decoded.sides())
    if problem is not None and all(topic.decoded is None for topic in topics):
        raise problem
    return replace(report, topics=tuple(topics))


class _TopicCounts:
    """Counts the decoded keys and values of the partitions of a topic."""

    def __init__(self, plan: ArrowPlan) -> None:
        from ..values.field_ranges import FieldRanges

        assert plan.decoding is not None
        self._plans = plan.decoding.plans
        selected = plan.selected([n for side in self._plans for n in (side, f"{side}_error")])
        self._plan = replace(selected, with_extents=True)
        self._ranges = {side: FieldRanges(p.root, side) for side, p in self._plans.items()}
        self._records: dict[str, Counter[int]] = {side: Counter() for side in self._plans}
        self._errors: dict[str, Counter[str]] = {side: Counter() for side in self._plans}
        self._unknown: Counter[str] = Counter()
        self._offsets: dict[str, dict[int, dict[int, tuple[int, int]]]] = {side: {} for side in self._plans}

    def read(self, log: PartitionLog, threads: int) -> None:
        pieces = _Counted(log, self._plan)
        for batch in read_pieces([pieces], threads):
            for side, ranges in self._ranges.items():
                ranges.add(batch[side])
        for decoders in pieces.decoders:
            for side, decoder in decoders.items():
                self._records[side].update(decoder.records)
                self._errors[side].update(decoder.undecodable)
                self._unknown[side] += decoder.unknown_fields
                for program, (first, last) in decoder.extents.items():
                    by_partition = self._offsets[side].setdefault(program, {})
                    low, high = by_partition.get(log.partition, (first, last))
                    by_partition[log.partition] = min(low, first), max(high, last)

    def sides(self) -> dict[str, DecodedSide]:
        found = {}
        for side, ranges in self._ranges.items():
            known, records = self._plans[side].schemas, self._records[side]
            uses = [
                SchemaUse(schema.schema_id, schema.subject, schema.version, records[program], offsets)
                for program, offsets in self._offsets[side].items()
                if (schema := known[program]) is not None
            ]
            fields = tuple(FieldContent(*row) for row in ranges.rows())
            errors = dict(sorted(self._errors[side].items()))
            ordered = tuple(sorted(uses, key=lambda use: (use.subject, use.version)))
            found[side] = DecodedSide(records.total(), errors, ordered, fields, self._unknown[side])
        return found


class _Counted(PartitionBatches):
    """The records of a partition as Arrow record batches. `decoders` has all decoders that were used."""

    def __init__(self, log: PartitionLog, plan: ArrowPlan) -> None:
        super().__init__(log, plan, lambda: Selection().resolve(log), ignore)
        self.decoders: list[Mapping[str, Any]] = []

    def _new_builder(self) -> ArrowBuilder:
        builder = super()._new_builder()
        self.decoders.append(builder.decoders)
        return builder
