"""Export partitions to Parquet as a Spark job.

1. A Spark job reads the batch headers in the segments and checks the CRCs of the batches.
2. The driver divides the valid parts of the segments into splits.
3. A second Spark job decodes each split and writes it to a Parquet file. The Python workers write
   these files themselves with pyarrow, because Spark's Parquet writer and the transfer from Python
   to the JVM are several times slower. The tasks send only manifests back to the driver.
4. The driver checks the manifests, moves the files to their final paths and publishes the output
   (staging.py).

Every executor must see the input and the output under the same paths as the driver.
"""

from __future__ import annotations

from collections.abc import Callable
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
from ..source.splits import SPLIT_BYTES, Split, alone, make_splits, may_hold
from .checks import check_names, check_place
from .delivered import check_missing, check_records, plan_in_task
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
SPLITS_PER_CORE = 4
"""Number of splits per core. It is greater than one so that a core that finishes a split early can
process another split.
"""

WriteSplit = Callable[[int, Split, TaskSettings], Manifest]


@dataclass
class _Work:
    """The state of one partition during an export."""

    log: PartitionLog
    interval: OffsetInterval
    """The selected records. Until the bounds are converted to offsets, it has no bounds."""
    planned: set[str] = field(default_factory=set)
    """Names of the segments that planning has read."""
    plans: list[SegmentPlan] = field(default_factory=list)
    """Plans of the segments that may contain selected offsets."""
    splits: list[int] = field(default_factory=list)
    """Indexes of this partition's splits in the list of all splits."""
    damaged: list[Damage] = field(default_factory=list)

    def needs(self, segment: SegmentFile) -> bool:
        """Return whether a segment, judging by its file name, may contain selected offsets."""
        return may_hold(segment, self.interval)

    def of(self, every: list[Any]) -> list[Any]:
        """Return the items of `every` that belong to this partition.

        The list `every` contains one item for each split of each partition.
        """
        return [every[i] for i in self.splits]


class Export:
    """An export of selected partitions to Parquet files.

    The constructor checks everything that does not need Spark, so that wrong arguments are reported
    before Spark starts.

    Parameters
    ----------
    found : Discovery
        All partitions under the input paths.
    chosen : list of PartitionDir
        The partitions to export.
    options : ExportOptions
    on_message : callable, optional
        Called with each message about the input, for example if retention removed a file.

    Raises
    ------
    OutputExistsError
        The output exists and `options.overwrite` is False.
    OutputPlaceError
        The output is inside an input or contains one, or it contains the current directory or the
        home directory.
    OSError
        A topic name is not UTF-8.
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
            Called with the name of the step, the number of bytes done and the total number of
            bytes.
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
            works = self._plan(context, show)
            planned = perf_counter()
            self._check_damage(works)
            if options.selection.committed:
                self._check_transactions(works)
            splits = self._splits(works, context.defaultParallelism)
            manifests = self._decode(context, splits, write, show)
            exported = perf_counter()
            self._place_files(works, splits, manifests)
            for work in works:
                work.damaged += [in_context(work.plans, d) for m in work.of(manifests) for d in m.damaged]
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
                        work.plans,
                        work.of(splits),
                        work.of(manifests),
                        work.damaged,
                        work.log.transactions.doubts if work.interval.committed else [],
                    )
                    for work in works
                ],
                left_out=left_out(self.found, self.chosen),
                messages=self.messages,
                manifests=manifests,
                started=started,
                seconds=(planned - clock, exported - planned, committed - exported),
            )
            text = json_encoder(indent=1)(report.to_dict()) + "\n"
            staging.layout.report.write_text(text, encoding="utf-8")
            staging.publish()
        return report

    def _plan(self, context: Any, show: Progress) -> list[_Work]:
        """Plan the segments that may contain selected offsets, and convert the bounds to offsets.

        The executors plan the segments. A bound that counts back from the end of the log can be
        converted to an offset only after the last segment has been planned. A bound that is a time
        can be converted only after all segments have been planned.
        """
        options = self.options
        selection = options.selection
        unbounded = replace(selection, start=None, end=None)
        logs = [PartitionLog(d, self._limits, tell=self._report_message) for d in self.chosen]
        works = [_Work(log, unbounded.resolve(log)) for log in logs]
        kinds = {bound.kind for bound in (selection.start, selection.end) if bound is not None}
        if "before_end" in kinds:
            self._walk(context, [(w, s) for w in works for s in w.log.segments[-1:]], show)
        if "time" in kinds:
            self._walk(context, [(w, s) for w in works for s in w.log.segments if w.needs(s)], show)
        for work in works:
            work.interval = selection.resolve(work.log)
        if "time" not in kinds:
            self._walk(context, [(w, s) for w in works for s in w.log.segments if w.needs(s)], show)
        for work in works:
            work.plans = [work.log.plan(s) for s in work.log.segments if work.needs(s)]
            work.damaged += damage_in_range(work.plans, work.interval)
        return works

    @property
    def _limits(self) -> ReadLimits:
        run_bytes = min(RUN_BYTES, self.options.split_bytes or RUN_BYTES)
        return ReadLimits(self.options.max_batch_bytes, run_bytes=run_bytes)

    def _walk(self, context: Any, wanted: list[tuple[_Work, SegmentFile]], show: Progress) -> None:
        """Plan the segments that have not been planned yet, in a Spark job."""
        limits = self._limits
        items = [(i, alone(w.log.directory, s)) for i, (w, s) in enumerate(wanted) if s.name not in w.planned]
        total = sum(_size(d) for _, d in items)

        def walk(item: tuple[int, PartitionDir]) -> tuple[int, SegmentPlan | str]:
            return item[0], plan_in_task(item[1], limits)

        def progress(done: JobProgress) -> bool:
            show("planning", done.bytes, total)
            return True

        tasks = group_tasks(
            items, lambda item: _size(item[1]), _share(total, context.defaultParallelism, SMALLEST_TASK, PLAN_BYTES)
        )
        # Empty tasks make Spark start a Python worker on every core before the next job needs it.
        tasks += [[] for _ in range(context.defaultParallelism - len(tasks))]
        for i, plan in run_job(
            context, tasks, walk, lambda item, _: JobProgress(_size(item[1])), "kafkafmt: planning", progress
        ):
            work, segment = wanted[i]
            if isinstance(plan, str):
                check_missing(work.log, segment, plan)
                plan = SegmentPlan(segment, 0, [], [], [])
            work.log.adopt(plan)
            work.planned.add(segment.name)

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

    def _splits(self, works: list[_Work], cores: int) -> list[Split]:
        total = sum(s.size for w in works for s in w.log.segments)
        size = self.options.split_bytes or _share(total, cores, SMALLEST_SPLIT, SPLIT_BYTES)
        splits: list[Split] = []
        for work in works:
            made = make_splits(work.log, work.plans, work.interval, size)
            work.splits = list(range(len(splits), len(splits) + len(made)))
            splits += made
        return splits

    def _decode(self, context: Any, splits: list[Split], write: WriteSplit, show: Progress) -> list[Manifest]:
        """Decode and write all splits in a Spark job, and return the manifests in split order."""
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
        tasks = group_tasks(enumerate(splits), lambda item: item[1].bytes, size)
        manifests = run_job(
            context, tasks, lambda item: write(item[0], item[1], settings), describe, "kafkafmt: exporting", progress
        )
        found += [(m.split, d) for m in manifests for d in m.damaged if settings.stop_at_damage]
        if found:
            number, damage = min(found, key=lambda f: f[0])
            raise DamagedLogError(damage, str(splits[number].pieces[0].directory.path))
        ordered = sorted(manifests, key=lambda m: m.split)
        if [m.split for m in ordered] != list(range(len(splits))):
            raise RuntimeError("Spark did not return exactly one result for every split")
        return ordered

    def _place_files(self, works: list[_Work], splits: list[Split], manifests: list[Manifest]) -> None:
        """Move the file of each split to its final path, and check that no record is missing."""
        layout = self.staging.layout
        for work in works:
            for split, manifest in zip(work.of(splits), work.of(manifests), strict=True):
                if manifest.file is not None:
                    assert manifest.first_offset is not None
                    target = layout.data_file(split.topic, split.partition, manifest.first_offset)
                    self.staging.place(manifest.file, target)
                    size = target.stat().st_size
                    if size != manifest.bytes_written:
                        raise OSError(f"{target}: {size} bytes, but the task wrote {manifest.bytes_written}")
                check_records(split, manifest, work.log)
        if not any(m.file for m in manifests):
            write_empty(layout.empty_data_file, self.options.compression, self.options.compression_level)


def _size(directory: PartitionDir) -> int:
    return sum(s.size for s in directory.segments)


def _share(total: int, cores: int, least: int, most: int) -> int:
    """Return a size in bytes that lets each core process several tasks or files of this size.

    `least` and `most` are the limits of the result.
    """
    return min(max(total // (cores * SPLITS_PER_CORE), least), most)
