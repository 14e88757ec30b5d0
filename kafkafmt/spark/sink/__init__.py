"""The Spark data sink, which writes rows of batch queries and streams to log directories."""
