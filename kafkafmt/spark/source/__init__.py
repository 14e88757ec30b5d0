"""The Spark data source for reading, in batch and streaming queries."""
