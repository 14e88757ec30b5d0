"""Implement the command `kafkafmt completion` and the shell completion of options, paths and topic names."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

VARIABLE = "_KAFKAFMT_COMPLETE"
"""Environment variable that the shell sets when it requests completions."""
SHELLS = ("bash", "zsh", "fish")


@click.command(epilog='\b\nExample: eval "$(kafkafmt completion bash)"')
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print a script that makes the shell complete commands, options, paths and topic names.

    \b
    bash   eval "$(kafkafmt completion bash)"       in ~/.bashrc
    zsh    eval "$(kafkafmt completion zsh)"        in ~/.zshrc, after compinit
    fish   kafkafmt completion fish | source        in ~/.config/fish/config.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    root = ctx.find_root().command
    script = made(root, {}, "kafkafmt", VARIABLE).source()
    # click's script for fish drops everything after the first comma of a value or a description.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))
    return 0


def complete(group: click.Group, instruction: str) -> int:
    """Print the completions that the shell has requested, and return the exit code."""
    # `instruction` is the value of the environment variable `VARIABLE`, such as "bash_complete".
    return shell_complete(group, {}, "kafkafmt", VARIABLE, instruction)


def complete_topics(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topic names that begin with `incomplete`."""
    # They come from the names of partition directories in the given local paths: no file is opened.
    from ..log.formats import parse_partition_name

    # Read the paths from ctx.args. If -t has no value, click does not assign the paths to a parameter.
    topics = set()
    for path in ctx.args:
        try:
            names = [*os.listdir(path), Path(os.path.abspath(path)).name]
        except OSError:
            continue
        parsed = map(parse_partition_name, names)
        topics |= {name.topic for name in parsed if name.parsed and name.state == "live"}
    return [CompletionItem(topic) for topic in sorted(topics) if topic.startswith(incomplete)]
