"""Complete the replacement of segments that a broker was performing when it was killed (Kafka: ``LogLoader.load``).

The log cleaner writes a compacted copy of some segments to `.cleaned` files, and changes the suffix
to `.swap` when the copy is complete. Then it deletes the segments that the copy replaces, and
removes the suffix. A killed broker does this at its next start. If a writer truncated or deleted
records before, the broker would restore them. Therefore, the replacement is completed before a
partition is opened for writing.
"""

from __future__ import annotations

import re
from pathlib import Path

from ...constants import DEFAULT_MAX_BATCH_BYTES
from ...errors import StructureError
from ..findings import Damage, DamagedLogError
from ..formats import marker_reader
from ..storage import FileView, list_directory, sync_directory
from .index_builder import MAX_SEGMENT_BYTES, State, read_through

SWAP, CLEANED, DELETED = ".swap", ".cleaned", ".deleted"
_NAME = re.compile(r"([0-9]{20})\.")


def complete_swaps(folder: Path) -> None:
    """Replace segments of a partition directory with the `.swap` files that a broker has left, as Kafka does."""
    # A `.swap` file whose base offset is not below that of all `.cleaned` files belongs to an incomplete replacement.
    # If this function is interrupted, the next call completes the replacement. If a `.log.swap` file is damaged, no
    # file is changed.
    bases = {n: int(found[1]) for n in list_directory(folder)[1] if (found := _NAME.match(n)) is not None}
    swaps = [n for n in bases if n.endswith(SWAP)]
    if not swaps:
        return
    incomplete = min((base for n, base in bases.items() if n.endswith(CLEANED)), default=None)
    valid = [n for n in swaps if incomplete is None or bases[n] < incomplete]
    logs = [n for n in valid if n.endswith(f".log{SWAP}")]
    low = min((bases[n] for n in logs), default=0)
    high = max((_next_offset(folder / n, bases[n]) for n in logs), default=0)
    for name in swaps:
        if name not in valid:
            (folder / name).unlink()
    for name, base in bases.items():
        if low <= base < high and not name.endswith((SWAP, CLEANED, DELETED)):
            (folder / name).unlink()
    sync_directory(folder)
    for name in valid:
        (folder / name).rename(folder / name.removesuffix(SWAP))
    sync_directory(folder)


def _next_offset(path: Path, base: int) -> int:
    """Return the offset after the last record of a `.log.swap` file. If the file is damaged, raise DamagedLogError."""
    state = State(marker_reader(DEFAULT_MAX_BATCH_BYTES))
    with FileView(path) as view:
        found = read_through(view, base, state, max_batch_bytes=MAX_SEGMENT_BYTES)
        size = view.size
    if found.end < size:
        error = found.error or StructureError("the next batch is too far away from the base offset", found.end)
        message = (
            f"{error.message}. A broker was replacing segments with this file. If these segments still exist, delete "
            f"all {SWAP} files. Otherwise, remove {SWAP} from the file names, and salvage the directory"
        )
        damage = Damage(path.name, found.end, size - found.end, found.next_offset, None, error.code, message)
        raise DamagedLogError(damage, str(path.parent))
    return found.next_offset
