"""Read open logs, through the classes `Log`, `Partition` and `Groups` and the function `open_log`."""

from .groups import Groups
from .log import Log, open_log
from .partition import Partition

__all__ = ["Groups", "Log", "Partition", "open_log"]
