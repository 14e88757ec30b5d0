"""The data source's options, as text into values: those of Spark's Kafka source by its names and rules, and a few of our own.

Everything is judged here, before a file is touched, and what is wrong is one line that names the option. A name that
is no option is refused too: a misspelt bound would otherwise read everything. Only `kafka.…` is let by, which
configures a connection that does not exist here; but for kafka.isolation.level, which is about the records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ...constants import DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS
from ...log import PartitionDir
from ..option_text import (
    OptionError,
    check_names,
    flag_of,
    json_value,
    path_of,
    seconds_of,
    size_of,
    whole_number,
    word_of,
)
from .splits import SPLIT_BYTES

LATEST, EARLIEST = -1, -2
ISOLATION_OPTION = "kafka.isolation.level"
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
NAMES = (
    "subscribe", "subscribePattern", "assign",
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "failOnDataLoss", "minPartitions",
    "includeHeaders", "mode", "replicas", "belowLogStart", "splitBytes", "maxBatchBytes",
    "path", "paths",
)  # fmt: skip

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
HINTS = (
    "maxRecordsPerPartition", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
"""Options of Spark's Kafka source that are accepted and ignored: they tune a connection, or the number of tasks."""

Key = tuple[str, int]
PerPartition = dict[Key, int]


@dataclass(frozen=True)
class Bound:
    """One end of what is read. kind: "offset" or "time" (ms). value: the same for every partition, or one each.

    The offsets LATEST and EARLIEST stand for the log's ends. option: the name it was given by.
    """

    option: str
    kind: str
    value: int | PerPartition

    def of(self, key: Key) -> int:
        return self.value if isinstance(self.value, int) else self.value[key]

    def check(self, keys: Collection[Key]) -> None:
        """As in Spark, values for single partitions must name all that are read, and no others."""
        if isinstance(self.value, int):
            return
        for what, odd in (
            ("says nothing about", set(keys) - self.value.keys()),
            ("names", self.value.keys() - set(keys)),
        ):
            if odd:
                why = "which is read" if what != "names" else "which is not among the partitions read"
                ends = " (-2 is the earliest, -1 the latest)" if self.kind == "offset" else ""
                raise OptionError(f"{self.option} {what} {_listed(odd)}, {why}: it has to name each of them{ends}")


@dataclass(frozen=True)
class Options:
    """What a user asked for.

    start, end: None if not given; ends are exclusive. stream_only: the options given that a batch query ignores, as Spark's does.
    """

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: frozenset[Key] | None = None
    start: Bound | None = None
    end: Bound | None = None
    late_start_is_error: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay: float = 900.0
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    stream_only: tuple[str, ...] = ()
    include_headers: bool = False
    mode: str = MODES[0]
    replicas: str | None = None
    below_log_start: bool = False
    committed: bool = False
    split_bytes: int = SPLIT_BYTES
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    def check_batch(self) -> None:
        """Raise `OptionError` for bounds that a batch query cannot have."""
        for bound, end, word in ((self.start, LATEST, "latest"), (self.end, EARLIEST, "earliest")):
            if bound is None or bound.kind != "offset":
                continue
            if bound.value == end:
                raise OptionError(f"{bound.option} cannot be {word}: a batch query would read nothing")
            if not isinstance(bound.value, int) and (
                wrong := [key for key, value in bound.value.items() if value == end]
            ):
                raise OptionError(
                    f"{bound.option} has {end} ({word}) for {_listed(wrong)}: a batch query would read nothing"
                )

    def check_stream(self) -> None:
        """OptionError for what a stream cannot have."""
        if self.end is not None:
            raise OptionError(f"{self.end.option} is for batch queries: a stream has no end")

    def select(self, partitions: Iterable[PartitionDir]) -> list[PartitionDir]:
        """The partitions that are meant, of those found. OptionError for a topic or partition that is not there.

        Kafka's own topics (`__…`) only where they are named, a pattern begins with `__`, or they were a path themselves.
        """
        there = [p for p in partitions if p.readable]
        if self.assigned is not None:
            if absent := self.assigned - {p.key for p in there}:
                raise OptionError(f"assign names {_listed(absent)}, which is not there; {_there(there)}")
            return [p for p in there if p.key in self.assigned]
        if self.topics is not None:
            if absent_topics := [t for t in self.topics if all(p.topic != t for p in there)]:
                raise OptionError(f"subscribe names {absent_topics[0]}, which is not there; {_there(there)}")
            return [p for p in there if p.topic in self.topics]
        if self.pattern is not None:
            regex = re.compile(self.pattern)
            there = [p for p in there if regex.fullmatch(p.topic)]
        own = self.pattern is not None and self.pattern.startswith("__")
        return [p for p in there if own or p.named or not p.internal]


def parse(given: Mapping[str, str]) -> Options:
    """Spark's options (a mapping that ignores case) as values. OptionError for what is wrong."""
    options = {name: given[name] for name in NAMES if given.get(name) is not None}
    check_names(given, NAMES, HINTS)
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(chosen) > 1:
        raise OptionError(
            f"{' and '.join(chosen)} are both given: only one of subscribe, subscribePattern and assign can be"
        )
    late = word_of(options, "startingOffsetsByTimestampStrategy", ("error", "latest"))
    least, most = _optional(options, "minOffsetsPerTrigger", 1), _optional(options, "maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger is {least}, which is above maxOffsetsPerTrigger, {most}")
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
        fail_on_data_loss=word_of(options, "failOnDataLoss", ("true", "false")) == "true",
        stream_only=tuple(name for name in STREAM_ONLY if name in options),
        include_headers=flag_of(options, "includeHeaders"),
        mode=word_of(options, "mode", MODES),
        replicas=word_of(options, "replicas", ("longest",)) if "replicas" in options else None,
        below_log_start=flag_of(options, "belowLogStart"),
        committed=word_of(given, ISOLATION_OPTION, ISOLATION_LEVELS) == "read_committed",
        split_bytes=size_of(options, "splitBytes", SPLIT_BYTES),
        max_batch_bytes=size_of(options, "maxBatchBytes", DEFAULT_MAX_BATCH_BYTES),
    )


def _paths(options: Mapping[str, str]) -> tuple[str, ...]:
    if "paths" in options:
        paths = json_value("paths", options["paths"])
        if not (isinstance(paths, list) and all(isinstance(p, str) for p in paths)):
            raise OptionError("paths is not a JSON list of paths")
    else:
        paths = []
    if "path" in options:
        paths = [options["path"], *paths]
    if not paths:
        raise OptionError("no path: say which log directories, partition directories or .log files to .load()")
    return tuple(dict.fromkeys(path_of(p) for p in paths))


def _bound(options: Mapping[str, str], side: str, default: int) -> Bound | None:
    """A time for all, a time each, offsets: the first that is given, in Spark's order."""
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
        raise OptionError(f'{name} is {word!r}; it can be {own} or JSON like {{"orders": {{"0": 23, "1": {default}}}}}')
    return Bound(name, "offset", _per_partition(name, word, EARLIEST))


def _per_partition(name: str, text: str, least: int) -> PerPartition:
    topics = json_value(name, text)
    example = f'{name} is not JSON like {{"orders": {{"0": 23, "1": 42}}}}'
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
        raise OptionError('assign is not JSON like {"orders": [0, 1]}')
    return frozenset((topic, number) for topic, numbers in topics.items() for number in numbers)


def _pattern(options: Mapping[str, str]) -> str | None:
    pattern = options.get("subscribePattern")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise OptionError(f"subscribePattern {pattern!r} is no regular expression: {error}") from None
    return pattern


def _optional(options: Mapping[str, str], name: str, least: int) -> int | None:
    return whole_number(name, options[name], least) if name in options else None


def _listed(keys: Iterable[Key], most: int = 3) -> str:
    names = [f"{topic}-{number}" for topic, number in sorted(keys)]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _there(partitions: Iterable[PartitionDir]) -> str:
    """What is there instead, for a message."""
    topics = sorted({p.topic for p in partitions})
    return (
        f"there are {', '.join(topics[:10])}{' and more' if len(topics) > 10 else ''}"
        if topics
        else "there is no live partition"
    )
