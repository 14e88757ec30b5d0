"""Decide which damaged byte ranges of a segment can contain a transaction marker."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...constants import ENTRY_OVERHEAD, LENGTH_AT, NO_END
from ...support.paths import Location
from ...types import IntArray
from ..damage import DamageColumns, Events
from ..findings import Damage
from ..scanning import MARKER_SIZE
from ..storage import FileView

WINDOW = 64 << 10  # largest number of bytes that are read at once to get the length fields of damaged batches


def is_harmless(damaged: Sequence[Damage]) -> bool:
    """Return whether each damaged byte range is exactly one batch that is larger than a marker, and not misplaced."""
    # Such a batch contains no marker, and has not overwritten one.
    spans = DamageColumns.of(damaged)
    return not len(spans.length) or bool((spans.whole & ~spans.misplaced & (spans.length > MARKER_SIZE)).all())


def can_hide_markers(path: Location | str, damaged: Sequence[Damage]) -> npt.NDArray[np.bool_]:
    """Return a mask that is True for each damaged byte range that can contain a transaction marker."""
    # Damage contains no marker if no offset is missing, or if it is exactly one batch that is larger than a marker. A
    # misplaced batch can have overwritten a marker. The segment is opened only for damage that is undecided otherwise.
    # If it does not exist, the mask is True for this damage.
    spans = DamageColumns.of(damaged)
    large = (spans.length > MARKER_SIZE) & ~spans.misplaced
    hides = ~(large & spans.whole)
    if not hides.any():  # true for most segments with damage
        return hides
    hides &= ~spans.empty | spans.misplaced
    large &= hides
    if (unknown := np.flatnonzero(large)).size:
        try:
            with FileView(path, fill_unreadable=True) as view:
                lengths = _length_fields(view, spans.position[unknown])
        except FileNotFoundError:
            return hides
        hides[unknown] = lengths + ENTRY_OVERHEAD != spans.length[unknown]
    return hides


def _length_fields(view: FileView, positions: IntArray) -> IntArray:
    """Return the length fields of the batches at the given file positions. Read nearby fields with one call."""
    order = np.argsort(positions, kind="stable")
    at = positions[order] + LENGTH_AT
    fields = np.zeros((len(at), 4), np.uint8)
    buffer = np.empty(WINDOW, np.uint8)
    start = 0
    while start < len(at):
        low = int(at[start])
        stop = int(np.searchsorted(at, low + WINDOW - 4, "right"))
        size = int(at[stop - 1]) - low + 4
        got = view.read_into(buffer[:size], low)
        buffer[got:size] = 0
        fields[start:stop] = buffer[(at[start:stop] - low)[:, np.newaxis] + np.arange(4)]
        start = stop
    lengths = np.empty(len(at), np.int64)
    lengths[order] = fields.view(">i4")[:, 0]
    return lengths


class HidingPlaces:
    """Finds the places in a segment at which damage can contain transaction markers, at the first `take`."""

    def __init__(self, path: Location | str, events: Events) -> None:
        self._path = path
        self._events = events
        self._taken = 0

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Return the first offset of the valid batches after each place, and the first that may be missing there."""
        # The second array has one more item if a place is at the end of the segment, where no valid batches follow.
        damaged, runs = self._events.damaged, self._events.runs.columns
        hides = np.flatnonzero(can_hide_markers(self._path, damaged))
        if not len(hides):
            return hides, hides
        spans = DamageColumns.of(damaged)
        # `counts[i]`: number of items of `hides` before the valid range `i`. The last item counts all of them.
        counts = np.searchsorted(hides, np.array(self._events.damage_before, np.int64))
        counts_before = np.concatenate(([0], counts[:-1]))
        hidden = counts > counts_before
        # A batch out of place may have overwritten the batches before it, also before other accepted batches.
        gap = np.zeros(len(counts), bool)
        if spans.misplaced[hides].any():
            gap[1:-1] = runs.first[1:] > runs.last[:-1] + 1
        places = np.flatnonzero(hidden | gap)
        first = np.append(0, runs.last + 1)[places]
        at = hidden[places]
        first[at] = spans.first[hides[counts_before[places[at]]]]
        return runs.first[places[places < len(runs)]], first

    def take(self, offset: int) -> tuple[IntArray, IntArray]:
        """Return the places before the batch at `offset` that earlier calls have not returned (see `_places`)."""
        # If `offset` is NO_END, the second array also contains the place at the end.
        following, first = self._places
        if not len(first):
            return following, first
        start = self._taken
        self._taken = len(first) if offset == NO_END else int(np.searchsorted(following, offset, "right"))
        return following[start : self._taken], first[start : self._taken]
