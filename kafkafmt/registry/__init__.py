"""Read schemas of Confluent's schema registry, Karapace and Redpanda, without a running registry."""

from .api import schemas
from .models import RegisteredSchema, SchemaNotFoundError, SchemaReference
from .registry import SchemaFinding, SchemaRegistry

__all__ = [
    "RegisteredSchema",
    "SchemaFinding",
    "SchemaNotFoundError",
    "SchemaReference",
    "SchemaRegistry",
    "schemas",
]
