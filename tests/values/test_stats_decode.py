"""`stats --decode`: records by schema, what cannot be decoded, and the nulls and ranges of fields."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from avro_schemas import encode
from command import inside
from decoded_logs import write_log
from decoding_values import framed, using, version

import kafkafmt

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECOND = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        {"name": "who", "type": {"type": "record", "name": "Who", "fields": [
            {"name": "name", "type": "string"}, {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["X", "A"]}},
        ]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "rate", "type": "double"},
        {"name": "raw", "type": "bytes"},
    ],
}  # fmt: skip


def second(id_: int, at: int | None, name: str, kind: str, rate: float) -> bytes:
    value = {"id": id_, "at": at, "who": {"name": name, "kind": kind}, "tags": ["t"], "rate": rate, "raw": b"\xff"}
    return framed(encode(SECOND, value), 2)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    records = [
        (b"a", framed(encode(FIRST, {"id": 5}), 1)),
        (b"b", framed(encode(FIRST, {"id": -1}), 1)),
        (b"c", second(7, None, "bob", "A", float("nan"))),
        (b"d", None),
        (b"e", second(8, 0, "al", "X", 0.5)),
        (b"f", framed(b"", 2)),
        (b"g", b"x"),
        (b"h", framed(encode(FIRST, {"id": 6}), 1)),
    ]
    path = write_log(tmp_path / "log", records, [version(FIRST, 1), version(SECOND, 2)], per_batch=3)
    with kafkafmt.LogDirectory(path) as directory:
        directory.writer("t", 1).append([(b"k", framed(encode(FIRST, {"id": 100}), 1), 1000)])
        directory.writer("other", 0).append([(b"k", b"v", 1000)])
    return path


EXPECTED: dict[str, Any] = {
    "records": 6,
    "undecodable": 2,
    "by_error": {"no_schema_id": 1, "truncated": 1},
    "unknown_fields": 0,
    "by_schema": [
        {
            "id": 1, "subject": "t-value", "version": 1, "records": 4,
            "by_partition": [
                {"partition": 0, "first_offset": 0, "last_offset": 7}, {"partition": 1, "first_offset": 0, "last_offset": 0},
            ],
        },
        {
            "id": 2, "subject": "t-value", "version": 2, "records": 2,
            "by_partition": [{"partition": 0, "first_offset": 2, "last_offset": 5}],
        },
    ],
    "fields": [
        {"name": "value", "nulls": 0, "min": None, "max": None},
        {"name": "value.id", "nulls": 0, "min": -1, "max": 100},
        {"name": "value.at", "nulls": 5, "min": "1970-01-01T00:00:00.000Z", "max": "1970-01-01T00:00:00.000Z"},
        {"name": "value.who", "nulls": 4, "min": None, "max": None},
        {"name": "value.who.name", "nulls": 4, "min": "al", "max": "bob"},
        {"name": "value.who.kind", "nulls": 4, "min": "A", "max": "X"},
        {"name": "value.tags", "nulls": 4, "min": None, "max": None},
        {"name": "value.rate", "nulls": 4, "min": 0.5, "max": 0.5},
        {"name": "value.raw", "nulls": 4, "min": "/w==", "max": "/w=="},
    ],
}  # fmt: skip


def test_stats_of_decoded_values(core: ModuleType, log: Path) -> None:
    with using(core):
        report = kafkafmt.stats(log, decode="value")
    by_topic = {t.topic: t for t in report.topics}
    assert by_topic["other"].decoded is None
    assert by_topic["t"].to_dict()["decoded"] == {"value": EXPECTED}
    assert report.exit_code == 1


def test_command(log: Path) -> None:
    done = inside("stats", log, "-t", "t", "--decode", "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["topics"][0]["decoded"] == {"value": EXPECTED}
    text = inside("stats", log, "-t", "t", "--decode").stdout
    for line in (
        "values    6 decoded; 2 cannot be decoded (1 no_schema_id, 1 truncated)",
        "t-value version 1 (id 1): 4 records; partition 0: offsets 0 to 7, partition 1: offset 0",
        "t-value version 2 (id 2): 2 records; partition 0: offsets 2 to 5",
        "value.id: -1 to 100",
        "value.who.name: al to bob; 4 nulls",
        "value.tags: 4 nulls",
    ):
        assert line in text
    keys = json.loads(inside("stats", log, "-t", "t", "--decode", "key=string", "--format", "json").stdout)
    assert keys["topics"][0]["decoded"]["key"]["fields"] == [{"name": "key", "nulls": 0, "min": "a", "max": "k"}]


def test_without_decode_the_output_is_as_before(log: Path) -> None:
    assert "decoded" not in json.loads(inside("stats", log, "--format", "json").stdout)["topics"][0]


def test_usage_errors(log: Path) -> None:
    done = inside("stats", log, "--registry", "x")
    assert (done.returncode, "--registry and --framing need --decode" in done.stderr) == (2, True)
    done = inside("stats", log, "-t", "other", "--decode")
    assert (done.returncode, "there is no subject other-key or other-value" in done.stderr) == (2, True)


def test_unknown_fields_of_protobuf(core: ModuleType, tmp_path: Path) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/duration.proto"; message M { google.protobuf.Duration d = 1; }'
    known, unknown = b"\x0a\x02\x08\x05", b"\x10\x01\x18\x01"
    rows = [(b"k", framed(b"\0" + known + unknown)), (b"k", framed(b"\0" + known))]
    path = write_log(tmp_path / "log", rows, [version(text=text, schema_type="PROTOBUF")])
    with using(core):
        (topic,) = kafkafmt.stats(path, topics="t", decode=True).topics
    assert topic.decoded is not None
    assert topic.decoded["value"].unknown_fields == 2
    assert [(f.name, f.min, f.max) for f in topic.decoded["value"].fields] == [
        ("value", None, None), ("value.d", "5s", "5s"),
    ]  # fmt: skip
    assert "2 unknown fields" in inside("stats", path, "-t", "t", "--decode").stdout
