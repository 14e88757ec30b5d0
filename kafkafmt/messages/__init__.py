"""Make Python classes from Kafka's message schemas; convert their instances to bytes and JSON.

- `schema` parses the text form of the schemas.
- `make_class` makes a dataclass from a schema.
- `layout_of` returns the wire layout of a class in one version. The core reads and writes bytes
  with it.
- `to_json` returns an instance as Kafka's JSON converters do.
"""

from .as_json import to_json
from .classes import RecordBytes, SchemaMessage, layout_of, make_class

__all__ = ["RecordBytes", "SchemaMessage", "layout_of", "make_class", "to_json"]
