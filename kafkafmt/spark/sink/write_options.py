"""The options of the data sink: those of Spark's Kafka sink, the producer's settings behind `kafka.`, and a few of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...constants import CODEC_NAMES
from ...log.format.names import MAX_PARTITION, is_topic_name
from ...log.writing.settings import LogSettings
from ...records import BatchBuilder
from ..option_text import OptionError, check_names, path_of, size_of, whole_number, word_of

Key = tuple[str, int]
"""Topic and partition."""

NAMES = ("topic", "partitions", "segmentBytes", "txnAppId", "txnVersion", "path")
SPARKS_OWN = ("checkpointLocation", "queryName", "outputMode")
"""What Spark hands on of a stream."""
HINTS = ("includeHeaders",)
"""Options of Spark's Kafka sink that are accepted and ignored: headers are written if there is a column of that name."""
CODEC, BATCH_BYTES = "kafka.compression.type", "kafka.batch.size"
DEFAULT_BATCH_BYTES = 64 << 10
"""Larger than a producer's, since no record waits here for others."""


@dataclass(frozen=True)
class WriteOptions:
    """What a user asked for. topic: of all rows, instead of their column. partitions: of a topic that is not there yet, for rows that
    name none. app_id, version: of what is to be appended once."""

    path: str
    topic: str | None
    partitions: int
    codec: str
    level: int | None
    batch_bytes: int
    segment_bytes: int
    app_id: str | None
    version: int | None


def is_write(given: Mapping[str, str]) -> bool:
    """Whether these are options of a query that writes, or might be: Spark does not say which it is."""
    names = {name.lower() for name in given}
    own = {name.lower() for name in (*NAMES, *SPARKS_OWN)}
    return not names.isdisjoint(own - {"path"}) or names <= {"path"}


def query_id(given: Mapping[str, str]) -> str | None:
    """The id of a streaming query, which stays with its checkpoint; None where that cannot be read from here."""
    try:
        metadata = Path(path_of(given["checkpointLocation"]), "metadata").read_text()
        return f"spark query {json.loads(metadata.splitlines()[-1])['id']}"
    except (KeyError, IndexError, OSError, ValueError):
        return None


def parse_write(given: Mapping[str, str]) -> WriteOptions:
    """Spark's options (a mapping that ignores case) as values. OptionError for what is wrong."""
    check_names(given, NAMES, (*SPARKS_OWN, *HINTS))
    if not given.get("path"):
        raise OptionError("no path: say to .save() or .start() which log directory to write")
    topic = given.get("topic")
    if topic is not None and not is_topic_name(topic):
        raise OptionError(f"topic is {topic!r}, which cannot be one: up to 249 of a-z, A-Z, 0-9, '.', '_' and '-'")
    partitions = whole_number("partitions", given.get("partitions", "1"), 1)
    if partitions > MAX_PARTITION:
        raise OptionError(f"partitions is {partitions}; it can be {MAX_PARTITION} at most")
    codec = word_of(given, CODEC, CODEC_NAMES)
    named = given.get(f"kafka.compression.{codec}.level")
    level = None if named is None else whole_number(f"kafka.compression.{codec}.level", named, -(1 << 17))
    batch_bytes = whole_number(BATCH_BYTES, given.get(BATCH_BYTES, str(DEFAULT_BATCH_BYTES)), 1)
    try:
        BatchBuilder(codec=codec, level=level, max_bytes=batch_bytes)
    except ValueError as error:
        raise OptionError(f"{CODEC} {codec}: {error}") from None
    if ("txnVersion" in given) > ("txnAppId" in given):
        raise OptionError("txnVersion is given without txnAppId, whose version it is")
    return WriteOptions(
        path=path_of(given["path"]),
        topic=topic,
        partitions=partitions,
        codec=codec,
        level=level,
        batch_bytes=batch_bytes,
        segment_bytes=size_of(given, "segmentBytes", LogSettings.segment_bytes),
        app_id=given.get("txnAppId"),
        version=whole_number("txnVersion", given["txnVersion"], 0) if "txnVersion" in given else None,
    )
