"""Answer commands and options that users know from other tools with what to type instead."""

from __future__ import annotations

from collections.abc import Mapping

import click

OTHER_COMMANDS = {
    "check": "kafkafmt verify PATH",
    "consume": "kafkafmt cat PATH",
    "grep": "kafkafmt cat PATH --grep REGEX",
    "head": "kafkafmt cat PATH -n 10",
    "info": "kafkafmt ls PATH",
    "list": "kafkafmt ls PATH",
    "tail": "kafkafmt cat PATH -o -10:",
    "topics": "kafkafmt ls PATH",
    "version": "kafkafmt --version",
}
"""What to type instead of the name of a command that does not exist."""
COUNT = "-n N prints at most N records"
OTHER_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "": {
        "--no-color": "the output has no colors",
        "--quiet": "messages go to stderr, so 2>/dev/null hides them",
        "--verbose": "all messages go to stderr; kafkafmt --version prints versions",
        "-q": "messages go to stderr, so 2>/dev/null hides them",
        "-v": "all messages go to stderr; kafkafmt --version prints versions",
        "--bootstrap-server": "kafkafmt reads files, so PATH replaces the address of a broker",
        "-b": "kafkafmt reads files, so PATH replaces the address of a broker",
        "-o": "-O or --output names an output, and --format json selects JSON",
    },
    "cat": {
        "--from-beginning": "cat starts at the beginning by default",
        "--max-messages": COUNT,
        "-C": "cat needs no option for this",
        "-c": COUNT,
    },
    "seek": {"-o": "--offset N finds an offset, and --timestamp TIME finds a time"},
    "serve": {"--port": "--listen HOST:PORT sets the address"},
}
"""What to type instead of an option that does not exist, for each command; "": for all commands."""
JSON = ("--json", "-J")


def with_json(command: click.Command, arguments: list[str]) -> list[str]:
    """Replace --json and -J by --format json if the command has this option."""
    if not any("--format" in option.opts for option in command.params):
        return arguments
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return ["--format=json" if word in JSON else word for word in arguments[:end]] + arguments[end:]


def advice(error: click.ClickException) -> str:
    """Return what to type after a usage error, or an empty string."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    name = context.info_name or ""
    if isinstance(error, click.NoSuchOption):
        found = OTHER_OPTIONS.get(name, {}).get(error.option_name) or OTHER_OPTIONS[""].get(error.option_name)
        return f"; {found}" if found else ""
    paths = context.params.get("paths", ())
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "output":
        *sources, output = paths if len(paths) > 1 else (*(paths or ("PATH",)), "OUT")
        return f"; type kafkafmt {name} {' '.join(sources)} -O {output}"
    return ""
