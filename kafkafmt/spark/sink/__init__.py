"""Define the Spark data sink, which writes log directories in batch queries and streams."""
