"""Logs as users hold them: `open_log`, `Log`, `Partition` and `Groups`."""

from .groups import Groups
from .log import Log, open_log
from .partition import Partition

__all__ = ["Groups", "Log", "Partition", "open_log"]
