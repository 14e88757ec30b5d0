"""The Spark data source, which reads logs in batch queries and streams."""
