# Format decoded records as text, according to a template of literals and field names.

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memmove

from .constants import BYTE_ENCODINGS, RECORD_FIELDS, TEXT_STYLES

cdef enum:
    LITERAL = -1                # a part of a template that is not a field

    FORMATTED = 0               # Return values of format_rows().
    FORMAT_MEMORY = 1
    FORMAT_SPAN = 2
    FORMAT_HEADERS = 3

cdef struct Part:               # A literal or a field of a template.
    int field
    const uint8_t* literal
    Py_ssize_t size

cdef struct FormatOptions:
    Part* parts
    Py_ssize_t count
    int style
    int encoding
    const uint8_t* separator
    Py_ssize_t separator_size

cdef struct RowSource:          # The decoded columns. A missing column is NULL.
    const uint8_t* data
    Py_ssize_t size
    Py_ssize_t headers
    const int64_t* offset
    const int64_t* timestamp
    const int32_t* timestamp_type
    const int64_t* key_position
    const int32_t* key_length
    const int64_t* value_position
    const int32_t* value_length
    const int64_t* header_start
    const int32_t* header_count
    const int64_t* hk_position
    const int32_t* hk_length
    const int64_t* hv_position
    const int32_t* hv_length


cdef inline bint is_span(const RowSource* source, int64_t position, int32_t length) noexcept nogil:
    return length < 0 or (0 <= position <= source.size and length <= source.size - position)


cdef bint double_bytes(Text* out, Py_ssize_t start, uint8_t c) noexcept nogil:
    """Write every byte `c` of `out` twice, from position `start` to the end."""
    cdef Py_ssize_t i, more = 0
    cdef uint8_t* q
    for i in range(start, out.size):
        more += out.data[i] == c
    if more == 0:
        return True
    if not reserve(out, more):
        return False
    i = out.size
    out.size += more
    q = out.data + out.size
    while more:
        i -= 1
        q -= 1
        q[0] = out.data[i]
        if out.data[i] == c:
            q -= 1
            q[0] = c
            more -= 1
    return True


cdef bint enclose(Text* out, Py_ssize_t start) noexcept nogil:
    """Enclose the text from position `start` to the end of `out` in double quotes."""
    if not reserve(out, 2):
        return False
    memmove(out.data + start + 1, out.data + start, out.size - start)
    out.data[start] = 34
    out.size += 2
    out.data[out.size - 1] = 34
    return True


cdef bint quote_csv(Text* out, Py_ssize_t start) noexcept nogil:
    """Quote the CSV field that starts at `start` if it is empty or contains a special character."""
    cdef Py_ssize_t i
    cdef uint8_t c
    if out.size > start:
        for i in range(start, out.size):
            c = out.data[i]
            if c == 44 or c == 34 or c == 10 or c == 13:
                break
        else:
            return True
    return double_bytes(out, start, 34) and enclose(out, start)


cdef bint quote_ambiguous(Text* out, Py_ssize_t start) noexcept nogil:
    """Enclose the text from `start` to the end of `out` in double quotes if it is empty or `null`.

    The text is also enclosed if it consists only of double quotes, or of `null` with double quotes before or after it.
    """
    cdef Py_ssize_t first = start, last = out.size
    while first < last and out.data[first] == 34:
        first += 1
    while last > first and out.data[last - 1] == 34:
        last -= 1
    if last == first or (last - first == 4 and memcmp(out.data + first, <const char*>"null", 4) == 0):
        return enclose(out, start)
    return True


cdef bint put_encoded(Text* out, const uint8_t* p, Py_ssize_t n, const FormatOptions* options, int way) noexcept nogil:
    if options.encoding == ENCODING_BASE64:
        return put_base64(out, p, n)
    if options.encoding == ENCODING_HEX:
        return put_hex(out, p, n)
    return put_text(out, p, n, way)


cdef bint put_value(Text* out, const uint8_t* p, int32_t n, const FormatOptions* options) noexcept nogil:
    """Append a key, a value or a header value to `out`. A negative size `n` means null."""
    cdef Py_ssize_t start = out.size
    cdef int style = options.style
    if style == STYLE_JSON:
        if n < 0:
            return put_bytes(out, <const char*>"null", 4)
        return put_byte(out, 34) and put_encoded(out, p, n, options, AS_JSON) and put_byte(out, 34)
    if style == STYLE_TEXT:
        if n < 0:
            return put_bytes(out, <const char*>"null", 4)
        return put_encoded(out, p, n, options, AS_PLAIN) and quote_ambiguous(out, start)
    if style == STYLE_CSV or style == STYLE_ESCAPED_CSV:
        return n < 0 or (put_encoded(out, p, n, options, AS_VALID if style == STYLE_CSV else AS_PLAIN) and quote_csv(out, start))
    if style == STYLE_TSV:
        return put_bytes(out, <const char*>"\\N", 2) if n < 0 else put_encoded(out, p, n, options, AS_FIELD)
    if n < 0:
        return True
    if style == STYLE_RAW and options.encoding == ENCODING_UTF8:
        return put_bytes(out, p, n)
    return put_encoded(out, p, n, options, AS_PLAIN)


cdef bint put_malformed_key(Text* out, const uint8_t* p, Py_ssize_t n, int way) noexcept with gil:
    cdef bytes key
    try:
        key = decode_header_key(PyBytes_FromStringAndSize(<const char*>p, n)).encode()
        return put_text(out, <const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), way)
    except MemoryError:
        return False


cdef bint put_header_key(Text* out, const uint8_t* p, Py_ssize_t n, int way) noexcept nogil:
    """Append a header key to `out`. Malformed UTF-8 is decoded as in Java."""
    cdef Py_ssize_t at = 0
    cdef uint32_t character = 0
    cdef int k
    while at < n:
        k = character_at(p + at, n - at, &character)
        if k == 0:
            return put_malformed_key(out, p, n, way)
        at += k
    return put_text(out, p, n, way)


cdef int put_headers(Text* out, const RowSource* source, Py_ssize_t row, const FormatOptions* options) noexcept nogil:
    cdef int64_t first = 0, h
    cdef int32_t count = source.header_count[row] if source.header_count != NULL else 0, key_size, value_size
    cdef int style = options.style
    cdef bint as_json = style != STYLE_TEXT and style != STYLE_RAW and style != STYLE_ESCAPED_RAW, done
    cdef Py_ssize_t start = out.size
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef FormatOptions json
    if as_json:
        json = options[0]
        json.style = STYLE_JSON
        if not put_byte(out, 91):
            return FORMAT_MEMORY
    if count > 0:
        first = source.header_start[row]
        if first < 0 or first > source.headers or count > source.headers - first:
            return FORMAT_HEADERS
    for h in range(first, first + (count if count > 0 else 0)):
        key_size, value_size = source.hk_length[h], source.hv_length[h]
        if key_size < 0 or not is_span(source, source.hk_position[h], key_size) or not is_span(source, source.hv_position[h], value_size):
            return FORMAT_SPAN
        key = source.data + source.hk_position[h]
        value = source.data + (source.hv_position[h] if value_size >= 0 else 0)
        if as_json:
            done = (
                put_bytes(out, <const char*>", [\"", 4 if h > first else 0)
                and (h > first or put_bytes(out, <const char*>"[\"", 2))
                and put_header_key(out, key, key_size, AS_JSON)
                and put_bytes(out, <const char*>"\", ", 3)
                and put_value(out, value, value_size, &json)
                and put_byte(out, 93)
            )
        else:
            done = (
                (style != STYLE_TEXT and h == first or put_bytes(out, options.separator, options.separator_size))
                and put_header_key(out, key, key_size, AS_VALID if style == STYLE_RAW else AS_PLAIN)
                and put_byte(out, 61)
                and (put_bytes(out, <const char*>"NULL", 4) if value_size < 0 and style != STYLE_TEXT
                     else put_value(out, value, value_size, options))
            )
        if not done:
            return FORMAT_MEMORY
    if as_json:
        if not put_byte(out, 93):
            return FORMAT_MEMORY
        if style == STYLE_TSV:
            done = double_bytes(out, start, 92)
        else:
            done = style == STYLE_JSON or quote_csv(out, start)
        if not done:
            return FORMAT_MEMORY
    return FORMATTED


cdef bint put_missing_time(Text* out, int style) noexcept nogil:
    if style == STYLE_CSV or style == STYLE_ESCAPED_CSV:
        return True
    return put_bytes(out, <const char*>"\\N", 2) if style == STYLE_TSV else put_byte(out, 45)


cdef int put_column(Text* out, const RowSource* source, Py_ssize_t row, int field, const FormatOptions* options) noexcept nogil:
    cdef int32_t type = source.timestamp_type[row] if source.timestamp_type != NULL else TIMESTAMP_TYPE_NONE
    cdef int64_t time = source.timestamp[row] if source.timestamp != NULL else NO_TIMESTAMP
    cdef bint of_key = field == FIELD_KEY or field == FIELD_KEY_LENGTH
    cdef int32_t length = -1
    cdef int64_t position = 0
    cdef uint8_t size[4]
    cdef bint done
    if field == FIELD_OFFSET:
        done = put_number(out, source.offset[row] if source.offset != NULL else -1)
    elif field == FIELD_TIMESTAMP:
        if type == TIMESTAMP_TYPE_NONE and options.style != STYLE_JSON:
            done = put_missing_time(out, options.style)
        else:
            done = put_number(out, time)
    elif field == FIELD_TIMESTAMP_TYPE:
        done = put_number(out, type)
    elif field == FIELD_TIME:
        if type == TIMESTAMP_TYPE_NONE or time == NO_TIMESTAMP:
            done = put_byte(out, 45)
        else:
            done = put_time(out, time) and (type != LOG_APPEND_TIME or put_bytes(out, <const char*>" (append)", 9))
    elif field == FIELD_HEADERS:
        return put_headers(out, source, row, options)
    else:
        if of_key and source.key_length != NULL:
            length, position = source.key_length[row], source.key_position[row]
        elif not of_key and source.value_length != NULL:
            length, position = source.value_length[row], source.value_position[row]
        if length < 0:
            length, position = -1, 0
        if KF_UNLIKELY(not is_span(source, position, length)):
            return FORMAT_SPAN
        if field == FIELD_KEY or field == FIELD_VALUE:
            done = put_value(out, source.data + position, length, options)
        elif field == FIELD_VALUE_SIZE:
            size[0], size[1], size[2], size[3] = <uint8_t>(length >> 24), <uint8_t>(length >> 16), <uint8_t>(length >> 8), <uint8_t>length
            done = put_bytes(out, size, 4) if options.style == STYLE_RAW else put_text(out, size, 4, AS_PLAIN)
        else:
            done = put_number(out, length)
    return FORMATTED if done else FORMAT_MEMORY


cdef int format_rows(Text* out, const RowSource* source, Py_ssize_t* row, Py_ssize_t last, const FormatOptions* options) noexcept nogil:
    cdef Py_ssize_t i
    cdef int status
    while row[0] < last:
        for i in range(options.count):
            if options.parts[i].field == LITERAL:
                status = FORMATTED if put_bytes(out, options.parts[i].literal, options.parts[i].size) else FORMAT_MEMORY
            else:
                status = put_column(out, source, row[0], options.parts[i].field, options)
            if status != FORMATTED:
                return status
        row[0] += 1
    return FORMATTED


cdef int index_of(names, name, kind) except -1:
    if name not in names:
        raise ValueError(f"there is no {kind} {shown(name)}; the values are {', '.join(names)}")
    return names.index(name)


def format_records(buffer, columns, template, style, encoding, separator=b"", start=0, stop=None):
    cdef Source source = Source(buffer), separating = Source(separator)
    cdef Arrays arrays = Arrays()
    cdef Py_ssize_t rows = natural(columns.rows), row = natural(start), last = rows if stop is None else natural(stop), i
    if last < row or last > rows:
        raise ValueError(f"rows {row} to {last} are not among the {rows} decoded rows")
    cdef RowSource given
    given.data, given.size, given.headers = source.data, source.size, natural(columns.headers)
    given.offset = <const int64_t*>arrays.take(columns.offset, last, 8, False)
    given.timestamp = <const int64_t*>arrays.take(columns.timestamp, last, 8, False)
    given.timestamp_type = <const int32_t*>arrays.take(columns.timestamp_type, last, 4, False)
    given.key_position = <const int64_t*>arrays.take(columns.key_position, last, 8, False)
    given.key_length = <const int32_t*>arrays.take(columns.key_length, last, 4, False)
    given.value_position = <const int64_t*>arrays.take(columns.value_position, last, 8, False)
    given.value_length = <const int32_t*>arrays.take(columns.value_length, last, 4, False)
    given.header_start = <const int64_t*>arrays.take(columns.header_start, last, 8, False)
    given.header_count = <const int32_t*>arrays.take(columns.header_count, last, 4, False)
    given.hk_position = <const int64_t*>arrays.take(columns.header_key_position, given.headers, 8, False)
    given.hk_length = <const int32_t*>arrays.take(columns.header_key_length, given.headers, 4, False)
    given.hv_position = <const int64_t*>arrays.take(columns.header_value_position, given.headers, 8, False)
    given.hv_length = <const int32_t*>arrays.take(columns.header_value_length, given.headers, 4, False)
    if (given.key_length != NULL and given.key_position == NULL) or (given.value_length != NULL and given.value_position == NULL) or (
        given.header_count != NULL and (given.header_start == NULL or given.hk_position == NULL or given.hk_length == NULL
                                        or given.hv_position == NULL or given.hv_length == NULL)
    ):
        raise TypeError("a column of lengths has no column of positions")
    cdef list items = list(template)
    cdef FormatOptions options
    cdef Text out
    cdef int status
    options.style = index_of(TEXT_STYLES, style, "style")
    options.encoding = index_of(BYTE_ENCODINGS, encoding, "encoding")
    options.separator, options.separator_size = separating.data, separating.size
    options.count = len(items)
    options.parts = <Part*>PyMem_Malloc((options.count + 1) * sizeof(Part))
    if options.parts == NULL:
        raise MemoryError
    out.data, out.size, out.room = NULL, 0, 0
    try:
        for i in range(options.count):
            if PyBytes_CheckExact(items[i]):
                options.parts[i].field = LITERAL
                options.parts[i].literal = <const uint8_t*>PyBytes_AS_STRING(items[i])
                options.parts[i].size = PyBytes_GET_SIZE(items[i])
            else:
                options.parts[i].field = index_of(RECORD_FIELDS, items[i], "field")
        with nogil:
            status = format_rows(&out, &given, &row, last, &options)
        if status == FORMAT_MEMORY:
            raise MemoryError
        if status == FORMAT_SPAN:
            raise ValueError(f"row {row}: a span is outside the buffer")
        if status == FORMAT_HEADERS:
            raise ValueError(f"the headers of row {row} are not among the {given.headers} decoded headers")
        return PyBytes_FromStringAndSize(<const char*>out.data, out.size)
    finally:
        PyMem_Free(options.parts)
        PyMem_RawFree(out.data)
