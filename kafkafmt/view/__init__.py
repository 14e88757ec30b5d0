"""The public API for reading Kafka logs: `open_log` and the classes `Log`, `Topic`, `Partition` and `Groups`."""

from .groups import Groups
from .log import Log
from .open_log import open_log
from .partition import Partition
from .topic import Topic

__all__ = ["Groups", "Log", "Partition", "Topic", "open_log"]
