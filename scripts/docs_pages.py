"""MkDocs hook that adds pages to the documentation site.

Markdown files outside of docs/ are added, and their links are changed. The reference of the command
`kafkafmt` is generated from its help texts.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
COPIED = {
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "benchmarks/RESULTS.md": "performance.md",
    "benchmarks/ratios.svg": "ratios.svg",
}
"""Files that are copied to the site, and their paths on the site."""
COMMAND_PAGE = "reference/command.md"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(?=[#)])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in COPIED.items():
        files.append(File.generated(config, page, content=copied_page(source, page, config["repo_url"])))
    files.append(File.generated(config, COMMAND_PAGE, content=command_page()))
    return files


def copied_page(source: str, page: str, repository: str) -> str:
    """Return the content of a Markdown file. Its links are changed so that they are valid on the site.

    A link to a file that is a page of the site is changed to the path of the page. All other links
    are changed to URLs of the repository.
    """

    def target(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        if path in COPIED or path.startswith("docs/"):
            return posixpath.relpath(COPIED.get(path, path.removeprefix("docs/")), posixpath.dirname(page) or ".")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{repository}/{kind}/main/{path}"

    return LINK.sub(target, (ROOT / source).read_text(encoding="utf-8"))


def command_page() -> str:
    """Return a Markdown page that describes the arguments and options of each subcommand."""
    from kafkafmt.cli.main import COMMANDS, group

    context = click.Context(group, info_name="kafkafmt")
    lines = ["# The command", "", *help_text(group), "", "| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{name}) | {what} |" for name, what in COMMANDS.items()]
    lines += [
        "",
        "`kafkafmt --version` prints the version, the active core, the reason for its choice, and the versions of the libraries.",
        "",
    ]
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        lines += [f"## {name}", "", *command_help(command, click.Context(command, context, name)), ""]
        for word, subcommand in getattr(command, "subcommands", {}).items():
            inner = click.Context(subcommand, context, f"{name} {word}")
            lines += [f"### {name} {word}", "", *command_help(subcommand, inner), ""]
    return "\n".join(lines)


def command_help(command: click.Command, context: click.Context) -> list[str]:
    """Return the description of a subcommand, a table of its options, and its example, as lines of Markdown."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    lines = ["```text", usage, "```", "", *help_text(command), "", "| option | meaning |", "|---|---|"]
    for parameter in command.params:
        names, meaning = parameter.get_help_record(context) or ("", "")
        if meaning:
            codes = ", ".join(f"`{name}`" for name in names.split(", "))
            lines.append(f"| {codes} | {escaped(' '.join(meaning.split()))} |")
    example = getattr(command, "epilog", None)
    if example:
        label, _, text = example.removeprefix("\b\n").partition(": ")
        lines += ["", f"{label}:", "", "```text", text, "```"]
    return lines


def help_text(command: click.Command) -> list[str]:
    """Convert the help of a command to Markdown paragraphs."""
    lines = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if paragraph.startswith("\b"):  # click does not wrap such a paragraph
            lines += ["```text", paragraph.removeprefix("\b").strip("\n"), "```\n"]
        else:
            lines.append(escaped(" ".join(paragraph.split())) + "\n")
    return lines


def escaped(text: str) -> str:
    """Escape characters outside of code that have a meaning in Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<\[|])", r"\\\1", part) for part in parts)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Remove the blanks that mkdocstrings adds to types such as "bytes-like"."""
    return re.sub(r"((?:<span[^>]*>)?(?:bytes|array|path)(?:</span>)?) - (?=like)", r"\1-", output)
