# Recognize a damaged batch that the end of the file cuts off. A broker that crashes leaves such a batch.

cdef enum:
    UNKNOWN = -1
    MOST_CHECKED_RECORDS = 1 << 14


cdef int cuts_off(const uint8_t* data, Py_ssize_t size, int64_t at, int64_t end, int64_t file_end) noexcept nogil:
    """Return whether the file ends inside the damaged batch at `at`, or UNKNOWN if this depends on bytes after `data`.

    `end` is the end of the batch according to its length field. All positions are relative to `data`,
    and 61 bytes are available at `at`.
    """
    cdef const uint8_t* p = data + at
    cdef const uint8_t* stop
    cdef int64_t position
    cdef int32_t left, length = 0
    if end <= file_end or end > INT64_MAX - MAX_INT32 or p[MAGIC_AT] > MAGIC_V2:
        return False
    if p[MAGIC_AT] < MAGIC_V2:
        position = LEGACY_KEY_AT_V1 if p[MAGIC_AT] else LEGACY_KEY_AT_V0
        length = int32_at(p + position)
        position += at + 4 + max(length, 0)
        if length < -1 or position + 4 > file_end:
            return False
        if position + 4 > size:
            return UNKNOWN
        return position + 4 + int32_at(data + position) == end
    left = int32_at(p + COUNT_AT)
    if p[ATTRIBUTES_AT + 1] & CODEC_MASK or not 0 < left <= MOST_CHECKED_RECORDS:
        return False
    position = at + BATCH_HEADER_SIZE
    while left > 0:
        if position >= file_end:
            return True
        if position >= size:
            return UNKNOWN
        stop = get_varint(data + position, data + min(size, file_end), &length)
        if stop == NULL:
            if position + 5 <= min(size, file_end):
                return False
            if size < file_end:
                return UNKNOWN
            return True
        left -= 1
        position = stop - data + length
        if length < MIN_RECORD_SIZE - 1 or position > end - <int64_t>left * MIN_RECORD_SIZE or (left == 0 and position != end):
            return False
    return True                 # The last record ends exactly at the end of the batch, which is after the end of the file.


def is_cut_off(buffer, position, end, file_end):
    cdef Source source = Source(buffer)
    cdef int64_t at = natural(position)
    cdef int found
    if at + BATCH_HEADER_SIZE > source.size:
        return None if source.size < file_end else False
    found = cuts_off(source.data, source.size, at, end, file_end)
    return None if found == UNKNOWN else bool(found)
