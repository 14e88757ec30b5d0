"""Store the options of SQL tables in the metadata of their columns.

When an SQL table is created, Spark 4.2 passes the options and properties of the table to a Python
data source in one dict. When the table is read or written, Spark passes only the columns and their
metadata. Therefore, the options are stored in the metadata of the first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

KEPT = "kafkafmt.options"
PREFIX = "option."
"""Prefix of table properties in which Spark stores the options of the OPTIONS clause."""


def table_options(given: Mapping[str, str], names: Sequence[str]) -> dict[str, str] | None:
    """Return the options that a user has given for a new SQL table. For other queries, return None."""
    # Table properties that Spark sets, such as `owner` and `provider`, are omitted. The property
    # `location` is the option `path`.
    if "provider" not in given:
        return None
    known = {name.lower() for name in names}
    options = {name: value for name, value in given.items() if name.lower() in known}
    options |= {name[len(PREFIX) :]: value for name, value in given.items() if name.lower().startswith(PREFIX)}
    path = given.get("path") or given.get("location")
    return options | ({"path": path} if path else {})


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Store the options of a table in the metadata of the first column. Return a copy of the schema."""
    first, *rest = schema.fields
    return StructType(
        [StructField(first.name, first.dataType, first.nullable, {KEPT: json.dumps(dict(options))}), *rest]
    )


def kept_options(schema: StructType) -> dict[str, str]:
    """Return the table options in the metadata of a schema. If there are none, return an empty dict."""
    found: dict[str, Any] = {}
    for field in schema.fields:
        found |= json.loads((field.metadata or {}).get(KEPT, "{}"))
    return {str(name): str(value) for name, value in found.items()}
