"""Provide functions for `mapInArrow` and `mapPartitions` that decode the values in a binary column.

    decode = decode_values("value", registry="/mnt/disk/kafka-data", subject="orders-value", keep={"offset": "bigint"})
    df.mapInArrow(decode, decode.schema)

The column need not come from kafkafmt: it can be the column `value` or `key` of Spark's Kafka source.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from ..log.catalog import Source
from ..registry import SchemaRegistry, schemas
from ..support.arguments import one_of
from ..support.text import counted, shown
from ..values.arrays import add_items, decoded_batch
from ..values.decoder import SideDecoder
from ..values.framing import CONFLUENT, framing_of
from ..values.options import OnUndecodable
from ..values.plan import ValuePlan
from ..values.record_decoder import RecordDecoder, Undecodable
from ..values.sides import UNION
from ..values.writers import SubjectWriters, Writers
from .functions import check_columns
from .messages import say
from .value_types import BEYOND, Converter, quoted, spark_type, sql_of

ADDED = ("value", "value_rest", "value_error", "value_raw")


def decode_values(
    column: str = "value",
    *,
    registry: SchemaRegistry | Source,
    subject: str,
    schema: str | int = UNION,
    framing: str = "auto",
    keep: Mapping[str, str] | None = None,
    on_undecodable: OnUndecodable = "keep",
) -> ValueFunction:
    """Return a function for `mapInArrow` that decodes values which were written with the schemas of a registry.

    Parameters
    ----------
    column : str, default "value"
        Name of the binary column that contains the values, or keys.
    registry : SchemaRegistry, str or os.PathLike
        The schemas, or what `kafkafmt.schemas` accepts. They are read now, and sent to the tasks.
    subject : str
        Subject of the schemas, for example "orders-value".
    schema : "union", "latest", int or "id:N", default "union"
        Which schemas decide the columns, as in `Partition.to_arrow`.
    framing : {"auto", "confluent", "apicurio", "single-object", "none"}, default "auto"
        What precedes the values, as in `Partition.to_arrow`.
    keep : mapping of str to str, optional
        Names and Spark types of other input columns, which precede the decoded columns in the output.
        By default, no column is kept.
    on_undecodable : {"keep", "fail"}, default "keep"
        What to do with values that cannot be decoded: return null, the reason and the bytes, or fail
        the task.

    Returns
    -------
    ValueFunction
        The first argument for `mapInArrow`. Its attribute `schema` is the second argument. The output
        has one row per row of the input: the kept columns, and the columns ``value``, ``value_error``
        (string) and ``value_raw`` (binary).

    Raises
    ------
    SchemaNotFoundError
        There is no such subject or version.
    OSError
        The schemas cannot be read.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Schemas that are registered later are unknown to the function, so their values cannot be decoded.
    Schema ids in record headers are not used.

    Examples
    --------
    >>> decode = decode_values(registry="/mnt/disk/kafka-data", subject="orders-value")  # doctest: +SKIP
    >>> orders = kafka.mapInArrow(decode, decode.schema)  # doctest: +SKIP
    """
    writers = SubjectWriters(_read(registry), subject, schema, framing_of(framing, CONFLUENT))
    return ValueFunction(column, keep or {}, writers, on_undecodable)


class ValueFunction:
    """A function for `mapInArrow`, as returned by `kafkafmt.spark.decode_values`.

    Attributes
    ----------
    schema : str
        Schema of the output, as a Spark DDL string. Pass it as the second argument to `mapInArrow`.
    """

    def __init__(
        self,
        column: str,
        keep: Mapping[str, str],
        writers: Writers,
        on_undecodable: OnUndecodable,
    ) -> None:
        self.column = column
        self.keep: dict[str, str] = dict(keep)
        self.fails: bool = one_of("on_undecodable", on_undecodable, ("keep", "fail")) == "fail"
        if twice := [name for name in ADDED if name in self.keep]:
            raise ValueError(f"the output would contain the column {twice[0]} twice; remove it from keep")
        self._plan = zlib.compress(pickle.dumps(writers))
        decoded = decoded_batch(SideDecoder(_planned(self._plan), "value"))
        self._type = StructType()
        for field in decoded.schema:
            self._type.add(field.name, spark_type(field.type))
        self.schema: str = ", ".join(
            [
                *(f"{quoted(name)} {text}" for name, text in self.keep.items()),
                *(f"{field.name} {sql_of(field.dataType)}" for field in self._type),
            ]
        )

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode the values of the input column, and yield the kept columns with the decoded ones."""
        decoder = SideDecoder(_planned(self._plan), "value", False, self.fails, "row")
        converter, rows = Converter(self._type), 0
        for batch in batches:
            check_columns(batch, (self.column, *self.keep))
            values = batch.column(self.column)
            if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
                raise ValueError(f"the column {shown(self.column)} has the type {values.type}; it must be binary")
            add_items(decoder, values, rows)
            rows += len(batch)
            decoded = converter.convert(decoded_batch(decoder))
            kept = [batch.column(name) for name in self.keep]
            yield pa.RecordBatch.from_arrays([*kept, *decoded.columns], [*self.keep, *self._type.names])
        if converter.beyond:
            say(f"{counted(converter.beyond, 'timestamp')} {BEYOND}, so null")


def decode_value_partition(
    column: str | int | None = None, *, registry: SchemaRegistry | Source, subject: str
) -> Callable[[Iterable[Any]], Iterator[tuple[Any, Any, str | None]]]:
    """Return a function for `mapPartitions` that decodes values into Python objects.

    Parameters
    ----------
    column : str or int, optional
        Name or index of the field that contains the value, for an RDD of Rows or tuples. By default,
        each element of the RDD is the value itself.
    registry : SchemaRegistry, str or os.PathLike
        The schemas, or what `kafkafmt.schemas` accepts. They are read now, and sent to the tasks.
    subject : str
        Subject of the schemas, for example "orders-value".

    Returns
    -------
    callable
        A function that takes an iterator of elements. For each element, it yields a tuple: the
        element, the decoded value as an object for JSON, and the reason why there is none, or None.

    Raises
    ------
    OSError
        The schemas cannot be read.
    TypeError, ValueError
        An argument is wrong.

    Notes
    -----
    Each value is decoded by the schema with which it was written. Prefer `decode_values`, which is
    many times faster.

    Examples
    --------
    >>> decode = decode_value_partition("value", registry="schemas/", subject="orders-value")  # doctest: +SKIP
    >>> df.rdd.mapPartitions(decode).map(lambda row: row[1]["id"]).sum()  # doctest: +SKIP
    """
    writers = SubjectWriters(_read(registry), subject)

    def decode(elements: Iterable[Any]) -> Iterator[tuple[Any, Any, str | None]]:
        decoder = RecordDecoder(writers, "value")
        for element in elements:
            raw = element if column is None else element[column]
            found = decoder.decode(None if raw is None else bytes(raw))
            yield element, found.value, None if found.error is None else _text(found.error)

    return decode


def _text(error: Undecodable) -> str:
    return error.message if error.message.startswith(error.code) else f"{error.code}: {error.message}"


def _read(registry: SchemaRegistry | Source) -> SchemaRegistry:
    return registry if isinstance(registry, SchemaRegistry) else schemas(registry, on_message=say)


@lru_cache(maxsize=4)
def _planned(packed: bytes) -> ValuePlan:
    """Return the plan for the schemas of a subject. Each process plans once."""
    return ValuePlan(pickle.loads(zlib.decompress(packed)))
