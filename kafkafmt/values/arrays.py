"""Decode an Arrow array of bytes, which need not come from a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..log.catalog import Source
from ..registry import SchemaRegistry, schemas
from ..support.arguments import one_of
from .framing import CONFLUENT, framing_of
from .sides import UNION
from .writers import SubjectWriters

if TYPE_CHECKING:
    import pyarrow as pa

    from .decoder import SideDecoder
    from .options import OnUndecodable


def decode_values(
    values: Any,
    *,
    registry: SchemaRegistry | Source,
    subject: str,
    schema: str | int = UNION,
    framing: str = "auto",
    on_undecodable: OnUndecodable = "keep",
) -> pa.RecordBatch:
    """Decode bytes that were written with the schemas of a registry, for example in a UDF or in a consumer.

    Parameters
    ----------
    values : pyarrow.Array, pyarrow.ChunkedArray, or sequence of bytes or None
        Keys or values of records.
    registry : SchemaRegistry, str or os.PathLike
        The schemas, or what `kafkafmt.schemas` accepts.
    subject : str
        Subject of the schemas, for example "orders-value".
    schema : "union", "latest", int or "id:N", default "union"
        Which schemas decide the columns, as in `Partition.to_arrow`.
    framing : {"auto", "confluent", "apicurio", "single-object", "none"}, default "auto"
        What precedes the values, as in `Partition.to_arrow`.
    on_undecodable : {"keep", "fail"}, default "keep"
        What to do with bytes that cannot be decoded: return null, the reason and the bytes, or raise
        an error.

    Returns
    -------
    pyarrow.RecordBatch
        One row per item, with the columns ``value`` (the type of the schemas), ``value_error``
        (string) and ``value_raw`` (binary). The last two are null unless an item cannot be decoded.
        If values are JSON, ``value_rest`` (string) has the JSON of members that are not in the schema.

    Raises
    ------
    UndecodableError
        An item cannot be decoded, and `on_undecodable` is "fail". The message has its index.
    SchemaNotFoundError
        There is no such subject or version.
    TypeError, ValueError
        An argument is wrong.

    Examples
    --------
    >>> batch = kafkafmt.decode_values(column, registry="schemas/", subject="orders-value")  # doctest: +SKIP
    >>> batch["value"]  # doctest: +SKIP
    """
    from .decoder import SideDecoder
    from .plan import ValuePlan

    if not isinstance(registry, SchemaRegistry):
        registry = schemas(registry)
    fails = one_of("on_undecodable", on_undecodable, ("keep", "fail")) == "fail"
    writers = SubjectWriters(registry, subject, schema, framing_of(framing, CONFLUENT))
    decoder = SideDecoder(ValuePlan(writers), "value", False, fails, "item")
    add_items(decoder, values)
    return decoded_batch(decoder)


def decoded_batch(decoder: SideDecoder) -> pa.RecordBatch:
    """Return the items that were decoded, what their columns do not hold, the errors and the bytes."""
    import pyarrow as pa

    array, errors, raw, *rest = decoder.finish()
    names = ["value", *("value_rest" for _ in rest), "value_error", "value_raw"]
    return pa.RecordBatch.from_arrays([array, *rest, errors, raw], names)


def add_items(decoder: SideDecoder, values: Any, first: int = 0) -> None:
    """Decode the items of an array. `first` is the number of the first one in error messages."""
    for array in _binary_arrays(values):
        positions, lengths, data = _spans(array)
        decoder.add(data, positions, lengths, np.arange(first, first + len(array)))
        first += len(array)


def _binary_arrays(values: Any) -> list[pa.Array]:
    import pyarrow as pa

    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, pa.binary())
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [chunk if pa.types.is_large_binary(chunk.type) else chunk.cast(pa.binary()) for chunk in chunks]


def _spans(array: pa.Array) -> tuple[Any, Any, pa.Buffer]:
    """Return the position and the length of each item, and the buffer with the bytes."""
    import pyarrow as pa

    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.empty(0, np.int64), np.empty(0, np.int32), b""
    dtype = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    ends = np.frombuffer(offsets, dtype)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(ends).astype(np.int32)
    if array.null_count:
        lengths[np.flatnonzero(np.asarray(array.is_null()))] = -1
    return ends[:-1], lengths, b"" if data is None else data
