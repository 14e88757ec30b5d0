"""Find records by conditions on their keys, values, headers and metadata."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand
from .byte_pattern import BytePattern
from .find import CHUNK_ROWS, Conditions, Found, HeaderEquals, PartitionSearch, RowTest, Search
from .json_paths import JsonEquals, json_path, values_of_text

if TYPE_CHECKING:
    from .record_filter import (
        ANYTHING,
        COLUMNS,
        NOTHING,
        OPERATORS,
        PARTITION,
        TIMESTAMP,
        TOPIC,
        AllOf,
        AnyOf,
        Comparison,
        Filter,
        columns_of,
        for_partition,
        narrowed,
    )
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "record_filter": (
                "ANYTHING", "AllOf", "AnyOf", "COLUMNS", "Comparison", "Filter", "NOTHING", "OPERATORS", "PARTITION",
                "TIMESTAMP", "TOPIC", "columns_of", "for_partition", "narrowed",
            ),
        },
    )  # fmt: skip

__all__ = [
    "ANYTHING", "CHUNK_ROWS", "COLUMNS", "NOTHING", "OPERATORS", "PARTITION", "TIMESTAMP", "TOPIC", "AllOf", "AnyOf",
    "BytePattern", "Comparison", "Conditions", "Filter", "Found", "HeaderEquals", "JsonEquals", "PartitionSearch",
    "RowTest", "Search", "columns_of", "for_partition", "json_path", "narrowed", "values_of_text",
]  # fmt: skip
