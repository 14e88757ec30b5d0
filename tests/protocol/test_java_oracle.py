"""Kafka's own classes as the oracle: every message in every version that kafka-clients 4.4.0, 4.3.1 and 3.9.2 know, both ways.

What they write with random values (null, empty, nested, beyond ASCII, with unknown tagged fields), and what their JSON
converters say of it, is read and written by us, and the other way round. See java/Oracle.java.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import java_tools
import pytest
from random_messages import random_message

from kafkafmt import protocol
from kafkafmt.messages import layout_of
from kafkafmt.protocol import apis
from kafkafmt.protocol.message_classes import header_class, message_class

pytestmark = pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there")

KAFKAS = ("4.4.0", "4.3.1", "3.9.2")
NEWEST, OLDEST = KAFKAS[0], KAFKAS[-1]
UNSTABLE = {("3.9.2", "response", 87)}
"""In 3.9 its version 0 was not stable, and had a field less than what later releases made of it."""

RENAMED_IN_4_4 = {
    ("request", 28): {"generationId": "generationIdOrMemberEpoch"},
    ("response", 88): {"acceptableRecoveryLag": "acceptableRecoveryLagLegacy"},
}
RENAMED = {
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
"""By release, the names of fields that a later release renamed."""
ADDED = {"4.4.0": set(), "4.3.1": {93, 94}, "3.9.2": {88, 89, 90, 91, 92, 93, 94}}
"""By release, the keys of APIs that a later release added."""
REMOVED = {"4.4.0": {4, 5, 6, 7}, "4.3.1": {4, 5, 6, 7}, "3.9.2": set()}
"""By release, the keys of APIs that an earlier release still had."""


@pytest.fixture(scope="module", params=KAFKAS)
def oracle(request):
    """oracle(mode, …) runs Oracle.java against a version of kafka-clients; gives its lines, split."""
    path = java_tools.classpath(
        f"org.apache.kafka:kafka-clients:{request.param}", "com.fasterxml.jackson.core:jackson-databind:2.18.3"
    )
    path = java_tools.compile_java([Path(__file__).parent / "java" / "Oracle.java"], path)

    def run(mode, *arguments, stdin=None, parts=5):
        lines = java_tools.run("Oracle", mode, *arguments, path=path, stdin=stdin).splitlines()
        rows = [line.split(" ", parts - 1) for line in lines]
        if parts == 5 or mode == "drop":
            rows = [(kind, int(key), int(version), *rest) for kind, key, version, *rest in rows]
            rows = [row for row in rows if (request.param, row[0], row[1]) not in UNSTABLE]
            assert rows
        return rows

    run.version = request.param
    return run


def class_of(kind, key):
    return header_class(kind.removesuffix("_header")) if key < 0 else message_class(key, kind)


def todays(version, kind, key, text):
    """A line of JSON as today's names have it, in one form."""
    names = RENAMED[version].get((kind, key), {})
    return json.dumps(json.loads(text, object_pairs_hook=lambda pairs: {names.get(k, k): v for k, v in pairs}))


def written(core, layout, message):
    return b"".join(core.write_messages([layout], [message]))


def check(core, oracle, rows):
    for kind, key, version, raw, text in rows:
        layout = layout_of(class_of(kind, key), version, core)
        data = base64.b64decode(raw)
        message, end = layout.read(data)
        assert end == len(data)
        assert json.dumps(protocol.to_json(message, version)) == todays(oracle.version, kind, key, text), (
            kind,
            key,
            version,
        )
        assert written(core, layout, message) == data, (kind, key, version)
    return {(kind, key, version) for kind, key, version, *_ in rows}


def test_what_java_writes_is_read_and_written_back(core, oracle):
    seen = check(core, oracle, oracle("fill", 2))
    for key in {key for _, key, _ in seen if key >= 0}:
        versions = apis.api(key).versions
        javas = {v for _, k, v in seen if k == key}
        assert oracle.version != NEWEST or max(javas) == versions.last, key
        assert oracle.version != OLDEST or min(javas) == versions.first, key
    assert {key for _, key, _ in seen} - {-1} == set(apis.keys().values()) - ADDED[oracle.version] - REMOVED[
        oracle.version
    ]


def default_message(message, version):
    """A message with one element in each array of structures, everything else at its default."""
    made = message()
    for f in message.SCHEMA.fields:
        if f.struct is not None and version in f.versions:
            inner = default_message(message.STRUCTS[f.type], version)
            setattr(made, f.name, [inner] if f.array else inner)
    return made


def test_defaults_are_those_of_java(native, oracle):
    for kind, key, version, raw, text in oracle("defaults"):
        if (kind, key, version) == ("response", 78, 0):
            continue  # null there, which later versions must not have: ours is empty
        message = default_message(class_of(kind, key), version)
        assert json.dumps(protocol.to_json(message, version)) == todays(oracle.version, kind, key, text), (
            kind,
            key,
            version,
        )
        assert written(native, layout_of(type(message), version, native), message) == base64.b64decode(raw)


def test_what_an_older_version_cannot_hold_is_refused_as_java_refuses_it(core, oracle):
    outcomes = {True: 0, False: 0}
    for kind, key, newest, raw, version, expected in oracle("drop", 4, parts=6):
        if oracle.version != NEWEST and apis.api(max(key, 0)).versions.last != newest and key >= 0:
            continue  # the newest there is not the newest here: a field dropped since may be renamed
        message, _ = layout_of(class_of(kind, key), newest, core).read(base64.b64decode(raw))
        layout = layout_of(class_of(kind, key), int(version), core)
        outcomes[expected == "-"] += 1
        if expected == "-":
            with pytest.raises(ValueError):
                written(core, layout, message)
        else:
            assert written(core, layout, message) == base64.b64decode(expected), (kind, key, newest, version)
    assert min(outcomes.values()) > 100


def test_what_we_write_java_reads(native, oracle):
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
        assert todays(oracle.version, kind, key, text) == json.dumps(protocol.to_json(message, version)), (
            kind,
            key,
            version,
        )


def test_error_codes_are_those_of_java(oracle):
    found = [(int(code), name, retriable == "true") for code, name, retriable in oracle("errors", parts=3)]
    ours = [(e.value, e.name, e.retriable) for e in protocol.ErrorCode]
    if oracle.version == NEWEST:
        assert ours == found
    else:
        assert {e[:2] for e in found} <= {e[:2] for e in ours}
