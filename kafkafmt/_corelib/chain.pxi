# Choose ranges of adjacent batches with increasing offsets and the largest total weight (see log/reading/conflicts.py).
#
# Such a range is called an extent. For n extents, the function takes n * reach steps.


def heaviest_chain(first, last, weight, left_out, damage, start_bonus, parent, score, reach):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(first), j, k, best, nearest = natural(reach)
    cdef const int64_t* firsts = <const int64_t*>required(arrays.take(first, n, 8, False))
    cdef const int64_t* lasts = <const int64_t*>required(arrays.take(last, n, 8, False))
    cdef const int64_t* weights = <const int64_t*>required(arrays.take(weight, n, 8, False))
    cdef const int64_t* before = <const int64_t*>required(arrays.take(left_out, n + 1, 8, False))
    cdef const int64_t* damaged = <const int64_t*>required(arrays.take(damage, n, 8, False))
    cdef const int64_t* bonuses = <const int64_t*>required(arrays.take(start_bonus, n, 8, False))
    cdef int64_t* parents = <int64_t*>required(arrays.take(parent, n, 8))
    cdef int64_t* scores = <int64_t*>required(arrays.take(score, n, 8))
    cdef int64_t gap, bonus, highest
    cdef int64_t* tops = <int64_t*>malloc(max(n, 1) * sizeof(int64_t))     # Highest score up to each extent.
    if tops == NULL:
        raise MemoryError
    with nogil:
        for j in range(n):
            best = -1
            highest = INT64_MIN
            k = j - 1
            while k >= 0 and k >= j - nearest and (best < 0 or tops[k] + 1 >= highest):    # The bonus is at most 1.
                if lasts[k] < firsts[j]:
                    gap = firsts[j] - lasts[k] - 1
                    bonus = 1 if gap == 0 else 0 if gap == before[j] - before[k + 1] or damaged[k] != damaged[j] else -1
                    if scores[k] + bonus >= highest:        # If scores are equal, prefer the earliest extent.
                        highest = scores[k] + bonus
                        best = k
                k -= 1
            scores[j] = bonuses[j] + weights[j]
            parents[j] = -1
            if best >= 0 and highest > bonuses[j]:
                scores[j] = highest + weights[j]
                parents[j] = best
            tops[j] = scores[j] if j == 0 else max(tops[j - 1], scores[j])
    free(tops)
