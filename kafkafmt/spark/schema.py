"""Define Spark types for the columns in `arrow.py`, and check schemas that users pass.

Spark requires the rows from a data source to match the declared schema exactly. If they do not,
Spark prints an error message of 2 KB. To give users an error message of one line instead, this
module checks a user's schema first, field by field.
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
"""The seven columns that Spark's Kafka source provides by default."""
WITH_HEADERS = (*STANDARD, HEADERS)


def struct_of(names: Iterable[str]) -> StructType:
    """Return the named columns as a Spark schema, in which every column is nullable.

    Raise ValueError for an unknown name.
    """
    return StructType([StructField(name, TYPES[_known(name)]) for name in names])


def ddl_of(names: Iterable[str]) -> str:
    """Return the named columns as a Spark DDL string, such as `key binary, value binary`.

    Raise ValueError for an unknown name.
    """
    return ", ".join(f"{name} {TYPES[_known(name)].simpleString()}" for name in names)


def checked_names(schema: StructType) -> list[str]:
    """Return the column names in a schema with which a user selected columns.

    Raise ValueError if a column is unknown, occurs twice, is NOT NULL or has the wrong type.
    """
    for field in schema.fields:
        wanted = TYPES[_known(field.name)].simpleString()
        given = field.dataType.simpleString()
        if given != wanted:
            raise ValueError(
                f"the schema has {field.name} {given}, but the column is {wanted}; .schema() can only select columns, so cast"
                " them afterwards"
            )
        if not field.nullable:
            raise ValueError(f"the schema has {field.name} as NOT NULL; omit that, because every column is nullable")
    names = schema.fieldNames()
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise ValueError(f"the schema contains {twice[0]} twice")
    return names


def _known(name: str) -> str:
    if name not in TYPES:
        raise ValueError(f"unknown column {name!r}; the columns are {', '.join(TYPES)}")
    return name
