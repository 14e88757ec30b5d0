"""Implement `kafkafmt help`, which describes one command or lists all commands."""

from __future__ import annotations

import click


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the commands that begin with `incomplete`."""
    root = ctx.find_root()
    if ctx.params.get("words") or not isinstance(root.command, click.Group):
        return []
    return [name for name in root.command.list_commands(root) if name.startswith(incomplete)]


@click.command(epilog="\b\nExample: kafkafmt help metadata diff")
@click.argument("words", metavar="[COMMAND]", nargs=-1, shell_complete=_complete)
@click.pass_context
def help(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Describe a command, as `kafkafmt COMMAND --help` does. Without COMMAND, list all commands."""
    root = ctx.find_root()
    group = root.command
    assert isinstance(group, click.Group)
    if not words:
        click.echo(root.get_help())
        return 0
    command = group.get_command(root, words[0])
    assert command is not None
    # With resilient_parsing, click does not report missing arguments of the command as errors.
    made = command.make_context(words[0], list(words[1:]), root, resilient_parsing=True)
    click.echo(made.get_help())
    return 0
