"""Implement `kafkafmt schemas`, which lists, shows and saves the schemas of a registry."""

from __future__ import annotations

from pathlib import Path

import click

from ..registry import RegisteredSchema, SchemaNotFoundError, SchemaRegistry
from ..registry import schemas as read_schemas
from ..registry.files import save_registry
from ..support.text import encode_json, quantity
from .choosing import NotThereError
from .options import InputPath, format_option
from .output import keep_exit_code, show_table, tell

LATEST = "latest"


@click.command(
    epilog="\b\nExamples: kafkafmt schemas /var/lib/kafka/data\n"
    "          kafkafmt schemas /var/lib/kafka/data orders-value/latest",
)
@click.argument("path", metavar="PATH", type=InputPath())
@click.argument("subject", metavar="[SUBJECT[/VERSION]]", required=False)
@click.option("--deleted", is_flag=True, help="List soft-deleted versions too.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the schemas to files in a new directory, which can be used as PATH.",
)
@format_option
def schemas(path: str, subject: str | None, deleted: bool, save: Path | None, output_format: str) -> int:
    """List the schemas of a schema registry, or print one.

    PATH is a log directory that contains the topic _schemas, in which a schema registry stores its
    schemas, or a schema file, or a directory with schema files, or the URL of a running registry.

    With SUBJECT, only this subject is listed. With SUBJECT/VERSION, the text of this version is
    printed. VERSION can be "latest".

    If a record or a file cannot be used, a message says so, and the exit code is 1.
    """
    registry = read_schemas(path, on_message=tell)
    for finding in registry.findings:
        tell(finding.message if finding.offset is None else f"_schemas offset {finding.offset}: {finding.message}")
    with keep_exit_code(registry.exit_code):
        try:
            _show(registry, subject, deleted, output_format, save)
        except SchemaNotFoundError as error:
            raise NotThereError(str(error)) from None
    return registry.exit_code


def _show(registry: SchemaRegistry, subject: str | None, deleted: bool, output_format: str, save: Path | None) -> None:
    if save is not None:
        if subject is not None:
            raise click.UsageError("--save writes all subjects; omit SUBJECT")
        try:
            written = save_registry(registry, save, deleted)
        except FileExistsError as error:
            raise click.UsageError(str(error)) from None
        tell(f"{quantity(len(written) - 1, 'schema')} written to {save}")
        return
    if subject is not None and subject not in registry.subjects(deleted=True):
        name, slash, number = subject.rpartition("/")
        if slash and (number == LATEST or number.isdecimal()):
            version = registry.get_latest_version(name) if number == LATEST else registry.get_version(name, int(number))
            click.echo(version.schema)
            return
        registry.get_versions(subject)  # raises SchemaNotFoundError
    chosen = [s for s in registry.subjects(deleted) if subject in (None, s)]
    if output_format == "json":
        content = registry.to_dict(deleted)
        content["subjects"] = [s for s in content["subjects"] if s["subject"] in chosen]
        click.echo(encode_json(content))
        return
    rows = [_row(registry.get_version(s, n)) for s in chosen for n in registry.get_versions(s, deleted)]
    show_table(
        ("subject", "version", "id", "type", "compatibility", "references", "state", "guid"),
        rows,
        right=("version", "id"),
    )
    if not rows:
        tell("there is no schema")


def _row(version: RegisteredSchema) -> tuple[str, ...]:
    state = [version.error.replace("_", " ")] if version.error else []
    return (
        version.subject,
        f"{version.version}",
        "-" if version.schema_id < 0 else f"{version.schema_id}",
        version.schema_type,
        version.compatibility or "-",
        ", ".join(f"{r.subject}/{r.version}" for r in version.references),
        ", ".join([*(["deleted"] if version.deleted else []), *state]),
        version.guid,
    )
