"""Run Kafka's own Java classes on record data: MemoryRecordsBuilder, LogValidator and others.

Records.java describes the input and output of each operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import java_tools

VERSION = "4.3.1"
SOURCE = Path(__file__).with_name("Records.java")


def ask(questions: Iterable[str]) -> list[str]:
    """Run Records.java with a list of requests in one JVM, and return its answers."""
    path = java_tools.compile_java([SOURCE], java_tools.classpath(f"org.apache.kafka:kafka_2.13:{VERSION}"))
    lines = list(questions)
    answers = java_tools.run(
        "Records", path=path, flags=["-XX:TieredStopAtLevel=1"], stdin="".join(f"{line}\n" for line in lines)
    )
    assert answers.count("\n") == len(lines)
    return answers.split("\n")[:-1]


def encoded(data: bytes | None) -> str:
    return "-" if data is None else data.hex() or "empty"


def encoded_record(
    key: bytes | None, value: bytes | None, timestamp: int, headers: Sequence[tuple[str, bytes | None]], offset: int
) -> str:
    pairs = [f"{encoded(name.encode())}:{encoded(data)}" for name, data in headers]
    return ",".join([str(offset), str(timestamp), encoded(key), encoded(value), *pairs])


def build(options: Mapping[str, object], records: Iterable[tuple[Any, ...]]) -> str:
    """Return the request in which MemoryRecordsBuilder encodes records with the options of a BatchBuilder."""
    records_with_offsets = list(records)
    names = (
        "magic",
        "codec",
        "base_offset",
        "log_append_time",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "transactional",
    )
    defaults = {"magic": 2, "codec": "none", "base_offset": records_with_offsets[0][4], "transactional": False}
    words = [str(options.get(name, defaults.get(name, -1))) for name in (*names, "leader_epoch", "delete_horizon")]
    return " ".join(["build", *words, *(encoded_record(*r) for r in records_with_offsets)])


def records_of(answer: str) -> list[tuple[Any, ...]]:
    """Return the records in a response of Records.java to a `read` request.

    Each item has offset, timestamp, type, key, value and headers.
    """

    def data(text: str) -> bytes | None:
        return None if text == "-" else b"" if text == "empty" else bytes.fromhex(text)

    records = []
    for text in answer.split():
        kind, offset, timestamp, key, value, *pairs = text.split(",")
        headers = tuple((bytes.fromhex(name).decode(), data(v)) for name, v in (pair.split(":") for pair in pairs))
        records.append((int(offset), int(timestamp), int(kind), data(key), data(value), headers))
    return records


def down_convert(questions: Iterable[tuple[int, int, bytes]]) -> list[str]:
    """Return the record data that Kafka 3.9 converts to an older format.

    Each request contains a target format, the first offset to read, and the record data.
    """
    source = Path(__file__).with_name("DownConvert.java")
    path = java_tools.compile_java([source], java_tools.classpath("org.apache.kafka:kafka-clients:3.9.2"))
    lines = "".join(f"{magic} {first} {data.hex()}\n" for magic, first, data in questions)
    return java_tools.run("DownConvert", path=path, stdin=lines).split("\n")[:-1]
