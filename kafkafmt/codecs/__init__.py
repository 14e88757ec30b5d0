"""Compress and decompress with Kafka's codecs."""
