"""Check that the tasks of an export have read all selected data.

The same path can refer to the logs on the driver, and to an outdated or empty directory on an
executor. Tasks report which segment files are missing on their executor. The driver then checks
whether retention has removed these files.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._backend import core
from ..constants import MAX_OFFSET
from ..log import PartitionDir, PartitionLog, SegmentFile
from ..log.catalog import check_retention, unavailable
from ..log.damage import ReadLimits, SegmentPlan, plan_segment
from ..log.storage import FileView, content_size, overlapping, path_exists
from ..log.transactions import Transactions
from ..records.reader import ALL_OFFSETS
from ..spark.hosts import host_name, with_host
from ..spark.source.same_log import check_complete, has_less_data
from ..spark.source.splits import Split
from ..support.text import quantity
from .tasks import BundleResult, Manifest

COMPARED_BYTES = 1 << 20
"""Largest number of damaged bytes that the driver compares with the bytes that a task has read."""


@dataclass(frozen=True)
class TaskPlan:
    plan: SegmentPlan
    damage_crc: int | None
    """CRC-32C of the first damaged byte range. None if there is none, or if it cannot be read."""


def plan_in_task(directory: PartitionDir, limits: ReadLimits) -> TaskPlan | str:
    """Plan the only segment of `directory`. If retention may have removed it, return the name of this host."""
    # The driver then checks whether retention has removed the file. An OSError names this host if
    # the file is missing for another reason, or lacks batches that exist on the driver.
    (segment,) = directory.segments
    try:
        try:
            plan = plan_segment(segment, limits)
        except FileNotFoundError:
            check_retention(directory, segment)
            return host_name()
        check_complete(plan, directory)
    except OSError as error:
        raise with_host(error) from error
    return TaskPlan(plan, _damage_crc(plan))


def _damage_crc(plan: SegmentPlan) -> int | None:
    if not len(plan.damaged):
        return None
    position, length = plan.damaged[0].position, min(plan.damaged[0].length, COMPARED_BYTES)
    try:
        with FileView(plan.segment.path, fill_unreadable=True) as view:
            data = view.read(position, length)
            return None if overlapping(view.unreadable, position, position + length) else core.crc32c(data)
    except OSError:
        return None


def transactions_in_task(directory: PartitionDir, limits: ReadLimits) -> Transactions:
    """Find the transactions of a partition by reading all its segments."""
    # If a segment file is missing, or lacks batches that exist on the driver, raise an OSError that
    # names this host: the missing batches could contain the end of a transaction.
    try:
        log = PartitionLog(directory, limits)
        found = log.transactions
        for segment in directory.segments:
            size = content_size(segment.place)
            if size is not None and has_less_data(segment, size):
                check_complete(log.plan(segment), directory)
        return found
    except OSError as error:
        raise with_host(error) from error


def check_damage(found: TaskPlan) -> None:
    """Raise an OSError if the driver and a task read different bytes where the task found damage."""
    # Then the path refers to different files on the two hosts. Only the first damaged byte range is
    # compared.
    crc = _damage_crc(found.plan)
    if crc is None or found.damage_crc is None:
        return  # write_quarantine() reads the same bytes later, and reports the error
    if crc != found.damage_crc:
        raise unavailable(
            found.plan.segment,
            f"a task found damage at position {found.plan.damaged[0].position}, but the driver reads other bytes there: "
            "the path refers to another file on the task's host",
        )


def check_missing(log: PartitionLog, segment: SegmentFile, host: str) -> None:
    """Check whether retention has removed a segment that an executor cannot find, and report the removal."""
    # If the driver finds the file, raise OSError: the path refers to different directories on the
    # two hosts.
    if path_exists(segment.path):
        raise unavailable(
            segment,
            f"the file exists on the driver, but not on host {host}: the path refers to another directory on that host",
        )
    log.skip_missing(segment)


def check_records(split: Split, manifest: Manifest, log: PartitionLog, host: str) -> None:
    """Raise an OSError if a task wrote too few or too many records for a split (a range of a partition)."""
    # Records in damaged batches or in segments that retention has removed are not missing.
    least, most = 0, 0
    for piece in split.pieces:
        segment = piece.segment
        if str(segment.path) in manifest.missing:
            check_missing(log, segment, host)
            continue
        for run in piece.runs:
            count = 0 if run.records is None else run.records
            wanted = piece.interval
            inside = wanted.low <= run.first_offset and run.last_offset < wanted.high
            # A record that the user did not select can be in a batch whose header is inside the selection.
            whole = inside and not wanted.committed and wanted.selected == ALL_OFFSETS
            least += count if whole else 0
            most = MAX_OFFSET if run.records is None else min(most + count, MAX_OFFSET)
    lost = [d.records for d in manifest.damaged]
    got = manifest.rows + sum(n or 0 for n in lost)
    if got > most or (got < least and None not in lost):
        planned = f"{least}" if least == most else f"{least} or more" if got < least else f"at most {most}"
        name = f"{split.topic}-{split.partition}, from offset {split.first_offset}"
        raise OSError(
            f"{name}: a task on host {host} delivered {quantity(got, 'record')}, but the plan contains {planned}; nothing was exported"
        )


def check_files(result: BundleResult) -> None:
    """Raise an OSError if a task has written fewer or more records to its files than it has decoded."""
    decoded = sum(manifest.rows for manifest in result.manifests)
    written = sum(rows for file in result.files for rows in file.rows.values())
    if decoded != written:
        raise OSError(f"a task on host {result.host} wrote {written} of {decoded} records; nothing is exported")
