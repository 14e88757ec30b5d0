"""What both cores offer: `_core` natively, `_pure` in Python. The docstrings here hold for both."""

from collections.abc import Buffer
from typing import Any

from .errors import KafkaFormatError
from .types import RecordColumns, Scan

class Record: ...
