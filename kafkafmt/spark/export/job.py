"""`kafkafmt export`: log directories become Parquet, on Spark.

Spark plans, distributes and retries. One job walks the segments and checks their CRCs; the driver cuts them into
splits; a second job decodes each split and writes its Parquet file right from the Python worker with pyarrow, since
the channel from Python to the JVM and the JVM's own Parquet writer are several times slower. Only manifests come back.
The driver commits (staging.py): an OUT that is there is complete.

Input and OUT must be on file systems that every executor sees under the same path.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ...constants import DEFAULT_MAX_BATCH_BYTES, MAX_OFFSET, NO_END
from ...log import Damage, DamagedLogError, Discovery, PartitionDir, PartitionLog, SegmentFile
from ...log.format.files import FileView
from ...log.reading.plan import SegmentPlan
from ...log.reading.selection import OffsetRange
from ...log.reading.transactions import TransactionInDoubtError
from ...paths import local_path
from ...text import json_encoder
from ..source.splits import SPLIT_BYTES, Split, alone, make_splits
from .delivered import check_missing, check_records, plan_in_task
from .parquet import (
    QUARANTINE_BYTES,
    ZSTD_LEVEL,
    Manifest,
    Settings,
    place_of,
    write_empty,
    write_quarantine,
    write_split,
)
from .report import PartitionResult, make_report
from .spark_jobs import Done, group_tasks, run_job
from .staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN_BYTES = 8 << 20
SMALLEST_SPLIT = 16 << 20
SMALLEST_TASK = 1 << 20
PLAN_BYTES = 512 << 20
"""A planning task's share: it only checks CRCs."""
SPLITS_PER_CORE = 4
"""So that cores that are done early find something left to do."""

Progress = Callable[[str, int, int], None]
"""Called with the step ("planning", "exporting"), bytes done, bytes in all."""
WriteSplit = Callable[[int, Split, Settings], Manifest]


class OutputPlaceError(ValueError):
    """OUT stands where writing or replacing it would touch what is read, or what the user stands in."""


@dataclass(frozen=True)
class ExportOptions:
    """What an export is asked to do. level: of zstd; None takes the codec's default (zstd: 1).

    on_error: "quarantine" delivers all that is intact and keeps the damaged spans; "fail" leaves nothing.
    """

    output: str | PathLike[str]
    paths: tuple[str, ...] = ()
    offsets: OffsetRange = field(default_factory=OffsetRange)
    below_log_start: bool = False
    committed: bool = False
    on_error: str = "quarantine"
    compression: str = "zstd"
    level: int | None = None
    overwrite: bool = False
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    split_bytes: int | None = None
    """Of a log, for one file; None: by the size of the whole and the number of cores, at most SPLIT_BYTES."""
    shown: dict[str, Any] = field(default_factory=dict)
    """Further options that the report should name."""


@dataclass
class _Work:
    """A partition under way."""

    log: PartitionLog
    start: int | None = None
    end: int | None = None
    planned: set[str] = field(default_factory=set)
    plans: list[SegmentPlan] = field(default_factory=list)
    splits: list[int] = field(default_factory=list)


class Export:
    """One export. Made before Spark is started, so that wrong usage is told at once; `run` does it."""

    def __init__(
        self,
        found: Discovery,
        chosen: list[PartitionDir],
        options: ExportOptions,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.options: ExportOptions = replace(options, level=_level(options.compression, options.level))
        self.found = found
        self.chosen = chosen
        self.messages: list[str] = list(found.messages)
        self._tell = tell or (lambda _: None)
        self.staging: Staging = Staging(options.output, options.overwrite)
        _check_place(self.staging.output, [*map(local_path, options.paths), *(p.path for p in found.partitions)])
        self.staging.check()
        for directory in chosen:
            _check_name(directory)

    def tell(self, message: str) -> None:
        if message not in self.messages:
            self.messages.append(message)
            self._tell(message)

    def run(
        self, spark: SparkSession, progress: Progress | None = None, write: WriteSplit = write_split
    ) -> dict[str, Any]:
        """Do it, and give the report. DamagedLogError in the mode "fail"; OSError for what cannot be read or written."""
        options, context, started, clock = self.options, spark.sparkContext, datetime.now(UTC), perf_counter()
        show = progress or (lambda *_: None)
        seconds: dict[str, float] = {}
        with self.staging as staging:
            works = self._plan(context, show)
            seconds["planning"] = perf_counter() - clock
            damaged = [(w, d) for w in works for d in self._damage_in_plans(w)]
            if damaged and options.on_error == "fail":
                raise DamagedLogError(damaged[0][1], str(damaged[0][0].log.directory.path))
            if options.committed:
                self._decide(works)
            splits = self._splits(works, context.defaultParallelism)
            manifests = self._decode(context, splits, write, show)
            seconds["exporting"] = perf_counter() - clock - seconds["planning"]
            results = self._commit(works, splits, manifests)
            for work in works:
                deep = [d for i in work.splits for d in manifests[i].damaged]
                damaged += [(work, in_context(work.plans, d)) for d in deep]
            quarantine = staging.folder("quarantine") / "00000.parquet"
            write_quarantine(quarantine, self._quarantine(damaged), options.compression, options.level)
            for result in results:
                result.damaged = [d for w, d in damaged if w.log.directory is result.directory]
            staging.close_attempts()
            seconds["committing"] = perf_counter() - clock - seconds["planning"] - seconds["exporting"]
            report = make_report(self, results, list(manifests), spark, started, seconds)
            (staging.path / "report.json").write_text(json_encoder(indent=1)(report) + "\n", encoding="utf-8")
            staging.publish()
        return report

    def _plan(self, context: Any, show: Progress) -> list[_Work]:
        """Every segment that is needed, walked on the executors; and which offsets are meant."""
        options = self.options
        limits: dict[str, Any] = {"max_batch_bytes": options.max_batch_bytes, "run_bytes": self._run_bytes}
        works = [_Work(PartitionLog(d, **limits, tell=self.tell)) for d in self.chosen]
        bounds = [b for b in options.offsets if b is not None]
        if any(b.kind == "before_end" for b in bounds):
            self._walk(context, [(w, s) for w in works for s in w.log.segments[-1:]], show)
        timeless = all(b.kind != "time" for b in bounds)
        for work in works:
            if timeless:
                work.start, work.end = options.offsets.resolve(work.log, options.below_log_start)
        self._walk(context, [(w, s) for w in works for s in w.log.segments if self._concerns(w, s)], show)
        for work in works:
            if not timeless:
                work.start, work.end = options.offsets.resolve(work.log, options.below_log_start)
            work.plans = [work.log.plan(s) for s in work.log.segments if self._concerns(work, s)]
        return works

    @property
    def _run_bytes(self) -> int:
        return min(RUN_BYTES, self.options.split_bytes or RUN_BYTES)

    def _range(self, work: _Work) -> tuple[int, int]:
        low = 0 if self.options.below_log_start else work.log.log_start_offset
        low = low if work.start is None else max(low, work.start)
        return low, NO_END if work.end is None else work.end

    def _concerns(self, work: _Work, segment: SegmentFile) -> bool:
        """May a segment hold offsets that are meant?"""
        low, high = self._range(work)
        return (segment.base_offset is None or segment.base_offset < high) and (
            segment.next_base is None or segment.next_base > low
        )

    def _walk(self, context: Any, wanted: list[tuple[_Work, SegmentFile]], show: Progress) -> None:
        limit, run_bytes = self.options.max_batch_bytes, self._run_bytes
        items = [(i, alone(w.log.directory, s)) for i, (w, s) in enumerate(wanted) if s.name not in w.planned]
        total = sum(_size(d) for _, d in items)

        def walk(item: tuple[int, PartitionDir]) -> tuple[int, SegmentPlan | str]:
            return item[0], plan_in_task(item[1], limit, run_bytes)

        def progress(done: Done) -> bool:
            show("planning", done.bytes, total)
            return True

        room = min(max(total // (context.defaultParallelism * SPLITS_PER_CORE), SMALLEST_TASK), PLAN_BYTES)
        tasks = group_tasks(items, lambda item: _size(item[1]), room)
        tasks += [
            [] for _ in range(context.defaultParallelism - len(tasks))
        ]  # so that every core has its worker up by the next job
        for i, plan in run_job(
            context, tasks, walk, lambda item, _: Done(_size(item[1])), "kafkafmt: planning", progress
        ):
            work, segment = wanted[i]
            if isinstance(plan, str):
                check_missing(work.log, segment, plan)
                plan = SegmentPlan(segment, 0, [], [], [])
            work.log.adopt(plan)
            work.planned.add(segment.name)

    def _damage_in_plans(self, work: _Work) -> Iterator[Damage]:
        low, high = self._range(work)
        for plan in work.plans:
            for damage in sorted(plan.damaged, key=lambda d: d.position):
                first, last = damage.first_offset or 0, MAX_OFFSET if damage.last_offset is None else damage.last_offset
                if first < high and max(first, last) >= low:
                    yield damage

    def _decide(self, works: list[_Work]) -> None:
        """Report the transactions that read_committed leaves out although they were not aborted.

        Raise `TransactionInDoubtError` if damage or a missing segment is the reason, and `on_error` is "fail".
        """
        for log in (work.log for work in works):
            lines = [log.transactions.undecided, *(doubt.message for doubt in log.transactions.doubts)]
            for line in filter(None, lines):
                self.tell(f"{log.topic}-{log.partition}: {line}")
            if log.transactions.doubts and self.options.on_error == "fail":
                raise TransactionInDoubtError(log.transactions.doubts[0], str(log.directory.path))

    def _splits(self, works: list[_Work], cores: int) -> list[Split]:
        total = sum(s.size for w in works for s in w.log.segments)
        size = self.options.split_bytes or min(max(total // (cores * SPLITS_PER_CORE), SMALLEST_SPLIT), SPLIT_BYTES)
        splits: list[Split] = []
        for work in works:
            made = make_splits(
                work.log.directory,
                work.plans,
                work.start,
                work.end,
                below_log_start=self.options.below_log_start,
                transactions=work.log.transactions if self.options.committed else None,
                split_bytes=size,
            )
            work.splits = list(range(len(splits), len(splits) + len(made)))
            splits += made
        return splits

    def _decode(self, context: Any, splits: list[Split], write: WriteSplit, show: Progress) -> list[Manifest]:
        options = self.options
        settings = Settings(
            self.staging.attempts,
            options.compression,
            options.level,
            options.max_batch_bytes,
            stop_at_damage=options.on_error == "fail",
        )
        total = sum(s.bytes for s in splits)
        found: list[tuple[int, Damage]] = []

        def describe(item: tuple[int, Split], manifest: Manifest) -> Done:
            return Done(item[1].bytes, [(item[0], d) for d in manifest.damaged] if settings.stop_at_damage else [])

        def progress(done: Done) -> bool:
            show("exporting", done.bytes, total)
            found[:] = done.found
            return not found

        room = options.split_bytes or min(
            max(total // (context.defaultParallelism * SPLITS_PER_CORE), SMALLEST_TASK), SPLIT_BYTES
        )
        tasks = group_tasks(enumerate(splits), lambda item: item[1].bytes, room)
        manifests = run_job(
            context, tasks, lambda item: write(item[0], item[1], settings), describe, "kafkafmt: exporting", progress
        )
        found += [(m.split, d) for m in manifests for d in m.damaged if settings.stop_at_damage]
        if found:
            number, damage = min(found, key=lambda f: f[0])
            raise DamagedLogError(damage, str(splits[number].pieces[0].directory.path))
        ordered = sorted(manifests, key=lambda m: m.split)
        if [m.split for m in ordered] != list(range(len(splits))):
            raise RuntimeError("Spark did not give exactly one result for every split")
        return ordered

    def _commit(self, works: list[_Work], splits: list[Split], manifests: list[Manifest]) -> list[PartitionResult]:
        """Take the one attempt of each split that counts to its place."""
        results = []
        for work in works:
            for i in work.splits:
                m = manifests[i]
                if m.file is not None:
                    assert m.first_offset is not None
                    placed = self.staging.place(m.file, *place_of(splits[i].topic, splits[i].partition, m.first_offset))
                    if placed.stat().st_size != m.bytes_written:
                        raise OSError(f"{placed}: {placed.stat().st_size} bytes where the task wrote {m.bytes_written}")
                check_records(splits[i], m, work.log)
            own = [manifests[i] for i in work.splits]
            doubts = work.log.transactions.doubts if self.options.committed else []
            mine = [splits[i] for i in work.splits]
            results.append(PartitionResult(work.log.directory, work.plans, mine, own, self._range(work), doubts=doubts))
        if not any(m.file for m in manifests):
            write_empty(self.staging.folder("data"), self.options.compression, self.options.level)
        return results

    def _quarantine(self, damaged: list[tuple[_Work, Damage]]) -> Iterator[dict[str, Any]]:
        for work, damage in sorted(
            damaged, key=lambda wd: (wd[0].log.topic, wd[0].log.partition, wd[1].file, wd[1].position)
        ):
            directory = work.log.directory
            message, data = damage.message, None
            try:
                with FileView(directory.path / damage.file) as view:
                    data = view.read(damage.position, min(damage.length, QUARANTINE_BYTES))
            except OSError as error:
                message += f" (its bytes could not be kept: {error.strerror})"
            if data is not None and damage.length > len(data):
                message += f" (only its first {len(data)} of {damage.length} bytes are kept)"
            yield {
                "topic": directory.topic,
                "partition": directory.partition,
                "file": damage.file,
                "position": damage.position,
                "length": damage.length,
                "first_offset": damage.first_offset,
                "last_offset": damage.last_offset,
                "error": damage.error,
                "message": message,
                "bytes": data,
            }


def _check_name(directory: PartitionDir) -> None:
    """Raise OSError if a topic's name is not UTF-8: neither a Parquet column nor Spark's paths can hold it."""
    try:
        directory.topic.encode()
    except UnicodeEncodeError:
        message = f"the topic's name {directory.topic!a} is not UTF-8, so it cannot be exported: rename the directory, or omit it"
        raise OSError(errno.EILSEQ, message, str(directory.path)) from None


def in_context(plans: list[SegmentPlan], damage: Damage) -> Damage:
    """Damage that a task met, its offsets told by the neighbours in the whole segment: the task saw its own split alone."""
    plan = next(p for p in plans if p.segment.name == damage.file)
    end = damage.position + damage.length
    extent = next(e for e in plan.extents if e.position <= damage.position < e.end)
    first, last = damage.first_offset, damage.last_offset
    if damage.position == extent.position:
        before = [
            e.last_offset for e in plan.extents if e.end == extent.position and e.last_offset < extent.first_offset
        ]
        first = before[0] + 1 if before else first
    if end == extent.end:
        after = [e.first_offset for e in plan.extents if e.first_offset > extent.last_offset]
        following = min(after) if after else plan.segment.next_base
        last = None if following is None else following - 1
    return replace(damage, first_offset=first, last_offset=last)


def _size(directory: PartitionDir) -> int:
    return sum(s.size for s in directory.segments)


def _level(compression: str, level: int | None) -> int | None:
    return ZSTD_LEVEL if compression == "zstd" and level is None else level


def _check_place(output: Path, inputs: list[Any]) -> None:
    """Nothing is ever written into what is read; nor is a directory replaced that holds it, or that somebody stands in."""
    for path in dict.fromkeys(Path(p).resolve() for p in inputs):
        if output == path or output.is_relative_to(path):
            raise OutputPlaceError(f"the output {output} is in {path}, which is read; choose another output")
        if path.is_relative_to(output):
            raise OutputPlaceError(f"the output {output} contains {path}, which is read; choose another output")
    for path in (Path.cwd(), Path.home()):
        if path.resolve().is_relative_to(output):
            raise OutputPlaceError(
                f"the output {output} contains the {'current' if path == Path.cwd() else 'home'} directory; choose another output"
            )
