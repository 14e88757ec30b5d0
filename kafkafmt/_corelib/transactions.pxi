# Follow producers and transactions from batch to batch. Dicts of the caller contain the states.

from heapq import heappop, heappush

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


cdef object oldest_open(dict opened, list oldest):
    """Return the first offset of the oldest open transaction, or None. Remove ended transactions from the heap."""
    while oldest:
        first, producer = oldest[0]
        if opened.get(producer) == first:
            return first
        heappop(oldest)
    return None


cdef inline bint continues_producer(const Batch* row, const Batch* following) noexcept nogil:
    """Return whether `following` is a data batch of the same producer with the same transactional bit as `row`."""
    return (following.producer_id == row.producer_id and not following.attributes & CONTROL_BIT
            and not (following.attributes ^ row.attributes) & TRANSACTIONAL_BIT)


cdef inline object untracked(object values):
    """Exclude a tuple without references to containers from Python's search for reference cycles, and return it.

    With a hundred thousand producers, the search for reference cycles would take most of the time.
    """
    PyObject_GC_UnTrack(values)
    return values


cdef tuple NO_STATE = (None, None)


cdef inline tuple saved_state(entry, first):
    """Return the previous state of a producer. All new producers share one tuple."""
    return NO_STATE if entry is None and first is None else untracked((entry, first))


cdef int set_entry(const Batch* row, dict entries, dict opened, object producer, entry_type) except -1:
    """Store the state of a producer whose last data batch is `row`."""
    cdef object entry = entries.get(producer), first = opened.get(producer)
    cdef int32_t sequence = -1
    if row.base_sequence >= 0:
        sequence = <int32_t>((<int64_t>row.base_sequence + row.last_offset_delta) & MAX_INT32)
    entries[producer] = untracked(tuple.__new__(
        entry_type,
        (producer, row.producer_epoch, sequence, last_offset_object(row), row.last_offset_delta, row.max_timestamp,
         -1 if entry is None else entry[6], -1 if first is None else first)))
    return 0


def update_producers(rows, dict markers not None, dict entries not None, dict opened not None, list oldest not None, dict saved, entry_type):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), i
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef const Batch* row
    cdef list aborted = []
    cdef dict waiting = {}      # the rows of data batches that `entries` does not contain yet, by producer
    cdef object producer, entry, first, stable, at
    cdef int kind
    for i in range(n):
        row = &batches[i]
        if row.producer_id == NO_PRODUCER_ID:
            continue
        producer = row.producer_id
        if saved is not None and producer not in saved:
            saved[producer] = saved_state(entries.get(producer), opened.get(producer))
        if row.attributes & CONTROL_BIT:
            at = waiting.pop(producer, None)
            if at is not None:
                set_entry(&batches[<Py_ssize_t>at], entries, opened, producer, entry_type)
            entry = entries.get(producer)
            marker = markers.get(row.base_offset)
            if marker is None:
                continue
            kind = marker[0]
            if kind != CONTROL_ABORT and kind != CONTROL_COMMIT:
                continue
            # If the epoch changes, discard the last sequence number, because sequence numbers restart at 0.
            if entry is None or entry[1] != row.producer_epoch:
                entry = (producer, row.producer_epoch, -1, -1, 0)
            entries[producer] = untracked(tuple.__new__(
                entry_type, (producer, entry[1], entry[2], entry[3], entry[4], marker[1], marker[2], -1)))
            first = opened.pop(producer, None)
            if first is not None and kind == CONTROL_ABORT:
                stable = oldest_open(opened, oldest)
                aborted.append((producer, first, row.base_offset, <object>row.base_offset + 1 if stable is None else stable))
            continue
        if row.attributes & TRANSACTIONAL_BIT:
            first = opened.get(producer)
            if first is None or first < 0:
                opened[producer] = row.base_offset
                heappush(oldest, untracked((row.base_offset, producer)))
        if i + 1 < n and continues_producer(row, &batches[i + 1]):
            continue  # the next batch replaces the entry
        if producer in entries:
            waiting[producer] = i
        else:
            set_entry(row, entries, opened, producer, entry_type)
    for producer, at in waiting.items():
        set_entry(&batches[<Py_ssize_t>at], entries, opened, producer, entry_type)
    return aborted


def end_transactions(rows, dict markers not None, dict spans not None, dict saved not None):
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
        if producer not in saved:
            saved[producer] = span
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


cdef int write_hidden(int64_t* out, Py_ssize_t room, Py_ssize_t row, int64_t producer, int64_t first, int64_t last, int64_t kind) except -1:
    """Write a row of the array `hidden` of walk_transactions()."""
    if row == room:
        raise ValueError(f"`hidden` has {room} rows, which are too few")
    out += 4 * row
    out[0], out[1], out[2], out[3] = producer, first, last, kind
    return 0


cdef Py_ssize_t suspend(dict opened, int64_t offset, int64_t* out, Py_ssize_t room, Py_ssize_t count, set awaited) except -1:
    """Move all open transactions to the rows of `out`, from the row `count` on. Return the number of filled rows."""
    for producer, first in opened.items():
        write_hidden(out, room, count, producer, first, offset - 1, NO_MARKER)
        awaited.add(producer)
        count += 1
    opened.clear()
    return count


def walk_transactions(rows, start, places, dict markers not None, dict opened not None, dict next_markers not None, set awaited not None, dict last_markers not None, aborted, hidden):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(rows), m = len(places), room = len(hidden), i = natural(start), k = 0, count = 0
    cdef const Batch* batches = <const Batch*>required(arrays.take(rows, n, sizeof(Batch), False))
    cdef const int64_t* place = <const int64_t*>required(arrays.take(places, 2 * m, 8, False))
    cdef int64_t* out = <int64_t*>required(arrays.take(hidden, 4 * room, 8))
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
            count = suspend(opened, place[2 * k + 1], out, room, count, awaited)
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
        if awaited and producer in awaited:
            write_hidden(out, room, count, row.producer_id, row.base_offset, row.base_offset, kind)
            awaited.discard(producer)
            count += 1
        first = opened.pop(producer, None)
        last_markers[producer] = row.base_offset
        if kind == CONTROL_ABORT and first is not None:
            aborted[producer].append((first, row.base_offset))
    return i, count
