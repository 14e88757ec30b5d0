"""Define the options of an export, without importing pyspark or pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..constants import DEFAULT_MAX_BATCH_BYTES
from ..log.reading import EVERYTHING, OffsetBound, OffsetRange, Selection
from ..support.arguments import one_of
from ..support.paths import check_output, without_secrets
from ..support.text import shown
from ..values.sides import SideFormat, side_of

if TYPE_CHECKING:
    from ..log.catalog import Source
    from ..registry import SchemaRegistry

CODECS = ("zstd", "snappy", "lz4", "none")
DIRECTORY_COLUMNS = ("topic", "partition")
"""Columns that readers of the output derive from the names of directories."""
COLUMN_NAMES = (
    "key",
    "value",
    *DIRECTORY_COLUMNS,
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "timestampMillis",
)
PERIODS = ("day", "hour")
ON_ERROR = ("quarantine", "fail")
ENGINES = ("spark", "local")
ZSTD_LEVELS = (-7, 22)
SINGLE_FILE = ".parquet"
"""Suffix of an output that is a single file."""
OTHER_FORMATS = frozenset(
    "arrow avro bz2 csv duckdb feather gz h5 hdf5 html ipc json jsonl lz4 ndjson orc parq parquet pickle pkl pq "
    "snappy sql sqlite tar tgz tsv txt xls xlsx xml xz yaml yml zip zst".split()
)
"""Suffixes of files with data, in lower case. A directory of Parquet files must not have such a name."""
DEFAULT_MASTER = "local[*]"
"""Default master URL of Spark, which selects all cores of this machine."""
DEFAULT_ZSTD_LEVEL = 1
DEFAULT_FILE_SIZE = 256 << 20
SMALLEST_FILE_SIZE = 1 << 20

Progress = Callable[[str, int, int], None]
"""Progress callback: the name of the current step, the number of processed bytes, and the total number of bytes."""


@dataclass(frozen=True)
class ExportOptions:
    # URLs can contain secrets.
    paths: tuple[str | PathLike[str], ...] = field(repr=False)
    output: str | PathLike[str] = field(repr=False)
    topics: tuple[str, ...] = ()
    """Glob patterns for topic names. An empty tuple selects all topics."""
    partitions: tuple[int, ...] = ()
    """Partition numbers. An empty tuple selects all partitions."""
    internal: bool = False
    selection: Selection = EVERYTHING
    """The records to export. Control records are never exported."""
    group: str | None = None
    """Consumer group at whose committed offsets the export starts. `selection` contains the offsets."""
    on_error: str = "quarantine"
    compression: str = "zstd"
    compression_level: int | None = None
    """Compression level for zstd. None stands for level 1. For other codecs, the level must be None."""
    overwrite: bool = False
    resume: bool = False
    engine: str = "spark"
    """Engine that runs the tasks: "spark", or "local", which uses threads of this process."""
    master: str = DEFAULT_MASTER
    replicas: str | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    file_size: int = DEFAULT_FILE_SIZE
    partition_by: str | None = None
    join_small: bool = False
    columns: tuple[str, ...] | None = None
    """Names and order of the columns. None selects all columns of Spark's Kafka source."""
    decode: Mapping[str, SideFormat] = field(default_factory=dict)
    """The formats of the sides to decode."""
    framing: str = "auto"
    layout: str = "nested"
    """The arrangement of decoded columns: "nested" or "flat"."""
    registry: SchemaRegistry | Source | None = field(default=None, repr=False)
    """The schemas. None selects those in the log directory."""
    schema: str | int = "union"
    """The schemas that decide the columns: "union", "latest", a version or "id:N"."""
    split_bytes: int | None = None
    """Bytes of log data that one task exports to the same files. None: it depends on logs, file size and cores."""

    def __post_init__(self) -> None:
        one_of("on_error", self.on_error, ON_ERROR)
        one_of("engine", self.engine, ENGINES)
        if self.resume and self.overwrite:
            raise ValueError("resume and overwrite cannot both be given")
        check_output_name(self.output)
        if self.single_file:
            for name in ("resume", "partition_by", "join_small"):
                if getattr(self, name):
                    raise ValueError(
                        f"{name} needs a directory, but {shown(str(self.output))} is a single Parquet file"
                    )
        one_of("compression", self.compression, CODECS)
        if self.partition_by is not None:
            one_of("partition_by", self.partition_by, PERIODS)
        one_of("layout", self.layout, ("nested", "flat"))
        others = self.registry, self.schema, self.framing, self.layout
        if not self.decode and others != (None, "union", "auto", "nested"):
            raise ValueError("registry, schema, framing and layout need decode; pass decode=True too")
        if isinstance(self.schema, bool) or not isinstance(self.schema, str | int):
            raise TypeError(f'schema must be "union", "latest", a version or "id:N", not {shown(self.schema)}')
        if self.columns is not None:
            check_columns(self.columns, self.single_file, self.decode)
        if self.file_size < SMALLEST_FILE_SIZE:
            raise ValueError(f"file_size is {self.file_size}; it must be at least {SMALLEST_FILE_SIZE} (1 MiB)")
        if self.compression != "zstd":
            if self.compression_level is not None:
                raise ValueError(f"compression_level is for compression 'zstd', not {shown(self.compression)}")
        elif self.compression_level is None:
            object.__setattr__(self, "compression_level", DEFAULT_ZSTD_LEVEL)
        elif not ZSTD_LEVELS[0] <= self.compression_level <= ZSTD_LEVELS[1]:
            lowest, highest = ZSTD_LEVELS
            raise ValueError(
                f"compression_level is {self.compression_level}; it must be between {lowest} and {highest}"
            )

    @property
    def single_file(self) -> bool:
        """Return whether the output is a single file, which is the case if its name ends with ``.parquet``."""
        return str(self.output).endswith(SINGLE_FILE)

    @property
    def offsets(self) -> OffsetRange:
        return OffsetRange(self.selection.start, self.selection.end)

    @property
    def isolation(self) -> str:
        """Return the isolation level: "read_uncommitted" or "read_committed"."""
        return self.selection.isolation

    @property
    def below_log_start(self) -> bool:
        return self.selection.below_log_start

    def to_dict(self) -> dict[str, Any]:
        """Return the options as they appear in `report.json`."""
        selection = self.selection
        return {
            "paths": [without_secrets(str(path)) for path in self.paths],
            "offsets": {"from": _bound(selection.start), "to": _bound(selection.end)},
            "below_log_start": selection.below_log_start,
            "isolation": selection.isolation,
            "on_error": self.on_error,
            "overwrite": self.overwrite,
            "resume": self.resume,
            "max_batch_bytes": self.max_batch_bytes,
            "engine": self.engine,
            "master": self.master,
            "topics": list(self.topics),
            "partitions": list(self.partitions),
            "internal": self.internal,
            "replicas": self.replicas,
            "group": self.group,
            "file_size": self.file_size,
            "partition_by": self.partition_by,
            "join_small": self.join_small,
            "columns": None if self.columns is None else list(self.columns),
        } | (self._decode_options() if self.decode else {})

    def _decode_options(self) -> dict[str, Any]:
        registry = None if self.registry is None else without_secrets(str(self.registry))
        sides = [side if given == SideFormat() else f"{side}={given}" for side, given in self.decode.items()]
        return {"decode": sides, "registry": registry, "schema": str(self.schema), "framing": self.framing} | (
            {"layout": self.layout} if self.layout != "nested" else {}
        )


def check_output_name(output: str | PathLike[str]) -> None:
    """Raise ValueError if the name of the output has the suffix of a file that an export cannot write."""
    check_output(output)
    name = os.fspath(output)
    suffix = os.path.splitext(name)[1]
    if suffix != SINGLE_FILE and suffix[1:].lower() in OTHER_FORMATS:
        raise ValueError(
            f"output is {without_secrets(shown(name))}, but an export cannot write {suffix} files; it writes a directory "
            f"of Parquet files, or a single Parquet file if the name ends with {SINGLE_FILE}"
        )


def check_columns(columns: tuple[str, ...], single_file: bool, decode: Collection[str] = ()) -> None:
    """Raise ValueError if a column is given twice, or if there would be none. Unknown names are accepted."""
    # A single file also contains the columns topic and partition.
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise ValueError(f"columns has {shown(twice[0])} twice")
    if not columns or (not single_file and not set(columns) - set(DIRECTORY_COLUMNS)):
        raise ValueError(
            "columns must have at least one name other than topic and partition, which are directory levels"
        )
    sides = {side_of(name) for name in columns}
    for name in columns:
        if side_of(name) != name and side_of(name) not in decode:
            raise ValueError(f"columns has {shown(name)}, a field of the {side_of(name)}, which is not decoded")
    if decode and not sides & set(decode):
        raise ValueError(f"columns has no {' or '.join(decode)}, so nothing would be decoded")


def _bound(bound: OffsetBound | None) -> dict[str, Any] | None:
    return None if bound is None else {"kind": bound.kind, "n": bound.n}
