"""Name the files and directories inside the output directory of an export.

    data/topic=orders/partition=3/<first offset, 20 digits>.parquet
    quarantine/00000.parquet
    report.json
    _SUCCESS

Spark's ``partitionBy("topic", "partition")`` names the directories of `data` in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ESCAPED = set("\"#%'*/:=?\\{[]^\x7f") | {chr(i) for i in range(1, 0x20)}
"""Characters that Spark escapes in a directory name (``ExternalCatalogUtils.escapePathName``)."""
EMPTY_NAME = "__HIVE_DEFAULT_PARTITION__"
"""What Spark writes for an empty value."""


@dataclass(frozen=True)
class OutputLayout:
    """The paths of an export below `root`, which is the output directory or its staging directory."""

    root: Path

    @property
    def data(self) -> Path:
        """Directory of the exported records."""
        return self.root / "data"

    @property
    def empty_data_file(self) -> Path:
        """File without rows, written if the export contains no record.

        Readers find the schema in it.
        """
        return self.data / "empty.parquet"

    @property
    def quarantine(self) -> Path:
        """Directory of the damaged spans."""
        return self.root / "quarantine"

    @property
    def quarantine_file(self) -> Path:
        """File with one row per damaged span."""
        return self.quarantine / "00000.parquet"

    @property
    def report(self) -> Path:
        """The report as JSON."""
        return self.root / "report.json"

    @property
    def success(self) -> Path:
        """Empty file, written last."""
        return self.root / "_SUCCESS"

    @property
    def attempts(self) -> Path:
        """Directory in which tasks write. It exists only in a staging directory."""
        return self.root / "_attempts"

    def data_file(self, topic: str, partition: int, first_offset: int) -> Path:
        """Return the path of the file whose first record has offset `first_offset`."""
        return self.data / f"topic={escape(topic)}" / f"partition={partition}" / f"{first_offset:020d}.parquet"


def escape(value: str) -> str:
    """Return `value` as Spark writes it into a directory name."""
    return "".join(f"%{ord(c):02X}" if c in ESCAPED else c for c in value) or EMPTY_NAME
