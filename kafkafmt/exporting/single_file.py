"""Write the output of an export to a single Parquet file.

Tasks write temporary Parquet files to a staging directory. The driver then copies their records to
one file, ordered by topic, partition and offset, and adds the columns topic and partition. When the
file is complete, it is renamed to its final path. The report is `FILE.parquet.report.json`. Damaged
bytes are not stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import pyarrow as pa
import pyarrow.parquet as pq

from ..arrow.builder import SCHEMA, repeated_partition, repeated_topic, schema_of
from ..log.repairing import OutputPlaceError
from ..values.flat_layout import FlatLayout
from .errors import OutputExistsError
from .layout import report_of
from .options import ExportOptions
from .output import WrittenFile
from .parquet import ROW_GROUP_BYTES, ROW_GROUP_ROWS, FileFormat, open_writer
from .staging import Staging, rename_new
from .work import Works

TEMPORARY_CODEC = "lz4"
NAME = "output.parquet"
"""Name of the Parquet file in the staging directory."""


class SingleFile(Staging):
    """Context manager for the output of an export to a single Parquet file, `options.output`."""

    def __init__(self, options: ExportOptions) -> None:
        super().__init__(options.output, options.overwrite)
        self.schema: pa.Schema | None = None
        """Columns of the file if keys or values are decoded."""
        self.flat: FlatLayout | None = None
        """The final arrangement of these columns, if they are not nested."""
        self._columns = SCHEMA.names if options.columns is None else options.columns
        self._codec = options.compression, options.compression_level
        self._report = report_of(self.output)

    def check(self) -> None:
        """Raise OutputExistsError if the file or its report exists and `overwrite` is False."""
        # OutputPlaceError: the path of the file or of the report is a directory.
        if self.output.is_dir():
            raise OutputPlaceError(
                str(self.output), "is a directory, but a name that ends with .parquet means a single file"
            )
        if self._report.is_dir():
            raise OutputPlaceError(str(self._report), "is a directory, but it must be the file with the report")
        super().check()
        if os.path.lexists(self._report) and not self.overwrite:
            raise OutputExistsError(self._report)

    def keep(self, files: Iterable[WrittenFile]) -> None:
        """Copy the records of the temporary files to the single file. Delete the temporary files."""
        names = [self.directory / file.name for file in files]
        sources = sorted(map(_Source, names), key=lambda source: source.first)
        schema = schema_of(self._columns) if self.schema is None else self.schema
        final = schema if self.flat is None else self.flat.schema
        with open_writer(str(self.path / NAME), final, *self._codec, self.flat) as writer:
            for group in _row_groups(sources, schema):
                writer.write_table(group if self.flat is None else self.flat.arrange(group))
        super().keep(())

    def assign_sizes(self, works: Works) -> None:
        """Assign a share of the output file's size to each partition, in proportion to its number of records."""
        size, total, before = (self.path / NAME).stat().st_size, sum(m.rows for w in works for m in w.manifests), 0
        for work in works:
            rows = sum(m.rows for m in work.manifests)
            if rows:
                share = size * (before + rows) // total - size * before // total
                work.files = [(rows, share)]
            before += rows

    def publish(self, report: str) -> None:
        """Move the output file, and then its report, to their final paths."""
        # With `overwrite`, the old report is removed first, so it never describes the new file.
        file, written = self.path / NAME, report_of(self.path / NAME)
        written.write_text(report, encoding="utf-8")
        if self.overwrite:
            self.check()
            self._report.unlink(missing_ok=True)
            os.replace(file, self.output)
            os.replace(written, self._report)
        else:
            rename_new(file, self.output)
            rename_new(written, self._report)
        self._made = []


class _Source:
    """A temporary Parquet file with records of one partition."""

    def __init__(self, path: PurePath) -> None:
        self.path = path
        with pq.ParquetFile(str(path)) as file:
            metadata = file.schema_arrow.metadata
            self.topic: str = metadata[b"topic"].decode()
            self.partition = int(metadata[b"partition"])
            offsets = file.read_row_group(0, ["offset"])["offset"]
        self.first: tuple[str, int, int] = (self.topic, self.partition, offsets[0].as_py())

    def tables(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield each row group as a table with the given schema."""
        with pq.ParquetFile(str(self.path)) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, [n for n in schema.names if n not in ("topic", "partition")])
                columns = {name: table[name] for name in table.column_names}
                if "topic" in schema.names:
                    columns["topic"] = repeated_topic(self.topic, table.num_rows)
                if "partition" in schema.names:
                    columns["partition"] = repeated_partition(self.partition, table.num_rows)
                yield pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _row_groups(sources: Iterable[_Source], schema: pa.Schema) -> Iterator[pa.Table]:
    """Combine the row groups of temporary files into larger row groups."""
    held: list[pa.Table] = []
    for table in (table for source in sources for table in source.tables(schema)):
        if held and (
            sum(t.nbytes for t in held) + table.nbytes > ROW_GROUP_BYTES
            or sum(t.num_rows for t in held) + table.num_rows > ROW_GROUP_ROWS
        ):
            yield pa.concat_tables(held)
            held = []
        held.append(table)
    if held:
        yield pa.concat_tables(held)


def temporary_format(options: ExportOptions) -> FileFormat:
    """Return the format of temporary files. The driver combines the temporary files into the single output file."""
    columns = options.columns
    if columns is not None and "offset" not in columns:
        columns = (*columns, "offset")  # the driver sorts the records by offset
    return FileFormat(TEMPORARY_CODEC, None, options.file_size, chosen=columns, temporary=True)
