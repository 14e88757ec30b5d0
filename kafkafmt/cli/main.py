"""The group of subcommands, and what becomes of the errors that they let through."""

from __future__ import annotations

import contextlib
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

import click

from .. import __version__, backend
from .._backend import backend_reason
from ..errors import KafkaFormatError
from ..extras import extra_of, install_line
from ..log import DuplicatePartitionError
from ..text import plain
from .common import EXIT_DAMAGE, EXIT_UNREADABLE, EXIT_USAGE, MissingError, NotThereError, reason, tell

COMMANDS = {
    "ls": "Partitions: state, offsets, records, bytes, times.",
    "cat": "Records, a line each.",
    "seek": "Where an offset or a time lies, as ListOffsets answers.",
    "groups": "Consumer groups and what they have committed.",
    "verify": "What is damaged, to the offset, and what is safe.",
    "salvage": "What is intact, as a log directory for a broker.",
    "dump": "A log's files as kafka-dump-log shows them.",
    "export": "Verified Parquet, on Spark.",
    "decode": "Frames of the wire protocol.",
}
"""Each is the function of that name in the module of that name, imported when it is needed, and so not for this list."""
LIBRARIES = ("numpy", "pyarrow", "pyspark", "lz4", "zstandard", "cramjam", "python-snappy", "isal", "crc32c")


def show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"kafkafmt {__version__}")
    click.echo(f"core: {backend} ({backend_reason})")
    for library in LIBRARIES:
        try:
            click.echo(f"{library} {version(library)}")
        except PackageNotFoundError:
            click.echo(f"{library}: not installed")
    ctx.exit()


class Commands(click.Group):
    """The subcommands, in an order of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        if name not in COMMANDS:
            near = get_close_matches(name, COMMANDS, 1)
            ctx.fail(f"there is no command {name!r}" + "".join(f"; the nearest is {n}" for n in near))
        command: click.Command = getattr(import_module(f".{name}", __package__), name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    callback=show_version,
    expose_value=False,
    is_eager=True,
    help="Version, core and libraries.",
)
def group() -> None:
    """Read Kafka's log directories, and its wire protocol, without a broker.

    PATH is a .log file, a partition directory, or a log directory. Nothing is ever written into what is read.

    Exit codes: 0 no damage, 1 damage, 2 wrong usage, 3 an input that cannot be read.
    """


def _prepare_streams() -> None:
    """Output is UTF-8 whatever the locale; what UTF-8 cannot hold (names of files) appears as JSON writes it: `\\udcff`.

    A stream that the caller has closed swallows what it is given.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """What is still buffered goes nowhere, quietly; the interpreter would flush it once more and complain."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> NoReturn:
    """The command, every error as one line and an exit code."""
    try:
        _prepare_streams()
        with group.make_context(
            "kafkafmt", sys.argv[1:]
        ) as context:  # group.main would end a closed pipe with status 1
            code = group.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = EXIT_USAGE
    except NotThereError as error:
        tell(error.message)
        code = EXIT_USAGE
    except click.ClickException as error:
        command = (
            error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx is not None else "kafkafmt"
        )
        click.echo(f"{command}: Error: {plain(error.format_message())} (see {command} --help)", err=True)
        code = EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except DuplicatePartitionError as error:
        tell(str(error))
        code = EXIT_USAGE
    except MissingError as error:
        tell(str(error))
        code = EXIT_UNREADABLE
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if extra is None:
            raise
        tell(f"the command needs {error.name}: {install_line(extra)}")
        code = EXIT_UNREADABLE
    except BrokenPipeError:
        _discard_output()
        code = 0
    except OSError as error:
        tell(reason(error))
        _discard_output()
        code = EXIT_UNREADABLE
    except KafkaFormatError as error:
        tell(str(error))
        code = EXIT_DAMAGE
    sys.exit(code or 0)
