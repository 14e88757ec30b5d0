"""Format decoded records as text, according to a template of literals and field names."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ..constants import BYTE_ENCODINGS, LOG_APPEND_TIME, NO_TIMESTAMP, RECORD_FIELDS, TEXT_STYLES, TIMESTAMP_TYPE_NONE
from ..support.text import encode_json, plain, shown
from ..types import Buffer, RecordColumns
from .objects import Record, make_records

RAW_STYLES = ("raw", "escaped_raw")
CSV_STYLES = ("csv", "escaped_csv")


def iso_time(ms: int) -> str:
    """Return a timestamp in ISO format, or in milliseconds if its year is not between 1 and 9999."""
    try:
        return (datetime(1970, 1, 1) + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        return f"{ms} ms"


def csv_field(text: str) -> str:
    if text and not set(text) & set(',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


class Formatter:
    """Formats the fields of records in a given style (such as JSON or CSV) and byte encoding."""

    def __init__(self, style: str, encoding: str, separator: bytes) -> None:
        self._style, self._encoding = style, encoding
        self._separator = separator

    def _text(self, value: bytes) -> str:
        if self._encoding == "base64":
            return base64.b64encode(value).decode()
        if self._encoding == "hex":
            return value.hex()
        if self._style == "tsv":
            value = value.replace(b"\\", b"\\\\")
        return value.decode(errors="backslashreplace")

    def value(self, value: bytes | None) -> bytes:
        style = self._style
        if style == "raw":
            return value or b"" if self._encoding == "utf8" else self._text(value or b"").encode()
        text = None if value is None else self._text(value)
        if style == "json":
            return encode_json(text).encode()
        if text is None:
            return {"text": b"null", "tsv": b"\\N"}.get(style, b"")
        if style == "csv":
            return csv_field(text).encode()
        text = plain(text)
        if style == "escaped_csv":
            text = csv_field(text)
        elif style == "text" and text.strip('"') in ("", "null"):
            text = f'"{text}"'
        return text.encode()

    def headers(self, headers: tuple[tuple[str, bytes | None], ...]) -> bytes:
        style = self._style
        if style == "text":
            return b"".join(self._separator + plain(k).encode() + b"=" + self.value(v) for k, v in headers)
        if style in RAW_STYLES:
            keys = [k if style == "raw" else plain(k) for k, _ in headers]
            values = [b"NULL" if v is None else self.value(v) for _, v in headers]
            return self._separator.join(k.encode() + b"=" + v for k, v in zip(keys, values, strict=True))
        as_json = Formatter("json", self._encoding, b"")
        text = "[" + ", ".join(f"[{encode_json(k)}, {as_json.value(v).decode()}]" for k, v in headers) + "]"
        if style == "tsv":
            text = text.replace("\\", "\\\\")
        return (csv_field(text) if style in CSV_STYLES else text).encode()

    def field(self, name: str, r: Record) -> bytes:
        key: Any = r.key
        value: Any = r.value
        absent = r.timestamp_type == TIMESTAMP_TYPE_NONE
        if name == "offset":
            return b"%d" % r.offset
        if name == "timestamp" and absent and self._style != "json":
            return b"" if self._style in CSV_STYLES else b"\\N" if self._style == "tsv" else b"-"
        if name == "timestamp":
            return b"%d" % r.timestamp
        if name == "timestampType":
            return b"%d" % r.timestamp_type
        if name == "time":
            append = " (append)" if r.timestamp_type == LOG_APPEND_TIME else ""
            return b"-" if absent or r.timestamp == NO_TIMESTAMP else (iso_time(r.timestamp) + append).encode()
        if name == "key":
            return self.value(key)
        if name == "value":
            return self.value(value)
        if name == "headers":
            return self.headers(r.headers)  # type: ignore[arg-type]  # no views were requested
        length = -1 if (key if name == "keyLength" else value) is None else len(key if name == "keyLength" else value)
        if name != "valueSize":
            return b"%d" % length
        size = length.to_bytes(4, "big", signed=True)
        return size if self._style == "raw" else plain(size.decode(errors="backslashreplace")).encode()


def check(names: Sequence[str], name: object, kind: str) -> None:
    if name not in names:
        raise ValueError(f"there is no {kind} {shown(name)}; the values are {', '.join(names)}")


def format_records(
    buffer: Buffer,
    columns: RecordColumns,
    template: Sequence[bytes | str],
    style: str,
    encoding: str,
    separator: bytes = b"",
    start: int = 0,
    stop: int | None = None,
) -> bytes:
    check(TEXT_STYLES, style, "style")
    check(BYTE_ENCODINGS, encoding, "encoding")
    for part in template:
        if type(part) is not bytes:
            check(RECORD_FIELDS, part, "field")
    formatter = Formatter(style, encoding, separator)
    return b"".join(
        part if isinstance(part, bytes) else formatter.field(part, record)
        for record in make_records(buffer, columns, start, stop)
        for part in template
    )
