"""Run the command in this process, and return its output and its exit code."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from .outcome import OracleError, check


class Done(NamedTuple):
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Return the objects in the JSON lines, or raise an error if a line is not JSON."""
        try:
            return [json.loads(line) for line in self.out.split("\n") if line]
        except ValueError as error:
            raise OracleError(f"{error} in {self.out[:300]!r}") from None


def command(*arguments: Any) -> Done:
    """Run the command.

    Raises
    ------
    OracleError
        The exit code is not in the range 0 to 3, or a traceback was printed.
    """
    from kafkafmt.cli.main import run

    raw_out, raw_err = io.BytesIO(), io.BytesIO()
    out = io.TextIOWrapper(raw_out, encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(raw_err, encoding="utf-8", write_through=True)
    code: Any = None
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["kafkafmt", *map(str, arguments)]):
        try:
            run()
        except SystemExit as stop:
            code = stop.code
    done = Done(code or 0, raw_out.getvalue().decode(), raw_err.getvalue().decode())
    check(done.code in (0, 1, 2, 3), f"exit code {code} of {arguments}: {done.err}")
    check("Traceback" not in done.err, f"{arguments}: {done.err}")
    check(
        done.code in (0, 1) or bool(done.err), f"{arguments} failed with exit code {done.code} but printed no message"
    )
    return done
