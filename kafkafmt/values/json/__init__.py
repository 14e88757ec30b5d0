"""JSON values: JSON Schemas, types from samples, programs for the core, and objects for JSON."""
