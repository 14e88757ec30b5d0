"""Read the states of idempotent and transactional producers from a log."""

from __future__ import annotations

from ..constants import NO_END
from ..errors import KafkaFormatError
from ..log import PartitionLog
from ..log.formats import (
    ProducerEntry,
    Producers,
    entries_of,
    file_name,
    marker_reader,
    offsets_in,
    read_markers,
    states_in,
)
from ..log.storage import list_directory, read_bytes


def read_producers(log: PartitionLog, max_batch_bytes: int, end: int = NO_END) -> list[ProducerEntry]:
    """Return the state of each producer at the offset `end` of a log, ordered by producer id."""
    # The states come from the latest readable producer snapshot before `end`, and are updated with
    # the batches after the snapshot. Damaged batches are skipped.
    start, producers = _latest_snapshot(log, end)
    reader = marker_reader(max_batch_bytes)
    for part in log.parts(start, end, lambda _: None) if start < end else ():
        table = part.table[(part.table["base_offset"] >= start) & (part.table["base_offset"] < end)]
        producers.add(table, read_markers(reader, part.buffer, table))
    return entries_of(producers.states)


def _latest_snapshot(log: PartitionLog, end: int) -> tuple[int, Producers]:
    """Return the latest readable producer snapshot at or before `end`, or offset 0 and no producers."""
    folder = log.directory.path
    offsets = offsets_in(list_directory(folder)[1], ".snapshot").keys()
    bases = {s.base_offset for s in log.segments if s.base_offset is not None and s.base_offset <= end}
    for offset in sorted(offsets & bases, reverse=True):
        try:
            return offset, Producers(states_in(read_bytes(folder / file_name(offset, ".snapshot")) or b""))
        except KafkaFormatError:
            continue
    return 0, Producers()
