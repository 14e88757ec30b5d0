"""Compare every version of every message with the classes of kafka-clients 4.4.0, 4.3.1 and 3.9.2.

Kafka's classes write messages with random values, and convert them to JSON. kafkafmt reads the
bytes, compares the fields with the JSON, and must write the same bytes. Kafka's classes do the same
with messages that kafkafmt writes. See java/Oracle.java.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import java_tools
import pytest
from api_lookup import api_of
from random_messages import random_message

from kafkafmt import protocol
from kafkafmt.messages import layout_of
from kafkafmt.protocol import apis
from kafkafmt.protocol.message_classes import header_class, message_class

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are installed"),
]

KAFKAS = ("4.4.0", "4.3.1", "3.9.2")
NEWEST, OLDEST = KAFKAS[0], KAFKAS[-1]
UNSTABLE = {("3.9.2", "response", 87)}
"""Messages whose version 0 was not stable in a release. A later release added a field to this version."""

RENAMED_IN_4_4 = {
    ("request", 28): {"generationId": "generationIdOrMemberEpoch"},
    ("response", 88): {"acceptableRecoveryLag": "acceptableRecoveryLagLegacy"},
}
RENAMED: dict[str, dict[tuple[str, int], dict[str, str]]] = {
    "4.4.0": {},
    "4.3.1": RENAMED_IN_4_4,
    "3.9.2": RENAMED_IN_4_4
    | {
        ("request", 52): {
            "candidateEpoch": "replicaEpoch",
            "candidateId": "replicaId",
            "candidateDirectoryId": "replicaDirectoryId",
        },
        ("response", 74): {"clientMetricsResources": "configResources", "name": "resourceName"},
    },
}
"""New names of fields that a later release renamed, by release."""
ADDED: dict[str, set[int]] = {"4.4.0": set(), "4.3.1": {93, 94}, "3.9.2": {88, 89, 90, 91, 92, 93, 94}}
"""Keys of the APIs that each later release added."""
REMOVED: dict[str, set[int]] = {"4.4.0": {4, 5, 6, 7}, "4.3.1": {4, 5, 6, 7}, "3.9.2": set()}
"""Keys of the APIs that only earlier releases have, by release."""


class Oracle:
    """Runs Oracle.java with one release of kafka-clients."""

    def __init__(self, version: str) -> None:
        self.version = version
        path = java_tools.classpath(
            f"org.apache.kafka:kafka-clients:{version}", "com.fasterxml.jackson.core:jackson-databind:2.18.3"
        )
        self._path = java_tools.compile_java([Path(__file__).parent / "java" / "Oracle.java"], path)

    def __call__(self, mode: str, *arguments: object, stdin: str | None = None, parts: int = 5) -> list[Any]:
        """Return the printed lines, each split at spaces into `parts` columns."""
        lines = java_tools.run("Oracle", mode, *arguments, path=self._path, stdin=stdin).splitlines()
        columns = [line.split(" ", parts - 1) for line in lines]
        if parts != 5 and mode != "drop":
            return columns
        rows = [(kind, int(key), int(version), *rest) for kind, key, version, *rest in columns]
        rows = [row for row in rows if (self.version, row[0], row[1]) not in UNSTABLE]
        assert rows
        return rows


@pytest.fixture(scope="module", params=KAFKAS)
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return Oracle(request.param)


def class_of(kind: str, key: int) -> type[Any]:
    if key < 0:
        return header_class("request" if kind == "request_header" else "response")
    return message_class(key, "request" if kind == "request" else "response")


def normalized(version: str, kind: str, key: int, text: str) -> str:
    """Return JSON with the current names of fields, in a form that can be compared."""
    names = RENAMED[version].get((kind, key), {})
    return json.dumps(json.loads(text, object_pairs_hook=lambda pairs: {names.get(k, k): v for k, v in pairs}))


def written(core: ModuleType, layout: Any, message: Any) -> bytes:
    return b"".join(core.write_messages([layout], [message]))


def check(core: ModuleType, oracle: Oracle, rows: list[Any]) -> set[tuple[str, int, int]]:
    for kind, key, version, raw, text in rows:
        layout = layout_of(class_of(kind, key), version, core)
        data = base64.b64decode(raw)
        message, end = layout.read(data)
        assert end == len(data)
        assert json.dumps(protocol.to_json(message, version)) == normalized(oracle.version, kind, key, text), (
            kind,
            key,
            version,
        )
        assert written(core, layout, message) == data, (kind, key, version)
    return {(kind, key, version) for kind, key, version, *_ in rows}


def test_messages_of_java_are_read_and_written_back(core: ModuleType, oracle: Oracle) -> None:
    seen = check(core, oracle, oracle("fill", 2))
    for key in {key for _, key, _ in seen if key >= 0}:
        versions = api_of(key).versions
        javas = {v for _, k, v in seen if k == key}
        assert oracle.version != NEWEST or max(javas) == versions.last, key
        assert oracle.version != OLDEST or min(javas) == versions.first, key
    assert {key for _, key, _ in seen} - {-1} == set(apis.keys().values()) - ADDED[oracle.version] - REMOVED[
        oracle.version
    ]


def default_message(message: type[Any], version: int) -> Any:
    """Return a message with one element in each array of structs, and default values otherwise."""
    made = message()
    for f in message.SCHEMA.fields:
        if f.struct is not None and version in f.versions:
            inner = default_message(message.STRUCTS[f.type], version)
            setattr(made, f.name, [inner] if f.array else inner)
    return made


def test_default_values_are_those_of_java(native: ModuleType, oracle: Oracle) -> None:
    for kind, key, version, raw, text in oracle("defaults"):
        if (kind, key, version) == ("response", 78, 0):
            continue  # Java's default is null, which later versions do not allow. Our default is an empty value.
        message = default_message(class_of(kind, key), version)
        assert json.dumps(protocol.to_json(message, version)) == normalized(oracle.version, kind, key, text), (
            kind,
            key,
            version,
        )
        assert written(native, layout_of(type(message), version, native), message) == base64.b64decode(raw)


def test_values_that_a_version_cannot_hold_are_rejected_like_in_java(core: ModuleType, oracle: Oracle) -> None:
    outcomes = {True: 0, False: 0}
    for kind, key, newest, raw, version, expected in oracle("drop", 4, parts=6):
        if oracle.version != NEWEST and api_of(max(key, 0)).versions.last != newest and key >= 0:
            continue  # the newest version in this release is older, and a field may have another name
        message, _ = layout_of(class_of(kind, key), newest, core).read(base64.b64decode(raw))
        layout = layout_of(class_of(kind, key), int(version), core)
        outcomes[expected == "-"] += 1
        if expected == "-":
            with pytest.raises(ValueError):
                written(core, layout, message)
        else:
            assert written(core, layout, message) == base64.b64decode(expected), (kind, key, newest, version)
    assert min(outcomes.values()) > 100


def test_java_reads_our_messages(native: ModuleType, oracle: Oracle) -> None:
    chance, sent = random.Random(7), []
    for kind, key, version, *_ in oracle("fill", 1):
        message = random_message(chance, class_of(kind, key), version)
        data = written(native, layout_of(type(message), version, native), message)
        sent.append((kind, key, version, data, message))
    stdin = "".join(
        f"{kind} {key} {version} {base64.b64encode(data).decode()}\n" for kind, key, version, data, _ in sent
    )
    answers = oracle("read", stdin=stdin, parts=2)
    for (kind, key, version, data, message), (raw, text) in zip(sent, answers, strict=True):
        assert base64.b64decode(raw) == data, (kind, key, version)
        assert normalized(oracle.version, kind, key, text) == json.dumps(protocol.to_json(message, version)), (
            kind,
            key,
            version,
        )


def test_error_codes_are_those_of_java(oracle: Oracle) -> None:
    found = [(int(code), name, retriable == "true") for code, name, retriable in oracle("errors", parts=3)]
    ours = [(e.value, e.name, e.retriable) for e in protocol.ErrorCode]
    if oracle.version == NEWEST:
        assert ours == found
    else:
        assert {e[:2] for e in found} <= {e[:2] for e in ours}
