"""Read a part of a segment in a task, on a machine that may contain other files than the driver's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...constants import NO_END
from ...log import Damage, NoLogError, PartitionDir, PartitionLog, SegmentFile, discover
from ...log.catalog import unavailable
from ...log.damage import DEFAULT_LIMITS, ReadLimits, Run, SegmentPlan
from ...log.reading import OffsetInterval, Part
from ...log.scanning import Share, whole_segment
from ...log.transactions import Doubt, Transactions, outcomes_near
from ...records import Chunk
from ...support.paths import Location
from ...types import BatchTable, RecordColumns
from ..hosts import with_host
from .same_log import check_content, check_topic_id, lacks_batches


class UnconfirmedError(Exception):
    """Raised if a segment cannot be read in one pass, and the caller does not allow a plan of the whole segment."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"{segment}: the segment cannot be read in one pass and must be planned")
        self.segment = segment


class WholePartitions:
    """Cache of listings and transactions, so that a task lists and reads a whole partition only once."""

    # A task usually reads several parts of a partition. For each part, it may need transaction
    # markers in later segments, and therefore the names of all segments.

    def __init__(self) -> None:
        self._listed: dict[Location, PartitionDir] = {}
        self._logs: dict[Location, PartitionLog] = {}

    def listed(self, directory: PartitionDir) -> PartitionDir | None:
        """Return the most recent listing of a partition directory, or None if it was not listed yet."""
        return self._listed.get(directory.path)

    def list(self, directory: PartitionDir) -> PartitionDir:
        """List a partition directory, and return a `PartitionDir` with the segments that it now contains."""
        whole = directory
        for found in discover([directory.path]).partitions:
            whole = replace(directory, segments=found.segments, cleaned=directory.cleaned or found.cleaned)
        self._listed[directory.path] = whole
        return whole

    def has_read(self, directory: PartitionDir) -> bool:
        """Return whether the whole partition was already read to find its transactions."""
        return directory.path in self._logs

    def log_of(self, directory: PartitionDir, limits: ReadLimits, log: PartitionLog) -> PartitionLog:
        """Return the log of a partition. The first call for it reads the whole log to find the transactions."""
        # The numbers of bytes and read operations are added to `log.bytes_read` and `log.reads`.
        if not self.has_read(directory):
            whole = self._logs[directory.path] = PartitionLog(directory, limits)
            _ = whole.transactions
            log.bytes_read += whole.bytes_read
            log.reads += whole.reads
        return self._logs[directory.path]


@dataclass
class Piece:
    """Part of a segment that a task reads, specified by a byte range or a list of valid batches."""

    directory: PartitionDir
    """Copy of the partition directory that lists only this segment."""
    plan: SegmentPlan | None
    """Plan with the valid batches to read. None if the segment has not been checked yet."""
    interval: OffsetInterval
    """Range of selected offsets."""
    transactions: Transactions | None = None
    """Transactions of the batches. None if the task must find them, or if uncommitted records are also selected."""
    share: Share | None = None
    """Range of bytes to read, if the segment has not been checked yet."""
    later_bytes: int = 0
    """Total size of the later segments on the driver. 0 if the task does not have to find transactions."""
    topic_id: str | None = None
    """Topic id on the driver. None if it is not known."""
    content: int | None = None
    """End of the segment's nonzero bytes on the driver. None: it found no hole at the end."""

    @property
    def segment(self) -> SegmentFile:
        return self.directory.segments[0]

    @property
    def runs(self) -> Sequence[Run]:
        """Groups of consecutive valid batches, according to the plan. Empty if there is no plan."""
        return [] if self.plan is None else self.plan.runs

    @property
    def bytes(self) -> int:
        """Size of the valid batches in the plan, in bytes. Without a plan, the size of the byte range."""
        if self.plan is not None:
            return sum(e.end - e.position for e in self.plan.runs)
        return 0 if self.share is None else self.share.size

    @property
    def first_offset(self) -> int:
        """Lowest offset of this part of a segment, according to the offset index. It is unique in a partition."""
        # An index entry has the last offset of one or more batches, so the first batch can begin at
        # a lower offset.
        if self.plan is not None and self.plan.runs:
            return max(self.interval.low, self.plan.runs[0].first_offset)
        border = None if self.share is None else self.share.start
        return max(self.interval.low, border.upto if border and border.indexed else self.segment.base_offset or 0)

    @property
    def last_offset(self) -> int:
        """Highest offset that this part of a segment can contain, unless the offset index contradicts the batches."""
        if self.plan is not None and self.plan.runs:
            return max(e.last_offset for e in self.plan.runs)
        return NO_END - 1 if self.share is None else self.share.end.upto

    def chunks(
        self,
        columns: RecordColumns,
        *,
        on_damage: Callable[[Damage], None] | None = None,
        limits: ReadLimits = DEFAULT_LIMITS,
        tell: Callable[[str], None] | None = None,
        on_missing: Callable[[SegmentFile], None] | None = None,
        on_end: Callable[[PartitionLog], None] | None = None,
        on_doubt: Callable[[Doubt], None] | None = None,
        confirmed_only: bool = False,
        partitions: WholePartitions | None = None,
        on_loss: Callable[[Damage], None] | None = None,
        on_part: Callable[[Part], None] | None = None,
    ) -> Iterator[Chunk]:
        """Decode the records of this part of a segment, and yield them in offset order."""
        # `on_missing` gets the segment if retention has removed its file since the query was
        # planned. `on_end` gets the log after the last record. `on_loss` gets lost offsets before
        # or after the batches; by default, `on_damage` gets them. `on_part` gets the batches before
        # their records are decoded. If the byte range cannot be read
        # in one pass, or the transactions need the whole partition, both are read; if
        # `confirmed_only` is True, an UnconfirmedError is raised instead. An OSError names this
        # host if the file differs from the one on the driver.
        shared = partitions or WholePartitions()

        def report(found: Transactions) -> None:
            if on_doubt is not None and self.transactions is None:
                for doubt in found.doubts:
                    on_doubt(doubt)

        def widen(segment: SegmentFile) -> None:
            """Find the transactions of the whole segment, because the index contradicts the batches."""
            if confirmed_only:
                _refuse(segment)
            if not self.interval.committed or self.transactions is not None:  # in this case, the whole log was read
                return
            segment_end = whole_segment(self.segment, 0).end.upto + 1
            found = self._find_transactions(log, 0, segment_end, limits, confirmed_only, shared)
            found.doubts = found.doubts.without(log.transactions.doubts)
            log.transactions.aborted, log.transactions.open = found.aborted, found.open
            report(found)

        def select(part: Part, table: BatchTable) -> BatchTable:
            if on_part is not None:
                on_part(part)
            return table

        log = PartitionLog(self.directory, limits, tell=tell, on_missing=on_missing, on_unconfirmed=widen)
        if self.plan is not None:
            log.keep_plan(self.plan)
        elif self.share is not None:
            log.restrict(self.segment, self.share)
        try:
            check_topic_id(self.directory, self.topic_id)
            check_content(self.segment, self.content)
            if self.interval.committed:
                log.transactions = (
                    replace(self.transactions)
                    if self.transactions is not None
                    else self._find_transactions(
                        log, self._position, self.last_offset + 1, limits, confirmed_only, shared
                    )
                )
                report(log.transactions)
                if self.plan is None and self.segment.base_offset in log.transactions.damaged_segments:
                    # A plan can omit valid batches next to damage. If the transactions were found with this plan, the
                    # outcomes of the transactions in the omitted batches are not known.
                    widen(self.segment)
                    log.plan(self.segment)
            yield from log.chunks(columns, self.interval, on_damage=on_damage, on_loss=on_loss, select=select)
            check_topic_id(self.directory, self.topic_id)
        except OSError as error:
            raise with_host(error) from error
        if on_end is not None:
            on_end(log)

    def _find_transactions(
        self,
        log: PartitionLog,
        position: int,
        end: int,
        limits: ReadLimits,
        confirmed_only: bool,
        partitions: WholePartitions,
    ) -> Transactions:
        """Find the outcomes of the transactions with batches from the file position `position` to the offset `end`."""
        # A transaction in doubt is returned only if its offsets overlap those of this part. The
        # directory is listed again, because markers can be in later segments. A last stable offset
        # lower than the driver's raises an OSError, unless the end of the log is damaged: the
        # driver reads only batch headers, so it does not find this damage.
        end = min(end, self.interval.high)
        listed = partitions.listed(self.directory)
        found = None if listed is None else self._outcomes(listed, position, end, log)
        directory = listed or self.directory
        if found is None and not partitions.has_read(
            directory
        ):  # list the directory again, because retention may have removed segments
            try:
                directory = partitions.list(self.directory)
            except (FileNotFoundError, NoLogError) as error:
                raise unavailable(self.segment, "the file is missing, and its directory contains no log") from error
            found = self._outcomes(directory, position, end, log)
        if found is not None:
            found.last_stable_offset = self.interval.high
            return found
        if confirmed_only:
            raise UnconfirmedError(self.segment.name)
        whole_log = partitions.log_of(directory, limits, log)
        self._check_sizes(whole_log)
        whole = whole_log.transactions
        damaged_end = not whole.open and self._has_all_bytes(whole_log)
        if (
            whole.last_stable_offset < end and not damaged_end
        ):  # without this error, the later records would be omitted silently
            raise unavailable(
                self.segment,
                f"the last stable offset is {whole.last_stable_offset} on this host, but the driver found a higher one: "
                "later segments are missing or have changed, or the latest producer snapshot is wrong",
            )
        found = whole.within(self.segment.base_offset or 0, end - 1)
        found.doubts = whole.within(self.first_offset, min(self.last_offset + 1, end) - 1).doubts
        return found

    def _check_sizes(self, log: PartitionLog) -> None:
        """Raise an OSError if this or a later segment of `log` lacks batches that exist on the driver."""
        # The missing batches could be markers, without which this part's records would be omitted.
        # If the last segment lacks markers at its end, the last stable offset shows it. No error is
        # raised if retention has removed this segment.
        names = [segment.name for segment in log.segments]
        if self.segment.name not in names:
            return
        own, *later = log.segments[names.index(self.segment.name) :]
        followed = [segment for segment in (own, *later) if segment.next_base is not None]
        for what, found, expected in (
            ("the file has", plain_bytes([own]), plain_bytes([self.segment])),
            ("the later segments have", plain_bytes(later), self.later_bytes),
        ):
            if found < expected and any(lacks_batches(log.plan(s), log.directory) for s in followed):
                raise unavailable(
                    self.segment,
                    f"{what} {found} bytes on this host, but {expected} bytes on the driver: this host sees other "
                    "files, or a broker truncated the log",
                )

    def _has_all_bytes(self, log: PartitionLog) -> bool:
        """Return whether this and the later segments of `log` are at least as large as on the driver."""
        names = [segment.name for segment in log.segments]
        if self.segment.name not in names:
            return False
        own, *later = log.segments[names.index(self.segment.name) :]
        return plain_bytes([own]) >= plain_bytes([self.segment]) and plain_bytes(later) >= self.later_bytes

    def _outcomes(self, directory: PartitionDir, position: int, end: int, log: PartitionLog) -> Transactions | None:
        """Find the aborted transactions from a file position to an offset, or None if the whole log must be read."""
        segment = next((s for s in directory.segments if s.name == self.segment.name), None)
        if segment is None:
            return None
        return outcomes_near(directory, segment, position, end, log)

    @property
    def _position(self) -> int:
        """File position of the first batch to read, in bytes."""
        if self.plan is not None and self.plan.runs:
            return self.plan.runs[0].position
        return 0 if self.share is None else self.share.start.position

    def check(self, limits: ReadLimits) -> None:
        """Read the byte range in one pass. If not all batches are confirmed to be valid, raise UnconfirmedError."""
        if self.plan is None:
            log = PartitionLog(self.directory, limits, on_unconfirmed=_refuse)
            if self.share is not None:
                log.restrict(self.segment, self.share)
            for _ in log.parts(self.interval.low, self.interval.damage_high, None):
                pass


def _refuse(segment: SegmentFile) -> None:
    raise UnconfirmedError(segment.name)


def plain_bytes(segments: Iterable[SegmentFile]) -> int:
    """Return the total size of the segments. Compressed segments are not counted, because they would have to be read."""
    return sum(segment.size for segment in segments if segment.name.endswith(".log"))
