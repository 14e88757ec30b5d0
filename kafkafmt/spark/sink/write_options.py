"""Parse the options of the data sink.

The data sink accepts the options of Spark's Kafka sink, producer settings with the prefix `kafka.`,
and some additional options.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...constants import CODEC_NAMES, Codec
from ...log.formats import MAX_PARTITION, is_topic_name
from ...log.writing import LogSettings
from ...records import BatchBuilder
from ...support.text import shown
from ..option_text import OptionError, check_names, path_of, sink_path_of, size_of, whole_number, word_of

Key = tuple[str, int]
"""A topic and a partition number."""

NAMES = ("topic", "partitions", "segmentBytes", "txnAppId", "txnVersion", "path")
SPARKS_OWN = ("checkpointLocation", "queryName", "outputMode")
"""Options of Spark streams that Spark also passes to the data sink."""
HINTS = ("includeHeaders",)
"""Options of Spark's Kafka sink without an effect: headers are always written if the rows have this column."""
QUERY_ID = "spark query {}"
"""Default value of the option txnAppId in a stream. `{}` is replaced by the id of the query."""
CODEC, BATCH_BYTES = "kafka.compression.type", "kafka.batch.size"
DEFAULT_BATCH_BYTES = 64 << 10
"""Default size of a batch. A producer's is smaller, because it delays records while it fills a batch."""


@dataclass(frozen=True)
class WriteOptions:
    """The parsed options of a query that writes to a log directory."""

    path: str
    """Path of the log directory."""
    topic: str | None
    """Topic of all rows. If None, the column topic contains the topic of each row."""
    partitions: int
    """Partitions of a topic that does not exist yet, for rows without a partition number."""
    codec: Codec
    level: int | None
    batch_bytes: int
    segment_bytes: int
    app_id: str | None
    """Identifier of the query. Rows with the same `app_id` and `version` are appended only once."""
    version: int | None
    hints: tuple[str, ...] = ()
    """Names of the given `kafka.` options that are ignored, because they configure a connection to a broker."""


def is_write(given: Mapping[str, str]) -> bool:
    """Guess from the options whether a query writes rows, because Spark does not pass the type of a query."""
    names = {name.lower() for name in given}
    own = {name.lower() for name in (*NAMES, *SPARKS_OWN)}
    return not names.isdisjoint(own - {"path"}) or names <= {"path"}


def query_id(given: Mapping[str, str]) -> str | None:
    """Read a stream's id from its checkpoint. Return None if the checkpoint is unreadable or on another machine."""
    try:
        metadata = Path(path_of(given["checkpointLocation"]), "metadata").read_text()
        return QUERY_ID.format(json.loads(metadata.splitlines()[-1])["id"])
    except (KeyError, IndexError, OSError, ValueError):
        return None


def parse_write(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a query that writes. The keys of `given` must be case-insensitive."""
    check_names(given, NAMES, (*SPARKS_OWN, *HINTS))
    if not given.get("path"):
        raise OptionError("no path was given; pass the log directory to .save() or .start()")
    topic = given.get("topic")
    if topic is not None and not is_topic_name(topic):
        raise OptionError(
            f"topic is {shown(topic)}; a topic name has 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"
        )
    partitions = whole_number("partitions", given.get("partitions", "1"), 1)
    if partitions > MAX_PARTITION:
        raise OptionError(f"partitions is {partitions}; it must be at most {MAX_PARTITION}")
    codec = word_of(given, CODEC, CODEC_NAMES)
    level_name = f"kafka.compression.{codec}.level"
    named = given.get(level_name)
    level = None if named is None else whole_number(level_name, named, -(1 << 17))
    batch_bytes = whole_number(BATCH_BYTES, given.get(BATCH_BYTES, str(DEFAULT_BATCH_BYTES)), 1)
    try:
        BatchBuilder(codec=codec, level=level, max_bytes=batch_bytes)
    except ValueError as error:
        raise OptionError(f"{CODEC} {codec}: {error}") from None
    if ("txnVersion" in given) > ("txnAppId" in given):
        raise OptionError("txnVersion can be used only together with txnAppId")
    return WriteOptions(
        path=sink_path_of(given["path"]),
        topic=topic,
        partitions=partitions,
        codec=codec,
        level=level,
        batch_bytes=batch_bytes,
        segment_bytes=size_of(given, "segmentBytes", LogSettings.segment_bytes),
        app_id=given.get("txnAppId"),
        version=whole_number("txnVersion", given["txnVersion"], 0) if "txnVersion" in given else None,
        hints=tuple(
            name
            for name in given
            if name.lower().startswith("kafka.") and name.lower() not in (CODEC, BATCH_BYTES, level_name)
        ),
    )
