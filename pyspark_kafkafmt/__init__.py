"""Make the data source "kafkafmt" available in Spark.

Spark imports all packages whose names start with `pyspark_` to find data sources.
"""

from kafkafmt.spark.source.data_source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
