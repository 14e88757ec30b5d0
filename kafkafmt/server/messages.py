"""Log messages of the server. A message that repeats within a minute is logged once."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

MOST_MESSAGES = 1000
"""Largest number of log messages that are kept."""
REPEAT_SECONDS = 60.0
"""Seconds after which the same log message is reported again.

Clients repeat a failed request many times per second.
"""


class Messages:
    """Reports log messages, unless the same message was reported shortly before. Threads may share the object.

    Parameters
    ----------
    kept : deque of str
        The latest log messages. Each message that is reported is added.
    report : callable
        Function that is called with each log message.
    """

    def __init__(self, kept: deque[str], report: Callable[[str], None]) -> None:
        self._kept = kept
        self._report = report
        self._times: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def add(self, message: str, repeated: bool = False) -> None:
        """Report a log message. Unless `repeated` is True, omit a message that was reported shortly before."""
        now = time.monotonic()
        with self._lock:
            if not repeated and now - self._times.get(message, float("-inf")) < REPEAT_SECONDS:
                return
            self._times[message] = now
            self._times.move_to_end(message)
            if len(self._times) > MOST_MESSAGES:
                self._times.popitem(last=False)
            self._kept.append(message)
        # If stderr is a closed pipe or a file on a full disk, clients must still get their responses.
        with suppress(OSError):
            self._report(message)
