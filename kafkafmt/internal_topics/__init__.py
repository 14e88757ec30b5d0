"""Kafka's internal topics: what the coordinators and controllers keep in `__consumer_offsets` and its like, by their schemas."""
