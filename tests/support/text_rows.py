"""Columns of records for tests of text formats, and a formatter that uses only Python's standard library."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from kafkafmt.types import RecordColumns

Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]
"""Offset, timestamp, timestamp type, key, value and headers of a record."""

ODD = (
    b"", b'"', b'""', b"null", b'"null"', b"\0", b"\x7f", b"\xff", b"\\", b"\t\n\r\b\f", b",a", b"a\nb", b"\xe2\x82", b"\xc3",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xf0\x80\x80\x80", b"\x9e\xe9e", b"plain text of more than 16 bytes",
    "\x85\xad\u061c\u180e\u200b\u200c\u200d\u200e\u2010\u2028\u202e\u202f\u2060\u206f\u2070\ufeff\ufff9\ufffb\ufffd".encode(),
    "\U0001bca0\U0001d173\U0001d17a\U0001d17b\U000e0000\U000e007f\U000e0080\U0010ffff".encode(),
    b"x" * 4095 + b"\xc3\xa4" + b'"' * 4100, "äöü€😀".encode() * 500,
)  # fmt: skip
LIMITS_OF_TIMES = (-62135596800001, -62135596800000, -1, 0, 951782399999, 253402300799999, 253402300800000)
_text = st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass"))
_pieces = st.one_of(_text, st.sampled_from(ODD), st.binary(max_size=20))
_values = st.one_of(st.none(), _pieces, st.lists(_pieces, max_size=4).map(b"".join))
_int64 = st.integers(-(2**63), 2**63 - 1)
_times = st.one_of(st.sampled_from(LIMITS_OF_TIMES), st.integers(0, 2 * 10**12), _int64)
rows = st.lists(
    st.tuples(
        _int64,
        _times,
        st.sampled_from([-1, 0, 1]),
        _values,
        _values,
        st.lists(st.tuples(_pieces, _values), max_size=3),
    ),
    max_size=4,
)


def columns_of_rows(given: list[Row]) -> tuple[bytes, RecordColumns]:
    """Return decoded columns with the given records, and the buffer to which they refer."""
    buffer = bytearray(b"not part of a span")
    columns: Any = RecordColumns(max(len(given), 1), header_capacity=max(sum(len(r[5]) for r in given), 1))

    def put(value: bytes | None) -> tuple[int, int]:
        position = len(buffer)
        buffer.extend(value or b"")
        return (0, -1) if value is None else (position, len(value))

    for i, (offset, timestamp, timestamp_type, key, value, headers) in enumerate(given):
        columns.offset[i], columns.timestamp[i], columns.timestamp_type[i] = offset, timestamp, timestamp_type
        columns.key_position[i], columns.key_length[i] = put(key)
        columns.value_position[i], columns.value_length[i] = put(value)
        columns.header_start[i], columns.header_count[i] = columns.headers, len(headers)
        for name, content in headers:
            h = columns.headers
            columns.header_key_position[h], columns.header_key_length[h] = put(name)
            columns.header_value_position[h], columns.header_value_length[h] = put(content)
            columns.headers += 1
    columns.rows = len(given)
    return bytes(buffer), columns


ESCAPED = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
"""Characters that are escaped in addition to the control characters below U+0020."""
CODEC: dict[str, Callable[[bytes], str]] = {
    "utf8": lambda b: b.decode(errors="backslashreplace"),
    "base64": lambda b: base64.b64encode(b).decode(),
    "hex": bytes.hex,
}


def plain_json_line(topic: str, partition: int, record: Any, encoding: str = "utf8") -> str:
    """Format a Record object as a JSON line."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else CODEC[encoding](value)

    row = {
        "topic": topic, "partition": partition, "offset": record.offset, "timestamp": record.timestamp,
        "timestampType": record.timestamp_type, "key": text(record.key), "value": text(record.value),
        "headers": [[k, text(v)] for k, v in record.headers],
    }  # fmt: skip
    line = json.dumps(row, ensure_ascii=False)
    return re.sub(f"[{ESCAPED}]", lambda m: json.dumps(m[0])[1:-1].replace("\x7f", "\\u007f"), line) + "\n"


def plain_text_line(topic: str, partition: int, record: Any, encoding: str = "utf8", separator: str = "\t") -> str:
    """Format a Record object as a line of text."""

    def escaped(text: str) -> str:
        return re.sub(f"[\\x00-\\x1f{ESCAPED}]", lambda m: m[0].encode("unicode_escape").decode(), text)

    def field(value: bytes | None) -> str:
        if value is None:
            return "null"
        text = escaped(CODEC[encoding](value))
        return f'"{text}"' if text.strip('"') in ("", "null") else text

    when = "-"
    if record.timestamp_type >= 0 and record.timestamp != -1:
        try:
            time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp)
            when = f"{time.year:04}{time:-%m-%dT%H:%M:%S}.{record.timestamp % 1000:03}Z"
        except OverflowError:
            when = f"{record.timestamp} ms"
        when += " (append)" if record.timestamp_type else ""
    fields = [f"{escaped(topic)}-{partition}", str(record.offset), when, field(record.key), field(record.value)]
    return separator.join(fields + [f"{escaped(k)}={field(v)}" for k, v in record.headers]) + "\n"
