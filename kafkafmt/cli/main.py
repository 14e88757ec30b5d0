"""Run a subcommand. Print errors as one line of text, and convert them to exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import click

from .. import __version__, backend
from .._backend import backend_reason
from ..errors import KafkaFormatError
from ..log import DuplicatePartitionError
from ..log.verifying import error_text
from ..support.extras import LIBRARIES, REPLACED, extra_of, install_line, library_versions
from ..support.paths import FULL_DISK, UrlError, without_secrets
from ..support.text import plain, shown
from .choosing import MissingError, NotThereError
from .completion import VARIABLE, complete
from .guesses import OTHER_COMMANDS, advice, with_json
from .output import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_UNREADABLE, EXIT_USAGE, ClosedPipeError, tell

COMMANDS = {
    "ls": "List partitions with offsets, records, sizes and times.",
    "cat": "Print records, one line each.",
    "seek": "Find records by offset or by timestamp.",
    "groups": "List consumer groups with their committed offsets and lags.",
    "stats": "Show what topics contain: sizes, codecs, keys, producers, rates.",
    "diff": "Compare replicas or other copies of partitions.",
    "verify": "Check logs for damage, and report which offsets are lost.",
    "salvage": "Copy all intact batches into a new log directory.",
    "rewrite": "Copy logs: drop records, compact, or recompress batches.",
    "restore": "Put partitions into the log directory of a stopped broker.",
    "make": "Write a log directory from rows, as test data.",
    "dump": "Print log files in the output format of kafka-dump-log.",
    "export": "Export records to Parquet files, with or without Spark.",
    "serve": "Serve logs to Kafka clients, without a broker.",
    "decode": "Decode captured frames of Kafka's wire protocol.",
    "metadata": "Show or compare the state of KRaft clusters.",
    "schemas": "List, print or save the schemas of a schema registry.",
    "doctor": "Show what is installed, and what is missing for which command.",
    "completion": "Print a script that adds completion to a shell.",
    "help": "Describe a command.",
}
"""The subcommands. Each is a function in the module of its name, which is imported when the subcommand is used."""
BACKENDS = ("cramjam", "crc32c")
"""More packages whose versions `--version` prints. python-snappy uses cramjam, and the pure-Python core uses crc32c."""


def show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the versions of kafkafmt and of the packages that it uses, and exit."""
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"kafkafmt {__version__}")
    click.echo(f"core: {backend} ({backend_reason})")
    for library, version in library_versions((*LIBRARIES, *BACKENDS)).items():
        if version is None and library in REPLACED:
            from ..codecs.packages import SERVED_BY

            click.echo(f"{library}: not installed; {SERVED_BY[REPLACED[library]]} is used")
        else:
            click.echo(f"{library}: not installed" if version is None else f"{library} {version}")
    ctx.exit()


class Commands(click.Group):
    """Click group of all subcommands. --help lists them in the order of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands for --help, without importing their modules."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        if name not in COMMANDS:
            near = [f"; did you mean {n}?" for n in get_close_matches(name, COMMANDS, 1)]
            answer = [f"; type {OTHER_COMMANDS[name]}"] if name in OTHER_COMMANDS else near
            ctx.fail(f"there is no command {shown(name)}" + "".join(answer))
        command: click.Command = getattr(import_module(f".{name}", __package__), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Return the name of a subcommand, the subcommand, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else with_json(command, rest)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    callback=show_version,
    expose_value=False,
    is_eager=True,
    help="Print the versions of kafkafmt and of the libraries that it uses, and exit.",
)
def group() -> None:
    """Read, check and repair Kafka's log directories without a broker, and decode its wire protocol.

    PATH is a .log file, a partition directory or a log directory, or the URL of one (s3://…). It can
    contain wildcards. PATH… means that several paths can be specified. kafkafmt never writes to PATH.
    `kafkafmt COMMAND --help` and `kafkafmt help COMMAND` describe a command.

    \b
    Exit codes:
      0  no damage
      1  damage
      2  wrong usage
      3  an input cannot be read
    """


def _prepare_streams() -> None:
    """Configure stdout and stderr to use UTF-8, independently of the locale."""
    # File names that are not UTF-8 are printed with escapes, as in JSON. If the caller has closed a
    # stream, its output is discarded.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """Flush stdout. If it is closed, discard the buffered output."""
    # Python would otherwise try to write it again at exit, and print an error.
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_one_line(message: str) -> str:
    """Convert an error message of click to one line without a full stop. click writes each choice on its own line."""
    return message.replace("\n\t", " ").strip().removesuffix(".")


def run() -> NoReturn:
    """Run the command. An error is one line on stderr, and the exit code indicates its kind."""
    code: int | None = 0
    try:
        _prepare_streams()
        if request := os.environ.get(VARIABLE):
            sys.exit(complete(group, request))
        # Do not use group.main(), because it exits with code 1 if the program that reads stdout closes the pipe.
        with group.make_context("kafkafmt", sys.argv[1:]) as context:
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
        click.echo(
            f"{command}: Error: {plain(without_secrets(_in_one_line(error.format_message()) + advice(error)))} (see {command} --help)",
            err=True,
        )
        code = EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        code = EXIT_INTERRUPTED
    except DuplicatePartitionError as error:
        tell(
            f"{error.problem}; specify only one of the two directories, use --replicas longest, or merge both with "
            "kafkafmt salvage --replicas merge"
        )
        code = EXIT_USAGE
    except UrlError as error:
        tell(str(error))
        code = EXIT_USAGE
    except MissingError as error:
        tell(str(error))
        code = EXIT_UNREADABLE
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if extra is None:
            raise
        tell(f"this command needs the package {error.name}: {install_line(extra)}")
        code = EXIT_UNREADABLE
    except BrokenPipeError as error:
        _discard_output()
        code = error.exit_code if isinstance(error, ClosedPipeError) else code
    except OSError as error:
        # An error about a full disk contains the path of the file, unless the file is stdout.
        unnamed = error.filename is None and error.errno in FULL_DISK
        tell(f"stdout: {error.strerror}" if unnamed else error_text(error))
        _discard_output()
        code = EXIT_UNREADABLE
    except KafkaFormatError as error:
        tell(str(error))
        code = EXIT_DAMAGE
    sys.exit(code or 0)
