"""Read the rows of a Parquet, CSV or JSON file, or of a table, as Arrow record batches.

To limit the use of memory, a file is read in blocks of about 16 MiB.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..support.arguments import one_of
from ..support.paths import local_path
from ..support.text import shown

FORMATS = ("parquet", "csv", "json")
"""File formats that can be read. "json" means JSON lines."""
BLOCK_BYTES = 16 << 20
MAX_ROWS = 1 << 16
TEXT_COLUMNS = ("topic", "key", "value")
_SUFFIXES = {"parquet": "parquet", "pq": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
HEADER_PAIRS = 'headers must be lists of pairs of strings, such as [["name", "value"]]'
_ARTICLES = {"array": "an array", "boolean": "true or false", "object": "an object", "string": "text"}
_OTHER_TYPE = re.compile(r"Column\((.*)\) changed from (\w+) to (\w+)")
_NO_INTEGER = re.compile(r"(?:couldn't parse: ?|error to int64: invalid value ')([^']*)")
"""Patterns of error messages of pyarrow. Only the column `partition` can cause the message about int64."""


_NUMBER_TEXT = "^-?[0-9]+$"
_ZONE_TEXT = "[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
"""Patterns of valid timestamps: a number of milliseconds, and an ISO time with a time zone."""


class RowsError(ValueError):
    """Raised if a row cannot be converted to a Kafka record. The message contains the invalid column or value."""


def format_of(source: Any, given: str | None) -> str | None:
    """Return the format of a file, by default from its suffix, or None if `source` is a table."""
    if given is not None:
        return one_of("input_format", given, FORMATS)
    if not isinstance(source, str | os.PathLike):
        return None
    if source == "-":
        return "json"
    found = _SUFFIXES.get(Path(source).suffix.lower().removeprefix("."))
    if found is None:
        raise ValueError(
            f"the format of {shown(os.fspath(source))} is unknown; pass input_format, or rename the file so that its name "
            f"ends with {', '.join(f'.{f}' for f in FORMATS[:-1])} or .{FORMATS[-1]}"
        )
    return found


def read_rows(source: Any, input_format: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, of stdin ("-", by default as JSON), or of a table with ``__arrow_c_stream__``."""
    if isinstance(source, str | os.PathLike):
        source = local_path(source)
    kind = format_of(source, input_format)
    if kind is None:
        yield from _table_batches(source)
        return
    name = "stdin" if source == "-" else source
    try:
        # Use open(), because unlike pyarrow's errors, errors of open() contain the file name.
        # open() also opens pipes. pyarrow can read an open pipe, but cannot open a pipe by its path.
        with contextlib.nullcontext(_stdin()) if source == "-" else open(name, "rb") as opened:
            if kind == "parquet" and not opened.seekable():
                raise ValueError(f"Parquet cannot be read from {'stdin' if source == '-' else 'a pipe'}; use a file")
            yield from {"parquet": _parquet, "csv": _csv, "json": _json}[kind](opened)
    except pa.ArrowInvalid as error:
        if problem := _wrong_value(str(error)):
            raise RowsError(problem) from None
        text = " ".join(str(error).split())[:200]
        raise OSError(errno.EINVAL, f"the file cannot be read as {kind}: {text}", name) from None


def _stdin() -> Any:
    if sys.stdin is None:  # the caller has closed it
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdin")
    return sys.stdin.buffer


def _wrong_value(text: str) -> str | None:
    """Convert pyarrow's error `text` to a message about a wrong value. Return None for other errors."""
    if found := _NO_INTEGER.search(text):
        return f"the column 'partition' contains {shown(found[1])}; a partition number must be an integer"
    found = _OTHER_TYPE.search(text)
    if found is None:
        return None
    path, wanted, given = found.groups()
    column, _, inner = path.strip("/").partition("/")
    what = _ARTICLES.get(given, f"a {given}")
    if not column:
        advice = "; jq -c '.[]' converts an array of objects" if given == "array" else ""
        return f"a line contains {what}; each line must contain one JSON object{advice}"
    if column in TEXT_COLUMNS and not inner:
        advice = f"; jq -c '.{column} |= tojson' converts it to JSON text" if column != "topic" else ""
        return f"the column {shown(column)} contains {what}; it must contain text{advice}"
    if column == "partition":
        return f"the column 'partition' contains {what}; a partition number must be an integer"
    if column == "headers" and inner:
        return f"the column 'headers' contains {what}; {HEADER_PAIRS}"
    return f"the column {shown(column)} contains {what}, and other rows contain {_ARTICLES.get(wanted, f'a {wanted}')}"


def _table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise RowsError(f"the column {shown(name)} contains values of different types: {error}") from None
    return pa.table(columns)


def _table_batches(source: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(source, Sequence) and source and all(isinstance(row, Mapping) for row in source):
        source = _table_of(source)
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(
            f"source must be a path, or a table such as a pyarrow.Table, or a list of dicts, not {type(source).__name__}"
        )
    for name, dtype in zip(getattr(source, "columns", ()), getattr(source, "dtypes", ()), strict=False):
        if str(dtype) == "Object":  # Polars would export the addresses of the objects.
            raise RowsError(f"the column {shown(name)} contains Python objects; cast it to text or bytes")
    reader = source if isinstance(source, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(source)
    for batch in reader:
        yield from _slices(batch)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    batch = _without_dictionaries(batch)
    for start in range(0, len(batch), MAX_ROWS):
        yield batch.slice(start, MAX_ROWS)


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace dictionary-encoded columns, such as categorical columns of pandas and Polars, by plain columns."""
    if not any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
        return batch
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _parquet(source: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        row_bytes = max((g.total_byte_size // max(g.num_rows, 1) for g in groups), default=0)
        for batch in file.iter_batches(batch_size=max(1, min(MAX_ROWS, BLOCK_BYTES // max(row_bytes, 1)))):
            yield _without_dictionaries(batch)


def _csv(source: Any) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv

    types = {name: pa.string() for name in TEXT_COLUMNS} | {"partition": pa.int64()}
    # As in Spark, an empty CSV field is null, and a quoted empty field is an empty string.
    options = csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    read = csv.ReadOptions(block_size=BLOCK_BYTES)
    # By default, pyarrow ends a block at any line break, even if the line break is inside quotes.
    parse = csv.ParseOptions(newlines_in_values=True)
    for batch in csv.open_csv(source, read, parse, options):
        yield from _slices(batch)


def _json(source: Any) -> Iterator[pa.RecordBatch]:
    from pyarrow import json

    # Without a schema, pyarrow would convert strings such as "2026-01-05" to timestamps.
    schema = pa.schema([*((name, pa.string()) for name in TEXT_COLUMNS), ("partition", pa.int64())])
    read, parse = json.ReadOptions(block_size=BLOCK_BYTES), json.ParseOptions(explicit_schema=schema)
    opened: Iterable[pa.RecordBatch]
    try:
        if hasattr(json, "open_json"):
            opened = json.open_json(source, read, parse)
        else:  # pyarrow before version 20 cannot read a JSON file in blocks.
            opened = json.read_json(source, read, parse).to_batches()
    except pa.ArrowInvalid as error:
        if "Empty JSON" in str(error):
            return  # An empty file is valid, and contains no rows.
        raise
    for batch in opened:
        # Columns in the schema that are not in the file would contain only nulls. They are omitted.
        absent = [n for n in ("topic", "partition", "key") if batch.column(n).null_count == len(batch)]
        yield from _slices(batch.select([n for n in batch.schema.names if n not in absent]))


def milliseconds(column: pa.Array, now: int) -> pa.Array:
    """Convert a timestamp column to integers (ms) or Arrow timestamps. `now` replaces nulls."""
    # A string must be a number of ms, or a time in ISO format, by default in UTC.
    kind = column.type
    if pa.types.is_null(kind):
        return pa.array([now] * len(column), pa.int64())
    if _is_text(kind):
        return _parsed_times(column).fill_null(now)
    if not column.null_count:
        return column
    if pa.types.is_integer(kind):
        return _cast(column, pa.int64()).fill_null(now)
    if pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.unit == "s"):
        # A column of dates or seconds cannot store the current time in milliseconds, so convert the column.
        column = _cast(column, pa.timestamp("ms", getattr(kind, "tz", None)))
    if pa.types.is_timestamp(column.type):
        return column.fill_null(pa.scalar(now, pa.timestamp("ms", "UTC")).cast(column.type))
    return column  # The caller passes the column to columns_of(), which rejects its type.


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise RowsError(f"the column 'timestamp' contains a value that is too large: {error}") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _parsed_times(column: pa.Array) -> pa.Array:
    """Parse a column of strings, and return milliseconds since 1970-01-01 UTC as int64. Nulls remain null."""
    text = column.cast(pa.string())
    # Remove the digits after the milliseconds, because Arrow rejects timestamps with these digits.
    text = pc.replace_substring_regex(text, r"([.][0-9]{3})[0-9]{1,6}", r"\1")
    numeric = pc.match_substring_regex(text, _NUMBER_TEXT)
    zoned = pc.match_substring_regex(text, _ZONE_TEXT)
    local = pc.invert(pc.or_(numeric, zoned))
    nothing = pa.scalar(None, pa.string())
    try:
        numbers = pc.if_else(numeric, text, nothing).cast(pa.int64())
        # Arrow converts times with a time zone and times without a time zone to different types.
        with_zone = pc.if_else(zoned, text, nothing).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        without_zone = pc.if_else(local, text, nothing).cast(pa.timestamp("ms")).cast(pa.int64())
    except pa.ArrowInvalid as error:
        found = re.search("string: '(.*)' as a scalar", str(error))
        what = repr(found[1]) if found else "text"
        raise RowsError(
            f"the column 'timestamp' contains {what}, which is not a time; valid forms are a number of "
            "milliseconds since 1970-01-01 UTC, and an ISO date or time"
        ) from None
    times = pc.coalesce(with_zone, without_zone)
    if pc.any(pc.less(times, 0)).as_py():
        # In Kafka, -1 means that a record has no timestamp.
        raise RowsError("the column 'timestamp' contains a time before 1970, which Kafka cannot represent")
    return pc.coalesce(numbers, times)


def header_structs(column: pa.Array) -> pa.Array:
    """Convert the column `headers` from lists of pairs to lists of structs."""
    # In JSON, a pair is an array of two strings. Other columns are returned unchanged.
    kind = column.type
    inner = kind.value_type if _is_list(kind) else kind
    if _is_text(inner) or pa.types.is_struct(kind):
        raise RowsError(f"the column 'headers' contains values of the type {kind}; {HEADER_PAIRS}")
    if not _is_list(kind):
        return column
    if pa.types.is_null(inner):
        if len(column.flatten()):
            raise RowsError(f"the column 'headers' contains a null in a list; {HEADER_PAIRS}")
        return pa.nulls(len(column))
    if not _is_list(inner):
        return column
    try:
        # If an inner list begins with a null, pyarrow's JSON reader creates an invalid array.
        column.validate(full=True)
    except pa.ArrowInvalid:
        raise RowsError(f"the column 'headers' contains a header key that is null; {HEADER_PAIRS}") from None
    pairs = column.flatten()
    if not len(pairs):
        return pa.nulls(len(column))
    if pairs.null_count or not pc.all(pc.equal(pc.list_value_length(pairs), 2)).as_py():
        raise RowsError(f"the column 'headers' contains a list that is not a pair; {HEADER_PAIRS}")
    words = pairs.flatten()
    structs = pa.StructArray.from_arrays([words[::2], words[1::2]], ["key", "value"])
    counts = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts.cast(pa.int64()))])
    return pa.LargeListArray.from_arrays(offsets, structs)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def text_codes(column: pa.Array) -> tuple[list[str | None], Any]:
    """Dictionary-encode a column of strings. Return the distinct strings, and an array with one index per row."""
    encoded = column.dictionary_encode("encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def whole_numbers(column: pa.Array) -> tuple[Any, Any]:
    """Return the values of an integer column as int64, and a boolean mask of its nulls. Nulls become -1."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise RowsError(f"the column 'partition' has the type {column.type}; cast it to int32")
    null = column.is_null().to_numpy(zero_copy_only=False)
    return column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), null
