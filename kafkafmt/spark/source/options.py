"""Parse the options of the data source.

The data source has all options of Spark's Kafka source, with the same names and rules. It also has
some additional options.

All options are checked before any file is opened. Each error message is a single line and names the
option. Unknown options raise an error, because a query with a misspelt option for offsets would
read the whole log. Options that start with `kafka.` are ignored, because they configure a
connection to a broker. The only exception is kafka.isolation.level, which selects records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ...constants import DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS, READ_UNCOMMITTED
from ...log import PartitionDir
from ...log.finding import ANYTHING, Filter
from ...log.reading import OffsetBound, Selection
from ...support.text import shown
from ...values.framing import FRAMINGS
from ...values.sides import UNION, Formats, side_formats
from ..option_text import (
    OptionError,
    check_names,
    flag_of,
    input_of,
    json_value,
    seconds_of,
    size_of,
    whole_number,
    word_of,
)
from .splits import SPLIT_BYTES
from .where import parse_where

LATEST, EARLIEST = -1, -2
ISOLATION_OPTION = "kafka.isolation.level"
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
NAMES = (
    "subscribe", "subscribePattern", "assign",
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
    "includeHeaders", "columns", "decode", "schema", "registry", "framing", "raw",
    "where", "mode", "replicas", "belowLogStart", "splitBytes", "maxBatchBytes",
    "path", "paths",
)  # fmt: skip

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
DECODE_ONLY = ("schema", "registry", "framing", "raw")
"""Options that need the option `decode`."""
HINTS = (
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
"""Options of Spark's Kafka source that only affect the connection to a broker."""

Key = tuple[str, int]
PerPartition = dict[Key, int]


@dataclass(frozen=True)
class Bound:
    """Start or end of the range that a query reads in each partition."""

    option: str
    """Name of the option that sets this start or end."""
    kind: str
    """Type of the value: "offset" or "time"."""
    value: int | PerPartition
    """An offset, or a time in milliseconds since 1970-01-01 UTC. An int applies to all partitions.
    A dict contains one value for each partition. The offset LATEST stands for the end of the log,
    and EARLIEST stands for its start.
    """

    def value_of(self, key: Key) -> int:
        """Return the start or end of the range to read from one partition, as an offset or a time."""
        return self.value if isinstance(self.value, int) else self.value[key]

    def of(self, key: Key) -> OffsetBound | None:
        """Return the offset or time at which one partition starts or ends, or None for LATEST and EARLIEST."""
        value = self.value_of(key)
        return None if self.kind == "offset" and value in (LATEST, EARLIEST) else OffsetBound(self.kind, value)

    def check(self, keys: Collection[Key]) -> None:
        """Raise OptionError unless the option has a value for exactly the partitions of the query."""
        # As in Spark's Kafka source, a single value for all partitions is always valid.
        if isinstance(self.value, int):
            return
        remedy = "give a value for each partition that the query reads, and for no other"
        if self.kind == "offset":
            remedy += " (-2 means the earliest offset, -1 the latest)"
        if lacking := set(keys) - self.value.keys():
            raise OptionError(
                f"{self.option} must include {_listed(lacking)}, because the query reads {_pronoun(lacking)}; {remedy}"
            )
        if unknown := self.value.keys() - set(keys):
            raise OptionError(
                f"{self.option} includes {_listed(unknown)}, but the query does not read {_pronoun(unknown)}; {remedy}"
            )


@dataclass(frozen=True)
class Options:
    """Parsed options of a read query. Sizes are in bytes."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: frozenset[Key] | None = None
    start: Bound | None = None
    end: Bound | None = None
    """End of the range that the query reads (exclusive)."""
    late_start_is_error: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = 900.0
    """Longest time for which a micro-batch waits for `min_offsets_per_trigger` new offsets, in seconds."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    stream_only: tuple[str, ...] = ()
    """Given options that have an effect only in streams. As in Spark's Kafka source, batch queries ignore them."""
    hints: tuple[str, ...] = ()
    """Names of the given options that are ignored, because they configure a connection to a broker."""
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    """Names of columns, and of fields such as "value.id", unless the query has a schema."""
    decode: Formats = field(default_factory=dict)
    """The formats of the sides to decode."""
    framing: str = "auto"
    schema: str = UNION
    """Which schemas of the registry decide the columns."""
    registry: str | None = None
    """Path or URL of the schemas. None: the log directory that is read."""
    raw: bool = False
    """Whether the bytes of all decoded keys and values are kept, not only those of undecodable ones."""
    where: Filter = ANYTHING
    """Conditions that a record must match."""
    mode: str = MODES[0]
    replicas: str | None = None
    below_log_start: bool = False
    isolation: str = READ_UNCOMMITTED
    split_bytes: int = SPLIT_BYTES
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    def selection(self, key: Key) -> Selection:
        return Selection(
            None if self.start is None else self.start.of(key),
            None if self.end is None else self.end.of(key),
            isolation=self.isolation,
            below_log_start=self.below_log_start,
        )

    def check_batch(self) -> None:
        """Raise OptionError if a batch query starts at the latest offset or ends at the earliest offset."""
        for bound, end, word in ((self.start, LATEST, "latest"), (self.end, EARLIEST, "earliest")):
            if bound is None or bound.kind != "offset":
                continue
            if bound.value == end:
                raise OptionError(
                    f"{bound.option} cannot be {word} in a batch query, because the query would read nothing"
                )
            if not isinstance(bound.value, int) and (
                wrong := [key for key, value in bound.value.items() if value == end]
            ):
                raise OptionError(
                    f"{bound.option} cannot be {end} ({word}) for {_listed(wrong)} in a batch query, because the query would read nothing"
                )

    def check_stream(self) -> None:
        """Raise OptionError if an option is given that a stream does not support."""
        if self.end is not None:
            raise OptionError(f"{self.end.option} can be used only in batch queries, because a stream has no end")

    def select(self, partitions: Iterable[PartitionDir]) -> list[PartitionDir]:
        """Return the partitions that the options select. OptionError: a named topic or partition does not exist."""
        # Internal topics (`__…`) are selected only if an option names them, if `subscribePattern`
        # starts with `__`, or if a partition directory of the topic was given as a path.
        there = [p for p in partitions if p.readable]
        if self.assigned is not None:
            if absent := self.assigned - {p.key for p in there}:
                raise OptionError(f"assign contains {_listed(absent)}, which does not exist; {_existing(there)}")
            return [p for p in there if p.key in self.assigned]
        if self.topics is not None:
            if absent_topics := [t for t in self.topics if all(p.topic != t for p in there)]:
                raise OptionError(f"subscribe contains {absent_topics[0]}, which does not exist; {_existing(there)}")
            return [p for p in there if p.topic in self.topics]
        if self.pattern is not None:
            regex = re.compile(self.pattern)
            there = [p for p in there if regex.fullmatch(p.topic)]
        own = self.pattern is not None and self.pattern.startswith("__")
        return [p for p in there if own or p.named or not p.internal]


def parse(given: Mapping[str, str]) -> Options:
    """Parse the options of a query that reads. The keys of `given` must be case-insensitive."""
    options = {name: given[name] for name in NAMES if given.get(name) is not None}
    check_names(given, NAMES, HINTS)
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(chosen) > 1:
        raise OptionError(
            f"{' and '.join(chosen)} cannot be combined; give only one of subscribe, subscribePattern and assign"
        )
    if chosen and not _names_something(chosen[0], options[chosen[0]]):
        raise OptionError(
            f"{chosen[0]} is {shown(options[chosen[0]])}, which selects no topic; omit it to read all topics"
        )
    late = word_of(options, "startingOffsetsByTimestampStrategy", ("error", "latest"))
    least, most = _optional(options, "minOffsetsPerTrigger", 1), _optional(options, "maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger is {least}; it must not be greater than maxOffsetsPerTrigger, which is {most}"
        )
    return Options(
        paths=_paths(options),
        topics=tuple(dict.fromkeys(t.strip() for t in options["subscribe"].split(",") if t.strip()))
        if "subscribe" in options
        else None,
        pattern=_pattern(options),
        assigned=_assigned(options["assign"]) if "assign" in options else None,
        start=_bound(options, "starting", EARLIEST),
        end=_bound(options, "ending", LATEST),
        late_start_is_error=late == "error",
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay=seconds_of(options, "maxTriggerDelay", "15m"),
        min_partitions=_optional(options, "minPartitions", 1),
        max_records_per_partition=_optional(options, "maxRecordsPerPartition", 1),
        fail_on_data_loss=word_of(options, "failOnDataLoss", ("true", "false")) == "true",
        stream_only=tuple(name for name in STREAM_ONLY if name in options),
        hints=tuple(name for name in HINTS if name in given)
        + tuple(name for name in given if name.lower().startswith("kafka.") and name.lower() != ISOLATION_OPTION),
        include_headers=flag_of(options, "includeHeaders"),
        columns=_names(options["columns"]) if "columns" in options else None,
        decode=_decode(options),
        schema=options.get("schema", UNION).strip(),
        registry=options.get("registry"),
        framing=word_of(options, "framing", ("auto", *FRAMINGS)),
        raw=flag_of(options, "raw"),
        where=_where(options),
        mode=word_of(options, "mode", MODES),
        replicas=word_of(options, "replicas", ("longest",)) if "replicas" in options else None,
        below_log_start=flag_of(options, "belowLogStart"),
        isolation=word_of(given, ISOLATION_OPTION, ISOLATION_LEVELS),
        split_bytes=size_of(options, "splitBytes", SPLIT_BYTES),
        max_batch_bytes=size_of(options, "maxBatchBytes", DEFAULT_MAX_BATCH_BYTES),
    )


def _names_something(name: str, text: str) -> bool:
    """Return whether the text of a topic option (`assign`, `subscribe` or `subscribePattern`) is not empty."""
    if name == "assign":
        return bool(_assigned(text))
    return bool(text.replace(",", "").strip() if name == "subscribe" else text)


def _names(text: str) -> tuple[str, ...]:
    """Parse a list of names: JSON, or names with commas between them."""
    given = json_value("columns", text) if text.lstrip().startswith("[") else [n.strip() for n in text.split(",")]
    if not given or not all(isinstance(name, str) and name for name in given):
        raise OptionError(f"columns is {shown(text)}; it must be a list of columns and fields, such as offset,value.id")
    return tuple(dict.fromkeys(given))


def _decode(options: Mapping[str, str]) -> Formats:
    """Parse what is decoded: true, false, sides with a comma between them, or JSON."""
    text = options.get("decode", "false").strip()
    if text.lower() == "false":
        if given := [name for name in DECODE_ONLY if name in options]:
            raise OptionError(f"{given[0]} needs decode; set decode=true too")
        return {}
    try:
        given_sides = json_value("decode", text) if text.startswith(("{", "[")) else text.replace(" ", "")
        return side_formats(True if text.lower() == "true" else given_sides)
    except ValueError as error:
        raise OptionError(str(error)) from None


def _where(options: Mapping[str, str]) -> Filter:
    try:
        return parse_where(options["where"]) if "where" in options else ANYTHING
    except ValueError as error:
        raise OptionError(str(error)) from None


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    if "paths" in options:
        paths = json_value("paths", options["paths"])
        if not (isinstance(paths, list) and all(isinstance(p, str) for p in paths)):
            raise OptionError("paths is not a JSON list of strings")
    else:
        paths = []
    if "path" in options:
        paths = [options["path"], *paths]
    if not paths:
        raise OptionError("no path was given; pass log directories, partition directories or .log files to .load()")
    return tuple(dict.fromkeys(input_of(p) for p in paths))


def _bound(options: Mapping[str, str], side: str, default: int) -> Bound | None:
    """Return the start or end of the range, or None. `side` is "starting" or "ending"."""
    # As in Spark's Kafka source, the first given of these options is used: startingTimestamp,
    # startingOffsetsByTimestamp, startingOffsets.
    name = f"{side}Timestamp"
    if name in options:
        return Bound(name, "time", whole_number(name, options[name], 0))
    name = f"{side}OffsetsByTimestamp"
    if name in options:
        return Bound(name, "time", _per_partition(name, options[name], 0))
    name = f"{side}Offsets"
    word = options.get(name, "").strip()
    own, other, other_value = ("earliest", "latest", LATEST) if side == "starting" else ("latest", "earliest", EARLIEST)
    if not word:
        return None
    if word.lower() in (own, other):
        return Bound(name, "offset", default if word.lower() == own else other_value)
    if not word.startswith("{"):
        raise OptionError(
            f'{name} is {shown(word)}; it must be {own} or JSON such as {{"orders": {{"0": 23, "1": {default}}}}}'
        )
    return Bound(name, "offset", _per_partition(name, word, EARLIEST))


def _per_partition(name: str, text: str, least: int) -> PerPartition:
    topics = json_value(name, text)
    example = f'{name} must be JSON such as {{"orders": {{"0": 23, "1": 42}}}}'
    if not isinstance(topics, dict) or not all(isinstance(numbers, dict) for numbers in topics.values()):
        raise OptionError(example)
    values: PerPartition = {}
    for topic, numbers in topics.items():
        for number, value in numbers.items():
            if not number.isdecimal() or not isinstance(value, int | str) or isinstance(value, bool):
                raise OptionError(example)
            values[topic, int(number)] = whole_number(f"{name} of {topic}-{number}", str(value), least)
    return values


def _assigned(text: str) -> frozenset[Key]:
    topics = json_value("assign", text)
    if not isinstance(topics, dict) or not all(
        isinstance(numbers, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
        for numbers in topics.values()
    ):
        raise OptionError('assign must be JSON such as {"orders": [0, 1]}')
    return frozenset((topic, number) for topic, numbers in topics.items() for number in numbers)


def _pattern(options: Mapping[str, str]) -> str | None:
    pattern = options.get("subscribePattern")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise OptionError(
            f"subscribePattern is {shown(pattern)}, which is not a valid regular expression: {error}"
        ) from None
    return pattern


def _optional(options: Mapping[str, str], name: str, least: int) -> int | None:
    return whole_number(name, options[name], least) if name in options else None


def _listed(keys: Iterable[Key], most: int = 3) -> str:
    names = [f"{topic}-{number}" for topic, number in sorted(keys)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _pronoun(keys: Collection[Key]) -> str:
    return "it" if len(keys) == 1 else "them"


def _existing(partitions: Iterable[PartitionDir]) -> str:
    """Return the part of an error message that lists the existing topics."""
    topics = sorted({p.topic for p in partitions})
    more = " and others" if len(topics) > 10 else ""
    return f"the existing topics are {', '.join(topics[:10])}{more}" if topics else "there is no live partition"
