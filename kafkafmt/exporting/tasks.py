"""Decode records and write them to Parquet files, in a task of an export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from ..arrow.builder import ArrowBuilder
from ..arrow.columns import TARGET_BYTES
from ..log import Damage, PartitionLog, SegmentFile
from ..log.damage import DEFAULT_LIMITS, ReadLimits, SegmentPlan
from ..log.reading import Part, ignore
from ..log.scanning import total
from ..spark.hosts import host_name
from ..spark.source.pieces import Piece, UnconfirmedError, WholePartitions
from ..spark.source.splits import Split
from .bundles import Bundle
from .decoded import SideCounts
from .files import FileSet, OutputFile
from .output import AttemptFiles
from .parquet import FileFormat
from .report import TaskSeconds
from .timing import Stopwatch, peak_memory


@dataclass(frozen=True)
class TaskSettings:
    """Settings for tasks that decode records and write them to Parquet files."""

    attempts: AttemptFiles
    """The object with which tasks create and remove their files."""
    format: FileFormat = field(default_factory=FileFormat)
    """Format of the files, except those of the topics in `decoded`."""
    limits: ReadLimits = DEFAULT_LIMITS
    stop_at_damage: bool = False
    """Whether a task that finds damage stops at once and removes its files."""
    decoded: Mapping[str, FileFormat] = field(default_factory=dict)
    """Formats of the files of topics whose keys and values are decoded, by topic."""


@dataclass
class Manifest:
    """Result of exporting one split (a range of a partition): counts, ranges of offsets and timestamps, and damage."""

    rows: int = 0
    """Number of records that were written to files."""
    bytes_read: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp: int | None = None
    """Lowest timestamp, in milliseconds since 1970-01-01 UTC."""
    max_timestamp: int | None = None
    timestamps_out_of_range: int = 0
    damaged: list[Damage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Segment files that were missing. The driver checks whether retention has removed them."""
    plans: list[SegmentPlan] = field(default_factory=list)
    """The batches that the task has confirmed to be valid. There is one plan for each segment that was read."""
    unconfirmed: list[str] = field(default_factory=list)
    """Segments that the task could not confirm. Then its files were removed, and another task plans."""

    def count(self, batch: pa.RecordBatch) -> None:
        """Update the row count, the offset range and the timestamp range with the rows of `batch`."""
        offsets = batch.column("offset")
        if self.first_offset is None:
            self.first_offset = offsets[0].as_py()
        self.last_offset = offsets[-1].as_py()
        self.rows += batch.num_rows
        ends = pc.min_max(batch.column("timestamp"))
        low, high = ends["min"], ends["max"]
        if low.is_valid:
            least, most = low.value // 1000, high.value // 1000
            self.min_timestamp = least if self.min_timestamp is None else min(self.min_timestamp, least)
            self.max_timestamp = most if self.max_timestamp is None else max(self.max_timestamp, most)


@dataclass
class BundleResult:
    """Result of exporting one bundle (a group of splits): the data that was read, and the written files."""

    bundle: int
    """Number of the bundle (a group of splits)."""
    manifests: list[Manifest]
    """Counts and damage for each split of the bundle."""
    files: list[OutputFile] = field(default_factory=list)
    """The Parquet files that the task wrote. Empty if the batches of a segment could not be confirmed to be valid."""
    host: str = ""
    seconds: TaskSeconds = field(default_factory=lambda: TaskSeconds(0.0, 0.0, 0.0, 0.0))
    worker_memory: int = 0
    decoded: dict[str, SideCounts] = field(default_factory=dict)
    """Counts of decoded keys and values, by side."""


class _StopAtDamageError(Exception):
    """Raised to stop a task after it has found damage."""


def write_bundle(bundle: Bundle, settings: TaskSettings) -> BundleResult:
    """Decode the records of a bundle (a group of splits), and write them to Parquet files with unique names."""
    watch = Stopwatch()
    result = BundleResult(bundle.number, [Manifest() for _ in bundle.splits], host=host_name())
    first = bundle.splits[0]
    file_format = settings.decoded.get(first.topic, settings.format)
    decoding = file_format.decoding
    decoders = {} if decoding is None else decoding.decoders()
    target = min(TARGET_BYTES, file_format.row_group_bytes)
    builder = ArrowBuilder(first.topic, first.partition, file_format.decoded_schema, target, decoders)
    files = FileSet(first.topic, file_format, settings.attempts, watch)
    partitions = WholePartitions()
    try:
        for split, manifest in zip(bundle.splits, result.manifests, strict=True):
            builder.move_to(split.topic, split.partition)
            for batch in _batches(split, builder, settings, manifest, watch, partitions):
                manifest.count(batch)
                files.add(batch, split.partition)
                del batch  # free the memory before the next batch is decoded
        files.close()
    except _StopAtDamageError:
        files.discard()
    except UnconfirmedError as error:
        files.discard()
        _find_unconfirmed(bundle, result.manifests, manifest, error, settings)
    except BaseException:
        files.discard()
        raise
    result.files = files.written
    result.decoded = {} if decoding is None else decoding.counts(decoders)
    result.seconds = watch.stop()
    result.worker_memory = peak_memory()
    return result


def _batches(
    split: Split,
    builder: ArrowBuilder,
    settings: TaskSettings,
    manifest: Manifest,
    watch: Stopwatch,
    partitions: WholePartitions,
) -> Iterator[pa.RecordBatch]:
    def note_damage(damage: Damage) -> None:
        manifest.damaged.append(damage)
        if settings.stop_at_damage:
            raise _StopAtDamageError

    def note_missing(segment: SegmentFile) -> None:
        manifest.missing.append(str(segment.path))

    def note_end(log: PartitionLog) -> None:
        watch.add(log)
        manifest.bytes_read += log.bytes_read

    out_of_range = builder.timestamps_out_of_range
    for piece in split.pieces:
        confirmed = SegmentPlan(piece.segment, 0, [], [], [])
        for chunk in piece.chunks(
            builder.columns,
            on_damage=note_damage,
            limits=settings.limits,
            on_missing=note_missing,
            on_end=note_end,
            confirmed_only=piece.plan is None,
            partitions=partitions,
            on_loss=ignore,  # the driver finds lost offsets
            on_part=partial(_add_part, confirmed) if piece.plan is None else None,
        ):
            yield from builder.add(chunk)
        if piece.plan is None:
            manifest.plans.append(confirmed)
    if builder.rows:
        yield builder.flush()
    manifest.timestamps_out_of_range = builder.timestamps_out_of_range - out_of_range


def _add_part(confirmed: SegmentPlan, part: Part) -> None:
    """Add the batches in `part` to a plan. If they directly continue its last range, merge both ranges."""
    run, last = part.run, confirmed.runs[-1] if confirmed.runs else None
    confirmed.size = part.plan.size
    if last is None or last.end != run.position:
        confirmed.runs = [*confirmed.runs, replace(run)]
        return
    last.dense = last.dense and run.dense and run.first_offset == last.last_offset + 1
    last.end, last.last_offset = run.end, run.last_offset
    last.batches += run.batches
    last.records = total(last.records, run.records)


def _find_unconfirmed(
    bundle: Bundle, manifests: list[Manifest], stopped: Manifest, error: UnconfirmedError, settings: TaskSettings
) -> None:
    """Add the names of all segments with batches that this task cannot confirm to the manifests."""
    # `error` names the first one. All later segments are checked too, so that the driver gets a
    # complete list.
    at = next(i for i, manifest in enumerate(manifests) if manifest is stopped)
    for i, (split, manifest) in enumerate(zip(bundle.splits, manifests, strict=True)):
        pieces: list[Piece] = [] if i < at else split.pieces
        if i == at:
            names = [piece.segment.name for piece in pieces]
            pieces = pieces[names.index(error.segment) + 1 :]
            manifest.unconfirmed.append(error.segment)
        for piece in pieces:
            try:
                piece.check(settings.limits)
            except UnconfirmedError as later:
                manifest.unconfirmed.append(later.segment)
