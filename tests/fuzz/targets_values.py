"""Fuzz the decoding of control records, and of records of Kafka's internal topics."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from random_messages import random_message

import kafkafmt
from kafkafmt.internal_topics import decode as internal
from kafkafmt.messages import layout_of
from kafkafmt.records import control as control_records

from . import seeds
from .case import Case
from .mutate_bytes import NUMBERS, mutate
from .outcome import Failed, attempt, check, plain
from .target import target


@cache
def golden_records(topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values from golden partitions of an internal topic."""
    found: dict[Any, None] = {}
    for path in seeds.golden_logs():
        if not path.parent.name.startswith(f"{topic}-"):
            continue
        for record in kafkafmt.read_records(Path(path).read_bytes()[: 1 << 17], control=False):
            found[record.key, record.value] = None
            if len(found) > 400:
                return list(found)
    return list(found)


def control_case(chance: Random) -> Case:
    key: bytes = struct.pack(">hh", chance.choice((0, 0, 1, -1, 32767)), chance.choice((0, 1, 2, 3, 4, 5, 6, 7, -1)))
    kind = int.from_bytes(key[2:], "big", signed=True)
    value = struct.pack(">hi", 0, 5)
    if 0 <= kind < len(control_records._VALUES):
        message = control_records._classes()[control_records._VALUES[kind]]
        layout = layout_of(message, 0)
        value = b"".join(map(bytes, seeds_core().write_messages([layout], [random_message(chance, message, 0)])))
    blobs = {"key": key, "value": value}
    for name, share in (("key", 0.3), ("value", 0.7)):
        blobs[name] = mutate(chance, blobs[name]) if chance.random() < share else blobs[name]
    if chance.random() < 0.05:
        del blobs[chance.choice(("key", "value"))]
    return Case({}, blobs)


def seeds_core() -> Any:
    """Return the core in use, because a layout can be used with only one core."""
    from kafkafmt.messages import classes

    return vars(classes)["core"]


@target("control-records", control_case, quick=100)
def control(case: Case) -> Any:
    return attempt(kafkafmt.records.decode_control_record, case.blobs.get("key"), case.blobs.get("value"))


TOPICS = (*internal.TOPICS, "__cluster_metadata")


def internal_case(chance: Random) -> Case:
    topic = chance.choice(TOPICS)
    known = golden_records(topic)
    if known and chance.random() < 0.5:
        key, value = chance.choice(known)
    elif topic == "__cluster_metadata":
        number, message = chance.choice(list(internal._metadata().items()))
        version = chance.choice(range(message.VERSIONS.first, message.VERSIONS.last + 1))
        body = seeds_core().write_messages([layout_of(message, version)], [random_message(chance, message, version)])
        key, value = None, bytes([1, number or 0, version]) + b"".join(map(bytes, body))
    else:
        number, (key_class, value_class) = chance.choice(list(internal._pairs(topic).items()))
        version = chance.choice(range(value_class.VERSIONS.first, value_class.VERSIONS.last + 1))
        write = seeds_core().write_messages
        key = struct.pack(">h", number) + b"".join(
            map(bytes, write([layout_of(key_class, 0)], [random_message(chance, key_class, 0)]))
        )
        body = write([layout_of(value_class, version)], [random_message(chance, value_class, version)])
        value = struct.pack(">h", version) + b"".join(map(bytes, body))
    blobs = {n: d for n, d in (("key", key), ("value", value)) if d is not None}
    for name in list(blobs):
        if chance.random() < 0.6:
            blobs[name] = mutate(chance, blobs[name])
        elif chance.random() < 0.1:
            blobs[name] = struct.pack(">h", chance.choice(NUMBERS[:9])) + blobs[name][2:]
    return Case({"topic": topic}, blobs)


@target("internal-topics", internal_case, quick=150)
def internal_topics(case: Case) -> Any:
    """Check that each record can be formatted. The text of an undecodable record is an error message."""
    topic, key, value = case.params["topic"], case.blobs.get("key"), case.blobs.get("value")
    if topic == "__cluster_metadata":
        read = attempt(lambda: list(internal.read_metadata_record(value or b"")))
        text = internal.metadata_text(3, value)
        check(isinstance(read, Failed) == text.startswith("Error"), f"{text[:100]} for {read!r:.100}")
        return plain([read, text])
    if key is None:
        return plain(internal.coordinator_texts(topic, 3, key, value))
    read = attempt(internal.read_coordinator_record, topic, key, value)
    texts = internal.coordinator_texts(topic, 3, key, value)
    check(isinstance(read, Failed) == (texts[1] is None), f"{texts} for {read!r:.100}")
    for name in ("Subscription", "Assignment"):
        internal.read_member(value or b"", name)
    return plain([read, texts])
