"""Decide whether retention has deleted a missing segment. If it has not, raise an error.

Kafka deletes the oldest segments of a log (``UnifiedLog.deleteOldSegments``), even while the log is
being read. A reader may skip a segment that Kafka has deleted. But a missing file alone does not
prove that Kafka deleted it: the directory may have been moved or unmounted, or this host may see
another directory under the same path. Therefore, deletion by retention is assumed only if all of
these conditions are true:

- The directory is still the one that was listed.
- The file is missing on a second check.
- The offsets of the file are below the current log start offset of the directory.
"""

from __future__ import annotations

import errno

from ...errors import StructureError
from ..format import file_view, files
from ..format.checkpoints import LOG_STARTS, read_offset_checkpoint
from ..format.packed import base_of
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
    """Return the error for a segment that is missing, or that has changed since it was listed."""
    return UnavailableSegmentError(code, reason, str(segment.path))


def check_retention(directory: PartitionDir, segment: SegmentFile) -> None:
    """Raise `UnavailableSegmentError` unless retention has removed `segment` since `directory` was listed."""
    try:
        inode = files.inode(directory.path)
        _, names = files.list_directory(directory.path)
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
    if files.exists(segment.path):
        raise unavailable(
            segment,
            "the file is listed but cannot be opened (a link whose target does not exist, or not a regular file)",
        )
    bases = sorted(base for name in names if (base := base_of(name)) is not None)
    if not bases:
        raise unavailable(
            segment, "the file is missing, and its directory no longer contains a segment: it was emptied or unmounted"
        )
    start = max(bases[0], _log_start_checkpoint(directory))
    if segment.base_offset is None or not _end(segment, bases[0]) <= start:
        what = f"the file is missing, but retention has not removed it: the log starts at offset {start}"
        raise unavailable(segment, f"{what}; if a broker compacted the log, or moved the partition, read it again")


def _end(segment: SegmentFile, first_base: int) -> int:
    """Return the end (exclusive) of the offsets that `segment` can contain.

    If `segment` was the last one when it was listed, the base offset of the next segment is
    unknown. `first_base` is used instead: a broker rolls the log before it deletes the last
    segment, so the log now begins with a later segment.
    """
    assert segment.base_offset is not None
    if segment.next_base is not None:
        return segment.next_base
    return max(first_base, segment.base_offset + 1)


def _log_start_checkpoint(directory: PartitionDir) -> int:
    """Return a partition's log start offset from the checkpoint in its log directory.

    Return 0 if the checkpoint does not contain the partition.
    """
    if directory.state != "live":
        return 0
    try:
        text = file_view.read_text(directory.path.parent / LOG_STARTS)
        return read_offset_checkpoint(text or "", LOG_STARTS).get(directory.key, 0)
    except (OSError, StructureError):
        return 0


def changed(segment: SegmentFile, how: str) -> UnavailableSegmentError:
    """Return the error for a segment file that has changed since its batches were checked."""
    what = f"the file has changed since it was planned: {how}"
    return unavailable(
        segment, f"{what}; this host sees another file, or a broker truncated or compacted the log", errno.ESTALE
    )
