"""Implement `kafkafmt dump`, whose options and output format are those of kafka-dump-log of Kafka 4.4."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..errors import StructureError
from ..internal_topics.decode import coordinator_texts, metadata_text, remote_log_text
from ..log.inspecting import BOOTSTRAP, METADATA_SNAPSHOT, DumpedFile
from ..log.inspecting import dump as dump_files
from ..log.verifying import error_text
from ..support.text import json_encoder, plain, quantity, shown
from .dump_rows import Row, row_of
from .dump_text import text_of
from .options import (
    Decorator,
    LocalPath,
    ParamType,
    WholeNumber,
    bytes_option,
    format_option,
    limit_batch_option,
    options,
)
from .output import BYTES, EXIT_DAMAGE, EXIT_UNREADABLE, raw_in_a_pipe, tell
from .read_errors import ReadError, read_errors_of

encode: Callable[[Any], str] = json_encoder(default=lambda data: base64.b64encode(data).decode())
Decoder = Callable[[int, bytes | None, bytes | None], tuple[bytes | str | None, bytes | str | None]]
DECODERS: dict[str, Decoder] = {
    "offsets": partial(coordinator_texts, "__consumer_offsets"),
    "transaction_log": partial(coordinator_texts, "__transaction_state"),
    "cluster_metadata": lambda offset, _, value: (None, metadata_text(offset, value)),
    "remote_log_metadata": lambda offset, _, value: (None, remote_log_text(offset, value)),
    "share_group_state": partial(coordinator_texts, "__share_group_state"),
}
DECODED_TOPICS = (
    "__consumer_offsets",
    "__transaction_state",
    "__cluster_metadata",
    "__remote_log_metadata",
    "__share_group_state",
)
NUMBERS = {"IntegerDecoder": 4, "LongDecoder": 8}
"""Names of the decoder classes for numbers, and the sizes of the numbers in bytes."""
CLASSES = ("StringDecoder", "DefaultDecoder", *NUMBERS)
"""Kafka's decoder classes. DefaultDecoder returns bytes, which are printed as StringDecoder prints them."""
PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.")


def decoder_flag(name: str) -> str:
    """Return the option that selects a decoder for keys and values, such as `--offsets-decoder`."""
    return f"--{name.replace('_', '-')}-decoder"


decoder_options: Decorator = options(
    *(
        click.option(
            decoder_flag(name),
            f"decode_{name}",
            is_flag=True,
            help=f"Print keys and values, decoded as records of the topic {topic}.",
        )
        for name, topic in zip(DECODERS, DECODED_TOPICS, strict=True)
    )
)


class DecoderClass(ParamType[str]):
    """Click parameter type for one of Kafka's decoder classes, with or without its package."""

    name = "CLASS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert the name of a class to its name without the package."""
        for package in PACKAGES:
            value = value.removeprefix(package)
        if value not in CLASSES:
            self.fail(f"{shown(value)} is not one of {', '.join(CLASSES)}; other classes need Java", param, ctx)
        return str(value)


def decoded_number(name: str | None, offset: int, data: bytes | None) -> bytes | str | None:
    """Decode a key or a value as the decoder class `name` does. Only numbers are changed."""
    size = NUMBERS.get(name or "")
    if size is None or data is None:
        return data
    if len(data) < size:
        return f"Error at offset {offset}, skipping. {name} needs {size} bytes, but there are {len(data)}"
    return str(int.from_bytes(data[:size], "big", signed=True))


def decoder_class_option(side: str) -> Decorator:
    """Return the option that selects a decoder class for keys or values."""
    return click.option(
        f"--{side}-decoder-class",
        type=DecoderClass(),
        is_flag=False,
        flag_value="StringDecoder",
        help=f"Print {side}s as Kafka's class org.apache.kafka.tools.api.CLASS does: {', '.join(CLASSES)}.",
    )


@click.command(epilog="\b\nExample: kafkafmt dump /var/lib/kafka/data/orders-3 --print-data-log")
@click.argument("paths", nargs=-1, metavar="PATH…", type=LocalPath())
@click.option(
    "--files",
    "names",
    multiple=True,
    metavar="F[,F…]",
    help="Files to print, or directories whose files are printed, like PATH. Separate paths with commas, or repeat the "
    "option.",
)
@click.option("--print-data-log", is_flag=True, help="Print the records of each batch, with their keys and values.")
@click.option(
    "--deep-iteration",
    is_flag=True,
    help="Print the records of each batch too, but without their keys and values.",
)
@click.option(
    "--skip-record-metadata",
    is_flag=True,
    help="Print only the keys and values of records, without offsets and timestamps.",
)
@click.option(
    "--max-bytes",
    metavar="BYTES",
    type=WholeNumber(min=0),
    help="Read only the first BYTES bytes of each log.",
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Check each offset and time index by itself, without its log. If an index is invalid, the exit code is 1.",
)
@click.option(
    "--verify-index-only",
    is_flag=True,
    help="Compare each offset and time index with its log, and print only mismatches. If there is a mismatch, the exit "
    "code is 1.",
)
@click.option(
    "--max-message-size",
    metavar="BYTES",
    type=WholeNumber(min=0),
    help="Accepted because kafka-dump-log has this option. It has no effect, because messages of any size are read.",
)
@decoder_options
@decoder_class_option("key")
@decoder_class_option("value")
@bytes_option
@limit_batch_option
@format_option
def dump(
    paths: tuple[str, ...],
    names: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    max_bytes: int | None,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_message_size: int | None,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    encoding: str,
    max_batch_bytes: int,
    output_format: str,
    **decoders: bool,
) -> int:
    """Print the contents of log files in the output format of kafka-dump-log of Kafka 4.4.

    PATH is a file, or a directory whose files are printed. The command can read .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files.
    Unlike kafka-dump-log, it continues after damage. It reports damage on stderr, and the exit code
    is then 1.

    The option --bytes applies only to JSON. Text output shows keys and values as kafka-dump-log
    prints them.
    """
    asked_for = [name for name in DECODERS if decoders[f"decode_{name}"]]
    if len(asked_for) > 1:
        raise click.UsageError(f"only one decoder can be used; choose {' or '.join(map(decoder_flag, asked_for))}")
    classes = [name for name in (key_decoder_class, value_decoder_class) if name is not None]
    if asked_for and classes:
        raise click.UsageError(
            f"{decoder_flag(asked_for[0])} cannot be used with --key-decoder-class or --value-decoder-class"
        )
    decoder: Decoder | None = DECODERS[asked_for[0]] if asked_for else None
    if classes:

        def decoder(offset: int, key: bytes | None, value: bytes | None) -> Any:
            return decoded_number(key_decoder_class, offset, key), decoded_number(value_decoder_class, offset, value)

    contents = print_data_log or decoder is not None
    given = [*paths, *(LocalPath().convert(n, None, None) for text in names for n in text.split(",") if n)]
    if not given:
        raise click.UsageError("specify at least one file, as PATH or with --files")
    skipped: set[str] = set()

    def skip(error: OSError) -> None:
        file = os.path.abspath(error.filename or error_text(error))
        if file not in skipped:  # Reading an index also reads its segment, so the same error can occur twice.
            sys.stdout.flush()
            tell(f"skipped: {error_text(error)}")
        skipped.add(file)

    found = dump_files(
        given,
        deep=deep_iteration or contents,
        indexes="sanity" if index_sanity_check else "findings" if verify_index_only else "entries",
        max_bytes=max_bytes,
        max_batch_bytes=max_batch_bytes,
        on_message=tell,
        on_unreadable=skip,
    )
    as_json = partial(_json_line, BYTES[encoding])
    as_text = partial(text_of, contents=contents, skip_metadata=skip_record_metadata)
    damaged = False
    for file in found:
        checks_index = (index_sanity_check or verify_index_only) and file.path.suffix.endswith("index")
        if output_format == "json":
            show = partial(as_json, file.path)
        else:
            show = as_text
            sys.stdout.write(raw_in_a_pipe(f"Dumping {file.path}") + "\n" + _title(file))
        gaps = []
        try:
            for item in read_errors_of(file):
                row = row_of(item)
                if row["type"] == "record" and decoder is not None and "control" not in row:
                    row["key"], row["value"] = decoder(row["offset"], row["key"], row["value"])
                elif row["type"] in ("damage", "finding"):
                    _tell_problem(file.path, row)
                    damaged = damaged or row["type"] == "damage" or checks_index
                elif row["type"] == "gap":
                    gaps.append(f"  {row['after']} is followed by {row['offset']}")
                sys.stdout.write(show(row))
        except (ReadError, StructureError) as error:
            cause = error.cause if isinstance(error, ReadError) else error.__cause__
            if not isinstance(cause, OSError):
                sys.stdout.flush()
                tell(f"{file.path}: {error}")
                damaged = True
            elif [str(file.path)] == given:
                raise cause from None
            else:
                skip(cause)
        if gaps and output_format == "text":
            sys.stdout.flush()
            click.echo("\n".join([plain(f"Non-consecutive offsets in {file.path}"), *gaps]), err=True)
    if skipped:
        return EXIT_UNREADABLE
    return EXIT_DAMAGE if damaged else 0


def _tell_problem(path: Path, row: Row) -> None:
    """Print a line to stderr about damaged bytes or a finding."""
    where = "" if row["position"] is None else f" at {row['position']}, {quantity(row['length'], 'byte')}"
    sys.stdout.flush()
    tell(f"{path}{where}: {row['message']}" + ("" if row["type"] == "damage" else f" [{row['error']}]"))


def _title(file: DumpedFile) -> str:
    """Return the line to print below a file name, for example `Log starting offset: 0`."""
    name = file.path.name
    if name == BOOTSTRAP:
        return "KRaft bootstrap snapshot\n"
    snapshot = METADATA_SNAPSHOT.match(name)
    if snapshot:
        return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}\n"
    return f"Log starting offset: {file.base_offset}\n" if file.path.suffix == ".log" else ""


def _json_line(text: Callable[[bytes], str], path: Path, row: Row) -> str:
    """Convert a batch, record or index entry to a line of JSON. `path` is as the user has specified it."""
    shown: Row = {"type": row["type"], "file": str(path)} | {
        k: v for k, v in row.items() if k not in ("type", "file", "path")
    }
    if shown["type"] == "record":
        for name in ("key", "value"):
            value = shown[name]
            if isinstance(value, bytes):
                shown[name] = text(value)
            elif isinstance(value, str) and value.startswith("{"):
                shown[name] = json.loads(value)
        if "headers" in shown:
            shown["headers"] = [[k, None if v is None else text(v)] for k, v in shown["headers"]]
        if "control" in shown:
            control = shown["control"]
            shown["control"] = {"error": str(control)} if isinstance(control, Exception) else control._asdict()
    return encode(shown) + "\n"
