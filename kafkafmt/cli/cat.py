"""Implement `kafkafmt cat`, which prints records, one per line."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from .._backend import core
from ..log import Damage, DamagedLogError, PartitionDir, PartitionLog, discover
from ..log.catalog import select_partitions
from ..log.damage import ReadLimits
from ..log.finding import CHUNK_ROWS, BytePattern, Conditions, Found, HeaderEquals, JsonEquals, PartitionSearch, Search
from ..log.findings import damage_text
from ..log.reading import POLL, Follower, Followers, OffsetRange, OnDamage, Selection, paths_to_follow, read_pieces
from ..log.transactions import Doubt, Transactions
from ..log.verifying import error_text
from ..support.text import counted, offset_range, shown
from ..types import Buffer, RecordColumns
from .choosing import Choice, choose_range, find
from .find_options import conditions_of, find_options, partitions_of_key
from .options import (
    DecodingCommand,
    ParamType,
    Sides,
    WholeNumber,
    bytes_option,
    framing_option,
    isolation_option,
    limit_batch_option,
    paths_argument,
    range_options,
    registry_option,
    replicas_option,
    selection_options,
)
from .output import BYTES, EXIT_DAMAGE, EXIT_UNREADABLE, tell, write_bytes
from .read_errors import ReadError, read_errors_of, reading
from .record_lines import FORMATS, LineFormat, Template, line_format, line_template

if TYPE_CHECKING:
    from ..values.sides import Formats
    from ..values.where import Test
    from .decoded_lines import TopicDecoder, TopicDecoders

EXPLAINED = 3
"""If `kafkafmt cat` finds no record, its message describes at most this number of partitions."""
FEW_RECORDS = 1000
"""With a higher limit, one thread searches and formats records, because it can format many of them in one call."""


class OutputFormat(ParamType[LineFormat]):
    """Click parameter type for the output format of records."""

    name = "FORMAT"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LineFormat:
        if isinstance(value, LineFormat):
            return value
        try:
            return line_format(value, sys.stdout.isatty())
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Where(ParamType["Test"]):
    """Click parameter type for a condition on the fields of decoded keys and values."""

    name = "CONDITION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Test:
        if not isinstance(value, str):
            test: Test = value
            return test
        from ..values.where import parse_where

        try:
            return parse_where(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    cls=DecodingCommand,
    epilog="\b\nExamples:\n"
    "  kafkafmt cat /var/lib/kafka/data -t orders -p 3 -o @2026-01-01: -n 10\n"
    "  kafkafmt cat /var/lib/kafka/data -t orders --key order-17 --format json\n"
    "  kafkafmt cat /var/lib/kafka/data -t orders --format '%t %p %o %k %s\\n'",
)
@paths_argument
@selection_options
@range_options
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=WholeNumber(min=0),
    help="Print at most N records in total. With --key, --grep and similar options, only matching records are counted.",
)
@find_options
@click.option(
    "--decode",
    "sides",
    type=Sides(),
    default={},
    metavar="[=key,value]",
    help="Decode keys and values into JSON, each by the schema with which it was written. By default, both. A side can "
    "have a format, such as key=string or value=avro:orders.avsc.",
)
@registry_option
@framing_option
@click.option(
    "--where",
    type=Where(),
    help="With --decode: print only records whose fields meet this condition, such as 'value.amount > 100 and "
    'key.country = "DE"\'.',
)
@click.option(
    "-f",
    "--follow",
    "follow",
    is_flag=True,
    help="After the last record, wait for new records, and print them until the command is interrupted. To print only "
    "new records, add '-o -0:'.",
)
@isolation_option
@click.option(
    "--on-error",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help='How to handle damaged data. "fail" prints the records before the damage and stops. "skip" omits and reports '
    "the damage, and continues. In both cases, the exit code is 1.",
)
@click.option(
    "--partial",
    is_flag=True,
    help="With --on-error skip, also print the first records of a batch if its later records are damaged.",
)
@click.option("--control", is_flag=True, help="Include control records, such as transaction markers.")
@bytes_option
@replicas_option
@limit_batch_option
@click.option(
    "--format",
    "--output-format",
    "output_format",
    type=OutputFormat(),
    default="text",
    show_default=True,
    help=f"Output format: {', '.join(FORMATS)}, or a format like those of kcat, such as '%t %p %o %k %s\\n'. JSON is for "
    "programs: keys may be added, but not changed. --json means --format json.",
)
def cat(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    internal: bool,
    offsets: OffsetRange,
    group: str | None,
    below_log_start: bool,
    limit: int | None,
    key: bytes | None,
    key_regex: BytePattern | None,
    value_regex: BytePattern | None,
    headers: tuple[HeaderEquals, ...],
    value_json: tuple[JsonEquals, ...],
    only_partition_of_key: bool,
    sides: Formats,
    registry: str | None,
    framing: str,
    where: Test | None,
    follow: bool,
    isolation: str,
    on_error: str,
    partial: bool,
    control: bool,
    encoding: str,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: LineFormat,
) -> int:
    """Print records, one per line, sorted by topic, partition and offset.

    With --key, --key-regex, --grep, --header and --value-json, only matching records are printed. A
    record must meet all of these conditions.

    \b
    Examples of -o:
      -o 100:200          offsets 100 to 199
      -o -10:             the last 10 offsets
      -o @2026-01-01:     from the first record of 2026 (UTC)
      -o :@1767225600000  to this time, in milliseconds since 1970-01-01 UTC

    \b
    Fields of a format like those of kcat:
      %t topic   %p partition      %o offset   %T timestamp in ms
      %k key     %s value          %h headers  %% a percent sign
      %K and %S  sizes of the key and of the value in bytes, -1 for null
      %R         size of the value as a big-endian int32
    """
    if follow and (formats := [path for path in paths if "%" in path and not os.path.exists(path)]):
        raise click.UsageError(f"-f follows growing logs; --format sets the format, as in --format {shown(formats[0])}")
    if follow and offsets.end is not None:
        raise click.UsageError("--follow cannot be used with an end offset; -o must have the form FROM:")
    if partial and on_error == "fail":
        raise click.UsageError("--partial requires --on-error skip")
    found = find(paths, replicas)
    selection = Selection(
        *offsets, isolation=isolation, control=control, below_log_start=below_log_start, partial=partial
    )
    limits = ReadLimits(max_batch_bytes)
    choice = choose_range(found, topics, numbers, internal, group, selection)
    if choice.damaged and on_error == "fail":
        return EXIT_DAMAGE
    if only_partition_of_key:
        choice = replace(choice, partitions=partitions_of_key(found, choice.partitions, key))
    if (registry is not None or where is not None or framing != "auto") and not sides:
        raise click.UsageError("--registry, --framing and --where need --decode")
    conditions = conditions_of(key, key_regex, value_regex, headers, () if sides else value_json)
    printer = _Printer(output_format, encoding, conditions, limit, on_error, choice.damaged)
    if sides:
        from .decoded_lines import TopicDecoders

        printer.decode(TopicDecoders(registry, sides, framing, where, value_json, choice.partitions, limits, follow))
    if group is not None:
        topics = tuple({d.topic for d in choice.partitions})

    def make(directory: PartitionDir, at_first: bool) -> Follower:
        selected = choice.selection if at_first else replace(choice.selection, start=None)
        names = paths_to_follow(directory, paths)
        follower = Follower(directory, names, selected, limits, tell=tell)
        if selected.committed:
            transactions = follower.log.transactions
            printer.damaged = _report_undecided(directory, transactions, transactions.doubts) or printer.damaged
        return follower

    def rescan() -> list[PartitionDir]:
        return select_partitions(discover(paths, replicas).partitions, topics, numbers, internal)

    write_bytes(output_format.first_line)
    try:
        if follow:
            _follow(Followers(choice.partitions, make, rescan, tell), printer)
        else:
            _print(choice, printer, limits, limit)
    except DamagedLogError as error:
        sys.stdout.flush()
        tell(error.message)
        return EXIT_DAMAGE
    if printer.not_utf8:
        number = f"{printer.not_utf8:,}"
        tell(
            f"keys, values and header values that are not valid UTF-8: {number}; \\xNN replaces their bytes, and "
            "--bytes base64 prints all bytes exactly"
        )
    printer.report_undecodable()
    if printer.unreadable:
        return EXIT_UNREADABLE
    return EXIT_DAMAGE if printer.damaged or printer.undecodable else 0


def _print(choice: Choice, printer: _Printer, limits: ReadLimits, limit: int | None) -> None:
    """Print the selected records of all partitions, or why there are none. Report partitions that cannot be read."""
    for directory in choice.partitions:
        if printer.left == 0:
            break
        try:
            printer.write(_found(directory, choice.selection, printer, limits))
        except ReadError as error:
            sys.stdout.flush()
            printer.unreadable = True
            tell(f"{directory.topic}-{directory.partition} cannot be read: {error_text(error.cause)}")
    if choice.partitions and printer.shown == 0 and limit != 0 and not printer.damaged and not printer.unreadable:
        if printer.read:
            tell(f"none of the {counted(printer.read, 'record')} matches")
        else:
            tell(why_nothing(choice.partitions, choice.selection))
    printer.report_not_json()


def _found(
    directory: PartitionDir, selection: Selection, printer: _Printer, limits: ReadLimits
) -> Generator[Found[_Lines], None, None]:
    """Open a partition, and return the lines of its matching records. Report transactions with an unknown outcome."""
    with reading():
        log = PartitionLog(directory, limits, tell=tell)
        log.losses.tell_remote()
        interval = selection.resolve(log)
        if interval.committed:
            transactions = log.transactions_in(interval.low, interval.high)
            doubts = transactions.within(interval.low, interval.high - 1).doubts
            printer.damaged = _report_undecided(directory, transactions, doubts) or printer.damaged
    search = PartitionSearch(log, lambda: interval, printer.on_damage(log), printer.search(log))
    return read_errors_of(read_pieces([search], printer.threads))


def _follow(followers: Followers, printer: _Printer) -> None:
    """Print new records until the limit is reached. BrokenPipeError: the reader of the output closes the pipe."""
    wait = _waiter(sys.stdout.fileno())
    while True:
        for follower in followers.check():
            chunks = follower.chunks(printer.on_damage(follower.log), CHUNK_ROWS)
            if not printer.write(printer.search(follower.log).found(chunks)):
                return
        sys.stdout.flush()
        wait(POLL)


def _waiter(handle: int) -> Callable[[float], None]:
    """Return a function that waits for a number of seconds, or until a reader closes its end of the pipe."""
    # Then the function raises BrokenPipeError.
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return time.sleep
    poll = select.poll()
    # The event mask is empty, because poll() always reports errors and hang-ups.
    poll.register(handle, 0)

    def wait(seconds: float) -> None:
        if poll.poll(seconds * 1000):
            raise BrokenPipeError

    return wait


class _Lines(NamedTuple):
    """The text of some records. `not_utf8` counts keys, values and header values that are not UTF-8."""

    rows: int
    text: bytes
    not_utf8: int


class _Printer:
    """Prints the records that match the options of `cat`, until a limit is reached."""

    # `not_json` counts values that --value-json tested and that are not JSON. `not_utf8` counts
    # printed keys, values and header values that are not UTF-8, unless they are printed exactly.

    def __init__(
        self,
        output_format: LineFormat,
        encoding: str,
        conditions: Conditions,
        limit: int | None,
        on_error: str,
        damaged: bool,
    ) -> None:
        self.left = limit
        self.read = self.shown = self.not_json = 0
        self.damaged = damaged
        self.unreadable = False
        self.not_utf8 = 0
        self._decoders: TopicDecoders | None = None
        self._format, self._encoding = output_format, encoding
        self._conditions = conditions
        self._skips = on_error == "skip"
        # With a limit, several threads format each record alone, so that the last one can be printed alone.
        few = limit is None or (limit <= FEW_RECORDS and bool(conditions))
        self.threads = (os.cpu_count() or 1) if few else 1

    def decode(self, decoders: TopicDecoders) -> None:
        self._decoders, self.threads = decoders, 1

    @property
    def undecodable(self) -> Counter[str]:
        """Number of printed keys and values that could not be decoded, by error code."""
        return Counter() if self._decoders is None else self._decoders.undecodable

    def on_damage(self, log: PartitionLog) -> OnDamage | None:
        path = str(log.directory.path)

        def skip(damage: Damage) -> None:
            self.damaged = True
            tell(f"skipped: {damage_text(damage, path)}")

        return skip if self._skips else None

    def search(self, log: PartitionLog) -> Search[_Lines]:
        """Return a search for the records to print."""
        template = line_template(self._format, log.topic, log.partition)
        if self._decoders is None:
            return Search(self._conditions, partial(self._lines, template), self.left)
        decoder = self._decoders.of(log.directory)
        conditions = replace(self._conditions, test=decoder.test.matching) if decoder.test else self._conditions
        return Search(conditions, partial(self._decoded_lines, decoder, template, log), self.left)

    def _decoded_lines(
        self,
        decoder: TopicDecoder,
        template: Template,
        log: PartitionLog,
        source: Buffer,
        columns: RecordColumns,
        first: int,
        end: int,
    ) -> list[_Lines]:
        if self._format.name == "json":
            lines = decoder.json_lines(log, source, columns, first, end, BYTES[self._encoding])
        else:
            lines = decoder.text_lines(template, self._format, self._encoding, source, columns, first, end)
        return [_Lines(end - first, lines, 0)]

    def _lines(self, template: Template, source: Buffer, columns: RecordColumns, first: int, end: int) -> list[_Lines]:
        style, separator = self._format.style, self._format.separator.encode()
        rows = 1 if self.threads > 1 and self.left is not None else end - first
        found = []
        for start in range(first, end, rows):
            stop = start + rows
            lines = core.format_records(source, columns, template, style, self._encoding, separator, start, stop)
            exact = self._format.name == "text" or self._encoding != "utf8" or b"\\x" not in lines
            found.append(_Lines(rows, lines, 0 if exact else _not_utf8(source, columns, start, stop)))
        return found

    def write(self, found: Generator[Found[_Lines], None, None]) -> bool:
        """Print lines. Return False if the limit was reached."""
        with closing(found):
            for some in found:
                self.read += some.tested
                self.not_json += some.not_json
                for lines in some.items:
                    write_bytes(lines.text)
                    self.not_utf8 += lines.not_utf8
                    self.shown += lines.rows
                    if self.left is not None:
                        self.left -= lines.rows
                        if not self.left:
                            return False
        return self.left != 0

    def report_undecodable(self) -> None:
        """Report how many of the printed keys and values could not be decoded, by reason."""
        if self.undecodable:
            reasons = ", ".join(f"{code} {n:,}" for code, n in self.undecodable.most_common())
            tell(f"keys and values that cannot be decoded: {self.undecodable.total():,} ({reasons})")

    def report_not_json(self) -> None:
        """Report how many of the tested values are not JSON, unless the limit ended the search."""
        if self.not_json and self.left != 0:
            verb = "is" if self.not_json == 1 else "are"
            tell(f"{counted(self.not_json, 'value')} {verb} not JSON, so --value-json cannot match")


def _not_utf8(source: Buffer, columns: RecordColumns, start: int, stop: int) -> int:
    """Count the keys, values and header values of some records that are not valid UTF-8."""
    found = 0
    for record in core.make_records(source, columns)[start:stop]:
        for data in (record.key, record.value, *(value for _, value in record.headers)):
            try:
                str(data or b"", "utf-8")
            except UnicodeDecodeError:
                found += 1
    return found


def why_nothing(chosen: list[PartitionDir], selection: Selection) -> str:
    """Return a message that explains to the user why no record was printed."""
    start, end = selection.start, selection.end
    if start is not None and end is not None and start.kind == end.kind == "offset" and start.n >= end.n:
        return f"the range {start.n}:{end.n} contains no offset, because its end is exclusive"
    parts = []
    for log in map(PartitionLog, chosen[:EXPLAINED]):
        first, following = log.log_start_offset, log.next_offset
        has = "no records" if first >= following else offset_range(first, following - 1)
        # `kafkafmt verify` reports a log start offset above the log end as `checkpoint_beyond_end`.
        if first > following:
            has = f"no records: the log start offset {first} is higher than the log end offset {following} (--below-log-start ignores the log start offset)"
        remote = f" ({log.losses.remote_text})" if log.losses.remote else ""
        parts.append(f"{log.topic}-{log.partition} has {has}{remote}")
    more = [f"and {len(chosen) - EXPLAINED} more"] if len(chosen) > EXPLAINED else []
    return f"no record{'' if start is None and end is None else ' in that range'}: {', '.join(parts + more)}"


def _report_undecided(directory: PartitionDir, transactions: Transactions, doubts: Sequence[Doubt]) -> bool:
    """Report records that read_committed omits in doubt. Return True if damage may have destroyed a marker."""
    name = f"{directory.topic}-{directory.partition}"
    if transactions.undecided:
        tell(f"{name}: {transactions.undecided}")
    for doubt in doubts:
        tell(f"{name}: {doubt.message}")
    return bool(doubts)
