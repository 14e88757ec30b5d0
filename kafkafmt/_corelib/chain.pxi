# Choose ranges of adjacent batches with increasing offsets and the largest total weight (see log/damage/conflicts.py).
#
# Such a range is called a run. Usually, one of the SCANNED runs before a run is its best predecessor.
# Otherwise, the runs within reach are indexed by their last offsets. For n runs, the function takes
# n * log(reach) steps.

from libc.stdlib cimport qsort

cdef enum:
    SCANNED = 16
    ADJACENT = 2        # Highest value of gap_score().


cdef struct Runs:
    const int64_t* first
    const int64_t* last
    const int64_t* before       # Number of offsets in all previous runs.
    const int64_t* damage
    int64_t* score
    Py_ssize_t count
    Py_ssize_t reach


cdef struct Place:
    int64_t last
    int32_t k


cdef struct Nearby:
    # Index of the runs from `begin` to `end`. The tree `all` contains the runs from `removed` to `added`. The tree
    # `apart` contains the runs from `removed` to `separated`, which damage separates from the current run. The
    # trees and the hash table do not contain the run directly before the current run, because only for this
    # run, gap_score() can be -2.
    Py_ssize_t chunk, begin, end, added, separated, removed
    Place* places               # The runs, sorted by last offset. `k` is relative to `begin`, as in the other arrays.
    int32_t* place_of           # Index in `places` of each run.
    int32_t* all                # Each node of a tree contains the best run below it, or -1.
    int32_t* apart
    int32_t* by_key             # Hash table with the last run for each key.
    uint64_t mask


cdef int compare_places(const void* a, const void* b) noexcept nogil:
    cdef const Place* p = <const Place*>a
    cdef const Place* q = <const Place*>b
    if p.last != q.last:
        return -1 if p.last < q.last else 1
    return -1 if p.k < q.k else p.k > q.k


cdef inline int64_t gap_score(const Runs* e, Py_ssize_t k, Py_ssize_t j) noexcept nogil:
    """Return how the score of a chain changes if the run `j` follows the run `k`.

    The values are those of `gap_scores` in log/damage/conflicts.py.
    """
    cdef int64_t gap = e.first[j] - e.last[k] - 1
    cdef int64_t omitted = e.before[j] - e.before[k + 1]
    if gap == 0:
        return ADJACENT
    if gap == omitted or e.damage[k] != e.damage[j]:
        return 0
    return -1 if omitted else -2


cdef inline int32_t better(const int64_t* score, int32_t a, int32_t b) noexcept nogil:
    """Return the run with the higher score. If the scores are equal, return the first run."""
    if a < 0 or b < 0:
        return max(a, b)
    if score[a] != score[b]:
        return a if score[a] > score[b] else b
    return min(a, b)


cdef inline void put(const int64_t* score, int32_t* tree, Py_ssize_t size, Py_ssize_t at, int32_t k) noexcept nogil:
    at += size
    tree[at] = k
    while at > 1:
        at >>= 1
        tree[at] = better(score, tree[2 * at], tree[2 * at + 1])


cdef inline int32_t best_between(const int64_t* score, const int32_t* tree, Py_ssize_t size, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """Return the best run whose place is in [low, high), or -1 if there is none."""
    cdef int32_t best = -1
    low += size
    high += size
    while low < high:
        if low & 1:
            best = better(score, best, tree[low])
            low += 1
        if high & 1:
            high -= 1
            best = better(score, best, tree[high])
        low >>= 1
        high >>= 1
    return best


cdef inline Py_ssize_t place_from(const Nearby* near, int64_t last) noexcept nogil:
    """Return the first place with a last offset of at least `last`."""
    cdef Py_ssize_t low = 0, high = near.end - near.begin, middle
    while low < high:
        middle = (low + high) >> 1
        if near.places[middle].last < last:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int32_t* entry_of(const Runs* e, Nearby* near, int64_t key) noexcept nogil:
    """Return the entry of the hash table for `key`. The key of a run is the difference between its end and the offsets before its end."""
    cdef uint64_t at = (<uint64_t>key * <uint64_t>0x9E3779B97F4A7C15) >> 32
    cdef Py_ssize_t k
    while True:
        at &= near.mask
        if near.by_key[at] < 0:
            break
        k = near.begin + near.by_key[at]
        if e.last[k] + 1 - e.before[k + 1] == key:
            break
        at += 1
    return &near.by_key[at]


cdef void index_runs(const Runs* e, Nearby* near, Py_ssize_t chunk) noexcept nogil:
    """Prepare the index for the predecessors of the `reach` runs from `chunk` on."""
    cdef Py_ssize_t size, i
    near.chunk, near.begin, near.end = chunk, max(chunk - e.reach, 0), min(chunk + e.reach, e.count)
    near.added = near.separated = near.removed = near.begin
    size = near.end - near.begin
    for i in range(size):
        near.places[i].last, near.places[i].k = e.last[near.begin + i], <int32_t>i
    qsort(near.places, size, sizeof(Place), compare_places)
    for i in range(size):
        near.place_of[near.places[i].k] = <int32_t>i
    memset(near.all, 0xFF, 2 * size * sizeof(int32_t))
    memset(near.apart, 0xFF, 2 * size * sizeof(int32_t))
    memset(near.by_key, 0xFF, (near.mask + 1) * sizeof(int32_t))


cdef Py_ssize_t best_predecessor(const Runs* e, Nearby* near, Py_ssize_t j) noexcept nogil:
    """Return the best predecessor of the run `j` among the runs within reach, or -1 if there is none.

    Only five runs must be compared:

    - the run `j` - 1
    - the best run whose last offset directly precedes the first offset of `j`
    - the best run that damage separates from `j`
    - the last run for which the omitted runs before `j` have as many offsets as are missing
    - the best of all runs
    """
    cdef Py_ssize_t size, k, best = -1, high, i
    cdef const int64_t* score
    cdef int64_t total, highest = 0
    cdef int32_t candidates[5]
    if near.chunk != j - j % e.reach:
        index_runs(e, near, j - j % e.reach)
    size, score = near.end - near.begin, e.score + near.begin
    while near.added < j - 1:
        k = near.added - near.begin
        put(score, near.all, size, near.place_of[k], <int32_t>k)
        entry_of(e, near, e.last[near.added] + 1 - e.before[near.added + 1])[0] = <int32_t>k
        near.added += 1
    while near.removed < j - e.reach:
        k = near.place_of[near.removed - near.begin]
        put(score, near.all, size, k, -1)
        put(score, near.apart, size, k, -1)
        near.removed += 1
    near.separated = max(near.separated, near.removed)
    while near.separated < j - 1 and e.damage[near.separated] != e.damage[j]:
        k = near.separated - near.begin
        put(score, near.apart, size, near.place_of[k], <int32_t>k)
        near.separated += 1
    high = place_from(near, e.first[j])
    candidates[0] = best_between(score, near.all, size, 0, high)
    candidates[1] = best_between(score, near.all, size, place_from(near, e.first[j] - 1), high)
    candidates[2] = best_between(score, near.apart, size, 0, high)
    candidates[3] = entry_of(e, near, e.first[j] - e.before[j])[0]
    candidates[4] = <int32_t>(j - 1 - near.begin) if e.last[j - 1] < e.first[j] else -1
    for i in range(5):
        k = near.begin + candidates[i]
        if candidates[i] >= 0 and k >= j - e.reach:
            total = e.score[k] + gap_score(e, k, j)
            if best < 0 or total > highest or (total == highest and k < best):
                best, highest = k, total
    return best


cdef bint indexable(const Runs* e, const int64_t* weight) noexcept nogil:
    """Return whether the values of the runs have the properties that `best_predecessor` requires."""
    cdef Py_ssize_t i
    cdef uint64_t width
    for i in range(e.count):
        width = <uint64_t>e.last[i] - <uint64_t>e.first[i] + 1
        if e.last[i] < e.first[i] or e.before[i + 1] <= e.before[i] or <uint64_t>e.before[i + 1] - <uint64_t>e.before[i] != width:
            return False
        if weight[i] <= 0 or (i and e.damage[i] < e.damage[i - 1]):
            return False
    return True


cdef bint allocate_index(const Runs* e, Nearby* near) noexcept:
    cdef Py_ssize_t size = min(e.count, 2 * e.reach)
    near.chunk = -1
    near.mask = 1
    while <Py_ssize_t>near.mask < 2 * size:
        near.mask = 2 * near.mask + 1
    near.places = <Place*>malloc(size * sizeof(Place))
    near.place_of = <int32_t*>malloc(size * sizeof(int32_t))
    near.all = <int32_t*>malloc(2 * size * sizeof(int32_t))
    near.apart = <int32_t*>malloc(2 * size * sizeof(int32_t))
    near.by_key = <int32_t*>malloc((near.mask + 1) * sizeof(int32_t))
    return near.places != NULL and near.place_of != NULL and near.all != NULL and near.apart != NULL and near.by_key != NULL


cdef void free_index(Nearby* near) noexcept:
    free(near.places)
    free(near.place_of)
    free(near.all)
    free(near.apart)
    free(near.by_key)


def heaviest_chain(first, last, weight, left_out, damage, start_bonus, parent, score, reach):
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t n = len(first), j, k, best, nearest
    cdef Runs e
    cdef Nearby near
    e.count, e.reach = n, min(natural(reach), n)
    e.first = <const int64_t*>required(arrays.take(first, n, 8, False))
    e.last = <const int64_t*>required(arrays.take(last, n, 8, False))
    cdef const int64_t* weights = <const int64_t*>required(arrays.take(weight, n, 8, False))
    e.before = <const int64_t*>required(arrays.take(left_out, n + 1, 8, False))
    e.damage = <const int64_t*>required(arrays.take(damage, n, 8, False))
    cdef const int64_t* bonuses = <const int64_t*>required(arrays.take(start_bonus, n, 8, False))
    cdef int64_t* parents = <int64_t*>required(arrays.take(parent, n, 8))
    e.score = <int64_t*>required(arrays.take(score, n, 8))
    cdef int64_t highest
    cdef bint indexed = e.reach > SCANNED and n > SCANNED and indexable(&e, weights)
    cdef int64_t* tops = <int64_t*>malloc(max(n, 1) * sizeof(int64_t))     # Highest score up to each run.
    cdef bint allocated = not indexed or allocate_index(&e, &near)
    if tops != NULL and allocated:
        with nogil:
            for j in range(n):
                best = -1
                highest = INT64_MIN
                nearest = max(j - e.reach, 0)
                k = j - 1
                while k >= nearest and (best < 0 or tops[k] + ADJACENT >= highest):
                    if indexed and k < j - SCANNED:
                        best = best_predecessor(&e, &near, j)
                        highest = e.score[best] + gap_score(&e, best, j) if best >= 0 else INT64_MIN
                        break
                    if e.last[k] < e.first[j] and e.score[k] + gap_score(&e, k, j) >= highest:
                        highest = e.score[k] + gap_score(&e, k, j)      # If scores are equal, prefer the first run.
                        best = k
                    k -= 1
                e.score[j] = bonuses[j] + weights[j]
                parents[j] = -1
                if best >= 0 and highest > bonuses[j]:
                    e.score[j] = highest + weights[j]
                    parents[j] = best
                tops[j] = e.score[j] if j == 0 else max(tops[j - 1], e.score[j])
    free(tops)
    if indexed:
        free_index(&near)
    if tops == NULL or not allocated:
        raise MemoryError
