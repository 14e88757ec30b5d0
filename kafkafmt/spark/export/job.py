"""Export partitions to Parquet as a Spark job.

1. The driver divides the segments into splits. It reads only file names, file sizes and indexes.
2. A Spark job reads each split once, checks it, decodes it and writes it to a Parquet file. The
   Python workers write these files themselves with pyarrow, because Spark's Parquet writer and the
   transfer from Python to the JVM are several times slower. A task returns only a manifest to the
   driver: a description of what it read and wrote.
3. If a task cannot confirm all batches of a segment, for example because the segment is damaged, a
   second Spark job plans the segment. The plan lists the batches to deliver. The splits that
   contain the segment are then exported again, according to the plan.
4. The driver checks the manifests and moves the files to their final paths. Then it publishes the
   output (staging.py).

Every executor must see the input and the output under the same paths as the driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...log import Damage, DamagedLogError, Discovery, PartitionDir, PartitionLog, SegmentFile
from ...log.reading.offset_interval import OffsetInterval
from ...log.reading.plan import SegmentPlan
from ...log.reading.read_limits import ReadLimits
from ...log.reading.transactions import TransactionInDoubtError
from ...text import json_encoder
from ..source.splits import SPLIT_BYTES, Split, alone, cut_splits, make_splits, may_hold
from .checks import check_names, check_place
from .delivered import check_damage, check_missing, check_records, plan_in_task
from .options import ExportOptions, Progress
from .parquet import Manifest, TaskSettings, write_empty, write_split
from .quarantine import damage_in_range, in_context, write_quarantine
from .report import ExportReport
from .results import left_out, make_report, partition_result
from .spark_jobs import JobProgress, group_tasks, run_job
from .staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN_BYTES = 8 << 20
SMALLEST_SPLIT = 16 << 20
SMALLEST_TASK = 1 << 20
PLAN_BYTES = 512 << 20
"""Maximum input size of one planning task, in bytes. It can be large, because planning only checks
CRCs.
"""
MAX_SPLITS = 20_000
"""Approximate number of splits of an export whose split size is not set."""
SPLITS_PER_CORE = 4
"""Number of splits per core. Because it is greater than one, a core that finishes a split early can
process another split.
"""

WriteSplit = Callable[[int, Split, TaskSettings], Manifest]


@dataclass
class _Work:
    """The state of one partition during an export."""

    log: PartitionLog
    interval: OffsetInterval
    """Range of selected offsets."""
    planned: dict[str, SegmentPlan] = field(default_factory=dict)
    """Plans, by file name, of the segments that the export could not confirm without a plan."""
    exported: list[tuple[Split, Manifest]] = field(default_factory=list)
    """The exported splits and their manifests."""
    damaged: list[Damage] = field(default_factory=list)

    @property
    def segments(self) -> list[SegmentFile]:
        """Return the segments that may contain selected offsets."""
        return [s for s in self.log.segments if may_hold(s, self.interval)]

    @property
    def manifests(self) -> list[Manifest]:
        """Return the manifests of the exported splits."""
        return [manifest for _, manifest in self.exported]

    def take_back(self, unconfirmed: set[str]) -> list[Split]:
        """Remove the exported splits that contain a segment in `unconfirmed`, and return these splits."""
        taken = [(s, m) for s, m in self.exported if any(p.segment.name in unconfirmed for p in s.pieces)]
        self.exported = [(s, m) for s, m in self.exported if all(p.segment.name not in unconfirmed for p in s.pieces)]
        return [split for split, _ in taken]

    def plans(self) -> list[SegmentPlan]:
        """Return a plan for each segment that may contain selected offsets.

        If the segment was not planned, its plan contains the batches that the tasks have confirmed.

        Raise OSError if two tasks delivered the same offset of a segment.
        """
        plans = {s.name: self.planned.get(s.name) or SegmentPlan(s, 0, [], [], []) for s in self.segments}
        for confirmed in (plan for manifest in self.manifests for plan in manifest.plans):
            plan = plans[confirmed.segment.name]
            plan.size = max(plan.size, confirmed.size)
            plan.extents += confirmed.extents
        for plan in plans.values():
            plan.extents.sort(key=lambda e: e.first_offset)
            for before, after in itertools.pairwise(plan.extents):
                if after.first_offset <= before.last_offset:
                    raise OSError(f"{plan.segment.path}: two tasks delivered offset {after.first_offset}")
        return list(plans.values())


class Export:
    """An export of selected partitions to Parquet files.

    The constructor checks everything that does not need Spark. Therefore, wrong arguments are
    reported before Spark starts.

    Parameters
    ----------
    found : Discovery
        All partitions under the input paths.
    chosen : list of PartitionDir
        The partitions to export.
    options : ExportOptions
    on_message : callable, optional
        Function to call with each message about the input, such as the message that retention
        removed a file.

    Raises
    ------
    OutputExistsError
        The output exists and `options.overwrite` is False.
    OutputPlaceError
        The output is inside an input or contains one, or it contains the current directory or the
        home directory.
    OSError
        A topic name is not valid UTF-8.
    """

    def __init__(
        self,
        found: Discovery,
        chosen: list[PartitionDir],
        options: ExportOptions,
        on_message: Callable[[str], None] | None = None,
    ) -> None:
        self.options: ExportOptions = options
        self.found: Discovery = found
        self.chosen: list[PartitionDir] = chosen
        self.messages: list[str] = list(found.messages)
        self._on_message = on_message or (lambda _: None)
        self.staging: Staging = Staging(options.output, options.overwrite)
        check_place(self.staging.output, [*options.paths, *(p.path for p in found.partitions)])
        self.staging.check()
        check_names(chosen)

    def _report_message(self, message: str) -> None:
        if message not in self.messages:
            self.messages.append(message)
            self._on_message(message)

    def run(
        self, spark: SparkSession, progress: Progress | None = None, write: WriteSplit = write_split
    ) -> ExportReport:
        """Export the partitions, publish the output and return the report.

        Parameters
        ----------
        spark : SparkSession
        progress : callable, optional
            Function to call with the name of the step, the number of bytes done and the total
            number of bytes.
        write : callable
            Function that writes one split in a task. Tests replace it.

        Raises
        ------
        DamagedLogError
            Data is damaged and `on_error` is "fail".
        TransactionInDoubtError
            The outcome of a transaction is not known, and `on_error` is "fail".
        OSError
            A file cannot be read or written. The subclass `TaskOSError` is raised if this happens
            in a Spark task.
        SparkError
            Spark or one of its Python workers failed.
        """
        options, context, started, clock = self.options, spark.sparkContext, datetime.now(UTC), perf_counter()
        show = progress or (lambda *_: None)
        with self.staging as staging:
            works = self._works()
            if options.selection.committed:
                self._check_transactions(works)
            planned = perf_counter()
            self._export_splits(context, works, write, show)
            exported = perf_counter()
            self._place_files(works)
            plans = [work.plans() for work in works]
            for work, found in zip(works, plans, strict=True):
                work.damaged += [in_context(found, d) for m in work.manifests for d in m.damaged]
            damaged = [(work.log.directory, d) for work in works for d in work.damaged]
            write_quarantine(staging.layout.quarantine_file, damaged, options)
            staging.close_attempts()
            committed = perf_counter()
            report = make_report(
                options=replace(options, master=context.master or options.master),
                output=staging.output,
                partitions=[
                    partition_result(
                        work.log.directory,
                        found,
                        [split for split, _ in work.exported],
                        work.manifests,
                        work.damaged,
                        work.log.transactions.doubts if work.interval.committed else [],
                    )
                    for work, found in zip(works, plans, strict=True)
                ],
                left_out=left_out(self.found, self.chosen),
                messages=self.messages,
                manifests=[m for work in works for m in work.manifests],
                started=started,
                seconds=(planned - clock, exported - planned, committed - exported),
            )
            text = json_encoder(indent=1)(report.to_dict()) + "\n"
            staging.layout.report.write_text(text, encoding="utf-8")
            staging.publish()
        return report

    def _works(self) -> list[_Work]:
        """Convert the bounds of the export to offsets of each partition.

        To convert timestamps, this method reads only indexes and a few batches.
        """
        works = []
        for directory in self.chosen:
            log = PartitionLog(directory, self._limits, tell=self._report_message)
            works.append(_Work(log, self.options.selection.resolve(log)))
        return works

    @property
    def _limits(self) -> ReadLimits:
        run_bytes = min(RUN_BYTES, self.options.split_bytes or RUN_BYTES)
        return ReadLimits(self.options.max_batch_bytes, run_bytes=run_bytes)

    def _export_splits(self, context: Any, works: list[_Work], write: WriteSplit, show: Progress) -> None:
        """Export all splits, and plan the segments whose batches the tasks cannot confirm."""
        total = sum(s.size for w in works for s in w.segments)
        size = self.options.split_bytes or _share(total, context.defaultParallelism, SMALLEST_SPLIT, SPLIT_BYTES)
        size = max(size, 0 if self.options.split_bytes else total // MAX_SPLITS)
        waiting = [
            (work, split) for work in works for split in cut_splits(work.log, work.segments, work.interval, size)
        ]
        first = 0
        while waiting:
            manifests = self._decode(context, first, [split for _, split in waiting], write, show)
            first += len(waiting)
            unconfirmed: dict[int, set[str]] = {}
            for (work, split), manifest in zip(waiting, manifests, strict=True):
                work.exported.append((split, manifest))
                if manifest.unconfirmed:
                    unconfirmed.setdefault(id(work), set()).update(manifest.unconfirmed)
                else:
                    _add_plans(split, manifest)
            affected = [(work, unconfirmed[id(work)]) for work in works if id(work) in unconfirmed]
            self._plan(context, [(w, s) for w, names in affected for s in w.segments if s.name in names], show)
            self._check_damage(works)
            waiting = [(w, split) for w, names in affected for split in self._again(w, w.take_back(names), size)]

    def _again(self, work: _Work, splits: list[Split], size: int) -> Iterator[Split]:
        """Replace `splits`, which contain unconfirmed segments, with new splits.

        From a planned segment, the new splits contain only the batches in its plan.
        """
        plans = [work.planned[s.name] for s in work.segments if s.name in work.planned]
        redone = {
            piece.segment.name for split in splits for piece in split.pieces if piece.segment.name in work.planned
        }
        yield from make_splits(work.log, [plan for plan in plans if plan.segment.name in redone], work.interval, size)
        for split in splits:
            pieces = [replace(p, plan=None) for p in split.pieces if p.segment.name not in work.planned]
            if pieces:
                yield replace(split, pieces=pieces)

    def _plan(self, context: Any, wanted: list[tuple[_Work, SegmentFile]], show: Progress) -> None:
        """Plan segments in a Spark job."""
        limits = self._limits
        items = [(i, alone(w.log.directory, s)) for i, (w, s) in enumerate(wanted)]
        total = sum(_size(d) for _, d in items)

        def walk(item: tuple[int, PartitionDir]) -> tuple[int, SegmentPlan | str]:
            return item[0], plan_in_task(item[1], limits)

        def progress(done: JobProgress) -> bool:
            show("planning", done.bytes, total)
            return True

        tasks = group_tasks(
            items, lambda item: _size(item[1]), _share(total, context.defaultParallelism, SMALLEST_TASK, PLAN_BYTES)
        )
        for i, plan in run_job(
            context, tasks, walk, lambda item, _: JobProgress(_size(item[1])), "kafkafmt: planning", progress
        ):
            work, segment = wanted[i]
            if isinstance(plan, str):
                check_missing(work.log, segment, plan)
                plan = SegmentPlan(segment, 0, [], [], [])
            check_damage(plan)
            work.planned[segment.name] = plan
            work.damaged += damage_in_range([plan], work.interval)

    def _check_damage(self, works: list[_Work]) -> None:
        """Raise DamagedLogError if planning found damage and `on_error` is "fail"."""
        damaged = [(work, d) for work in works for d in work.damaged]
        if damaged and self.options.on_error == "fail":
            raise DamagedLogError(damaged[0][1], str(damaged[0][0].log.directory.path))

    def _check_transactions(self, works: list[_Work]) -> None:
        """Report the transactions that "read_committed" omits although they were not aborted.

        If `on_error` is "fail", raise TransactionInDoubtError if the outcome of a transaction is
        not known because of damage or a missing segment.
        """
        for log in (work.log for work in works):
            lines = [log.transactions.undecided, *(doubt.message for doubt in log.transactions.doubts)]
            for line in filter(None, lines):
                self._report_message(f"{log.topic}-{log.partition}: {line}")
            if log.transactions.doubts and self.options.on_error == "fail":
                raise TransactionInDoubtError(log.transactions.doubts[0], str(log.directory.path))

    def _decode(
        self, context: Any, first: int, splits: list[Split], write: WriteSplit, show: Progress
    ) -> list[Manifest]:
        """Decode and write splits in a Spark job, and return the manifests in split order.

        The splits are numbered consecutively. `first` is the number of the first one.
        """
        options = self.options
        settings = TaskSettings(
            self.staging.layout.attempts,
            options.compression,
            options.compression_level,
            self._limits,
            stop_at_damage=options.on_error == "fail",
        )
        total = sum(s.bytes for s in splits)
        found: list[tuple[int, Damage]] = []

        def describe(item: tuple[int, Split], manifest: Manifest) -> JobProgress:
            damaged = [(item[0], d) for d in manifest.damaged] if settings.stop_at_damage else []
            return JobProgress(item[1].bytes, damaged)

        def progress(done: JobProgress) -> bool:
            show("exporting", done.bytes, total)
            found[:] = done.found
            return not found

        size = options.split_bytes or _share(total, context.defaultParallelism, SMALLEST_TASK, SPLIT_BYTES)
        tasks = group_tasks(enumerate(splits, first), lambda item: item[1].bytes, size)
        manifests = run_job(
            context, tasks, lambda item: write(item[0], item[1], settings), describe, "kafkafmt: exporting", progress
        )
        found += [(m.split, d) for m in manifests for d in m.damaged if settings.stop_at_damage]
        if found:
            number, damage = min(found, key=lambda f: f[0])
            raise DamagedLogError(damage, str(splits[number - first].pieces[0].directory.path))
        ordered = sorted(manifests, key=lambda m: m.split)
        if [m.split for m in ordered] != list(range(first, first + len(splits))):
            raise RuntimeError("Spark did not return exactly one manifest for each split")
        return ordered

    def _place_files(self, works: list[_Work]) -> None:
        """Move the Parquet file of each split to its final path, and check that no record is missing."""
        layout = self.staging.layout
        for work in works:
            for split, manifest in work.exported:
                if manifest.file is not None:
                    assert manifest.first_offset is not None
                    target = layout.data_file(split.topic, split.partition, manifest.first_offset)
                    self.staging.place(manifest.file, target)
                    size = target.stat().st_size
                    if size != manifest.bytes_written:
                        raise OSError(
                            f"{target}: the file has {size} bytes, but the task wrote {manifest.bytes_written}"
                        )
                check_records(split, manifest, work.log)
        if not any(m.file for work in works for m in work.manifests):
            write_empty(layout.empty_data_file, self.options.compression, self.options.compression_level)


def _add_plans(split: Split, manifest: Manifest) -> None:
    """Store the batches that a task has confirmed in the pieces of its split, as plans."""
    confirmed = {plan.segment.name: plan for plan in manifest.plans}
    for piece in split.pieces:
        if piece.plan is None:
            piece.plan = confirmed.get(piece.segment.name) or SegmentPlan(piece.segment, 0, [], [], [])


def _size(directory: PartitionDir) -> int:
    return sum(s.size for s in directory.segments)


def _share(total: int, cores: int, least: int, most: int) -> int:
    """Return a size in bytes that lets each core process several tasks or files of this size.

    The size is at least `least` and at most `most`.
    """
    return min(max(total // (cores * SPLITS_PER_CORE), least), most)
