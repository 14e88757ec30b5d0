"""Read batch headers and index positions of one intact file."""

from .batch_head import Head, header_continues, header_stands, offset_in_reach, whole_varint
from .header_reader import (
    MAX_HEADERS_READ,
    HeaderReader,
    UnclearHeadersError,
    header_tables,
    reach,
    read_batch,
    read_head,
)
from .header_walk import MARKER_SIZE, HeaderWalk, TransactionalBatches
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

__all__ = [
    "MARKER_SIZE", "MAX_HEADERS_READ", "MAX_RANGE_BYTES", "RANGE_BYTES", "Border", "Head", "HeaderReader", "HeaderWalk", "IndexFile",
    "Range", "ReadCounts", "Stats", "Stretch", "TransactionalBatches", "UnclearHeadersError", "border_near",
    "border_offset", "divide", "first_offset_at", "header_continues", "header_stands", "header_tables", "last_border",
    "last_offset_in", "offset_in_reach", "reach", "read_batch", "read_head", "stretch_of", "total", "whole_segment",
    "whole_varint",
]  # fmt: skip
