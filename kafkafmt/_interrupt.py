"""Ctrl-C in the command `kafkafmt`: it ends with status 130 and no traceback, also while modules load.

The package is imported before the command's own code runs, and a KeyboardInterrupt then ends in a traceback. So the package's
first import is this module. In other programs it does nothing. While Python itself starts, nothing can be done.
"""

from __future__ import annotations

# `_signal` is what `signal` wraps. It takes no time to import, during which Ctrl-C would still end in a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED = 130
"""The exit status of a command that SIGINT ended, as shells report it."""


def is_command() -> bool:
    """Return whether this process is the command, as a script or by `python -m kafkafmt`."""
    program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    if program == "-m":  # while `python -m` looks for a module
        return "kafkafmt" in sys.orig_argv
    return program in ("kafkafmt", "kafkafmt.exe")


def _end(signal_number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def end_at_once() -> None:
    """From now on, let SIGINT end the process without a word. A SIGINT that is ignored (nohup) stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From now on, let SIGINT raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if is_command():
    end_at_once()
