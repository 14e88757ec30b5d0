"""Kafka's logs on Spark: the data source `kafkafmt`, functions for mapPartitions and mapInArrow, the export."""
