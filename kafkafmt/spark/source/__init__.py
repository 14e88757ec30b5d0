"""The Spark data source that reads logs, for batch queries and streams."""
