"""Import kafkafmt before Spark forks its Python workers, so that a worker that replaces a killed one starts at once.

Spark starts this module if the setting spark.python.daemon.module contains its name.
"""

from pyspark.daemon import manager

import kafkafmt.exporting.tasks
import kafkafmt.spark.functions
import kafkafmt.spark.source.data_source
import kafkafmt.spark.source.stream  # noqa: F401

if __name__ == "__main__":
    manager()
