"""Parse and serialize the files of a Kafka log directory."""
