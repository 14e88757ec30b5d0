"""Define the options and argument types that several subcommands use."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..constants import CODEC_NAMES, DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS
from ..constants import Codec as CodecName
from ..log.reading import OffsetRange
from ..log.storage import store_of
from ..records import BatchBuilder
from ..support.paths import UrlPath, input_path, local_path
from ..support.text import shown
from ..support.times import parse_time
from ..values.framing import FRAMINGS
from ..values.sides import SIDES, SideFormat, side_formats
from .completion import complete_topics
from .offset_range import parse_offsets
from .output import BYTES

if TYPE_CHECKING:
    from click import ParamType as ParamType
else:

    class ParamType(click.ParamType):
        """Base class for click parameter types. It makes `ParamType[int]` valid in old releases of click."""

        def __class_getitem__(cls, item):
            return cls


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Type of a decorator that adds an option or an argument to a command."""


def options(*decorators: Decorator) -> Decorator:
    """Combine decorators for click options into one decorator. --help lists the options in the given order."""

    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


MAX_INT64 = (1 << 63) - 1
MOST_PARTITIONS = 1 << 20
"""Largest number of partition numbers that the option -p accepts. No topic in a real cluster has so many partitions."""


class WholeNumber(click.IntRange):
    """Click parameter type for a whole number that fits into 64 bits."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            if not re.fullmatch(r"-?[0-9]+", value):
                self.fail(f"{shown(value)} is not a whole number", param, ctx)
            if len(value) > 20 or abs(int(value)) > MAX_INT64:
                self.fail(f"{value[:40]} is too large; the largest number is {MAX_INT64}", param, ctx)
        return super().convert(value, param, ctx)


class Numbers(ParamType[list[int]]):
    """Click parameter type for a list of partition numbers and ranges, such as `0,3-5`."""

    name = "N[,N-M…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Convert a list such as `0,3-5` to partition numbers."""
        if isinstance(value, list):
            return value
        wrong = f"{shown(value)} is not a list of partition numbers such as 0,3-5"
        numbers: list[int] = []
        for word in str(value).split(","):
            found = re.fullmatch(r"\s*(\d{1,18})(?:\s*-\s*(\d{1,18}))?\s*", word, re.ASCII)
            if not found:
                self.fail(wrong, param, ctx)
            first, last = int(found[1]), int(found[2] or found[1])
            if first > last:
                self.fail(f"{wrong}: the range {word.strip()} ends before it starts", param, ctx)
            if len(numbers) + last - first >= MOST_PARTITIONS:
                self.fail(f"{shown(value)} contains more than {MOST_PARTITIONS:,} partition numbers", param, ctx)
            numbers += range(first, last + 1)
        return numbers


class ByteSize(ParamType[int]):
    """Click parameter type for a number of bytes, such as `1048576`, `64MB` or `1g`."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", value.strip().lower(), re.ASCII)
        if not found or len(found[1]) > 18:
            self.fail(f"{shown(value)} is not a size such as 1048576, 64MB or 1g", param, ctx)
        return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]


class Names(ParamType[tuple[str, ...]]):
    """Click parameter type for a list of known names: `NAME,…`."""

    name = "NAME,…"

    def __init__(self, known: Sequence[str]) -> None:
        self.known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return completions for the last name of a comma-separated list. Names already in the list are omitted."""
        head, comma, last = incomplete.rpartition(",")
        given = head.split(",")
        return [CompletionItem(head + comma + n) for n in self.known if n.startswith(last) and n not in given]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split a list of names at the commas, and check that each name is known."""
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            if name not in self.known:
                self.fail(f"{shown(name)} is not one of {', '.join(self.known)}", param, ctx)
        return names


class Sides(ParamType[dict[str, SideFormat]]):
    """Click parameter type for what to decode, such as `key,value` or `key=string,value=avro:orders.avsc`."""

    name = "SIDES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, SideFormat]:
        if isinstance(value, dict):
            return value
        if not {part.partition("=")[0] for part in value.split(",")} <= set(SIDES):
            text = f"{shown(value)} is not key, value or key,value; a side can have a format, such as key=string"
            self.fail(text, param, ctx)
        try:
            return side_formats(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Codec(ParamType[tuple[CodecName, int | None]]):
    """Click parameter type for a codec, and optionally its compression level: `NAME[:LEVEL]`."""

    name = "NAME[:LEVEL]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in CODEC_NAMES if name.startswith(incomplete)]

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[CodecName, int | None]:
        """Convert `NAME[:LEVEL]` to the name of the codec and the compression level (None without LEVEL)."""
        if isinstance(value, tuple):
            return value
        codec, colon, level = str(value).partition(":")
        if codec not in CODEC_NAMES:
            self.fail(f"{shown(codec)} is not one of {', '.join(CODEC_NAMES)}", param, ctx)
        if colon and not re.fullmatch(r"-?[0-9]{1,9}", level):
            self.fail(f"{shown(value)} has the level {shown(level)}, which is not a whole number", param, ctx)
        try:
            number = int(level) if colon else None
            BatchBuilder(codec=codec, level=number)
        except ValueError as error:
            self.fail(f"{shown(value)}: {error}", param, ctx)
        return codec, number


TIME_FORMS = (
    "TIME is a number of milliseconds since 1970-01-01 UTC, an ISO time (in UTC by default), or a duration before now, "
    "such as -7d, -36h or -15m."
)
"""Help text for options that have a time as value."""


class Time(ParamType[int]):
    """Click parameter type for a time: milliseconds, an ISO time, or a duration before now. A leading @ is ignored."""

    # `kafkafmt cat -o` requires an @ before a time.

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_time(str(value).removeprefix("@"))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Offsets(ParamType[OffsetRange]):
    """Click parameter type for a range of offsets of the form `FROM:TO`."""

    name = "FROM:TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OffsetRange:
        """Convert `FROM:TO` to a range of offsets."""
        if isinstance(value, OffsetRange):
            return value
        try:
            return parse_offsets(value)
        except ValueError as error:
            output = ctx is not None and any(p.name == "output" for p in ctx.command.params)
            self.fail(f"{error}{'; -O names the output' if output else ''}", param, ctx)


class LocalPath(ParamType[str]):
    """Click parameter type for a local path. A `file:` URL is also accepted."""

    name = "PATH"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete the names of files and directories."""
        return [CompletionItem(incomplete, type="file")]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("the path is empty", param, ctx)
        try:
            return local_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class InputPath(ParamType[str]):
    """Click parameter type for the path or URL of an input."""

    name = "PATH"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete the names of files and directories."""
        return [CompletionItem(incomplete, type="file")]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the path or URL of an input. Check that a package that can read the URL is installed."""
        if value == "-" and not os.path.exists(value):
            if ctx is None or sys.stdin.isatty():
                self.fail("stdin is a terminal; type the path of a file", param, ctx)
            return saved_stdin(ctx)
        try:
            place = input_path(value) if value else value
            if isinstance(place, UrlPath):
                store_of(place)
                return place.url
            return local_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def saved_stdin(ctx: click.Context) -> str:
    """Copy stdin, which cannot be read at any position, into a file that is deleted when the command ends."""
    folder = tempfile.TemporaryDirectory(prefix="kafkafmt-")
    ctx.call_on_close(folder.cleanup)
    path = os.path.join(folder.name, "stdin-0", "stdin.log")
    os.mkdir(os.path.dirname(path))
    with open(path, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


class DecodingCommand(click.Command):
    """Click command class for commands with the option `--decode`."""

    # `--decode` without a value means key and value. Another argument can follow, such as a path.

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give `--decode` the argument that follows if it names sides, and otherwise key,value."""
        end = args.index("--") if "--" in args else len(args)
        given, rest = [], args[:end]
        while rest:
            argument = rest.pop(0)
            if argument == "--decode":
                argument += "=" + (rest.pop(0) if rest and re.match("(key|value)[=,]", rest[0]) else "key,value")
            given.append(argument)
        return super().parse_args(ctx, given + args[end:])


paths_argument: Decorator = click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=InputPath())
replicas_option: Decorator = click.option(
    "--replicas",
    type=click.Choice(["longest"]),
    help="If two paths contain the same partition, read the copy with the higher end offset. Without this option, such "
    "a partition is an error.",
)
format_option: Decorator = click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format. JSON is for programs: keys may be added, but not changed. --json means --format json.",
)
limit_batch_option: Decorator = click.option(
    "--max-batch-bytes",
    metavar="BYTES",
    type=WholeNumber(min=1),
    default=DEFAULT_MAX_BATCH_BYTES,
    show_default=True,
    help="Largest size of one batch, in bytes after decompression. A larger batch is reported as damage.",
)
jobs_option: Decorator = click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=WholeNumber(min=1),
    default=os.cpu_count() or 1,
    help="Number of threads that process partitions.  [default: number of cores]",
)
registry_option: Decorator = click.option(
    "--registry",
    metavar="SOURCE",
    help="With --decode: the schemas, as PATH of `kafkafmt schemas`. By default, those in the same log directory.",
)
framing_option: Decorator = click.option(
    "--framing",
    type=click.Choice(["auto", *FRAMINGS]),
    default="auto",
    show_default=True,
    help="With --decode: what precedes keys and values: the schema id of Confluent's or of Apicurio's serializers, the "
    "fingerprint of Avro's single-object encoding, or nothing. By default, the id of Confluent's serializers, or "
    "nothing if a file has the schema.",
)
isolation_option: Decorator = click.option(
    "--isolation",
    type=click.Choice(ISOLATION_LEVELS),
    default="read_uncommitted",
    show_default=True,
    help="Isolation level, as in Kafka's consumer. read_committed omits aborted records, and ends at the last stable "
    "offset.",
)
bytes_option: Decorator = click.option(
    "--bytes",
    "encoding",
    type=click.Choice(list(BYTES)),
    default="utf8",
    show_default=True,
    help=r"Output format for keys, values and header values. utf8 prints bytes that are not UTF-8 as \xNN. base64 and "
    r"hex represent all bytes exactly.",
)
topic_option: Decorator = click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    callback=lambda _, __, globs: tuple(glob for word in globs for glob in word.split(",")),
    shell_complete=complete_topics,
    help="Read only topics whose name matches this pattern, such as 'orders*'. May be repeated; commas separate "
    "several patterns.",
)
partition_option: Decorator = click.option(
    "-p",
    "--partition",
    "numbers",
    type=Numbers(),
    default=[],
    help="Read only the partitions with these numbers, such as 0,3-5.",
)
internal_option: Decorator = click.option(
    "--internal",
    is_flag=True,
    help="Include Kafka's internal topics, such as __consumer_offsets. Without this option, an internal topic is read "
    "only if -t or PATH names it.",
)
choice_options: Decorator = options(topic_option, partition_option)
selection_options: Decorator = options(choice_options, internal_option)
reading_options: Decorator = options(replicas_option, limit_batch_option, format_option)
range_options: Decorator = options(
    click.option(
        "-o",
        "--offsets",
        "offsets",
        type=Offsets(),
        default=OffsetRange(),
        show_default=False,
        help="Range of offsets to read. TO is exclusive. FROM and TO may be omitted. FROM without a colon means 'FROM:'. "
        "FROM and TO are offsets, -N (N before the log end), the words beginning and end, or times. A time is @MS (milliseconds since 1970-01-01 UTC), "
        "@ISO-TIME (in UTC by default), or a duration before now, such as @-7d, @-36h or @-15m. "
        "A time selects the first offset whose record has this timestamp or a later one.",
    ),
    click.option(
        "-g",
        "--group",
        metavar="NAME",
        help="Start reading at the offsets that this consumer group has committed. Topics without a committed offset of "
        "the group are not read.",
    ),
    click.option(
        "--below-log-start",
        is_flag=True,
        help="Include records below the log start offset. A broker does not return such records.",
    ),
)
