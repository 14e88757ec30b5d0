"""The command line interface. Each module implements one subcommand, or code that several subcommands share.

The command line interface requires click and rich, which are the packages of the extra `cli`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from .. import _interrupt
from ..support.extras import extra_of, install_line

EXIT_UNREADABLE = 3


def main() -> NoReturn:
    """Run the command `kafkafmt`, and exit with its exit code."""
    code: int | str | None = _interrupt.INTERRUPTED
    try:
        from .main import run

        _interrupt.raise_again()
        run()
    except ModuleNotFoundError as error:
        if extra_of(error.name) != "cli":
            raise
        sys.stderr.write(f"kafkafmt: the command needs click and rich: {install_line('cli')}\n")
        code = EXIT_UNREADABLE
    except SystemExit as stop:
        code = stop.code
    except KeyboardInterrupt:
        pass
    _interrupt.end_at_once()
    if code == _interrupt.INTERRUPTED and "pyspark" not in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        # os._exit() does not wait for threads that are still reading files.
        os._exit(_interrupt.INTERRUPTED)
    sys.exit(code)
