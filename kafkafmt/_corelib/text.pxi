# Append numbers, times and escaped strings to a growing text buffer.

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc

cdef extern from *:
    """
    /* Return how many of the 8 bytes at `p` come before the first byte that is below 0x20, above
     * 0x7e, or equal to the byte that is repeated in `a` or in `b`. Each of these tests finds the
    * first such byte exactly; bytes after it can be marked by mistake. */
    static CYTHON_INLINE int kf_plain_bytes(const uint8_t *p, uint64_t a, uint64_t b)
    {
    #if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        const uint64_t ones = 0x0101010101010101u;
        uint64_t w, marked;
        memcpy(&w, p, 8);
        marked = ((w - ones * 0x20) | ((w ^ a) - ones) | ((w ^ b) - ones) | (w + ones) | w) & ones * 0x80;
        return marked ? __builtin_ctzll(marked) >> 3 : 8;
    #else
        int i = 0;
        while (i < 8 && p[i] >= 0x20 && p[i] < 0x7f && p[i] != (uint8_t)a && p[i] != (uint8_t)b)
            i++;
        return i;
    #endif
    }
    """
    int kf_plain_bytes(const uint8_t* p, uint64_t a, uint64_t b) nogil

cdef enum:
    # Ways in which put_text() can write characters.
    AS_JSON = 0                 # with JSON's escapes
    AS_PLAIN = 1                # with Python's escapes
    AS_FIELD = 2                # with Python's escapes, and with doubled backslashes
    AS_VALID = 3                # unchanged; only bytes that are not UTF-8 are escaped

    TEXT_BLOCK = 4096           # Number of input bytes for which space is reserved in one step.
    LONGEST_ESCAPE = 6          # Largest number of output bytes for one input byte.

cdef const char* HEX_DIGITS = "0123456789abcdef"
cdef const char* BASE64_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

cdef struct Text:               # A growing buffer.
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room


cdef bint grow_text(Text* out, Py_ssize_t n) noexcept nogil:
    cdef uint8_t* data
    if n > PY_SSIZE_T_MAX // 4 - out.size:
        return False
    data = <uint8_t*>PyMem_RawRealloc(out.data, 2 * (out.size + n))
    if data == NULL:
        return False
    out.data = data
    out.room = 2 * (out.size + n)
    return True


cdef inline bint reserve(Text* out, Py_ssize_t n) noexcept nogil:
    """Ensure that `out` has space for `n` more bytes. Return False if memory allocation fails."""
    return KF_LIKELY(n <= out.room - out.size) or grow_text(out, n)


cdef inline bint put_bytes(Text* out, const void* p, Py_ssize_t n) noexcept nogil:
    if n == 0:                  # `p` and `out.data` can be NULL, which memcpy() does not allow.
        return True
    if not reserve(out, n):
        return False
    memcpy(out.data + out.size, p, n)
    out.size += n
    return True


cdef inline bint put_byte(Text* out, uint8_t c) noexcept nogil:
    return put_bytes(out, &c, 1)


cdef bint put_number(Text* out, int64_t n) noexcept nogil:
    cdef uint8_t digits[20]
    cdef int at = 20
    cdef uint64_t left = <uint64_t>n if n >= 0 else 0 - <uint64_t>n
    while True:
        at -= 1
        digits[at] = <uint8_t>(48 + left % 10)
        left //= 10
        if left == 0:
            break
    if n < 0 and not put_byte(out, 45):
        return False
    return put_bytes(out, &digits[at], 20 - at)


cdef inline uint8_t* put_digits(uint8_t* q, int64_t n, int count) noexcept nogil:
    cdef int i
    for i in range(count - 1, -1, -1):
        q[i] = <uint8_t>(48 + n % 10)
        n //= 10
    return q + count


cdef bint put_time(Text* out, int64_t ms) noexcept nogil:
    """Write a timestamp in ISO format. If its year is not between 1 and 9999, write milliseconds."""
    cdef int64_t days, left, era, day_of_era, year_of_era, day_of_year, month
    cdef uint8_t* q
    if ms < -62135596800000LL or ms > 253402300799999LL:
        return put_number(out, ms) and put_bytes(out, <const char*>" ms", 3)
    if not reserve(out, 24):
        return False
    days = (ms + 62135596800000LL) // 86400000        # since 0001-01-01
    left = (ms + 62135596800000LL) % 86400000
    # Years are counted from March, so that a leap day is the last day of its year.
    # There are 306 days from 0000-03-01 to 0001-01-01.
    days += 306
    era = days // 146097
    day_of_era = days % 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153            # 0 is March
    q = out.data + out.size
    q = put_digits(q, era * 400 + year_of_era + (1 if month > 9 else 0), 4)
    q[0] = 45
    q = put_digits(q + 1, month + 3 if month < 10 else month - 9, 2)
    q[0] = 45
    q = put_digits(q + 1, day_of_year - (153 * month + 2) // 5 + 1, 2)
    q[0] = 84
    q = put_digits(q + 1, left // 3600000, 2)
    q[0] = 58
    q = put_digits(q + 1, left // 60000 % 60, 2)
    q[0] = 58
    q = put_digits(q + 1, left // 1000 % 60, 2)
    q[0] = 46
    q = put_digits(q + 1, left % 1000, 3)
    q[0] = 90
    out.size += 24
    return True


cdef inline int character_at(const uint8_t* p, Py_ssize_t n, uint32_t* character) noexcept nogil:
    """Decode the UTF-8 sequence at `p`. Return its size, or 0 if it is malformed."""
    cdef uint32_t c = p[0]
    if c < 0x80:
        character[0] = c
        return 1
    if c < 0xC2 or c > 0xF4 or n < 2 or (p[1] & 0xC0) != 0x80:
        return 0
    if c < 0xE0:
        character[0] = (c & 0x1F) << 6 | (p[1] & 0x3F)
        return 2
    if n < 3 or (p[2] & 0xC0) != 0x80:
        return 0
    if c < 0xF0:
        character[0] = (c & 0x0F) << 12 | <uint32_t>(p[1] & 0x3F) << 6 | (p[2] & 0x3F)
        return 0 if character[0] < 0x800 or (0xD800 <= character[0] <= 0xDFFF) else 3
    if n < 4 or (p[3] & 0xC0) != 0x80:
        return 0
    character[0] = (c & 0x07) << 18 | <uint32_t>(p[1] & 0x3F) << 12 | <uint32_t>(p[2] & 0x3F) << 6 | (p[3] & 0x3F)
    return 0 if character[0] < 0x10000 or character[0] > 0x10FFFF else 4


cdef inline bint is_unseen(uint32_t c) noexcept nogil:
    """Return whether text.py escapes the character `c`, which must be 0x7f or higher."""
    if c < 0x61C:
        return c <= 0x9F or c == 0xAD
    if c < 0x200B:
        return c == 0x61C or c == 0x180E
    if c <= 0x206F:
        return c == 0x200B or c == 0x200E or c == 0x200F or 0x2028 <= c <= 0x202E or c >= 0x2060
    if c < 0x10000:
        return c == 0xFEFF or 0xFFF9 <= c <= 0xFFFB
    return 0x1BCA0 <= c <= 0x1BCA3 or 0x1D173 <= c <= 0x1D17A or 0xE0000 <= c <= 0xE007F


cdef inline uint8_t* put_escape(uint8_t* q, uint8_t letter, uint32_t n, int digits) noexcept nogil:
    """Write an escape sequence: a backslash, a letter and `digits` hexadecimal digits."""
    cdef int i
    q[0] = 92
    q[1] = letter
    for i in range(digits):
        q[2 + i] = <uint8_t>HEX_DIGITS[n >> 4 * (digits - 1 - i) & 15]
    return q + 2 + digits


cdef inline uint8_t* put_character(uint8_t* q, uint32_t c, int way) noexcept nogil:
    """Write an escaped character."""
    cdef uint8_t letter = 0
    if c == 9:
        letter = 116
    elif c == 10:
        letter = 110
    elif c == 13:
        letter = 114
    elif way == AS_JSON and c == 8:
        letter = 98
    elif way == AS_JSON and c == 12:
        letter = 102
    if letter:
        q[0] = 92
        q[1] = letter
        return q + 2
    if way == AS_JSON:
        if c > 0xFFFF:
            q = put_escape(q, 117, 0xD800 + (c - 0x10000 >> 10), 4)
            c = 0xDC00 + (c - 0x10000 & 0x3FF)
        return put_escape(q, 117, c, 4)
    if c < 0x100:
        return put_escape(q, 120, c, 2)
    return put_escape(q, 117, c, 4) if c < 0x10000 else put_escape(q, 85, c, 8)


cdef bint put_text(Text* out, const uint8_t* p, Py_ssize_t n, int way) noexcept nogil:
    """Append bytes to `out` as text. A byte that is not valid UTF-8 is written as `\\xNN`."""
    cdef const uint8_t* end = p + n
    cdef const uint8_t* stop
    cdef uint8_t* q
    cdef uint8_t c
    cdef uint32_t character = 0
    cdef int k
    cdef uint8_t first = 34 if way == AS_JSON else 0
    cdef uint8_t second = 92 if way == AS_JSON or way == AS_FIELD else 0
    cdef uint64_t a = <uint64_t>0x0101010101010101ULL * first, b = <uint64_t>0x0101010101010101ULL * second
    while p < end:
        stop = p + TEXT_BLOCK if end - p > TEXT_BLOCK else end
        # A character can extend up to 3 bytes beyond `stop`. The last copy of 8 bytes can write beyond the text.
        if not reserve(out, LONGEST_ESCAPE * (stop - p + 3) + 8):
            return False
        q = out.data + out.size
        while p < stop:
            if KF_LIKELY(stop - p >= 8):
                k = kf_plain_bytes(p, a, b)
                memcpy(q, p, 8)
                p += k
                q += k
                if k == 8:
                    continue
            c = p[0]
            if c < 0x7F:
                p += 1
                if way == AS_VALID or (c >= 0x20 and c != first and c != second):
                    q[0] = c
                    q += 1
                elif c >= 0x20:
                    q[0] = 92
                    q[1] = c
                    q += 2
                else:
                    q = put_character(q, c, way)
                continue
            k = character_at(p, end - p, &character)
            if k == 0:
                if way == AS_JSON:
                    q[0] = 92
                    q += 1
                q = put_escape(q, 120, c, 2)
                p += 1
                continue
            if way != AS_VALID and is_unseen(character):
                q = put_character(q, character, way)
            else:
                memcpy(q, p, k)
                q += k
            p += k
        out.size = q - out.data
    return True


cdef bint put_hex(Text* out, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t* q
    if not reserve(out, 2 * n):
        return False
    q = out.data + out.size
    for i in range(n):
        q[2 * i] = <uint8_t>HEX_DIGITS[p[i] >> 4]
        q[2 * i + 1] = <uint8_t>HEX_DIGITS[p[i] & 15]
    out.size += 2 * n
    return True


cdef bint put_base64(Text* out, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 0
    cdef uint8_t* q
    cdef uint32_t word
    if not reserve(out, (n + 2) // 3 * 4):
        return False
    q = out.data + out.size
    while i < n:
        word = <uint32_t>p[i] << 16 | (<uint32_t>p[i + 1] << 8 if i + 1 < n else 0) | (p[i + 2] if i + 2 < n else 0)
        q[0] = <uint8_t>BASE64_DIGITS[word >> 18]
        q[1] = <uint8_t>BASE64_DIGITS[word >> 12 & 63]
        q[2] = <uint8_t>BASE64_DIGITS[word >> 6 & 63] if i + 1 < n else 61
        q[3] = <uint8_t>BASE64_DIGITS[word & 63] if i + 2 < n else 61
        q += 4
        i += 3
    out.size = q - out.data
    return True
