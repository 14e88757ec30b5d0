"""Define the paths of files and directories in the output of an export.

    data/topic=orders/partition=3/<first offset, 20 digits>.parquet
    data/topic=orders/partition=3/date=2026-01-05/hour=07/<first offset, 20 digits>.parquet
    data/topic=orders/<partition, 10 digits>-<first offset, 20 digits>.parquet
    quarantine/00000.parquet
    report.json
    reports/00000.json
    _SUCCESS

The directory `reports` exists only if the export was resumed. It contains the reports of the
earlier runs.

In a bucket, the name of a Parquet file also contains identifiers of the export run and of the task
attempt that wrote the file, as in ``<first offset, 20 digits>-<run>-<attempt>.parquet``. Therefore,
no file is ever replaced.

The names of the directories in `data` are the same as those of Spark's ``partitionBy("topic",
"partition")``. The directories for date and hour exist only if the export is divided by day or by
hour. If small partitions are joined, there are no directories for partitions, because all files of
a dataset must have the same levels of directories. Instead, the files contain the column partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

ESCAPED = set("\"#%'*/:=?\\{[]^\x7f") | {chr(i) for i in range(1, 0x20)}
"""Characters that Spark's ``ExternalCatalogUtils.escapePathName`` escapes in directory names."""
EMPTY_NAME = "__HIVE_DEFAULT_PARTITION__"
"""Text that Spark writes in a directory name if the value is null or empty."""


@dataclass(frozen=True)
class OutputLayout:
    """Paths in the output of an export. They are relative to the output directory if `root` is empty."""

    root: PurePath

    @property
    def data(self) -> PurePath:
        """Directory that contains the exported records."""
        return self.root / "data"

    @property
    def empty_data_file(self) -> PurePath:
        """Parquet file without rows, from which programs read the schema of an export that contains no records."""
        return self.data / "empty.parquet"

    @property
    def quarantine(self) -> PurePath:
        """Directory that contains the damaged bytes of the logs."""
        return self.root / "quarantine"

    def quarantine_file(self, run: int = 0) -> PurePath:
        """Return the path of the Parquet file for damaged bytes. `run` is the number of the export run."""
        return self.quarantine / f"{run:05d}.parquet"

    @property
    def report(self) -> PurePath:
        """JSON file that contains the report of the export."""
        return self.root / "report.json"

    def earlier_report(self, run: int) -> PurePath:
        """Return the path of the report of an earlier export run. The first run has the number 0."""
        return self.root / "reports" / f"{run:05d}.json"

    @property
    def success(self) -> PurePath:
        """Empty file that is written last, when the output is complete."""
        return self.root / "_SUCCESS"

    def topic_directory(self, topic: str) -> PurePath:
        """Return the directory that contains the Parquet files of a topic."""
        return self.data / f"topic={escape(topic)}"

    def data_file(
        self, topic: str, partition: int, first_offset: int, period: tuple[str, ...] = (), joined: bool = False
    ) -> PurePath:
        """Return the path of a Parquet file. `joined`: the files of this export may contain several partitions."""
        folder, name = self.topic_directory(topic), f"{first_offset:020d}.parquet"
        if joined:
            name = f"{partition:010d}-{name}"
        else:
            folder /= f"partition={partition}"
        return folder.joinpath(*period, name)


def escape(value: str) -> str:
    """Escape `value` for use in a directory name, as Spark does."""
    return "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in value) or EMPTY_NAME


def report_of(file: Path) -> Path:
    """Return the path of the report about an export to a single Parquet file."""
    return file.with_name(f"{file.name}.report.json")
