"""Export log directories to Parquet, with Spark or in threads of this process.

pyspark and pyarrow are imported only when an export starts.
"""

from .api import export
from .errors import OutputExistsError, ResumeError, SparkError, TaskOSError
from .options import ExportOptions
from .report import ExportReport

__all__ = [
    "ExportOptions",
    "ExportReport",
    "OutputExistsError",
    "ResumeError",
    "SparkError",
    "TaskOSError",
    "export",
]
