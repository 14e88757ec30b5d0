"""Define the options of `kafkafmt cat` that select records by key, value or header."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import click

from ..log import Discovery, PartitionDir
from ..log.finding import BytePattern, Conditions, HeaderEquals, JsonEquals, json_path, values_of_text
from ..records import Partitioner
from ..support.text import counted, shown
from .options import Decorator, ParamType, options
from .output import tell


def bytes_of(text: str) -> bytes:
    """Convert text such as ``order-1``, ``base64:b3JkZXI=`` or ``hex:6f72`` to bytes, or raise ValueError."""
    form, colon, rest = text.partition(":")
    if colon and form == "base64":
        try:
            return base64.b64decode(rest, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{shown(rest)} is not base64: {error}") from None
    if colon and form == "hex":
        try:
            return bytes.fromhex(rest)
        except ValueError:
            raise ValueError(f"{shown(rest)} is not hexadecimal") from None
    return (rest if colon and form == "utf8" else text).encode("utf-8", "surrogateescape")


class BytesText(ParamType[bytes]):
    """Click parameter type for bytes: plain text, or encoded bytes after the prefix `base64:` or `hex:`."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        try:
            return bytes_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Regex(ParamType[BytePattern]):
    """Click parameter type for a regular expression."""

    name = "REGEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> BytePattern:
        if isinstance(value, BytePattern):
            return value
        try:
            return BytePattern(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Header(ParamType[HeaderEquals]):
    """Click parameter type for a header key, and optionally a header value."""

    name = "NAME[=VALUE]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> HeaderEquals:
        """Parse `NAME` or `NAME=VALUE` into a condition. `NAME` alone matches a header with any value."""
        if isinstance(value, HeaderEquals):
            return value
        key, equals, text = value.partition("=")
        try:
            return HeaderEquals(key, bytes_of(text)) if equals else HeaderEquals(key, any_value=True)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class JsonMember(ParamType[JsonEquals]):
    """Click parameter type for a condition on a member of a JSON value: `PATH=VALUE`."""

    name = "PATH=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> JsonEquals:
        """Parse `PATH=VALUE` into a condition for a member of a JSON value."""
        if isinstance(value, JsonEquals):
            return value
        path, equals, text = value.partition("=")
        try:
            if not equals:
                raise ValueError(f"{shown(value)} has no value; it must have the form PATH=VALUE")
            return JsonEquals(json_path(path), values_of_text(text))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def only_value(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the value of an option, or None."""
    # If it was repeated, click would ignore all values but the last: usage error.
    if len(values) > 1:
        option = param.opts[0]
        regex = "--key-regex" if option == "--key" else option
        raise click.UsageError(f"{option} was repeated; to search for a or b, use {regex} 'a|b'", ctx)
    return values[0] if values else None


find_options: Decorator = options(
    click.option(
        "--key",
        multiple=True,
        callback=only_value,
        type=BytesText(),
        help="Print only records with this key. TEXT is plain text, 'base64:…' or 'hex:…'. The prefix 'utf8:' marks plain "
        "text that itself begins with one of these prefixes.",
    ),
    click.option(
        "--key-regex",
        multiple=True,
        callback=only_value,
        type=Regex(),
        help="Print only records whose key contains a match of this regular expression. A null key never matches.",
    ),
    click.option(
        "--grep",
        "value_regex",
        multiple=True,
        callback=only_value,
        type=Regex(),
        help="Print only records whose value contains a match of this regular expression. The syntax is that of "
        "Python's module re, applied to bytes. Some expressions, such as '(a+)+b', can take very long; press Ctrl-C to "
        "stop the search.",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        type=Header(),
        help="Print only records with this header. VALUE can have the same forms as TEXT in --key. May be repeated.",
    ),
    click.option(
        "--value-json",
        multiple=True,
        type=JsonMember(),
        help="Print only records whose value is JSON, and whose member PATH equals VALUE, such as 'customer.country=DE' "
        "or 'items.0.count=2'. A schema id before the JSON is skipped. May be repeated.",
    ),
    click.option(
        "--only-partition-of-key",
        is_flag=True,
        help="Read only the partition to which Kafka's default partitioner assigns the key. This requires --key, and "
        "all partitions of the topic.",
    ),
)


def conditions_of(
    key: bytes | None,
    key_regex: BytePattern | None,
    value_regex: BytePattern | None,
    headers: tuple[HeaderEquals, ...],
    value_json: tuple[JsonEquals, ...],
) -> Conditions:
    """Convert the values of the options to the conditions that a record must meet."""
    return Conditions(key, key_regex, value_regex, tuple(headers), tuple(value_json))


def partitions_of_key(found: Discovery, chosen: list[PartitionDir], key: bytes | None) -> list[PartitionDir]:
    """For each topic in `chosen`, return the partition to which Kafka's default partitioner assigns `key`."""
    # The number of partitions is the highest partition number, plus 1. If a lower one is missing,
    # raise a usage error.
    if key is None:
        raise click.UsageError("--only-partition-of-key requires --key")
    left = []
    for topic in sorted({d.topic for d in chosen}):
        numbers = {d.partition for d in found.partitions if d.topic == topic and d.readable}
        count = max(numbers) + 1
        if len(numbers) < count:
            missing = next(n for n in range(count) if n not in numbers)
            raise click.UsageError(
                f"--only-partition-of-key needs all partitions of {topic}, but partition {missing} was not found; "
                "omit the option, or specify the log directories of all brokers"
            )
        number = Partitioner(count).partition(key)
        tell(
            f"{topic}: {counted(count, 'partition')} found; only partition {number} is read, because the key belongs to it"
        )
        left += [d for d in chosen if d.topic == topic and d.partition == number]
    return left
