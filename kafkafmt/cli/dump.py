"""`kafkafmt dump`: a log's files in kafka-dump-log's form, with its flags."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..internal_topics.decode import coordinator_texts, metadata_text
from ..log import NoLogError
from ..log.auditing.dump import (
    Item,
    LogDump,
    index_findings,
    index_items,
    index_sanity,
    snapshot_items,
    transaction_items,
)
from ..log.format import files
from ..log.reading.recognize import packing
from ..text import json_encoder, plain
from .cat import BYTES
from .common import EXIT_DAMAGE, LocalPath, format_option, limit_batch_option, options, raw_in_a_pipe, tell
from .dump_text import text_of

SUFFIXES = (".checkpoint", ".index", ".log", ".snapshot", ".timeindex", ".txnindex")
BASE_OFFSET = re.compile(r"[0-9]{20}(?=\.)|[0-9]{1,19}(?=_)")
"""Of a segment's file; of an index that was fetched from tiered storage, `<base offset>_<id>.index`."""
METADATA_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint\Z")
BOOTSTRAP = "bootstrap.checkpoint"
encode = json_encoder(default=lambda data: base64.b64encode(data).decode())
Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
DECODERS: dict[str, Decoder] = {
    "offsets": partial(coordinator_texts, "__consumer_offsets"),
    "transaction_log": partial(coordinator_texts, "__transaction_state"),
    "cluster_metadata": lambda offset, _, value: (None, metadata_text(offset, value)),
    "share_group_state": partial(coordinator_texts, "__share_group_state"),
}


def decoder_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}-decoder"


decoder_options = options(
    *(
        click.option(decoder_flag(name), f"decode_{name}", is_flag=True, help=f"Records are those of {topic}.")
        for name, topic in zip(
            DECODERS,
            ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state"),
            strict=True,
        )
    )
)


@click.command(epilog="Example: kafkafmt dump --files /var/lib/kafka/data/orders-3 --print-data-log")
@click.option(
    "--files", "names", multiple=True, required=True, metavar="F[,F…]", help="Files, or directories with such files."
)
@click.option("--print-data-log", is_flag=True, help="Records with their keys and values.")
@click.option(
    "--deep-iteration", is_flag=True, help="Records, not batches alone; implied by whatever shows their contents."
)
@click.option("--skip-record-metadata", is_flag=True, help="Of records only keys and values.")
@click.option("--max-bytes", type=click.IntRange(min=0), help="Only so many bytes from the start of each log.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Of indexes only whether they are sound in themselves; exit 1 where not."
)
@click.option(
    "--verify-index-only",
    is_flag=True,
    help="Of indexes only what is wrong beside their logs; exit 1 where something is.",
)
@decoder_options
@click.option(
    "--bytes",
    "encoding",
    type=click.Choice(list(BYTES)),
    default="utf8",
    show_default=True,
    help="Keys and values in JSON.",
)
@limit_batch_option
@format_option
def dump(
    names: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    max_bytes: int | None,
    index_sanity_check: bool,
    verify_index_only: bool,
    encoding: str,
    max_batch_bytes: int,
    output_format: str,
    **decoders: bool,
) -> int:
    """Batches, records, index entries and producer snapshots, as kafka-dump-log shows them.

    Knows .log, .index, .timeindex, .txnindex, .snapshot and .checkpoint files. What is damaged is told, and passed over.
    """
    asked_for = [name for name in DECODERS if decoders[f"decode_{name}"]]
    if len(asked_for) > 1:
        raise click.UsageError("one decoder at a time: " + " or ".join(map(decoder_flag, asked_for)))
    decoder = DECODERS[asked_for[0]] if asked_for else None
    contents = print_data_log or decoder is not None
    as_json = partial(_json_line, BYTES[encoding])
    as_text = partial(text_of, contents=contents, skip_metadata=skip_record_metadata)
    worst = 0
    for path in _paths(names):
        base, gaps = _base_offset(path), []
        show = partial(as_json, path) if output_format == "json" else as_text
        if output_format == "text":
            sys.stdout.write(raw_in_a_pipe(f"Dumping {path}") + "\n" + _title(path))
        for item in _items(
            path, base, index_sanity_check, verify_index_only, deep_iteration or contents, max_bytes, max_batch_bytes
        ):
            if item["type"] == "record" and decoder is not None and "control" not in item:
                item["key"], item["value"] = decoder(item["offset"], item["key"], item["value"])
            if item["type"] in ("damage", "finding"):
                where = "" if item["position"] is None else f" at {item['position']}, {item['length']} bytes"
                sys.stdout.flush()
                tell(f"{path}{where}: {item['message']}" + ("" if item["type"] == "damage" else f" [{item['error']}]"))
                asked = (index_sanity_check or verify_index_only) and path.suffix.endswith("index")
                worst = EXIT_DAMAGE if item["type"] == "damage" or asked else worst
            elif item["type"] == "gap":
                gaps.append(f"  {item['after']} is followed by {item['offset']}")
            sys.stdout.write(show(item))
        if gaps and output_format == "text":
            sys.stdout.flush()
            click.echo("\n".join([plain(f"Non-consecutive offsets in {path}"), *gaps]), err=True)
    return worst


def _items(
    path: Path, base: int, sanity: bool, verify_only: bool, deep: bool, max_bytes: int | None, max_batch_bytes: int
) -> Iterator[Item]:
    if path.suffix in (".index", ".timeindex"):
        if sanity:
            found = index_sanity(path, base)
            yield from found or [{"type": "sane", "path": str(path)}]
            return
        empty = path.suffix == ".index" and files.file_size(path) == 0
        if empty:
            yield {"type": "empty", "path": str(path)}
        elif not verify_only:
            yield from index_items(path, base)
        yield from index_findings(path)
    elif path.suffix == ".txnindex":
        yield from transaction_items(path)
    elif path.suffix == ".snapshot":
        yield from snapshot_items(path)
    else:
        yield from LogDump(path, base, deep, max_bytes, max_batch_bytes).items()


def _paths(names: tuple[str, ...]) -> Iterator[Path]:
    """The files meant: those named, and of directories those of a kind that is known, in order."""
    given = [Path(LocalPath().convert(n, None, None)) for text in names for n in text.split(",") if n]
    if not given:
        raise click.UsageError("--files names no file")
    if not any(path.is_dir() or path.suffix in SUFFIXES or not path.exists() for path in given):
        packed = [f"; {path}: {how}" for path in given if (how := packing(path))]
        raise NoLogError(
            f"{', '.join(map(str, given))}: no file that dump knows ({', '.join(SUFFIXES)})" + "".join(packed)
        )
    for path in given:
        path.stat()  # an OSError where it is missing
        if path.is_dir():
            found = list(_below(path))
            if not found:
                raise NoLogError(f"{path}: no file in it that dump knows ({', '.join(SUFFIXES)})")
            yield from found
        elif path.suffix in SUFFIXES:
            yield path
        else:
            how = packing(path)
            tell(f"Ignoring unknown file {path}" + (f": {how}" if how else ""))


def _below(path: Path) -> Iterator[Path]:
    """Of a partition directory its files, of a log directory those of its partitions."""
    directories, names = files.list_directory(path)
    known = (n for n in names if n.endswith(SUFFIXES))
    yield from (path / n for n in known if BASE_OFFSET.match(n) or METADATA_SNAPSHOT.match(n) or n == BOOTSTRAP)
    for directory in directories:
        yield from (p for p in _below(path / directory) if p.parent == path / directory)


def _base_offset(path: Path) -> int:
    found = BASE_OFFSET.match(path.name)
    return int(found[0]) if found else 0


def _title(path: Path) -> str:
    """The line under a file's name."""
    if path.name == BOOTSTRAP:
        return "KRaft bootstrap snapshot\n"
    snapshot = METADATA_SNAPSHOT.match(path.name)
    if snapshot:
        return f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}\n"
    return f"Log starting offset: {_base_offset(path)}\n" if path.suffix == ".log" else ""


def _json_line(text: Callable[[bytes], str], path: Path, item: Item) -> str:
    """An item as one line; `file` is the path as it was named."""
    row: dict[str, Any] = {"type": item["type"], "file": str(path)} | {
        k: v for k, v in item.items() if k not in ("type", "file", "path")
    }
    if row["type"] == "record":
        for name in ("key", "value"):
            value = row[name]
            if isinstance(value, bytes):
                row[name] = text(value)
            elif isinstance(value, str) and value.startswith("{"):
                row[name] = json.loads(value)
        if "headers" in row:
            row["headers"] = [[k, None if v is None else text(v)] for k, v in row["headers"]]
        if "control" in row:
            control = row["control"]
            row["control"] = {"error": str(control)} if isinstance(control, Exception) else control._asdict()
    return encode(row) + "\n"
