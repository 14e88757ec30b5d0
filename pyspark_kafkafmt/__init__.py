"""Where Spark looks for data sources: with this package installed, format("kafkafmt") needs no registration."""

from kafkafmt.spark.source.data_source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
