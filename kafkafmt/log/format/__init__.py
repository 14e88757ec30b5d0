"""Files of a Kafka log directory as bytes and values: names, checkpoints, index entries, snapshots."""
