"""The Spark data sink, which writes log directories, for batch queries and streams."""
