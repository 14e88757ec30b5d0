"""Decide whether retention explains a segment that is missing, and raise an error if it does not.

Kafka deletes the oldest segments of a log (``UnifiedLog.deleteOldSegments``), also while the log is read. A reader that has listed
such a segment may skip it. A missing file alone proves nothing: the directory may have been moved or unmounted, or this host may
see another directory under the same path. Retention is therefore accepted only if the directory is the one that was listed, the
file is gone on a second look, and its offsets are below the log start offset that the directory has now.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ...errors import StructureError
from ..format import files
from ..format.checkpoints import LOG_STARTS, read_offset_checkpoint
from ..format.names import base_offset_of

if TYPE_CHECKING:
    from .discovery import PartitionDir, SegmentFile


class UnavailableSegmentError(OSError):
    """Raised if a segment that was listed or planned is missing or has changed, and retention does not explain it.

    `filename` is the path of the segment, `strerror` the reason.
    """

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def unavailable(segment: SegmentFile, reason: str, code: int = errno.ENOENT) -> UnavailableSegmentError:
    """Return the error for a segment that cannot be read as it was listed or planned."""
    return UnavailableSegmentError(code, reason, str(segment.path))


def check_retention(directory: PartitionDir, segment: SegmentFile) -> None:
    """Return if retention has removed `segment` since `directory` was listed; otherwise raise `UnavailableSegmentError`."""
    try:
        inode = os.stat(directory.path).st_ino
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
    if os.path.lexists(segment.path):
        raise unavailable(
            segment, "the file is listed but cannot be opened (a link that leads nowhere, or not a regular file)"
        )
    bases = sorted(base for name in names if (base := base_offset_of(name)) is not None)
    if not bases:
        raise unavailable(
            segment, "the file is missing, and its directory holds no segment any more: it was emptied or unmounted"
        )
    start = max(bases[0], _log_start_checkpoint(directory))
    if segment.base_offset is None or not _end(segment, bases[0]) <= start:
        what = f"the file is missing, but retention has not removed it: the log starts at offset {start}"
        raise unavailable(segment, f"{what}; if a broker compacted the log, or moved the partition, read it again")


def _end(segment: SegmentFile, first_base: int) -> int:
    """Return the offset after the last one that `segment` can hold.

    The last segment has no successor when it is listed. Retention rolls it before it deletes it, so a later segment follows.
    """
    assert segment.base_offset is not None
    if segment.next_base is not None:
        return segment.next_base
    return max(first_base, segment.base_offset + 1)


def _log_start_checkpoint(directory: PartitionDir) -> int:
    """Return the log start offset in the checkpoint next to the directory, or 0 if it says nothing."""
    if directory.state != "live":
        return 0
    try:
        text = files.read_text(directory.path.parent / LOG_STARTS)
        return read_offset_checkpoint(text or "", LOG_STARTS).get(directory.key, 0)
    except (OSError, StructureError):
        return 0
