"""Encode Arrow record batches as Parquet.

The default columns are `key`, `value`, `offset`, `timestamp`, `timestampType` and `headers`. The
topic and the partition are not columns, because they are in the directory names (layout.py) and in
the key-value metadata of each file. If a file may contain several partitions, it has a column
`partition` after the column `value`.

The columns `offset` and `timestamp` are delta-encoded and have statistics. The columns
`timestampType` and `partition` are dictionary-encoded. The other columns have neither dictionaries
nor statistics, because these would slow down writers more than they would speed up readers. Numbers
and times in decoded keys and values are encoded like offsets, and enums have dictionaries.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..arrow.builder import SCHEMA, schema_of
from ..support.text import plain
from ..values.flat_layout import OWN, FlatLayout
from ..values.sides import SIDES, side_of
from .dates import fields_of
from .decoded import ExportDecoding, stored_array
from .errors import REMEDY, ResumeError
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
    decoding: ExportDecoding | None = None
    """How keys and values are decoded. None: they are stored as bytes."""
    temporary: bool = False
    """Whether the records of the files are copied to a single file, which then has the final layout."""

    def of_topic(self, decoding: ExportDecoding | None) -> FileFormat:
        """Return the format of the files of one topic, whose keys and values are decoded or stored as bytes."""
        if decoding is None:
            names = None if self.chosen is None else tuple(dict.fromkeys(map(side_of, self.chosen)))
            return replace(self, chosen=names)
        return replace(self, decoding=replace(decoding, columns=self._with_needed(self._chosen)))

    @property
    def _chosen(self) -> tuple[str, ...]:
        """Names of the chosen columns and fields that are stored in the files."""
        if self.chosen is None:
            return JOINED_COLUMNS if self.joined else COLUMNS
        in_names = DIRECTORY_COLUMNS[:1] if self.joined else DIRECTORY_COLUMNS
        stored = tuple(name for name in self.chosen if name not in in_names)
        return ("partition", *stored) if self.joined and "partition" not in stored else stored

    @staticmethod
    def _with_needed(names: tuple[str, ...]) -> tuple[str, ...]:
        return names + tuple(name for name in ("offset", "timestamp") if name not in names)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the files."""
        if self.decoding is None:
            return self._chosen
        added = set(self._with_needed(self._chosen)) - set(self._chosen)
        return tuple(name for name in self.decoding.plan.schema.names if name not in added)

    @property
    def decoded_columns(self) -> tuple[str, ...]:
        """Names of the columns that tasks decode. They include offset and timestamp, which the report needs."""
        return self._with_needed(self.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of the files."""
        return self._nested if self.flat is None else self.flat.schema

    @cached_property
    def _nested(self) -> pa.Schema:
        if self.decoding is None:
            return schema_of(self.columns)
        return pa.schema([self.decoding.stored.field(name) for name in self.columns])

    @cached_property
    def flat(self) -> FlatLayout | None:
        """The arrangement of the columns, if they are not nested."""
        if self.decoding is None or self.decoding.layout == "nested" or self.temporary:
            return None
        return FlatLayout(self._nested, self.decoding.plan.plans)

    @property
    def decoded_schema(self) -> pa.Schema:
        """Arrow schema of the record batches that tasks decode."""
        return schema_of(self.decoded_columns) if self.decoding is None else self.decoding.plan.schema

    def stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a decoded batch that the files contain, with the types that Parquet can store."""
        rows = batch.select(self.columns)
        if self.decoding is not None and rows.schema != self._nested:
            arrays = [stored_array(array, f.type) for array, f in zip(rows.columns, self._nested, strict=True)]
            rows = pa.RecordBatch.from_arrays(arrays, schema=self._nested)
        return rows if self.flat is None else self.flat.arrange(rows)

    @property
    def row_group_bytes(self) -> int:
        """Largest size of a row group before compression, in bytes."""
        return min(ROW_GROUP_BYTES, self.file_size // ROW_GROUPS_PER_FILE)

    def open(self, where: Any, metadata: dict[str, str]) -> pq.ParquetWriter:
        """Create a Parquet file with the columns and encodings of this format, and return its writer."""
        return open_writer(where, self.schema.with_metadata(metadata), self.compression, self.level, self.flat)


def open_writer(
    where: str | os.PathLike[str] | Any,
    schema: pa.Schema,
    compression: str,
    level: int | None,
    flat: FlatLayout | None = None,
) -> Any:
    """Return a ParquetWriter that encodes columns as described in this module. `where` is a path or an open file."""
    decoded, prefix = (SIDES, "") if flat is None else (flat.fields, OWN)
    names = set(schema.names)
    fields = {
        path: type_ for name in decoded if name in names for path, type_ in _fields(name, schema.field(name).type)
    }
    enums = [path for path, type_ in fields.items() if pa.types.is_dictionary(type_)]
    numbers = [path for path, type_ in fields.items() if _is_integer(type_)]
    numbers += [prefix + name for name in NUMBERS if prefix + name in names]
    others = [path for path, type_ in fields.items() if pa.types.is_floating(type_)]
    return pq.ParquetWriter(
        where,
        schema,
        compression=compression,
        compression_level=level,
        use_dictionary=[*(prefix + n for n in ("topic", "partition", "timestampType") if prefix + n in names), *enums],
        write_statistics=[*(prefix + n for n in ("partition",) if prefix + n in names), *numbers, *others],
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    )


def _fields(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the path and type of each decoded field that is not in a list or map."""
    if pa.types.is_struct(type_):
        for i in range(type_.num_fields):
            yield from _fields(f"{path}.{type_.field(i).name}", type_.field(i).type)
    elif not pa.types.is_nested(type_):
        yield path, type_


def _is_integer(type_: pa.DataType) -> bool:
    """Return whether Parquet stores the values of a type as INT32 or INT64. Decimals can have another form."""
    return bool(pa.types.is_integer(type_) or pa.types.is_temporal(type_))


def check_columns_fit(topic: str, earlier: Path | None, file_format: FileFormat) -> None:
    """Raise ResumeError if the columns of a topic can no longer be read together with those of an earlier run."""
    # Schemas may have added fields or widened types. But a topic that had no schema has one now.
    if earlier is None:
        return
    schemas = [pq.read_schema(earlier).remove_metadata(), file_format.schema]
    try:
        pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise ResumeError(
            f"the schemas of topic {plain(topic)} do not fit to the earlier runs: {error}; {REMEDY}"
        ) from error


def write_empty(sink: Any, format: FileFormat) -> None:
    """Write a Parquet file without rows."""
    # It also contains the columns topic, partition, date and hour, which readers otherwise derive
    # from the directory names.
    named = [SCHEMA.field(n) for n in DIRECTORY_COLUMNS if n not in format.columns]
    named += fields_of(format.partition_by)
    schema = pa.schema([*format.schema, *named])
    with open_writer(sink, schema, format.compression, format.level, format.flat) as writer:
        writer.write_table(pa.Table.from_batches([], schema))
