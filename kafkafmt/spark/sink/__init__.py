"""The Spark sink: write log directories from batch and streaming queries."""
