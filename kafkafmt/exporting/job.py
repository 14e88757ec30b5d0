"""Export partitions to Parquet in tasks. An engine runs the tasks on Spark or in threads.

1. The driver divides the segments into splits (ranges of a partition), and combines the splits into
   bundles (bundles.py). This step reads only file names, file sizes and indexes.
2. For each bundle, a task reads the records, checks them and writes them to Parquet files
   (tasks.py). On Spark, Python workers write these files with pyarrow, because transferring the
   records to the JVM and writing them there would be several times slower. The tasks send only
   manifests (counts and damage) to the driver.
3. A task reads each segment only once. If it cannot confirm that all batches are valid, for example
   because of damage, another task makes a plan: it determines which batches of the segment can be
   read. The bundles that contain the segment are exported again with the plan (work.py).
4. The driver checks the results of the tasks, keeps the files of successful tasks, and publishes
   the output (output.py).

All executors must be able to access the input under the same paths as the driver. This also applies
to the output, unless it is in a bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from ..log import Damage, DamagedLogError, Discovery, PartitionDir, PartitionLog, SegmentFile
from ..log.damage import ReadLimits, SegmentPlan
from ..log.transactions import TransactionInDoubtError, Transactions
from ..log.verifying import UnreadablePartition, error_text
from ..spark.source.same_log import up_to_content
from ..spark.source.splits import SPLIT_BYTES, Split, alone, cut_splits, stable_part
from ..support.paths import full_disk_named
from ..support.text import counted, encode_indented_json
from ..support.text import size as size_text
from ..values.flat_layout import FlatLayout
from .bucket_output import output_of
from .bundles import Bundle, bundle_bytes, bundle_splits, share
from .checks import check_access, check_names, check_place
from .decoded import plan_topics
from .delivered import (
    TaskPlan,
    check_damage,
    check_files,
    check_missing,
    check_records,
    plan_in_task,
    transactions_in_task,
)
from .engine import Engine, JobProgress, group_tasks
from .options import ExportOptions, Progress
from .output import PATHS, Output, WrittenFile
from .parquet import FileFormat, check_columns_fit, write_empty
from .quarantine import damage_in_range, in_context, write_quarantine
from .report import ExportReport, Step
from .results import left_out, make_report, partition_result
from .resume import EarlierRuns, read_earlier_runs
from .single_file import SingleFile, temporary_format
from .staging import Staging
from .tasks import BundleResult, TaskSettings, write_bundle
from .work import Work, Works

RUN_BYTES = 8 << 20
SMALLEST_TASK = 1 << 20
PLAN_BYTES = 512 << 20
"""Largest number of bytes that one task plans. It is high, because this step only checks CRCs."""

WriteBundle = Callable[[Bundle, TaskSettings], BundleResult]


class Export:
    """An export of selected partitions to Parquet files."""

    # The constructor checks the options, so that wrong options are reported before Spark starts.

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
        self._steps: list[Step] = []
        self._unreadable: list[UnreadablePartition] = []
        self.output: Output = output_of(options)
        check_place(self.output.target, [*options.paths, *(p.path for p in found.partitions)])
        self.output.check()
        check_names(chosen)
        decoding = plan_topics(options, found, chosen, self._report_message)
        self._decoded: dict[str, FileFormat] = {t: self._format.of_topic(d) for t, d in decoding.items()}
        for file_format in self._decoded.values():
            _ = file_format.schema  # planned once, before threads use it
        if isinstance(self.output, SingleFile):
            for d in decoding.values():
                self.output.schema = d.stored
                self.output.flat = FlatLayout(d.stored, d.plan.plans) if options.layout == "flat" else None

    def _report_message(self, message: str) -> None:
        if message not in self.messages:
            self.messages.append(message)
            self._on_message(message)

    def _note_step(self, name: str, tasks: int, bytes_read: int, records: int, started: float) -> None:
        self._steps.append(Step(name, tasks, bytes_read, records, round(perf_counter() - started, 3)))

    def run(self, engine: Engine, progress: Progress | None = None, write: WriteBundle = write_bundle) -> ExportReport:
        """Export the partitions, publish the output and return the report. Tests replace `write`."""
        options, started, clock = self.options, datetime.now(UTC), perf_counter()
        show = progress or (lambda *_: None)
        with full_disk_named(str(self.output.target)), self.output as output:
            earlier = self._resumed()
            works = Works(self._works(earlier))
            if options.selection.committed:
                self._check_transactions(works)
            size = self._split_bytes(engine, works)
            splits = [split for w in works for split in cut_splits(w.log, w.segments, w.interval, size)]
            planned = perf_counter()
            self._note_step("planning", 0, sum(w.log.bytes_read for w in works), 0, clock)
            self._export_splits(engine, works, splits, write, show)
            for work in works:
                work.damaged += work.lost()
            self._check_damage(works)
            exported = perf_counter()
            self._keep_files(works, earlier)
            plans = [work.plans() for work in works]
            for work, found in zip(works, plans, strict=True):
                work.damaged += [in_context(found, d) for m in work.manifests for d in m.damaged]
                work.damaged.sort(key=lambda damage: (damage.file, damage.position))
            damaged = [(work.log.directory, d) for work in works for d in work.damaged]
            with output.create(PATHS.quarantine_file(earlier.runs)) as sink:
                kept = write_quarantine(sink, damaged, options)
            committed = perf_counter()
            self._note_step("committing", 0, kept, 0, exported)
            report = make_report(
                options=replace(options, engine=engine.name, master=engine.master or options.master),
                output=output.target,
                run=earlier.runs,
                partitions=[partition_result(work, found) for work, found in zip(works, plans, strict=True)],
                left_out=left_out(self.found, self.chosen),
                unreadable=self._unreadable,
                messages=self.messages,
                files=1 if options.single_file else sum(len(result.files) for _, result in works.done),
                results=[result for _, result in works.done],
                started=started,
                seconds=(planned - clock, exported - planned, committed - exported),
                steps=self._steps,
            )
            output.publish(encode_indented_json(report.to_dict()) + "\n")
        return report

    def _resumed(self) -> EarlierRuns:
        """If the export is resumed, read the reports of earlier runs, and keep the files of the old output."""
        output = self.output
        if not isinstance(output, Staging) or not output.resume or not output.output.exists():
            return EarlierRuns()
        earlier = read_earlier_runs(output.output, self.options)
        if self.options.decode:
            for topic in {directory.topic for directory in self.chosen}:
                files = Path(output.output / PATHS.topic_directory(topic)).rglob("*.parquet")
                check_columns_fit(topic, next(files, None), self._decoded.get(topic, self._format.of_topic(None)))
        output.adopt(earlier.runs)
        return earlier

    def _works(self, earlier: EarlierRuns) -> list[Work]:
        """Open the selected partitions, and find the range of offsets to export in each of them."""
        # Timestamps are converted to offsets, which reads only indexes and a few batches.
        works = []
        for directory in self.chosen:
            try:
                log = PartitionLog(directory, self._limits, tell=self._report_message)
                log.losses.tell_remote()
                interval = self.options.selection.resolve(log)
                check_access(log, Work(log, interval).segments)
            except OSError as error:
                if self.options.on_error == "fail" or len(self.chosen) == 1:
                    raise
                self._report_unreadable(directory, error)
                continue
            topic_id, below_log_start = directory.read_topic_id(), self.options.selection.below_log_start
            interval = earlier.after(log, topic_id, interval, below_log_start, self._report_message)
            works.append(Work(log, interval, topic_id))
        if self._unreadable and not works:
            first = self._unreadable[0]
            raise OSError(f"no partition can be read; {first.topic}-{first.partition}: {first.error}")
        return works

    def _report_unreadable(self, directory: PartitionDir, error: OSError) -> None:
        reason = error_text(error)
        self._unreadable.append(UnreadablePartition(*directory.key, str(directory.path), reason))
        self._report_message(f"{directory.topic}-{directory.partition} cannot be read, and is not exported: {reason}")

    @property
    def _limits(self) -> ReadLimits:
        run_bytes = min(RUN_BYTES, self.options.split_bytes or RUN_BYTES)
        return ReadLimits(self.options.max_batch_bytes, run_bytes=run_bytes)

    @property
    def _format(self) -> FileFormat:
        options = self.options
        if options.single_file:
            return temporary_format(options)
        return FileFormat(
            options.compression,
            options.compression_level,
            options.file_size,
            options.partition_by,
            options.join_small,
            options.columns,
        )

    def _split_bytes(self, engine: Engine, works: Works) -> int:
        total = sum(s.size for w in works for s in w.segments)
        return bundle_bytes(self.options, total, engine.parallelism)

    def _export_splits(
        self, engine: Engine, works: Works, waiting: list[Split], write: WriteBundle, show: Progress
    ) -> None:
        """Export splits. If a segment may be damaged, search it for valid batches, and export its splits again."""
        size = self._split_bytes(engine, works)
        first = 0
        while waiting:
            bundles = bundle_splits(waiting, first, size, self.options.join_small, works.exported_offsets)
            first += len(bundles)
            for bundle, result in zip(bundles, self._decode(engine, bundles, write, show), strict=True):
                works.add(bundle, result)
            unconfirmed = works.unconfirmed()
            if unconfirmed:
                self._plan(engine, unconfirmed, show)
            self._check_damage(works)
            self._find_transactions(engine, {id(w): w for w, _ in unconfirmed if w.interval.committed}.values())
            waiting = works.take_back(unconfirmed, size)
        works.finish()

    def _find_transactions(self, engine: Engine, works: Iterable[Work]) -> None:
        """Find the transactions of partitions in tasks, and report transactions with an unknown outcome."""
        wanted = [work for work in works if not work.log.knows_transactions]
        if not wanted:
            return
        limits, started = self._limits, perf_counter()

        def find(item: tuple[int, PartitionDir]) -> tuple[int, Transactions]:
            return item[0], transactions_in_task(item[1], limits)

        tasks = [[(i, up_to_content(work.log.directory))] for i, work in enumerate(wanted)]
        description = f"kafkafmt export: find the transactions of {counted(len(wanted), 'partition')}"
        for i, found in engine.run(tasks, find, lambda item, _: JobProgress(_size(item[1])), description):
            wanted[i].log.transactions = found
        read = sum(_size(work.log.directory) for work in wanted)
        self._note_step("finding transactions", len(tasks), read, 0, started)
        self._check_transactions(wanted)

    def _plan(self, engine: Engine, wanted: list[tuple[Work, SegmentFile]], show: Progress) -> None:
        """Run tasks that determine which batches of the segments can be read."""
        limits, started = self._limits, perf_counter()
        items = [(i, up_to_content(alone(w.log.directory, s))) for i, (w, s) in enumerate(wanted)]
        total = sum(_size(d) for _, d in items)

        def walk(item: tuple[int, PartitionDir]) -> tuple[int, TaskPlan | str]:
            return item[0], plan_in_task(item[1], limits)

        def progress(done: JobProgress) -> bool:
            show("planning", done.bytes, total)
            return True

        tasks = group_tasks(
            items, lambda item: _size(item[1]), share(total, engine.parallelism, SMALLEST_TASK, PLAN_BYTES)
        )
        description = (
            f"kafkafmt export: plan {counted(len(items), 'segment')} ({size_text(total)}) that one pass could not read"
        )
        plans = engine.run(tasks, walk, lambda item, _: JobProgress(_size(item[1])), description, progress)
        read = sum(found.plan.size for _, found in plans if not isinstance(found, str))
        self._note_step("planning segments", len(tasks), read, 0, started)
        for i, found in plans:
            work, segment = wanted[i]
            if isinstance(found, str):
                check_missing(work.log, segment, found)
                plan = SegmentPlan(segment, 0, [], [], [])
            else:
                check_damage(found)
                plan = found.plan
            work.planned[segment.name] = plan
            work.damaged += damage_in_range([plan], stable_part(work.log, work.interval))

    def _check_damage(self, works: Works) -> None:
        """Raise DamagedLogError if damage was found and `on_error` is "fail"."""
        if self.options.on_error == "fail":
            for work in works:
                if work.damaged:
                    raise DamagedLogError(work.damaged[0], str(work.log.directory.path))

    def _check_transactions(self, works: Iterable[Work]) -> None:
        """Report the transactions that "read_committed" omits because their outcome is unknown."""
        # If `on_error` is "fail", TransactionInDoubtError is raised if damage or a missing segment hides an outcome.
        for work in works:
            log = work.log
            for line in filter(None, [log.open_transactions.undecided, *(doubt.message for doubt in work.doubts)]):
                self._report_message(f"{log.topic}-{log.partition}: {line}")
            if work.doubts and self.options.on_error == "fail":
                raise TransactionInDoubtError(work.doubts[0], str(log.directory.path))

    def _decode(self, engine: Engine, bundles: list[Bundle], write: WriteBundle, show: Progress) -> list[BundleResult]:
        """Run tasks that write the records of bundles (groups of splits) to files. Return their results in order."""
        options, started = self.options, perf_counter()
        settings = TaskSettings(
            self.output.attempts,
            self._format.of_topic(None),
            self._limits,
            stop_at_damage=options.on_error == "fail",
            decoded=self._decoded,
        )
        total = sum(bundle.bytes for bundle in bundles)
        found: list[tuple[int, int, Damage]] = []

        def damaged_in(result: BundleResult) -> list[tuple[int, int, Damage]]:
            return [(result.bundle, i, d) for i, m in enumerate(result.manifests) for d in m.damaged]

        def describe(bundle: Bundle, result: BundleResult) -> JobProgress:
            return JobProgress(bundle.bytes, damaged_in(result) if settings.stop_at_damage else [])

        def progress(done: JobProgress) -> bool:
            show("exporting", done.bytes, total)
            found[:] = done.found
            return not found

        largest = max(bundle.bytes for bundle in bundles)
        size = options.split_bytes or share(total, engine.parallelism, SMALLEST_TASK, max(SPLIT_BYTES, largest))
        tasks = group_tasks(bundles, lambda bundle: bundle.bytes, size)
        partitions = len({(split.topic, split.partition) for bundle in bundles for split in bundle.splits})
        what = f"{size_text(total)} of {counted(partitions, 'partition')}"
        description = f"kafkafmt export: write {what} as Parquet to {self.output.target}"
        target = str(self.output.target)

        def write_task(bundle: Bundle) -> BundleResult:
            with full_disk_named(target):
                return write(bundle, settings)

        results = engine.run(tasks, write_task, describe, description, progress)
        read = sum(manifest.bytes_read for result in results for manifest in result.manifests)
        written = sum(rows for result in results for file in result.files for rows in file.rows.values())
        self._note_step("exporting", len(tasks), read, written, started)
        found += [item for result in results for item in damaged_in(result) if settings.stop_at_damage]
        first = bundles[0].number
        if found:
            number, at, damage = min(found, key=lambda f: f[:2])
            split: Split = bundles[number - first].splits[at]
            raise DamagedLogError(damage, str(split.pieces[0].directory.path))
        ordered = sorted(results, key=lambda result: result.bundle)
        if [result.bundle for result in ordered] != list(range(first, first + len(bundles))):
            raise RuntimeError("the engine did not return exactly one result for every bundle")
        return ordered

    def _keep_files(self, works: Works, earlier: EarlierRuns) -> None:
        """Check that no record is missing, and add the files of all tasks to the output."""
        for bundle, result in works.done:
            for split, manifest in zip(bundle.splits, result.manifests, strict=True):
                check_records(split, manifest, works.by_key[split.topic, split.partition].log, result.host)
            check_files(result)
        files = [file for _, result in works.done for file in result.files]
        self.output.keep(WrittenFile(file.name, file.target, file.bytes) for file in files)
        if isinstance(self.output, SingleFile):
            self.output.assign_sizes(works)
        if not files and not earlier.runs:
            with self.output.create(PATHS.empty_data_file) as sink:
                write_empty(sink, next(iter(self._decoded.values()), self._format))


def _size(directory: PartitionDir) -> int:
    return sum(s.size for s in directory.segments)
