"""Encode record batches as Parquet.

The columns are key, value, offset, timestamp, timestampType and headers. The topic and the
partition are in the directory names (layout.py) and in the key-value metadata of each file.

The topic and the partition are not columns. They are in the directory names (layout.py) and in the
key-value metadata of each file. If a file may contain several partitions, the partition is a column
after the value. Offsets and timestamps are delta-encoded and have statistics. `timestampType` and
the partition are dictionary-encoded. The other columns have neither dictionaries nor statistics,
because these would cost more time than they save.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..arrow import SCHEMA, schema_of
from .dates import fields_of
from .options import DEFAULT_FILE_SIZE, DIRECTORY_COLUMNS

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
JOINED_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
"""Columns of files that may contain several partitions."""
NUMBERS = ("offset", "timestamp", "timestampMillis")
ROW_GROUP_BYTES = 64 << 20
"""Largest size of a row group before compression. It limits the memory that a worker needs."""
ROW_GROUP_ROWS = 1 << 20
ROW_GROUPS_PER_FILE = 4
"""Minimum number of row groups in a file of the target size.

The number is greater than one because a file can end only after a row group. It is based on the
size of the row groups before compression.
"""


@dataclass(frozen=True)
class FileFormat:
    """The content and encoding of the Parquet files."""

    compression: str = "zstd"
    level: int | None = None
    file_size: int = DEFAULT_FILE_SIZE
    """Target size of a file, in bytes."""
    partition_by: str | None = None
    """Period whose records are written to separate files: "day" or "hour". None means no period."""
    joined: bool = False
    """Whether a file may contain several partitions. The partition is then a column."""
    chosen: tuple[str, ...] | None = None
    """Names of the columns that the user chose. None selects the default columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the files."""
        if self.chosen is None:
            return JOINED_COLUMNS if self.joined else COLUMNS
        in_names = DIRECTORY_COLUMNS[:1] if self.joined else DIRECTORY_COLUMNS
        stored = tuple(name for name in self.chosen if name not in in_names)
        return ("partition", *stored) if self.joined and "partition" not in stored else stored

    @property
    def decoded_columns(self) -> tuple[str, ...]:
        """Names of the columns that tasks decode. The offset names files and is in the report."""
        return self.columns + tuple(name for name in ("offset", "timestamp") if name not in self.columns)

    @property
    def row_group_bytes(self) -> int:
        """Largest size of a row group before compression, in bytes."""
        return min(ROW_GROUP_BYTES, self.file_size // ROW_GROUPS_PER_FILE)

    def open(self, where: Any, metadata: dict[str, str]) -> pq.ParquetWriter:
        """Open a Parquet file with this content."""
        return open_writer(where, schema_of(self.columns).with_metadata(metadata), self.compression, self.level)


def open_writer(where: str | os.PathLike[str] | Any, schema: pa.Schema, compression: str, level: int | None) -> Any:
    """Return a ParquetWriter with the column encodings that the export uses.

    `where` is a path or an open file.
    """
    names = set(schema.names)
    return pq.ParquetWriter(
        where,
        schema,
        compression=compression,
        compression_level=level,
        use_dictionary=[n for n in ("topic", "partition", "timestampType") if n in names],
        write_statistics=[n for n in ("partition", *NUMBERS) if n in names],
        column_encoding={n: "DELTA_BINARY_PACKED" for n in NUMBERS if n in names},
    )


def write_empty(sink: Any, format: FileFormat) -> None:
    """Write a Parquet file without rows to the open file `sink`.

    The last columns of this file are those that readers otherwise derive from directory names:
    topic, partition, date and hour.
    """
    named = [SCHEMA.field(n) for n in DIRECTORY_COLUMNS if n not in format.columns]
    named += fields_of(format.partition_by)
    schema = pa.schema([*schema_of(format.columns), *named])
    with open_writer(sink, schema, format.compression, format.level) as writer:
        writer.write_table(schema.empty_table())
