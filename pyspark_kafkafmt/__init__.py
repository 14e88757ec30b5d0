"""Make the data source "kafkafmt" available in all Spark sessions.

To find data sources, Spark imports all packages whose names start with `pyspark_`.
"""

from kafkafmt.spark.source.data_source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
