"""The Spark data sink, which writes log directories from batch and streaming queries."""
