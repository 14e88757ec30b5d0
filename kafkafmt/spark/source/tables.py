"""Options of SQL tables.

Spark (4.2) hands a table's options to a Python data source when the table is created, among the table's properties, and hands it none
when the table is read or written. The columns, with their metadata, come back each time. So the options are kept in the metadata of
the first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

KEPT = "kafkafmt.options"
PREFIX = "option."
"""Of the properties that repeat what a user wrote under OPTIONS."""


def table_options(given: Mapping[str, str], names: Sequence[str]) -> dict[str, str] | None:
    """Return a user's options of a table that is being created, or None if `given` does not belong to a table.

    Everything that Spark adds (owner, provider, external, …) and other TBLPROPERTIES are left out. `location` is the path.
    """
    if "provider" not in given:
        return None
    known = {name.lower() for name in names}
    options = {name: value for name, value in given.items() if name.lower() in known}
    options |= {name[len(PREFIX) :]: value for name, value in given.items() if name.lower().startswith(PREFIX)}
    path = given.get("path") or given.get("location")
    return options | ({"path": path} if path else {})


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return a schema that keeps a table's options."""
    first, *rest = schema.fields
    return StructType(
        [StructField(first.name, first.dataType, first.nullable, {KEPT: json.dumps(dict(options))}), *rest]
    )


def kept_options(schema: StructType) -> dict[str, str]:
    """Return the options that a table's schema keeps; empty if it keeps none."""
    found: dict[str, Any] = {}
    for field in schema.fields:
        found |= json.loads((field.metadata or {}).get(KEPT, "{}"))
    return {str(name): str(value) for name, value in found.items()}
