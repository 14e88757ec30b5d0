"""Make format("kafkafmt") known to Spark.

Spark imports all packages whose name starts with `pyspark_` to find data sources.
"""

from kafkafmt.spark.source.data_source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
