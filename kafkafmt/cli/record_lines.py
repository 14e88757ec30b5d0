r"""Format records as lines: JSON, text, CSV, TSV, and formats like those of kcat.

`LineFormat` describes a format. `line_template` returns a template, with which
`core.format_records` formats the records of one partition. `json_row` and `text_line` format single
Record objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..constants import LOG_APPEND_TIME, NO_TIMESTAMP, TIMESTAMP_TYPE_NONE
from ..support.text import encode_json, plain, shown
from .output import moment

Template = list[bytes | str]
"""Template for `core.format_records`: literal text as bytes, and names of fields as str."""

FORMATS = ("text", "json", "csv", "tsv")
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")
"""Columns of the CSV and TSV output. A record in the JSON output has the same keys."""
KCAT_FIELDS = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp",
    "k": "key",
    "s": "value",
    "h": "headers",
    "K": "keyLength",
    "S": "valueLength",
    "R": "valueSize",
}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r"}
_TOKEN = re.compile(
    r"%(?P<field>.?)|\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>0[0-7]{0,3})|(?P<decimal>[1-9][0-9]{0,2})|(?P<char>.))",
    re.DOTALL,
)


class LineFormat(NamedTuple):
    """A format for writing records as lines of text."""

    # `style` and `separator` (between headers) are arguments of `core.format_records`. `custom` is
    # a template that can also contain "topic" and "partition".

    name: str  # one of FORMATS, or "custom"
    style: str
    separator: str
    custom: tuple[bytes | str, ...] = ()

    @property
    def first_line(self) -> bytes:
        """First line of the output. It contains the column names in CSV and TSV, and is empty in all other formats."""
        if self.name not in ("csv", "tsv"):
            return b""
        return (self.separator.join(COLUMNS) + "\n").encode()


def line_format(text: str, terminal: bool) -> LineFormat:
    """Convert the value of the option --format (one of FORMATS, or a format that contains ``%``)."""
    # On a terminal, control characters are escaped, and the format "text" separates columns by two
    # spaces instead of a tab.
    if text == "json":
        return LineFormat(text, "json", ", ")
    if text == "text":
        return LineFormat(text, "text", "  " if terminal else "\t")
    if text == "csv":
        return LineFormat(text, "escaped_csv" if terminal else "csv", ",")
    if text == "tsv":
        return LineFormat(text, "tsv", "\t")
    return LineFormat("custom", "escaped_raw" if terminal else "raw", ",", tuple(parse_format(text)))


def parse_format(text: str) -> Template:
    """Parse a format like those of kcat, such as ``%t %p %o %k %s``. ValueError: no field, or an unknown field."""
    template: Template = []
    at = 0
    for match in _TOKEN.finditer(text):
        template.append(text[at : match.start()].encode("utf-8", "surrogateescape"))
        at = match.end()
        field, char = match["field"], match["char"]
        if field == "%":
            template.append(b"%")
        elif field is not None:
            if field not in KCAT_FIELDS:
                known = " ".join(f"%{letter}" for letter in KCAT_FIELDS)
                raise ValueError(f"{shown(text)} contains the unknown field {shown(match[0])}; the fields are {known}")
            template.append(KCAT_FIELDS[field])
        elif char is not None:
            template.append(_CONTROL.get(char, char).encode("utf-8", "surrogateescape"))
        else:
            numbers = {"hex": 16, "octal": 8, "decimal": 10}
            number = next(int(match[name], base) for name, base in numbers.items() if match[name])
            template.append(bytes([number & 255]))
    template.append(text[at:].encode("utf-8", "surrogateescape"))
    if not any(isinstance(part, str) for part in template):
        raise ValueError(f"{shown(text)} is not one of {', '.join(FORMATS)}, and contains no field such as %s")
    return template


def line_template(given: LineFormat, topic: str, partition: int) -> Template:
    """Return the template with which `core.format_records` formats the records of one partition."""
    if given.name == "json":
        head = f'{{"topic": {encode_json(topic)}, "partition": {partition}, "offset": '
        fields: Template = [head.encode(), "offset", b', "timestamp": ', "timestamp"]
        fields += [b', "timestampType": ', "timestampType", b', "key": ', "key", b', "value": ', "value"]
        return [*fields, b', "headers": ', "headers", b"}\n"]
    name = plain(topic)
    if given.name == "custom":
        known = {"topic": name.encode(), "partition": b"%d" % partition}
        return [known.get(part, part) if isinstance(part, str) else part for part in given.custom]
    separator = given.separator.encode()
    if given.name == "text":
        head = f"{name}-{partition}"
        return [
            head.encode(),
            separator,
            "offset",
            separator,
            "time",
            separator,
            "key",
            separator,
            "value",
            "headers",
            b"\n",
        ]
    if given.name == "tsv":
        name = name.replace("\\", "\\\\")
    elif set(name) & set(',"'):
        name = '"' + name.replace('"', '""') + '"'
    template: Template = [name.encode(), separator, b"%d" % partition]
    for field in COLUMNS[2:]:
        template += [separator, field]
    return [*template, b"\n"]


def json_row(log: Any, r: Any, text: Callable[[bytes], str]) -> dict[str, Any]:
    """Convert a record to its dict in JSON. `log` needs only `topic` and `partition`."""
    return {
        "topic": log.topic,
        "partition": log.partition,
        "offset": r.offset,
        "timestamp": r.timestamp,
        "timestampType": r.timestamp_type,
        "key": None if r.key is None else text(r.key),
        "value": None if r.value is None else text(r.value),
        "headers": [[k, None if v is None else text(v)] for k, v in r.headers],
    }


def text_line(text: Callable[[bytes], str]) -> Callable[[Any, Any], str]:
    """Return a function that formats a record as a line of text, with two spaces between fields."""

    def field(value: bytes | None) -> str:
        if value is None:
            return "null"
        shown = plain(text(value))
        # Quotes make empty values visible, and distinguish the text "null" from null.
        quoted = shown.strip('"') in ("", "null")
        return f'"{shown}"' if quoted else shown

    def show(log: Any, r: Any) -> str:
        append = " (append)" if r.timestamp_type == LOG_APPEND_TIME else ""
        # In formats 1 and 2, NO_TIMESTAMP indicates that the producer has set no timestamp.
        missing = r.timestamp_type == TIMESTAMP_TYPE_NONE or r.timestamp == NO_TIMESTAMP
        when = "-" if missing else moment(r.timestamp) + append
        fields = [f"{plain(log.topic)}-{log.partition}", str(r.offset), when, field(r.key), field(r.value)]
        return "  ".join(fields + [f"{plain(k)}={field(v)}" for k, v in r.headers]) + "\n"

    return show
