"""Export log directories to Parquet as a Spark job.

This package does not import pyspark or pyarrow until an export starts.
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
