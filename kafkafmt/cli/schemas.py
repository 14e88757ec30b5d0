"""Implement `kafkafmt schemas`, which lists, prints and saves the schemas of a registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from ..registry import RegisteredSchema, SchemaNotFoundError, SchemaRegistry
from ..registry import schemas as read_schemas
from ..registry.files import save_registry
from ..registry.rest import is_registry
from ..support.text import encode_json, quantity
from .choosing import NotThereError
from .options import InputPath, format_option
from .output import keep_exit_code, raw_in_a_pipe, show_table, tell, write_bytes

LATEST = "latest"
DIGITS = 10
"""Largest number of digits of a version."""


class SchemaSource(InputPath):
    """Click parameter type for the path or URL of schemas. The URL of a registry needs no package for files."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_registry(value):
            return super().convert(value, param, ctx)
        try:
            valid = bool(urlsplit(value).hostname) and urlsplit(value).port != 0
        except ValueError:
            valid = False
        return str(value) if valid else self.fail(f"{value} is not the URL of a registry", param, ctx)


@click.command(
    epilog="\b\nExamples: kafkafmt schemas /var/lib/kafka/data\n"
    "          kafkafmt schemas /var/lib/kafka/data orders-value/latest",
)
@click.argument("path", metavar="PATH", type=SchemaSource())
@click.argument("subject", metavar="[SUBJECT[/VERSION]]", required=False)
@click.option("--deleted", is_flag=True, help="List soft-deleted versions too.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write all versions, also the soft-deleted ones, to files in a new directory, which can be used as PATH.",
)
@format_option
def schemas(path: str, subject: str | None, deleted: bool, save: Path | None, output_format: str) -> int:
    """List the schemas of a schema registry, or print one.

    PATH is a log directory that contains the topic _schemas, in which a schema registry stores its
    schemas, or the directory of this topic. PATH can also be a schema file (.avsc, .json, .proto), a
    directory with schema files, or the URL of a running registry (http://USER:PASSWORD@HOST:8081).

    With SUBJECT, only this subject is listed. With SUBJECT/VERSION, the text of this version is
    printed. VERSION can be "latest". Subjects of other contexts are written as :.CONTEXT:SUBJECT.

    If a record, a file or a schema cannot be used, a message says so, and the exit code is 1.
    """
    if save is not None and subject is not None:
        raise click.UsageError("--save writes all subjects; omit SUBJECT")
    registry = read_schemas(path, on_message=tell)
    for finding in registry.findings:
        tell(finding.message if finding.offset is None else f"offset {finding.offset}: {finding.message}")
    with keep_exit_code(registry.exit_code):
        try:
            if save is not None:
                _save(registry, save)
            elif (version := _version(registry, subject)) is not None:
                _print(version, output_format)
            else:
                _list(registry, subject, deleted, output_format)
        except SchemaNotFoundError as error:
            raise NotThereError(str(error)) from None
    return registry.exit_code


def _save(registry: SchemaRegistry, folder: Path) -> None:
    try:
        written = save_registry(registry, folder)
    except FileExistsError as error:
        raise click.UsageError(str(error)) from None
    tell(f"{quantity(written, 'version')} written to {folder}")


def _version(registry: SchemaRegistry, subject: str | None) -> RegisteredSchema | None:
    """Return the version that SUBJECT/VERSION names, or None if the argument is a subject or missing."""
    if subject is None or subject in registry.subjects(deleted=True):
        return None
    name, slash, number = subject.rpartition("/")
    if slash and number == LATEST:
        return registry.get_latest_version(name)
    if slash and number.isascii() and number.isdigit() and len(number) <= DIGITS:
        return registry.get_version(name, int(number))
    return None


def _print(version: RegisteredSchema, output_format: str) -> None:
    if output_format == "json":
        head = {"subject": version.subject, "context": version.context, "compatibility": version.compatibility}
        click.echo(encode_json(head | version.to_dict() | {"schema": version.schema}))
        return
    text = "\n".join(map(raw_in_a_pipe, version.schema.split("\n")))
    write_bytes(text.removesuffix("\n").encode() + b"\n")


def _list(registry: SchemaRegistry, subject: str | None, deleted: bool, output_format: str) -> None:
    if subject is not None:
        registry.get_versions(subject)  # SchemaNotFoundError: there is no such subject
    chosen = [v for v in registry if subject in (None, v.subject)]
    listed = [v for v in chosen if deleted or not v.deleted]
    if output_format == "json":
        content = registry.to_dict(deleted)
        content["subjects"] = [s for s in content["subjects"] if subject in (None, s["subject"])]
        click.echo(encode_json(content))
        return
    columns = ("subject", "version", "id", "type", "compatibility", "references", "state", "guid")
    show_table(columns, list(map(_row, listed)), right=("version", "id"), spare=("guid", "compatibility"))
    if not chosen:
        tell("there is no schema")
    if len(listed) < len(chosen):
        hidden = quantity(len(chosen) - len(listed), "soft-deleted version")
        tell(f"{hidden} omitted; --deleted lists them")


def _row(version: RegisteredSchema) -> tuple[str, ...]:
    state = ["deleted"] if version.deleted else []
    state += [version.error.replace("_", " ")] if version.error else []
    return (
        version.subject,
        f"{version.version}",
        "-" if version.schema_id is None else f"{version.schema_id}",
        version.schema_type,
        version.compatibility or "-",
        ", ".join(f"{r.subject}/{r.version}" for r in version.references),
        ", ".join(state),
        version.guid or "-",
    )
