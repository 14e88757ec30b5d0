"""Make Ctrl-C end the command `kafkafmt` with status 130 and no traceback, even during imports.

The package is imported before the code of the command runs, and a KeyboardInterrupt during that
import would print a traceback. Therefore the package imports this module first. In other programs,
and while Python itself starts, this module has no effect.
"""

from __future__ import annotations

# Import `_signal` and not its wrapper `signal`. The wrapper takes longer to load, and Ctrl-C during
# that time would still print a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED = 130
"""Exit status that shells report for a command that SIGINT has ended."""


def is_command() -> bool:
    """Return whether this process is the command `kafkafmt`, run as a script or by `python -m kafkafmt`."""
    program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    if program == "-m":  # `python -m` is still looking for the module
        return "kafkafmt" in sys.orig_argv
    return program in ("kafkafmt", "kafkafmt.exe")


def _end(signal_number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def end_at_once() -> None:
    """From now on, let SIGINT end the process without output.

    If SIGINT is ignored (nohup), it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From now on, let SIGINT raise KeyboardInterrupt, as it did before `end_at_once` was called."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _end_if_interrupted


def _end_if_interrupted(unraisable: sys.UnraisableHookArgs) -> None:
    """End the process if a KeyboardInterrupt was raised in code from which Python cannot propagate it.

    Python cannot propagate exceptions from `__del__` and from callbacks of weak references. By
    default, it prints the exception and continues, so the interrupt would be lost.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)


if is_command():
    end_at_once()
