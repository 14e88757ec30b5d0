"""Keep the options of SQL tables in the metadata of their columns.

When a table is created, Spark 4.2 passes its options and its properties to a Python data source in
one dict. When the table is read or written, Spark passes no options, but it always passes the
columns with their metadata. Therefore, the options are kept in the metadata of the first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

KEPT = "kafkafmt.options"
PREFIX = "option."
"""Prefix of the table properties that repeat the options from the OPTIONS clause."""


def table_options(given: Mapping[str, str], names: Sequence[str]) -> dict[str, str] | None:
    """Return the user's options for a table that is being created, or None if none is created.

    Properties that Spark adds (owner, provider, external, …) and other TBLPROPERTIES are omitted.
    The property `location` is used as the option `path`.
    """
    if "provider" not in given:
        return None
    known = {name.lower() for name in names}
    options = {name: value for name, value in given.items() if name.lower() in known}
    options |= {name[len(PREFIX) :]: value for name, value in given.items() if name.lower().startswith(PREFIX)}
    path = given.get("path") or given.get("location")
    return options | ({"path": path} if path else {})


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with a table's options in the metadata of the first column."""
    first, *rest = schema.fields
    return StructType(
        [StructField(first.name, first.dataType, first.nullable, {KEPT: json.dumps(dict(options))}), *rest]
    )


def kept_options(schema: StructType) -> dict[str, str]:
    """Return the table options from the metadata of a schema. The dict is empty if it has none."""
    found: dict[str, Any] = {}
    for field in schema.fields:
        found |= json.loads((field.metadata or {}).get(KEPT, "{}"))
    return {str(name): str(value) for name, value in found.items()}
