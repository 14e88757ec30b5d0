"""The public API for reading Kafka logs: `open` and the classes `Log`, `Topic`, `Partition` and `Groups`."""

from .groups import Groups
from .log import Log, open
from .partition import Partition
from .topic import Topic

__all__ = ["Groups", "Log", "Partition", "Topic", "open"]
