"""Make Ctrl-C end the command `kafkafmt` with status 130 and no traceback, also while modules load.

The package is imported before the command's own code runs, and a KeyboardInterrupt during that
import prints a traceback. So this module is the package's first import. In other programs it does
nothing. It cannot act while Python itself starts.
"""

from __future__ import annotations

# `_signal` is imported at once. While `signal`, which wraps it, loads, Ctrl-C would still print a
# traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED = 130
"""Exit status of a command that SIGINT ended, as shells report it."""


def is_command() -> bool:
    """Return whether this process is the command, run as a script or by `python -m kafkafmt`."""
    program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    if program == "-m":  # while `python -m` looks for a module
        return "kafkafmt" in sys.orig_argv
    return program in ("kafkafmt", "kafkafmt.exe")


def _end(signal_number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def end_at_once() -> None:
    """Let SIGINT end the process without output from now on. If SIGINT is ignored (nohup), it stays
    ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let SIGINT raise KeyboardInterrupt from now on, as before `end_at_once`."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _end_if_interrupted


def _end_if_interrupted(unraisable: sys.UnraisableHookArgs) -> None:
    """End the process if a KeyboardInterrupt was raised where Python cannot propagate it.

    That is the case in callbacks of weak references and in `__del__`. By default, Python prints the
    exception and continues, so the interrupt would be lost.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)


if is_command():
    end_at_once()
