"""Encode Arrow record batches as Parquet.

The default columns are `key`, `value`, `offset`, `timestamp`, `timestampType` and `headers`. The
topic and the partition are not columns, because they are in the directory names (layout.py) and in
the key-value metadata of each file. If a file may contain several partitions, it has a column
`partition` after the column `value`.

The columns `offset` and `timestamp` are delta-encoded and have statistics. The columns
`timestampType` and `partition` are dictionary-encoded. The other columns have neither dictionaries
nor statistics, because these would slow down writers more than they would speed up readers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..arrow.builder import SCHEMA, schema_of
from .dates import fields_of
from .options import DEFAULT_FILE_SIZE, DIRECTORY_COLUMNS

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")
JOINED_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
"""Columns of files that may contain several partitions."""
NUMBERS = ("offset", "timestamp", "timestampMillis")
ROW_GROUP_BYTES = 64 << 20
"""Largest size of a row group before compression, in bytes. It limits the memory use of a worker."""
ROW_GROUP_ROWS = 1 << 20
ROW_GROUPS_PER_FILE = 4
"""Smallest number of row groups in a file of the target size.

It is greater than 1, because a file can end only after a row group. The size of a row group is
measured before compression.
"""


@dataclass(frozen=True)
class FileFormat:
    """The columns, the encoding and the target size of the Parquet files of an export."""

    compression: str = "zstd"
    level: int | None = None
    file_size: int = DEFAULT_FILE_SIZE
    """Target size of a file, in bytes."""
    partition_by: str | None = None
    """"day" or "hour" if the records of each day or hour are written to separate files. Otherwise None."""
    joined: bool = False
    """Whether a file may contain several partitions. The partition is then a column."""
    chosen: tuple[str, ...] | None = None
    """Names of the columns that the user selected. None stands for the default columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        if self.chosen is None:
            return JOINED_COLUMNS if self.joined else COLUMNS
        in_names = DIRECTORY_COLUMNS[:1] if self.joined else DIRECTORY_COLUMNS
        stored = tuple(name for name in self.chosen if name not in in_names)
        return ("partition", *stored) if self.joined and "partition" not in stored else stored

    @property
    def decoded_columns(self) -> tuple[str, ...]:
        """Names of the columns that tasks decode. They include offset and timestamp, which the report needs."""
        return self.columns + tuple(name for name in ("offset", "timestamp") if name not in self.columns)

    @property
    def row_group_bytes(self) -> int:
        """Largest size of a row group before compression, in bytes."""
        return min(ROW_GROUP_BYTES, self.file_size // ROW_GROUPS_PER_FILE)

    def open(self, where: Any, metadata: dict[str, str]) -> pq.ParquetWriter:
        """Create a Parquet file with the columns and encodings of this format, and return its writer."""
        return open_writer(where, schema_of(self.columns).with_metadata(metadata), self.compression, self.level)


def open_writer(where: str | os.PathLike[str] | Any, schema: pa.Schema, compression: str, level: int | None) -> Any:
    """Return a ParquetWriter that encodes columns as described in this module. `where` is a path or an open file."""
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
    """Write a Parquet file without rows."""
    # It also contains the columns topic, partition, date and hour, which readers otherwise derive
    # from the directory names.
    named = [SCHEMA.field(n) for n in DIRECTORY_COLUMNS if n not in format.columns]
    named += fields_of(format.partition_by)
    schema = pa.schema([*schema_of(format.columns), *named])
    with open_writer(sink, schema, format.compression, format.level) as writer:
        writer.write_table(pa.Table.from_batches([], schema))
