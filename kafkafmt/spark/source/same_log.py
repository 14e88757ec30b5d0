"""Check that a task reads the log that the driver has planned.

The same path can refer to another directory on the host of the task, such as an incomplete copy. A
broker can also change the log between planning and tasks: the log cleaner replaces segments by
smaller ones, a preallocated segment is truncated to its data, and a topic can be deleted and created
again. Only an incomplete copy and a new topic are errors.
"""

from __future__ import annotations

from dataclasses import replace

from ...log import PartitionDir, SegmentFile
from ...log.format import files
from ...log.format.file_view import FileView
from ...log.format.preallocated import end_of_content, only_zeros, start_of_last_hole
from ...log.reading.missing import unavailable
from ...log.reading.parts import RunColumns
from ...log.reading.plan import SegmentPlan
from ...paths import UrlPath


def without_hole(directory: PartitionDir) -> PartitionDir:
    """Return a copy of `directory`, in which no segment size includes preallocated space. See `data_size`."""
    return replace(directory, segments=[with_data_size(segment) for segment in directory.segments])


def with_data_size(segment: SegmentFile) -> SegmentFile:
    """Return a segment whose size does not include preallocated space. See `data_size`."""
    if not segment.last or (size := data_size(segment)) == segment.size:
        return segment
    return SegmentFile(segment.folder, segment.name, segment.next_base, segment.last, size)


def data_size(segment: SegmentFile) -> int:
    """Return the size of a segment in bytes, without the preallocated space at its end.

    A broker removes this space when it starts the next segment, possibly before a task reads the log.
    """
    if isinstance(segment.place, UrlPath) or not segment.name.endswith(".log"):
        return segment.size
    try:
        with FileView(segment.place) as view:
            return segment.size if start_of_last_hole(view) >= segment.size else end_of_content(view)
    except OSError:  # tasks report the error
        return segment.size


def is_listed(directory: PartitionDir) -> bool:
    """Return whether the path of a partition still refers to the directory that the driver has listed."""
    return directory.inode is not None and files.inode(directory.path) == directory.inode


def check_topic_id(directory: PartitionDir, topic_id: str | None) -> None:
    """Raise OSError if the topic was deleted and created again since the driver read its id, `topic_id`.

    If one of the ids is not known, no error is raised.
    """
    if topic_id is None:
        return
    found = directory.read_topic_id()
    if found is not None and found != topic_id:
        raise unavailable(
            directory.segments[0],
            f"the topic id is {found} on this host, but {topic_id} on the driver: the topic was deleted and created again, "
            "or this host sees another log; repeat the query",
        )


def lacks_batches(plan: SegmentPlan, directory: PartitionDir) -> bool:
    """Return whether a segment may lack batches on this host, where it or a later segment is smaller than on the driver.

    No batch is missing if the file ends with a valid batch, or with zeros after it, and no offset is
    missing before the next segment. In a compacted log, offsets may be missing before the next
    segment. Then the path must refer to the directory that the driver has listed, because an
    incomplete copy is in another directory. After the last segment, there is no next offset to
    compare, so batches may always be missing.
    """
    segment, runs = plan.segment, RunColumns.of(plan.extents)
    end = max(int(found.end.max(initial=0)) for found in (runs, RunColumns.of(plan.omitted)))
    if end < plan.size:
        with FileView(segment.place, fill_unreadable=True) as view:
            if not only_zeros(view, end):
                return True
    if plan.next_offset == segment.next_base:
        return False
    if segment.next_base is None:
        return True
    compacted = directory.cleaned or not all(runs.dense.tolist())
    return not (compacted and is_listed(directory))
