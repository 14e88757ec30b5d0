"""Log messages of the server. A message that repeats within a minute is logged once."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from ..support.text import counted

MOST_MESSAGES = 1000
"""Largest number of log messages that are kept."""
REPEAT_SECONDS = 60.0
"""Seconds after which the same message is reported again. Clients repeat failed requests many times per second."""
MOST_CLOSED = 60
"""Largest number of messages about closed connections, such as failed logins, in REPEAT_SECONDS."""


class Messages:
    """Reports log messages, unless the same message was reported shortly before. Threads may share the object."""

    def __init__(self, kept: deque[str], report: Callable[[str], None]) -> None:
        self._kept = kept
        self._report = report
        self._times: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()
        self._closed = 0
        """Number of messages about closed connections since `_closed_since`."""
        self._closed_since = float("-inf")

    def add_closed(self, message: str) -> None:
        """Report why a connection was closed. If there are too many such messages, only their number is reported."""
        lines = [message]
        with self._lock:
            now = time.monotonic()
            if now - self._closed_since >= REPEAT_SECONDS:
                if (omitted := self._closed - MOST_CLOSED) > 0:
                    lines.insert(0, f"the reasons of {counted(omitted, 'closed connection')} were not logged")
                self._closed, self._closed_since = 0, now
            self._closed += 1
            if self._closed == MOST_CLOSED:
                lines.append("many connections are closed; further reasons are not logged for a minute")
            elif self._closed > MOST_CLOSED:
                return
        for line in lines:
            self.add(line, repeated=True)

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
