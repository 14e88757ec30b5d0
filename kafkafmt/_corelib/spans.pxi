# Select the byte ranges of a file to copy, and the byte ranges to read with one call.


def spans_outside(holes, spans, found):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(spans), m = len(holes), room = len(found), i, k, count = 0
    cdef const int64_t* span = <const int64_t*>required(arrays.take(spans, 2 * n, 8, False))
    cdef const int64_t* hole = <const int64_t*>required(arrays.take(holes, 2 * m, 8, False))
    cdef int64_t* out = <int64_t*>required(arrays.take(found, 2 * room, 8))
    cdef int64_t start, end, stop
    cdef Py_ssize_t low, high
    with nogil:
        for i in range(n):
            start, end = span[2 * i], span[2 * i + 1]
            low, high = 0, m
            while low < high:
                k = (low + high) // 2
                if hole[2 * k] < start:
                    low = k + 1
                else:
                    high = k
            for k in range(low, m + 1):
                stop = end if k == m or hole[2 * k] >= end else hole[2 * k]
                if stop < start and stop != end:        # the hole begins inside the previous hole
                    continue
                if start < stop:
                    if count < room:
                        out[2 * count], out[2 * count + 1] = start, stop
                    count += 1
                if stop == end:
                    break
                start = hole[2 * k + 1]
    if count > room:
        raise ValueError(f"an array with space for at least {count} byte ranges is needed; this one has space for {room}")
    return count


def next_spans(spans, first, largest, most, window, positions, lengths):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(spans), begin = natural(first), room = min(len(positions), len(lengths)), i, k, count = 0
    cdef const int64_t* span = <const int64_t*>required(arrays.take(spans, 2 * n, 8, False))
    cdef int64_t* position = <int64_t*>required(arrays.take(positions, room, 8))
    cdef int32_t* length = <int32_t*>required(arrays.take(lengths, room, 4))
    cdef int64_t small = min(natural(largest), MAX_INT32), most_bytes = natural(most), reach = natural(window)
    cdef int64_t low = 0, high = 0, total = 0, start, end
    if begin >= n:
        raise ValueError(f"first is {first}, but there are {n} byte ranges")
    i = begin
    with nogil:
        while i < n:
            start, end, k = span[2 * i], span[2 * i + 1], i + 1
            while k < n and span[2 * k] == end:
                end = span[2 * k + 1]
                k += 1
            if not count:
                low, high = start, end
            if (
                count == room
                or end - start > small
                or total + end - start > most_bytes
                or max(high, end) - min(low, start) > reach
            ):
                if not count:
                    i = k
                break
            low, high = min(low, start), max(high, end)
            total += end - start
            position[count], length[count] = start, <int32_t>(end - start)
            count += 1
            i = k
        for k in range(count):
            position[k] -= low
    return i - begin, count, low, high - low
