"""Export log directories to Parquet as a Spark job.

This module imports neither pyspark nor pyarrow.
"""

from .api import export
from .errors import OutputExistsError, SparkError, TaskOSError
from .options import ExportOptions
from .report import ExportReport

__all__ = [
    "ExportOptions",
    "ExportReport",
    "OutputExistsError",
    "SparkError",
    "TaskOSError",
    "export",
]
