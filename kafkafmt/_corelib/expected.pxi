# Find the lowest offset that the batch after a valid batch can have (see _pure/expected.py).

cdef enum:
    FAR = 3                   # _pure/expected.py defines the same values.
    DOUBTFUL_BYTES = 1 << 20


cdef inline double distance(int64_t low, int64_t high) noexcept nogil:
    """Return `high` - `low`, or 0 if this is negative."""
    return <double>(<uint64_t>high - <uint64_t>low) if high > low else 0.0


cdef inline bint is_far(int64_t first, int64_t last_offset, int64_t size, int64_t lost, int64_t expected, const int64_t* anchor) noexcept nogil:
    """Return whether `lost` bytes are too few for the offsets that are missing before a batch."""
    cdef double before = 0
    if anchor[0] > 0:
        before = distance(anchor[1], expected) / <double>anchor[0]
    return distance(expected, first) > FAR * <double>lost * max(before, (distance(first, last_offset) + 1.0) / <double>size)


cdef inline bint follows(int64_t first, int64_t before) noexcept nogil:
    return before < INT64_MAX and first == before + 1


cdef inline int64_t next_expected(int64_t first, int64_t last_offset, int64_t position, int64_t end, int64_t expected, int64_t last,
                                  bint known, int64_t* anchor) noexcept nogil:
    """Return the lowest offset that the batch after a valid batch can have. `last` is used only if it is `known`."""
    cdef int64_t before = last if known else expected - 1, lost
    cdef bint continues = known and follows(first, last), certain
    if anchor != NULL:
        lost, certain = end - anchor[0], anchor[0] == position
        if lost <= DOUBTFUL_BYTES and (
            (not certain and (continues or first < expected))
            or (not continues and is_far(first, last_offset, end - position, lost, expected, anchor))
        ):
            return expected
        if not certain and not continues:
            before = expected - 1
        anchor[0] = end
    before = last_offset if follows(first, before) else min(before, last_offset)
    return before + 1 if before < INT64_MAX else INT64_MAX


def expected_after(rows, firsts, start, expected, last, anchor):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef const int64_t* first_offsets = <const int64_t*>required(arrays.take(firsts, n, 8, False))
    cdef int64_t* certain = <int64_t*>required(arrays.take(anchor, 2, 8))
    cdef int64_t lowest = expected, origin = start, previous = 0 if last is None else last, last_offset, position
    cdef bint known = last is not None
    cdef const Batch* row
    for i in range(n):
        row = &batches[i]
        last_offset, position = last_offset_of(row), origin + row.position
        lowest = next_expected(first_offsets[i], last_offset, position, position + row.size, lowest, previous, known, certain)
        previous, known = last_offset, True
    return lowest, previous if known else None
