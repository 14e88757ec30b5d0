# Follow transactions from batch to batch. Dicts of the caller contain the states.

cdef struct Marker:
    bint exists                 # whether the control batch contains a marker
    int kind
    int64_t timestamp
    int32_t coordinator_epoch


cdef inline bint read_marker(const uint8_t* data, Py_ssize_t size, const Batch* row, Marker* marker) noexcept nogil:
    """Read the marker in a control batch. Return False if the batch is not plain.

    A plain control batch is uncompressed, and has no records or exactly one valid record without
    headers.
    """
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int32_t length = 0, delta = 0, key_length = 0, value_length = 0
    cdef int64_t timestamp_delta = 0
    marker.exists = False
    if row.magic != MAGIC_V2 or row.attributes & CODEC_MASK or row.base_offset < 0 or row.last_offset_delta < 0:
        return False
    if row.payload_position < 0 or row.payload_size < 0 or row.payload_position > size - row.payload_size:
        return False
    if row.count != 1:
        return row.count == 0
    p = data + row.payload_position
    end = p + row.payload_size
    p = get_varint(p, end, &length)
    if p == NULL or length < 1 or length != end - p:
        return False
    p = get_varlong(p + 1, end, &timestamp_delta)      # skip the record's attributes, which are unused
    if p == NULL:
        return False
    p = get_varint(p, end, &delta)
    if p == NULL or delta != 0:
        return False
    key = get_varint(p, end, &key_length)
    if key == NULL or key_length > end - key:
        return False
    value = get_varint(key + max(key_length, 0), end, &value_length)
    if value == NULL or value_length > end - value:
        return False
    p = value + max(value_length, 0)
    if end - p != 1 or p[0] != 0:                       # the number of headers
        return False
    if key_length >= 4:
        marker.exists = True
        marker.kind = <uint16_t>int16_at(key + 2)
        marker.timestamp = row.max_timestamp
        if not row.attributes & LOG_APPEND_TIME_BIT:
            marker.timestamp = <int64_t>(<uint64_t>row.base_timestamp + <uint64_t>timestamp_delta)
        marker.coordinator_epoch = int32_at(value + 2) if value_length >= 6 else -1
    return True


def read_markers(buffer, rows, marker_type):
    cdef Source source = Source(buffer)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef Marker marker
    cdef dict found = {}
    for i in range(n):
        if batches[i].attributes & CONTROL_BIT:
            if not read_marker(source.data, source.size, &batches[i], &marker):
                return None
            if marker.exists:
                found.setdefault(batches[i].base_offset,
                                 tuple.__new__(marker_type, (marker.kind, marker.timestamp, marker.coordinator_epoch)))
    return found


cdef object last_offset_object(const Batch* row):
    """Return the base offset plus the last offset delta. The sum can exceed 64 bits."""
    if 0 <= row.base_offset <= INT64_MAX - MAX_INT32:
        return row.base_offset + row.last_offset_delta
    return <object>row.base_offset + row.last_offset_delta


cdef inline object untracked(object values):
    """Exclude a tuple without references to containers from Python's search for reference cycles, and return it.

    With a hundred thousand producers, the search for reference cycles would take most of the time.
    """
    PyObject_GC_UnTrack(values)
    return values


def end_transactions(rows, dict markers not None, dict spans not None):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef const Batch* row
    cdef list ended = []
    cdef object producer, span
    cdef int kind
    for i in range(n):
        row = &batches[i]
        if not row.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            continue
        producer = row.producer_id
        span = spans.get(producer)
        if not row.attributes & CONTROL_BIT:
            first = row.base_offset if span is None else span[0]
            last = last_offset_object(row) if row.last_offset_delta > 0 else row.base_offset
            spans[producer] = untracked((first, last))
            continue
        marker = markers.get(row.base_offset)
        if marker is None:
            continue
        kind = marker[0]
        if kind == CONTROL_ABORT or kind == CONTROL_COMMIT:
            first, last = spans.pop(producer, (-1, -1))
            ended.append((producer, first, last, kind, row.base_offset))
    return ended


cdef Py_ssize_t suspend(dict opened, int64_t offset, int64_t* out, Py_ssize_t room, Py_ssize_t count) except -1:
    """Move all open transactions to the rows of `out`, from the row `count` on. Return the number of filled rows."""
    for producer, first in opened.items():
        if count == room:
            raise ValueError(f"`hidden` has {room} rows, which are too few")
        out[3 * count], out[3 * count + 1], out[3 * count + 2] = <int64_t>producer, <int64_t>first, offset - 1
        count += 1
    opened.clear()
    return count


def walk_transactions(rows, start, places, dict markers not None, dict opened not None, dict next_markers not None, aborted, hidden):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), m = len(places), room = len(hidden), i = natural(start), k = 0, count = 0
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef const int64_t* place = <const int64_t*>required(arrays.take(places, 2 * m, 8, False))
    cdef int64_t* out = <int64_t*>required(arrays.take(hidden, 3 * room, 8))
    cdef const Batch* row
    cdef bint indexed = len(next_markers) > 0
    cdef object producer, first, at
    cdef int kind
    cdef Py_ssize_t low = 0, high = m
    while low < high:                       # skip the places before the row `start`
        k = (low + high) // 2
        if place[2 * k] < i:
            low = k + 1
        else:
            high = k
    k = low
    while i < n:
        row = &batches[i]
        while k < m and place[2 * k] <= i:
            count = suspend(opened, place[2 * k + 1], out, room, count)
            k += 1
        if not row.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT):
            i += 1
            continue
        producer = row.producer_id
        if indexed:
            at = next_markers.get(producer)
            if at is not None and at < row.base_offset:
                break
        if not row.attributes & CONTROL_BIT:
            if producer not in opened:
                opened[producer] = row.base_offset
            i += 1
            continue
        marker = markers.get(row.base_offset)
        if marker is None and row.attributes & TRANSACTIONAL_BIT:
            break
        i += 1
        if marker is None:
            continue
        kind = marker[0]
        if kind != CONTROL_ABORT and kind != CONTROL_COMMIT:
            continue
        first = opened.pop(producer, None)
        if kind == CONTROL_ABORT and first is not None:
            aborted[producer].append((first, row.base_offset))
    return i, count


@cython.boundscheck(True)
cdef inline tuple span_at(list spans, Py_ssize_t i):
    """Return the item `i` of the caller's list.

    The bounds are checked, because converting an offset to int64 can call Python code that shortens the list.
    """
    cdef object span = spans[i]
    if not PyTuple_CheckExact(span) or PyTuple_GET_SIZE(span) != 2:
        raise TypeError("a span must be a tuple of two offsets")
    return <tuple>span


cdef inline Py_ssize_t last_span_from(list spans, int64_t offset) except -2:
    """Return the index of the last span that begins at or before `offset`, or -1 if there is none. The spans are sorted."""
    cdef Py_ssize_t low = 0, middle, high = len(spans)
    while low < high:
        middle = (low + high) // 2
        if <int64_t>span_at(spans, middle)[0] <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


def keep_committed(rows, aborted, dict opened not None, keep):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), kept = n, i, k
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef uint8_t* kept_rows = <uint8_t*>required(arrays.take(keep, n, 1))
    cdef const Batch* row
    cdef object producer, first, found
    cdef list spans
    for i in range(n):
        row = &batches[i]
        kept_rows[i] = True
        if row.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) != TRANSACTIONAL_BIT:
            continue
        producer = row.producer_id
        first = opened.get(producer)
        if first is None or <int64_t>first > row.base_offset:
            found = aborted.get(producer)
            if found is None:
                continue
            if not isinstance(found, list):
                raise TypeError("the spans of a producer must be a list")
            spans = <list>found
            k = last_span_from(spans, row.base_offset)
            if k < 0 or <int64_t>span_at(spans, k)[1] < row.base_offset:
                continue
        kept_rows[i] = False
        kept -= 1
    return kept
