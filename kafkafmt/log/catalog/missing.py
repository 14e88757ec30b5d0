"""Check whether retention has deleted a segment whose file is missing. If not, raise an error.

Kafka deletes the oldest segments of a log (``UnifiedLog.deleteOldSegments``), even while the log is
being read. However, a file can also be missing because its directory was moved or unmounted, or
because this host sees another directory under the same path. Therefore, a segment is skipped only
if the file is still missing when it is checked again, its path still refers to the directory that
was listed, and all its offsets are below the current log start offset.
"""

from __future__ import annotations

import errno

from ...errors import StructureError
from ..formats import LOG_STARTS, bases_in, read_offset_checkpoint
from ..storage import inode_of, list_directory, path_exists, read_text
from .partition_dir import PartitionDir, SegmentFile


class UnavailableSegmentError(OSError):
    """Raised if a segment has changed since it was listed, or is missing although retention has not deleted it.

    Attributes
    ----------
    filename : str
        Path of the segment.
    strerror : str
        The reason.
    """

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def unavailable(segment: SegmentFile, reason: str, code: int = errno.ENOENT) -> UnavailableSegmentError:
    """Create the error for a segment that is missing, or that has changed since it was listed."""
    return UnavailableSegmentError(code, reason, str(segment.path))


def check_retention(directory: PartitionDir, segment: SegmentFile) -> None:
    """If a segment file is missing for another reason than retention, raise `UnavailableSegmentError`."""
    try:
        inode = inode_of(directory.path)
        _, names = list_directory(directory.path)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise unavailable(
            segment, f"the file is missing, and so is its directory ({why}): it was moved, unmounted or deleted"
        ) from error
    if directory.inode is not None and inode != directory.inode:
        raise unavailable(
            segment,
            "the file is missing, and its directory is not the one that was listed: it was replaced or unmounted",
        )
    if path_exists(segment.path):
        raise unavailable(
            segment,
            "the file is listed but cannot be opened (a link whose target does not exist, or not a regular file)",
        )
    bases = sorted(base for base, _ in bases_in(names))
    if not bases:
        raise unavailable(
            segment, "the file is missing, and its directory no longer contains a segment: it was emptied or unmounted"
        )
    start = max(bases[0], checkpoint_offset(directory, LOG_STARTS))
    if segment.base_offset is None or not _end(segment, bases[0]) <= start:
        what = f"the file is missing, but retention has not removed it: the log starts at offset {start}"
        raise unavailable(segment, f"{what}; if a broker compacted the log, or moved the partition, read it again")


def _end(segment: SegmentFile, first_base: int) -> int:
    """Return the end of the offset range that `segment` can contain (exclusive)."""
    # It is the next segment's base offset. If the list contained none, it is the base offset of the first existing
    # segment: a broker creates a new segment at the end of the log before it deletes the last one.
    assert segment.base_offset is not None
    if segment.next_base is not None:
        return segment.next_base
    return max(first_base, segment.base_offset + 1)


def checkpoint_offset(directory: PartitionDir, name: str) -> int:
    """Read a partition's offset in a checkpoint of its log directory, or 0 if it has no entry."""
    if directory.state != "live":
        return 0
    try:
        text = read_text(directory.path.parent / name)
        return read_offset_checkpoint(text or "", name).get(directory.key, 0)
    except (OSError, StructureError):
        return 0


def changed(segment: SegmentFile, how: str) -> UnavailableSegmentError:
    """Create the error for a segment that has changed since its batches were checked."""
    what = f"the file has changed since it was planned: {how}"
    return unavailable(
        segment, f"{what}; this host sees another file, or a broker truncated or compacted the log", errno.ESTALE
    )
