"""End the command `kafkafmt` with exit code 130 and without a traceback after Ctrl-C, even during imports.

The package imports this module first, because by default, Ctrl-C during the other imports prints a
traceback. If the process is not the command `kafkafmt`, this module has no effect.
"""

from __future__ import annotations

# `_signal` is imported faster than `signal`, the Python module that wraps `_signal`.
# A fast import is important, because Ctrl-C prints a traceback until the signal handler is installed.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys
import time

INTERRUPTED = 130
"""Exit code that shells report for a command that was ended by SIGINT."""
REPEAT_SECONDS = 1.0
"""For this number of seconds after the first SIGINT, further SIGINT signals are ignored."""
_interrupted: list[float] = []
"""Time of the first SIGINT, as the only item of the list. The list is empty until SIGINT arrives."""


def is_command() -> bool:
    """Return whether this process is the command `kafkafmt` or was started by `python -m kafkafmt`."""
    program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    if program == "-m":  # "-m" means that `python -m` is still importing the package
        return "kafkafmt" in sys.orig_argv
    return program in ("kafkafmt", "kafkafmt.exe")


def _end(signal_number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def _raise_once(signal_number: int, frame: object) -> None:
    """Raise KeyboardInterrupt for the first SIGINT, and disable logging. A later SIGINT ends the process."""
    # A second KeyboardInterrupt while the first one is handled would print a traceback.
    now = time.monotonic()
    if not _interrupted:
        _interrupted.append(now)
        if "logging" in sys.modules:
            # py4j logs a KeyboardInterrupt with its traceback.
            logging = sys.modules["logging"]
            logging.disable(logging.CRITICAL)
        raise KeyboardInterrupt
    if now - _interrupted[0] > REPEAT_SECONDS:
        os._exit(INTERRUPTED)


def end_at_once() -> None:
    """Make SIGINT end the process without output, unless the process ignores it, for example because of nohup."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _raise_once):
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Undo the effect of `end_at_once`, so that SIGINT raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, _raise_once)
    sys.unraisablehook = _end_if_interrupted


def _end_if_interrupted(unraisable: sys.UnraisableHookArgs) -> None:
    """End the process after a KeyboardInterrupt that Python cannot propagate, as from `__del__`."""
    # Callbacks of weak references are another such place. By default, Python prints the exception
    # and continues.
    if unraisable.exc_type is KeyboardInterrupt:
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(unraisable)


IN_COMMAND: bool = is_command()
"""Whether this process is the command `kafkafmt`. `is_command` returns this only while the package is imported."""
if IN_COMMAND:
    end_at_once()
