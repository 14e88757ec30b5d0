"""Compare the files and records that export tasks read with those that the driver planned.

On an executor, a path may lead to an outdated or empty directory, although the driver can read the
logs at this path. The tasks on such an executor report the files that they cannot find. Only the
driver decides whether retention removed a missing file.
"""

from __future__ import annotations

from ...constants import MAX_OFFSET
from ...log import PartitionDir, PartitionLog, SegmentFile
from ...log.format import files
from ...log.format.files import FileView
from ...log.reading.index_lookup import batch_at
from ...log.reading.missing import check_retention, unavailable
from ...log.reading.plan import SegmentPlan, plan_segment
from ...log.reading.read_limits import ReadLimits
from ..hosts import host_name, with_host
from ..source.splits import Split
from .parquet import Manifest


def plan_in_task(directory: PartitionDir, limits: ReadLimits) -> SegmentPlan | str:
    """Return the plan of the only segment in `directory`.

    If the segment file is missing on this host because retention may have removed it, return the
    name of this host instead of a plan.

    Raise an OSError that names this host if the file is missing for another reason, or if it is
    smaller than when the driver listed it.
    """
    (segment,) = directory.segments
    try:
        try:
            plan = plan_segment(segment, limits)
        except FileNotFoundError:
            check_retention(directory, segment)
            return host_name()
        if plan.size < segment.size:
            raise unavailable(segment, f"the file has {plan.size} bytes here, but {segment.size} on the driver")
    except OSError as error:
        raise with_host(error) from error
    return plan


def check_damage(plan: SegmentPlan) -> None:
    """Raise an OSError if the driver finds a valid batch where a task found damaged bytes.

    The task then sees another file under the same path. Only the first damaged span is checked.
    """
    damaged = [d for d in plan.damaged if d.code != "contradicting_offsets"]  # those batches are valid
    if not damaged:
        return
    try:
        with FileView(plan.segment.path) as view:
            valid = batch_at(view, damaged[0].position) is not None
    except OSError:  # reading the damaged bytes for the quarantine reports why
        return
    if valid:
        raise unavailable(
            plan.segment,
            f"a task found damage at position {damaged[0].position}, where the driver finds a valid batch: "
            "the host of the task sees another file",
        )


def check_missing(log: PartitionLog, segment: SegmentFile, host: str) -> None:
    """Report a segment that is missing on `host`.

    Raise an OSError unless the driver also finds that retention removed the segment.
    """
    if files.exists(segment.path):
        raise unavailable(
            segment,
            f"the file is missing on host {host}, but exists on the driver, so the path refers to another directory on that host",
        )
    log.skip_missing(segment)


def check_records(split: Split, manifest: Manifest, log: PartitionLog) -> None:
    """Raise an OSError if a task wrote too few or too many records for its split.

    It is not an error if records are missing because of damage or retention.
    """
    least, most = 0, 0
    for piece in split.pieces:
        segment = piece.segment
        if str(segment.path) in manifest.missing:
            check_missing(log, segment, manifest.host)
            continue
        for extent in piece.extents:
            count = 0 if extent.records is None else extent.records
            wanted = piece.interval
            inside = wanted.low <= extent.first_offset and extent.last_offset < wanted.high
            whole = inside and not wanted.committed
            least += count if whole else 0
            most = MAX_OFFSET if extent.records is None else min(most + count, MAX_OFFSET)
    lost = [d.records for d in manifest.damaged]
    got = manifest.rows + sum(n or 0 for n in lost)
    if got > most or (got < least and None not in lost):
        planned = f"{least}" if least == most else f"{least} or more" if got < least else f"at most {most}"
        name = f"{split.topic}-{split.partition}, from offset {split.first_offset}"
        raise OSError(
            f"{name}: a task on host {manifest.host} delivered {got} records of {planned}; nothing is exported"
        )
