"""The classes through which users read logs: `Log`, `Partition` and `Groups`, and `open_log`."""

from .groups import Groups
from .log import Log, open_log
from .partition import Partition

__all__ = ["Groups", "Log", "Partition", "open_log"]
