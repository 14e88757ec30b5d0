"""Define the Spark types of decoded keys and values, and convert Arrow arrays to them.

Spark lacks some types of Arrow, and accepts timestamps in microseconds only. Most types are those of
Spark's own `from_avro` and `from_protobuf`. A null, a decimal of more than 38 digits and a record
without fields have types that Spark can also write to Parquet.

| Arrow | Spark |
| --- | --- |
| timestamp with, without a time zone, of any unit | timestamp, timestamp_ntz |
| time32, time64 | int, bigint: the number of milliseconds or microseconds |
| duration | interval day to second |
| fixed_size_binary | binary |
| dictionary | type of its values |
| decimal256 | decimal with up to 38 digits, otherwise string |
| uint8, uint16, uint32, uint64 | smallint, int, bigint, decimal(20,0) |
| null | string |
| struct without fields | struct with the field `_`, which is null |
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..support.text import shortened, shown
from ..values.nested import EMPTY_MEMBER, convert

MOST_DIGITS = 38
BEYOND = "cannot be stored in the microseconds of Spark's timestamps"
_SIMPLE: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.null(): StringType(),
}
_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


def spark_type(type_: pa.DataType) -> DataType:
    """Return the Spark type of a decoded column."""
    is_ = pa.types
    if type_ in _SIMPLE:
        return _SIMPLE[type_]
    if is_.is_struct(type_):
        fields = [StructField(f.name, spark_type(f.type)) for f in type_]
        return StructType(fields or [StructField(EMPTY_MEMBER, BooleanType())])
    if is_.is_map(type_):
        return MapType(spark_type(type_.key_type), spark_type(type_.item_type))
    if is_.is_list(type_):
        return ArrayType(spark_type(type_.value_type))
    if is_.is_timestamp(type_):
        return TimestampNTZType() if type_.tz is None else TimestampType()
    if is_.is_decimal(type_):
        return DecimalType(type_.precision, type_.scale) if type_.precision <= MOST_DIGITS else StringType()
    if is_.is_dictionary(type_):
        return spark_type(type_.value_type)
    if is_.is_fixed_size_binary(type_):
        return BinaryType()
    if is_.is_time32(type_):
        return IntegerType()
    if is_.is_time64(type_):
        return LongType()
    if is_.is_duration(type_):
        return DayTimeIntervalType()
    raise ValueError(f"Spark has no type for columns of the Arrow type {type_}")


def arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type that Spark expects for one of its types."""
    return to_arrow_type(type_, timezone="UTC")


def sql_of(type_: DataType) -> str:
    """Return a Spark type as SQL text, in which names of fields are quoted."""
    if isinstance(type_, StructType):
        return f"struct<{', '.join(f'{quoted(f.name)}: {sql_of(f.dataType)}' for f in type_)}>"
    if isinstance(type_, ArrayType):
        return f"array<{sql_of(type_.elementType)}>"
    if isinstance(type_, MapType):
        return f"map<{sql_of(type_.keyType)}, {sql_of(type_.valueType)}>"
    return type_.simpleString()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def field_paths(name: str, type_: DataType) -> Iterator[str]:
    """Yield the names of the innermost fields in a column, such as "value.customer.country"."""
    # A name with a dot cannot be part of a path, so the struct around it is chosen as a whole.
    inner = type_
    while isinstance(inner, ArrayType | MapType):
        inner = inner.elementType if isinstance(inner, ArrayType) else inner.valueType
    if not isinstance(inner, StructType) or any("." in n or n == EMPTY_MEMBER for n in inner.names):
        yield name
        return
    for field in inner:
        yield from field_paths(f"{name}.{field.name}", field.dataType)


def check_type(given: DataType, wanted: DataType, place: str) -> None:
    """Check a type in the schema of a user, which may have fewer fields. ValueError: it is another type."""
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        if twice := next((n for n in given.names if given.names.count(n) > 1), None):
            raise ValueError(f"the schema contains the field {place}.{twice} twice")
        for field in given:
            if field.name not in wanted.names:
                raise ValueError(f"{place} has no field {shown(field.name)}")
            check_nullable(field.nullable, f"{place}.{field.name}")
            check_type(field.dataType, wanted[field.name].dataType, f"{place}.{field.name}")
    elif isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        check_nullable(given.containsNull, f"the element of {place}")
        check_type(given.elementType, wanted.elementType, place)
    elif isinstance(given, MapType) and isinstance(wanted, MapType) and given.keyType == wanted.keyType:
        check_nullable(given.valueContainsNull, f"the map value of {place}")
        check_type(given.valueType, wanted.valueType, place)
    elif given != wanted:
        texts = shortened(given.simpleString()), shortened(wanted.simpleString())
        raise ValueError(
            f"the type of {place} in the schema is {texts[0]}, but it must be {texts[1]}; "
            ".schema() only selects columns, so cast them afterwards"
        )


def check_nullable(nullable: bool, place: str) -> None:
    if not nullable:
        raise ValueError(f"{place} is NOT NULL in the schema; remove NOT NULL, because every column is nullable")


class Converter:
    """Converts columns to the types that Spark expects. `beyond` counts timestamps that microseconds cannot hold."""

    def __init__(self, type_: StructType) -> None:
        self.schema: pa.Schema = pa.schema([pa.field(f.name, arrow_type(f.dataType)) for f in type_])
        self.beyond: int = 0

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the columns and types of the schema. The order of the given columns does not matter."""
        arrays = [convert(batch.column(f.name), f.type, self._leaf) for f in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _leaf(self, array: pa.Array, type_: pa.DataType) -> pa.Array:
        if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
            return self._to_micros(array, type_)
        if pa.types.is_decimal(array.type) and pa.types.is_string(type_):
            return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], type_)
        return array.cast(type_)

    def _to_micros(self, array: pa.Array, type_: pa.DataType) -> pa.Array:
        """Return timestamps in microseconds. Nanoseconds are rounded down. Numbers beyond 64 bits become null."""
        unit, numbers = array.type.unit, array.view(pa.int64())
        if unit == "ns":
            values = np.floor_divide(numbers.fill_null(0).to_numpy(), 1000)
            micros = pa.array(values, pa.int64(), mask=np.asarray(array.is_null()))
            return micros.view(type_)
        factor = _MICROS[unit]
        limit = (1 << 63) // factor
        if factor > 1:
            fits = pc.and_(pc.greater(numbers, -limit), pc.less(numbers, limit))
            beyond = pc.sum(pc.invert(fits)).as_py() or 0
            if beyond:
                self.beyond += beyond
                numbers = pc.if_else(fits, numbers, None)
            numbers = pc.multiply(numbers, factor)
        return numbers.view(type_)
