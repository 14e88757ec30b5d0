"""Restore the bytes of keys, values and header values that are given as text."""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa
import pyarrow.compute as pc

from .table_files import RowsError

_ESCAPED_BYTE = r"\\x[89a-f][0-9a-f]"
"""The text that `kafkafmt cat` prints for a byte that is not part of valid UTF-8."""


def decoded(column: pa.Array, name: str, encoding: str | None) -> pa.Array:
    """Return a column of text as binary; `kafkafmt.make` describes `encoding`. RowsError: it is not such text."""
    if encoding == "utf8" or pa.types.is_null(column.type):
        return column
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if encoding is None:
        if is_text and pc.any(pc.match_substring_regex(column, _ESCAPED_BYTE)).as_py():
            raise RowsError(
                f"the column {name!r} contains \\xNN, as cat prints bytes that are not UTF-8: print the records with "
                "--bytes base64, and pass encoding='base64'; if the text is meant literally, pass encoding='utf8'"
            )
        return column
    if not is_text:
        raise RowsError(f"the column {name!r} has the type {column.type}, so it cannot be decoded as {encoding}")
    return pa.array(
        [None if text is None else _bytes_of(text, name, encoding) for text in column.to_pylist()], pa.large_binary()
    )


def decoded_headers(column: pa.Array, encoding: str | None) -> pa.Array:
    """Return a column of headers whose values are binary, as `encoding` specifies. Header keys are always text."""
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        return column
    kind = column.type.value_type
    if not pa.types.is_struct(kind) or kind.get_field_index("value") < 0:
        return column
    pairs = column.flatten()
    values = decoded(pairs.field("value"), "headers", encoding)
    structs = pa.StructArray.from_arrays([pairs.field("key"), values], ["key", "value"])
    counts = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)])
    return pa.LargeListArray.from_arrays(offsets, structs)


def _bytes_of(text: str, name: str, encoding: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else bytes.fromhex(text)
    except (binascii.Error, ValueError):
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise RowsError(f"the column {name!r} contains {shown!r}, which is not {encoding}") from None
