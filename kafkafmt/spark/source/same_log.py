"""Check that a task reads the log that the driver has planned.

The same path can refer to another directory on the host of the task, such as an incomplete copy. A
broker can also change the log between planning and tasks: the log cleaner replaces segments by
smaller ones, a preallocated segment is truncated to its data, and a topic can be deleted and created
again. Only an incomplete or outdated copy and a new topic are errors.
"""

from __future__ import annotations

from dataclasses import replace

from ...log import PartitionDir, SegmentFile
from ...log.catalog import unavailable
from ...log.damage import RunColumns, SegmentPlan, is_recorded, runs_lack_offsets
from ...log.storage import FileView, end_of_content, inode_of, only_zeros, start_of_last_hole
from ...support.paths import UrlPath


def data_size(segment: SegmentFile) -> int:
    """Return the size of a segment in bytes, without preallocated space at the end of the last one."""
    # A broker removes this space when it starts the next segment, possibly before a task reads the
    # log. Only a hole at the end of the file counts. If there is none, the segment is not read.
    if not _is_readable_end(segment):
        return segment.size
    try:
        with FileView(segment.place) as view:
            return segment.size if start_of_last_hole(view) >= segment.size else end_of_content(view)
    except OSError:  # tasks report the error
        return segment.size


def content_end(segment: SegmentFile) -> int | None:
    """Return the position after the last nonzero byte of the last segment, or None."""
    # For other segments, the offsets in the next segment show whether batches are missing. None
    # also means that the file is compressed, is not local or cannot be read.
    if not _is_readable_end(segment):
        return None
    try:
        with FileView(segment.place) as view:
            return end_of_content(view)
    except OSError:  # tasks report the error
        return None


def _is_readable_end(segment: SegmentFile) -> bool:
    """Return whether a segment is the last one, and its last bytes can be read without the bytes before them."""
    return segment.last and not isinstance(segment.place, UrlPath) and segment.name.endswith(".log")


def up_to_content(directory: PartitionDir) -> PartitionDir:
    """Return `directory` with its last segment ending after the last nonzero byte, for `check_complete`."""
    return replace(directory, segments=[_up_to_content(segment) for segment in directory.segments])


def _up_to_content(segment: SegmentFile) -> SegmentFile:
    content = content_end(segment)
    if content is None:
        return segment
    return SegmentFile(segment.folder, segment.name, segment.next_base, segment.last, content)


def check_content(segment: SegmentFile, content: int | None) -> None:
    """Raise OSError if a segment has less data than on the driver, where `content` is the end of its nonzero bytes."""
    # If the byte before this position is zero here, the file is an outdated copy, or a broker
    # truncated the log. The file size does not show this, because the space of an outdated copy can
    # be preallocated. If `content` is None, or if the file is missing or smaller, nothing is
    # checked here.
    if not content or isinstance(segment.place, UrlPath):
        return
    try:
        with FileView(segment.place, fill_unreadable=True) as view:
            zero = view.read(content - 1, 1) == b"\0" and not view.unreadable
    except OSError:  # reading the batches raises the error
        return
    if zero:
        raise unavailable(
            segment,
            f"the byte at position {content - 1} is zero on this host, but not on the driver: this host sees an outdated "
            "copy, or a broker truncated the log",
        )


def is_listed(directory: PartitionDir) -> bool:
    """Return whether the path of a partition still refers to the directory that the driver has listed."""
    return directory.inode is not None and inode_of(directory.path) == directory.inode


def topic_id_of(directory: PartitionDir) -> str | None:
    """Read the topic id on the driver. OSError: the directory was replaced after the driver had listed it."""
    # Otherwise, the id of the new log would be combined with the segments of the old log.
    topic_id = directory.read_topic_id()
    known = topic_id is not None and directory.inode is not None and directory.segments
    if known and not is_listed(directory):
        raise unavailable(
            directory.segments[0],
            "the directory was replaced after it was listed, for example because the topic was deleted and created "
            "again; repeat the query",
        )
    return topic_id


def check_topic_id(directory: PartitionDir, topic_id: str | None) -> None:
    """Raise OSError if the topic was created again since the driver read `topic_id`. An unknown id is no error."""
    if topic_id is None:
        return
    found = directory.read_topic_id()
    if found is not None and found != topic_id:
        raise unavailable(
            directory.segments[0],
            f"the topic id is {found} on this host, but {topic_id} on the driver: the topic was deleted and created again, "
            "or this host sees another log; repeat the query",
        )


def has_less_data(segment: SegmentFile, size: int) -> bool:
    """Return whether a segment has less data on this host, where it has `size` bytes, than on the driver."""
    # `segment` describes the file on the driver, see `up_to_content`.
    content = content_end(segment)
    return (size if content is None else content) < segment.size


def check_complete(plan: SegmentPlan, directory: PartitionDir) -> None:
    """Raise OSError if the segment of a plan lacks batches on this host."""
    # `plan.segment` describes the file on the driver, see `up_to_content`. A batch can end with
    # zeros, so valid batches and damage also count as data.
    segment = plan.segment
    ends = [_batches_end(plan), *(damage.position + damage.length for damage in plan.damaged[-1:])]
    if has_less_data(segment, plan.size) and max(ends) < segment.size and lacks_batches(plan, directory):
        found, zeros = (max(ends), ", without zeros at its end") if segment.last else (plan.size, "")
        raise unavailable(
            segment, f"the file has {found} bytes on this host, but {segment.size} bytes on the driver{zeros}"
        )


def lacks_batches(plan: SegmentPlan, directory: PartitionDir) -> bool:
    """Return whether a segment may lack batches that exist on the driver."""
    # This segment or a later one is smaller than on the driver. It lacks no batches if the file
    # ends after its last valid batch, or contains only zeros there; if it is not the last one,
    # because no offset would show missing batches; and if no offset is missing before the next
    # segment. In a compacted log, offsets may be missing if the path is the directory that the
    # driver has listed. An incomplete copy is another directory.
    segment, runs, end = plan.segment, RunColumns.of(plan.runs), _batches_end(plan)
    if end < plan.size:
        with FileView(segment.place, fill_unreadable=True) as view:
            if not only_zeros(view, end):
                return True
    if segment.next_base is None:
        return True
    if plan.next_offset == segment.next_base:
        return False
    compacted = runs_lack_offsets(runs) or is_recorded(directory)
    return not (compacted and is_listed(directory))


def _batches_end(plan: SegmentPlan) -> int:
    """Return the position after the last valid batch."""
    return max(int(RunColumns.of(found).end.max(initial=0)) for found in (plan.runs, plan.omitted))
