"""Create Python classes from Kafka's message schemas, and convert messages to bytes and JSON.

- The module `schema` parses the text form of the schemas.
- `make_class` creates a dataclass from a schema.
- `layout_of` returns an object that reads and writes one version of a message.
- `to_json` converts a message to JSON types, as Kafka's JSON converters do.
"""

from .as_json import to_json
from .classes import RecordBytes, SchemaMessage, layout_of, make_class

__all__ = ["RecordBytes", "SchemaMessage", "layout_of", "make_class", "to_json"]
