"""The command `kafkafmt`: a file per subcommand. It needs the extra `cli` (click and rich)."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the script."""
    try:
        from .main import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit("kafkafmt: the command needs click and rich: pip install 'kafkafmt[cli]'")
    run()
