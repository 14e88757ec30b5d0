"""Decode Protobuf values: schemas, programs for the core, and objects for JSON."""
