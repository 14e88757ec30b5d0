"""Read batch headers and index positions of one intact file."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand
from .batch_head import Head, header_continues, header_stands, offset_in_reach, whole_varint
from .header_walk import MARKER_SIZE, HeaderWalk, TransactionalBatches, UnclearHeadersError, read_batch
from .heads import MAX_HEADERS_READ, reach, read_head
from .index_ranges import (
    MAX_RANGE_BYTES,
    RANGE_BYTES,
    Border,
    IndexFile,
    Range,
    ReadCounts,
    Stretch,
    border_near,
    border_offset,
    divide,
    first_offset_at,
    last_border,
    last_offset_in,
    stretch_of,
    whole_segment,
)
from .segment_stats import Stats, total

if TYPE_CHECKING:
    from .header_rows import header_tables
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "header_rows": ("header_tables",),
        },
    )  # fmt: skip

__all__ = [
    "MARKER_SIZE", "MAX_HEADERS_READ", "MAX_RANGE_BYTES", "RANGE_BYTES", "Border", "Head", "HeaderWalk", "IndexFile",
    "Range", "ReadCounts", "Stats", "Stretch", "TransactionalBatches", "UnclearHeadersError", "border_near",
    "border_offset", "divide", "first_offset_at", "header_continues", "header_stands", "header_tables", "last_border",
    "last_offset_in", "offset_in_reach", "reach", "read_batch", "read_head", "stretch_of", "total", "whole_segment",
    "whole_varint",
]  # fmt: skip
