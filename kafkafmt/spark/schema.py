"""The columns as Spark knows them: the same names and types as in arrow.py, said in Spark's words.

Spark asks for exact equality of what a data source yields with what it declared, and says so in 2 KB of text;
here a schema that a user gave is checked first, field by field, with a line a person can read.
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
"""The seven columns of Spark's Kafka source."""
WITH_HEADERS = (*STANDARD, HEADERS)


def struct_of(names: Iterable[str]) -> StructType:
    """The columns as a schema, all nullable. ValueError for a name that is none of ours."""
    return StructType([StructField(name, TYPES[_known(name)]) for name in names])


def ddl_of(names: Iterable[str]) -> str:
    """The columns as Spark's DDL: `key binary, value binary, …`."""
    return ", ".join(f"{name} {TYPES[_known(name)].simpleString()}" for name in names)


def checked_names(schema: StructType) -> list[str]:
    """The names of a schema that a user gave as the projection. ValueError, one line, where it is not of our columns."""
    for field in schema.fields:
        wanted = TYPES[_known(field.name)].simpleString()
        given = field.dataType.simpleString()
        if given != wanted:
            raise ValueError(
                f"the schema has {field.name} {given}, but it is {wanted}: .schema() chooses columns, cast them afterwards"
            )
        if not field.nullable:
            raise ValueError(f"the schema has {field.name} as NOT NULL: leave that out, every column can be null here")
    names = schema.fieldNames()
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise ValueError(f"the schema names {twice[0]} twice")
    return names


def _known(name: str) -> str:
    if name not in TYPES:
        raise ValueError(f"there is no column {name!r}; there are {', '.join(TYPES)}")
    return name
