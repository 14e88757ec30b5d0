"""Define Spark types for the columns of records, and check schemas that users pass.

The rows of a data source must match its declared schema exactly. Otherwise, Spark prints an error
message of 2 KB. Therefore, each field of a schema that a user passes is checked first. The error
message of this check is a single line.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..support.text import shown

HEADERS = "headers"
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "timestampMillis": LongType(),
}
STANDARD = tuple(name for name in TYPES if name not in (HEADERS, "timestampMillis"))
"""The seven columns that Spark's Kafka source returns by default."""
WITH_HEADERS = (*STANDARD, HEADERS)


def struct_of(names: Iterable[str]) -> StructType:
    """Return a Spark schema with the named columns, all nullable. ValueError: a name is unknown, or there is none."""
    names = list(names)
    if not names:
        raise ValueError("no column is selected; name at least one column")
    return StructType([StructField(name, TYPES[_known(name)]) for name in names])


def ddl_of(names: Iterable[str]) -> str:
    """Return the named columns as a Spark DDL string, such as `key binary, value binary`."""
    return ", ".join(f"{name} {TYPES[_known(name)].simpleString()}" for name in names)


def checked_names(schema: StructType) -> list[str]:
    """Return the names of the columns of a user's schema."""
    # ValueError: it is empty, or a column is unknown, duplicated, not nullable or of the wrong
    # type.
    if not schema.fields:
        raise ValueError("the schema has no columns; name at least one column")
    for field in schema.fields:
        wanted = TYPES[_known(field.name)].simpleString()
        given = field.dataType.simpleString()
        if given != wanted:
            raise ValueError(
                f"the type of {field.name} in the schema is {given}, but it must be {wanted}; .schema() only selects "
                "columns, so cast them afterwards"
            )
        if not field.nullable:
            raise ValueError(
                f"{field.name} is NOT NULL in the schema; remove NOT NULL, because every column is nullable"
            )
    names = schema.fieldNames()
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise ValueError(f"the schema contains the column {twice[0]} twice")
    return names


def _known(name: str) -> str:
    if name not in TYPES:
        raise ValueError(f"unknown column {shown(name)}; the valid columns are {', '.join(TYPES)}")
    return name
