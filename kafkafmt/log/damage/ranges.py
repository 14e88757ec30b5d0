"""Read the batches of an offset range without reading the whole segment.

The first batch is found by reading batch headers only. Batches are accepted only if their CRCs
match and their offsets are consistent.
"""

from __future__ import annotations

from ...constants import MAGIC_V2, MAX_OFFSET, MAX_RELATIVE_OFFSET
from ...errors import KafkaFormatError
from ..scanning import read_head, total
from ..storage import FileView
from .parts import Run
from .segment_walker import Walker


def sound_runs(walker: Walker, position: int, start: int, end: int, gaps: bool = False) -> list[Run] | None:
    """Read and check the batches with offsets in [start, end), from that at `position` on, or return None."""
    # They may begin before `start` and end after `end`, or at the end of the file. None: a batch is damaged, offsets
    # are missing and `gaps` is False, or the next batch header contradicts the offsets.
    runs: list[Run] = []
    for at, _, rows, error in walker.tables(position, walker.size):
        if ((rows["count"] < 0) & (rows["magic"] < MAGIC_V2)).any():
            return None  # the offsets of wrapper messages can be checked only if the whole segment is read
        for part in walker.runs(rows, at, cut_gaps=True) if len(rows) else []:
            expected = runs[-1].last_offset + 1 if runs else min(start, part.first_offset)
            follows = part.dense and part.first_offset == expected
            if (
                part.first_offset < max(expected, walker.base_offset)
                or not (follows or gaps)
                or part.last_offset == MAX_OFFSET
                or part.last_offset - (expected or part.first_offset) > MAX_RELATIVE_OFFSET
            ):
                return None
            if runs and part.end - runs[-1].position <= walker.run_bytes:
                runs[-1].dense = runs[-1].dense and follows
                runs[-1].end, runs[-1].last_offset = part.end, part.last_offset
                runs[-1].batches += part.batches
                runs[-1].records = total(runs[-1].records, part.records)
            else:
                runs.append(part)
            if part.last_offset + 1 >= end:
                sure = follows and (gaps or part.batches > 1 or runs[0] is not part)
                return None if _contradicted(walker.view, part, sure, gaps) else runs
        if error is not None:
            return None
    return runs


def _contradicted(view: FileView, run: Run, sure: bool, gaps: bool) -> bool:
    """Return whether the next batch header shows that the last offsets in `run` are wrong."""
    if run.end == view.size:
        return False
    try:
        first = read_head(view, run.end).first_offset
    except KafkaFormatError:
        return not sure
    return first <= run.last_offset or not (sure or gaps or first == run.last_offset + 1)
