"""Read and write the bytes of files on disks, in archives and at URLs."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand
from .file_view import (
    FileView,
    aligned_buffer,
    content_size,
    fetch_ahead,
    file_differs,
    forget_ahead,
    open_ahead,
    read_bytes,
    read_text,
)
from .files import (
    Stamp,
    file_size,
    inode_of,
    is_file,
    joined,
    list_directory,
    list_links,
    list_with_sizes,
    mode_and_times,
    mode_of,
    modes_in,
    narrowed_mode,
    path_exists,
    real_path,
    stamp_of,
    times_of,
)
from .local_files import (
    NEW_FILE,
    append_to,
    create_file,
    open_regular,
    replace_file,
    sync_directory,
    sync_file,
    truncate_file,
    write_all,
    write_at,
    write_new,
)
from .preallocated import end_of_content, is_hole, occupied, only_zeros, start_of_last_hole
from .process import ForkSafeLock, OwnerLock, WrongProcessError, refuse_pickling
from .remote import AHEAD_BYTES
from .store_base import Store, StoredFile, Upload
from .stores import store_of
from .unreadable import DISK_ERRORS, NO_PERMISSION, UNREACHABLE, named, overlapping, raise_if_intact

if TYPE_CHECKING:
    from .span_copier import SpanCopier
    from .syncing import sync_tree
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "span_copier": ("SpanCopier",),
            "syncing": ("sync_tree",),
        },
    )  # fmt: skip

__all__ = [
    "AHEAD_BYTES", "DISK_ERRORS", "NEW_FILE", "NO_PERMISSION", "UNREACHABLE", "FileView",
    "ForkSafeLock", "OwnerLock", "SpanCopier", "Stamp", "Store", "StoredFile", "Upload",
    "WrongProcessError", "aligned_buffer", "append_to", "content_size", "create_file",
    "end_of_content", "fetch_ahead", "file_differs", "file_size", "forget_ahead", "inode_of", "is_file", "is_hole",
    "joined", "list_directory", "list_links", "list_with_sizes", "mode_and_times", "mode_of",
    "modes_in", "named", "narrowed_mode", "occupied", "only_zeros", "open_ahead", "open_regular", "overlapping",
    "path_exists", "raise_if_intact", "read_bytes", "read_text", "real_path", "refuse_pickling", "replace_file",
    "stamp_of", "start_of_last_hole", "store_of", "sync_directory", "sync_file", "sync_tree",
    "times_of", "truncate_file", "write_all", "write_at", "write_new",
]  # fmt: skip
