"""Read open logs, through the classes `Log`, `Topic`, `Partition` and `Groups` and the function `open_log`."""

from .groups import Groups
from .log import Log
from .open_log import open_log
from .partition import Partition
from .topic import Topic

__all__ = ["Groups", "Log", "Partition", "Topic", "open_log"]
