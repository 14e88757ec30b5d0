"""Log warnings for the user who runs a Spark query.

Warnings are sent to the logger `kafkafmt.spark`. If logging is not configured in the process, they
are written to stderr. While a query is planned, they are logged on the driver. While tasks run,
they are logged on the executors.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from ..support.text import plain

log: logging.Logger = logging.getLogger("kafkafmt.spark")


def say(message: str) -> None:
    """Log a warning for the user who runs the query: to the log of Spark's Python workers, or else to stderr."""
    _listen()
    log.warning("kafkafmt: %s", message)


def say_ignored(names: Sequence[str], reason: str) -> None:
    """Log one line that lists the ignored options `names`. If `names` is empty, log nothing."""
    if names:
        say(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} ignored {reason}")


class _PlainFormatter(logging.Formatter):
    """Escapes control characters in log messages. The names of topics and files can contain such characters."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return plain(super().formatMessage(record))


def _listen() -> None:
    """Send log messages to stderr if the process has not configured logging."""
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_PlainFormatter())
        log.addHandler(handler)
