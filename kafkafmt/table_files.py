"""Read rows from Parquet, CSV and JSON files, or from other tables, as Arrow record batches.

Memory is bounded: a file is read in parts of about 16 MiB.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

FORMATS = ("parquet", "csv", "json")
"""File formats, which are also the suffixes of file names. "json" means JSON lines."""
BLOCK_BYTES = 16 << 20
MAX_ROWS = 1 << 16
TEXT_COLUMNS = ("topic", "key", "value")
_SUFFIXES = {"parquet": "parquet", "pq": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}


class RowsError(ValueError):
    """Raised if rows cannot become records, because a column or one of its values is wrong."""


def format_of(source: Any, given: str | None) -> str | None:
    """Return the format of a file, by its name if `given` is None. Return None for a table."""
    if given is not None:
        if given not in FORMATS:
            raise ValueError(f"source_format is {given!r}; it must be one of {', '.join(FORMATS)}")
        return given
    if not isinstance(source, str | os.PathLike):
        return None
    if source == "-":
        return "json"
    found = _SUFFIXES.get(Path(source).suffix.lower().removeprefix("."))
    if found is None:
        raise ValueError(
            f"the format of {os.fspath(source)!r} is unknown; its name must end in {', '.join(f'.{f}' for f in FORMATS)}, "
            "or source_format must be given"
        )
    return found


def read_rows(source: Any, source_format: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file or of a table.

    Parameters
    ----------
    source : str, os.PathLike or table
        The path of a file, "-" for stdin, or an object with the method ``__arrow_c_stream__``.
    source_format : {"parquet", "csv", "json"}, optional
        Format of the file. By default, the suffix of its name decides. stdin contains JSON lines by
        default.

    Raises
    ------
    OSError
        The file cannot be read, or is not valid.
    TypeError, ValueError
        `source` is neither a path nor a table, or the format is unknown.
    """
    kind = format_of(source, source_format)
    if kind is None:
        yield from _table_batches(source)
        return
    name = "stdin" if source == "-" else os.fspath(source)
    opened: Any = sys.stdin.buffer if source == "-" else name
    if kind == "parquet" and source == "-":
        raise ValueError("Parquet cannot be read from stdin; specify the path of the file")
    try:
        if source != "-":
            open(name, "rb").close()  # pyarrow's errors do not have a file name
        yield from {"parquet": _parquet, "csv": _csv, "json": _json}[kind](opened)
    except pa.ArrowInvalid as error:
        text = " ".join(str(error).split())[:200]
        raise OSError(errno.EINVAL, f"the file cannot be read as {kind}: {text}", name) from None


def _table_batches(source: Any) -> Iterator[pa.RecordBatch]:
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(f"source must be a path, or a table such as a pyarrow.Table, not {type(source).__name__}")
    reader = source if isinstance(source, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(source)
    for batch in reader:
        yield from _slices(batch)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), MAX_ROWS):
        yield batch.slice(start, MAX_ROWS)


def _parquet(path: str) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        row_bytes = max((g.total_byte_size // max(g.num_rows, 1) for g in groups), default=0)
        yield from file.iter_batches(batch_size=max(1, min(MAX_ROWS, BLOCK_BYTES // max(row_bytes, 1))))


def _csv(source: Any) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv

    types = {name: pa.string() for name in TEXT_COLUMNS} | {"partition": pa.int64()}
    # An empty field is null, and a quoted empty field is an empty string, as in Spark.
    options = csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    for batch in csv.open_csv(source, csv.ReadOptions(block_size=BLOCK_BYTES), convert_options=options):
        yield from _slices(batch)


def _json(source: Any) -> Iterator[pa.RecordBatch]:
    from pyarrow import json

    # Without a schema, pyarrow would convert text that resembles a time.
    schema = pa.schema([*((name, pa.string()) for name in TEXT_COLUMNS), ("partition", pa.int64())])
    read, parse = json.ReadOptions(block_size=BLOCK_BYTES), json.ParseOptions(explicit_schema=schema)
    opened: Iterable[pa.RecordBatch]
    try:
        if hasattr(json, "open_json"):
            opened = json.open_json(source, read, parse)
        else:  # pyarrow before 20 cannot read JSON in parts
            opened = json.read_json(source, read, parse).to_batches()
    except pa.ArrowInvalid as error:
        if "Empty JSON" in str(error):  # a file without lines contains no rows
            return
        raise
    for batch in opened:
        # The schema adds its columns even if no row contains them.
        absent = [n for n in ("topic", "partition", "key") if batch.column(n).null_count == len(batch)]
        yield from _slices(batch.select([n for n in batch.schema.names if n not in absent]))


def milliseconds(column: pa.Array, now: int) -> pa.Array:
    """Return a column of times as integers or Arrow timestamps. Null times become `now`.

    Texts in ISO format are converted. If a text has no time zone, it is in UTC.
    """
    if pa.types.is_null(column.type):
        return pa.array([now] * len(column), pa.int64())
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        try:
            column = column.cast(pa.timestamp("ms", "UTC"))
        except pa.ArrowInvalid:
            try:
                column = column.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
            except pa.ArrowInvalid as error:
                raise RowsError(f"timestamp: {error}; use milliseconds or a time in ISO format") from None
    if column.null_count:
        value = pa.scalar(now, pa.timestamp("ms", "UTC")).cast(column.type) if _is_time(column) else now
        column = column.fill_null(value)
    return column


def _is_time(column: pa.Array) -> bool:
    return bool(pa.types.is_timestamp(column.type) or pa.types.is_date(column.type))


def header_structs(column: pa.Array) -> pa.Array:
    """Return a header column of pairs (JSON arrays of two texts) as a column of structs.

    All other columns are returned unchanged.
    """
    if not pa.types.is_list(column.type):
        return column
    inner = column.type.value_type
    if pa.types.is_null(inner):
        return pa.nulls(len(column))
    if not pa.types.is_list(inner):
        return column
    if pa.types.is_null(inner.value_type) or not len(column.flatten()):
        return pa.nulls(len(column)) if not len(column.flatten()) else column
    pairs = column.flatten()
    if not pc.all(pc.equal(pc.list_value_length(pairs), 2)).as_py():
        raise RowsError('headers: each header must be a pair, such as ["name", "value"]')
    words = pairs.flatten()
    structs = pa.StructArray.from_arrays([words[::2], words[1::2]], ["key", "value"])
    counts = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts.cast(pa.int64()))])
    return pa.LargeListArray.from_arrays(offsets, structs)


def text_codes(column: pa.Array) -> tuple[list[str | None], Any]:
    """Return the distinct texts of a column, and the index of each row's text as a NumPy array."""
    encoded = column.dictionary_encode("encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def whole_numbers(column: pa.Array) -> tuple[Any, Any]:
    """Return an integer column as a NumPy array of int64, and a mask of its nulls. Nulls become -1."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise RowsError(f"partition has the type {column.type}; cast it to int32")
    null = column.is_null().to_numpy(zero_copy_only=False)
    return column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), null
