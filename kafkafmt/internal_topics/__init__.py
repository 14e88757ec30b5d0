"""Decode records of Kafka's internal topics, such as `__consumer_offsets`, with their schemas."""
