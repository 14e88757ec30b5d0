"""Decode keys and values in formats that the user names: Kafka's own serializers, schema files and other framings."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from avro_schemas import encode
from command import inside
from decoded_logs import write_log
from decoding_values import framed, registry_of, using, version

import kafkafmt
from kafkafmt.values.avro.fingerprint import fingerprint_of
from kafkafmt.values.decoder import SideDecoder
from kafkafmt.values.framing import FRAMINGS
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.sides import side_formats
from kafkafmt.values.writers import SubjectWriters

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
BODY = encode(ORDER, {"id": 7})
PLAIN = [
    ("string", "grüße".encode(), "grüße", pa.string()),
    ("string", b"", "", pa.string()),
    ("uuid", b"123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000", pa.string()),
    ("short", struct.pack(">h", -2), -2, pa.int32()),
    ("int32", struct.pack(">i", -(2**31)), -(2**31), pa.int32()),
    ("int64", struct.pack(">q", 2**63 - 1), 2**63 - 1, pa.int64()),
    ("float", struct.pack(">f", 0.5), 0.5, pa.float32()),
    ("double", struct.pack(">d", -0.1), -0.1, pa.float64()),
]


@pytest.mark.parametrize(("name", "stored", "expected", "type_"), PLAIN)
def test_plain_formats(
    core: ModuleType, tmp_path: Path, name: str, stored: bytes, expected: Any, type_: pa.DataType
) -> None:
    path = write_log(tmp_path / "log", [(stored, stored), (None, None)], [])
    with using(core):
        table = kafkafmt.open(path)["t"].to_arrow(["key", "value"], decode={"key": name, "value": "bytes"})
    assert table.schema.field("key").type == type_
    assert table["key"].to_pylist() == [expected, None]
    assert table["value"].to_pylist() == [stored, None]
    assert table["key_error"].null_count == 2
    lines = inside("cat", path, "-t", "t", "--decode", f"value={name}", "--format", "json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == [expected, None]


@pytest.mark.parametrize(
    ("name", "stored", "error"),
    [
        ("string", b"ab\xff", "bad_utf8 at byte 0"),
        ("int32", b"\0\0\0", "truncated at byte 3"),
        ("int32", b"\0\0\0\0\0", "trailing_bytes at byte 4"),
        ("double", b"", "truncated at byte 0"),
    ],
)
def test_bad_plain_values(core: ModuleType, tmp_path: Path, name: str, stored: bytes, error: str) -> None:
    path = write_log(tmp_path / "log", [(b"k", stored)], [])
    with using(core):
        table = kafkafmt.open(path)["t"].to_arrow(["value"], decode={"value": name})
    assert table.to_pylist() == [{"value": None, "value_error": error, "value_raw": stored}]
    done = inside("cat", path, "-t", "t", "--decode", f"value={name}", "--format", "json")
    assert done.returncode == 1
    code, _, position = error.partition(" at byte ")
    assert json.loads(done.stdout)["value_error"] == {"error": code, "message": error, "position": int(position)}


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    return file


def test_schema_in_a_file(core: ModuleType, tmp_path: Path, schema_file: Path) -> None:
    path = write_log(tmp_path / "log", [(b"k", BODY), (b"k", None), (b"k", BODY + b"x")], [])
    given = {"value": f"avro:{schema_file}"}
    with using(core):
        table = kafkafmt.open(path)["t"].to_arrow(["value"], decode=given)
    assert table["value"].to_pylist() == [{"id": 7}, None, None]
    assert table["value_error"].to_pylist() == [None, None, "trailing_bytes at byte 1"]
    done = inside("cat", path, "-t", "t", "--decode", f"value=avro:{schema_file}", "--format", "%s ", "-n", "1")
    assert done.stdout == '{"id":7} '


def test_framings(core: ModuleType, tmp_path: Path, schema_file: Path) -> None:
    fingerprint = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(ORDER), "CRC-64-AVRO")
    single = b"\xc3\x01" + bytes.fromhex(fingerprint) + BODY
    apicurio = b"\0" + (12).to_bytes(8, "big") + BODY
    records = [(b"k", framed(BODY, 99)), (b"k", single), (b"k", apicurio), (b"k", BODY), (b"k", None)]
    path = write_log(tmp_path / "log", records, [version(ORDER, 1, 12)])
    topic = kafkafmt.open(path)["t"]

    def rows(framing: str, value: str) -> list[tuple[Any, str]]:
        with using(core):
            table = topic.to_arrow(["value"], decode={"value": value}, framing=framing)
        values = [None if v is None else v["id"] for v in table["value"].to_pylist()]
        errors = [(text or "").partition(" at")[0].partition(":")[0] for text in table["value_error"].to_pylist()]
        return list(zip(values, errors, strict=True))

    none, file = "no_schema_id", f"avro:{schema_file}"
    assert rows("single-object", "auto") == [(None, none), (7, ""), (None, none), (None, none), (None, "")]
    assert rows("single-object", file) == rows("single-object", "auto")
    assert rows("apicurio", "auto") == [
        (None, "unknown_schema" if len(BODY) > 3 else none),
        (None, none),
        (7, ""),
        (None, none),
        (None, ""),
    ]
    assert rows("confluent", file)[0] == (7, "")
    assert rows("confluent", "auto")[0] == (None, "unknown_schema")
    assert rows("none", "auto")[3:] == [(7, ""), (None, "")]
    for framing, offset in (("single-object", 1), ("apicurio", 2), ("none", 3)):
        done = inside(
            "cat",
            path,
            "-t",
            "t",
            "--decode=value",
            "--framing",
            framing,
            "-o",
            f"{offset}:{offset + 1}",
            "--format",
            "%s",
        )
        assert done.stdout == '{"id":7}'


def test_framing_none_needs_one_schema(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", [(b"k", BODY)], [version(ORDER, 1, 1), version("string", 2, 2)])
    topic = kafkafmt.open(path)["t"]
    with pytest.raises(ValueError, match='subject t-value has 2 versions; choose one with schema, such as "latest"'):
        topic.to_arrow(decode="value", framing="none")
    assert topic.to_arrow(decode="value", framing="none", schema=1)["value"].to_pylist() == [{"id": 7}]


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        {"type": "string", "logicalType": "uuid"},
        ["null", "int"],
        {"type": "array", "items": {"type": "map", "values": "long"}},
        {
            "type": "record", "name": "a.R", "doc": "x", "aliases": ["b.R"],
            "fields": [
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}, "default": "B"},
                {"name": "f", "type": {"type": "fixed", "name": "c.F", "size": 16, "logicalType": "uuid"}},
                {"name": "next", "type": ["null", "R"]},
                {"name": "g", "type": "c.F"},
            ],
        },
    ],
)  # fmt: skip
def test_fingerprints(schema: Any) -> None:
    expected = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    assert fingerprint_of(json.dumps(schema)).hex() == expected


@pytest.mark.parametrize(
    ("decode", "message"),
    [
        ({"value": "avr"}, "the format of the value is 'avr'; it must be auto, avro"),
        ({"value": "string:x"}, "the format of the value"),
        ({"value": "avro:"}, "the format of the value"),
        ({"value": "avro:a#b"}, "only protobuf has messages"),
        ({"values": "avro"}, "decode is"),
        ("key=string,valu", "decode is"),
        (3, "decode is 3"),
        ({}, "decode is"),
    ],
)
def test_wrong_formats(decode: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        side_formats(decode)


def test_missing_files_and_subjects(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", [(b"k", BODY)], [version(ORDER)])
    topic = kafkafmt.open(path)["t"]
    with pytest.raises(FileNotFoundError):
        topic.to_arrow(decode={"value": f"avro:{tmp_path}/none.avsc"})
    with pytest.raises(ValueError, match="there is no subject t-valeu: the only subject is t-value"):
        topic.to_arrow(decode={"value": "auto:t-valeu"})
    with pytest.raises(ValueError, match="framing is 'no'"):
        topic.to_arrow(decode=True, framing="no")
    done = inside("cat", path, "-t", "t", "--decode", f"value=avro:{tmp_path}/none.avsc")
    assert done.returncode == 3
    assert "none.avsc" in done.stderr


def test_fingerprint_of_the_specification() -> None:
    # The first case of share/test/data/schema-tests.txt of Avro: 8247732601305521295 is that of "int".
    assert fingerprint_of('{"type": "int"}') == (8247732601305521295).to_bytes(8, "little")


def test_inferred_json(core: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[tuple[bytes, bytes]] = [(b"k", json.dumps({"id": i, "note": None}).encode()) for i in range(5)]
    rows += [(b"k", b'{"id": 7, "note": "x", "more": [1, {"a": 2}]}'), (b"k", b"{"), (b"k", b'{"id": "x"}')]
    path = write_log(tmp_path / "log", rows, [], per_batch=2)
    topic = kafkafmt.open(path)["t"]
    with using(core):
        table = topic.to_arrow(["value"], decode={"value": "json"})
        monkeypatch.setattr("kafkafmt.values.prepare.INFERRED", 3)
        first = topic.to_arrow(["value"], decode={"value": "json"})
    assert table["value"].to_pylist()[5:] == [
        {"id": "7", "note": "x", "more": ["1", '{"a": 2}']}, None, {"id": '"x"', "note": None, "more": None},
    ]  # fmt: skip
    assert table["value_rest"].null_count == 8
    assert first.column_names == ["value", "value_rest", "value_error", "value_raw"]
    assert first["value"].to_pylist() == [
        *({"id": i, "note": None} for i in range(5)),
        {"id": 7, "note": '"x"'},
        None,
        None,
    ]
    assert json.loads(first["value_rest"].to_pylist()[5]) == {"more": [1, {"a": 2}]}
    assert first["value_error"].to_pylist()[6:] == ["truncated at byte 1", "no_branch at byte 7"]
    lines = inside("cat", path, "-t", "t", "--decode=value=json", "--format", "json").stdout.splitlines()
    assert json.loads(lines[5])["value"] == {"id": 7, "note": "x", "more": [1, {"a": 2}]}
    assert json.loads(lines[6])["value_error"]["error"] == "truncated"


def test_json_schema_in_a_file(core: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    path = write_log(tmp_path / "log", [(b"k", b'{"id": 1, "x": null}')], [])
    with using(core):
        table = kafkafmt.open(path)["t"].to_arrow(["value"], decode={"value": f"json:{file}"})
    assert table.to_pylist()[0] == {
        "value": {"id": 1},
        "value_rest": '{"x":null}',
        "value_error": None,
        "value_raw": None,
    }


PROTO = """
syntax = "proto3";
message First { int32 a = 1; }
message Order { int64 id = 1; optional string country = 2; }
"""
ORDER_7 = b"\x08\x07\x12\x02DE"


def test_protobuf_messages(core: ModuleType, tmp_path: Path) -> None:
    versions = [version(text=PROTO, schema_type="PROTOBUF")]
    rows = [(b"k", None), (b"k", framed(b"\x02\x02" + ORDER_7)), (b"k", framed(b"\0\x08\x01"))]
    topic = kafkafmt.open(write_log(tmp_path / "log", rows, versions))["t"]
    with using(core):
        found = topic.to_arrow(["value"], decode=True)
        other = topic.to_arrow(["value"], decode={"value": "auto#First"})
    assert found["value"].to_pylist() == [None, {"id": 7, "country": "DE"}, None]
    assert found["value_error"].to_pylist() == [None, None, "no_branch at byte 5"]
    assert other["value"].to_pylist() == [None, None, {"a": 1}]
    lines = inside("cat", tmp_path / "log", "-t", "t", "--decode", "--format", "json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == [None, {"id": 7, "country": "DE"}, {"a": 1}]
    with pytest.raises(ValueError, match="Orders"):
        topic.to_arrow(decode={"value": "auto#Orders"})


def test_protobuf_schema_in_a_file(core: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "order.proto"
    file.write_text(PROTO)
    path = write_log(tmp_path / "log", [(b"k", ORDER_7), (b"k", ORDER_7[:-1])], [])
    with using(core):
        table = kafkafmt.open(path)["t"].to_arrow(["value"], decode={"value": f"protobuf:{file}#Order"})
    assert table["value"].to_pylist() == [{"id": 7, "country": "DE"}, None]
    assert table["value_error"].to_pylist() == [None, "truncated at byte 2"]
    done = inside("cat", path, "-t", "t", "--decode", f"value=protobuf:{file}#Order", "-n", "1", "--format", "json")
    assert json.loads(done.stdout)["value"] == {"id": 7, "country": "DE"}
    assert json.loads(done.stdout)["value_schema"]["message"] == "Order"


def test_parsed_protobuf_schemas_are_sent_to_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writers = SubjectWriters(registry_of(version(text=PROTO, schema_type="PROTOBUF")), "t-value", message="Order")
    assert writers.chosen()
    sent = pickle.dumps(writers)
    monkeypatch.setattr("kafkafmt.values.protobuf.writer.parse_protobuf", None)
    plan = ValuePlan(pickle.loads(sent))
    assert plan.root.arrow == pa.struct([("id", pa.int64()), ("country", pa.string())])
    assert isinstance(plan.program_of(1), int)


def test_writers_that_are_sent_to_tasks_still_read_headers() -> None:
    for framing in FRAMINGS.values():
        assert pickle.loads(pickle.dumps(framing)) is framing
    sent = pickle.loads(pickle.dumps(SubjectWriters(registry_of(ORDER), "t-value")))
    decoder = SideDecoder(ValuePlan(sent), "value")
    decoder.add(BODY, np.array([0]), np.array([len(BODY)], np.int32), np.array([0]), {0: b"\0\0\0\0\1"})
    assert decoder.finish()[0].to_pylist() == [{"id": 7}]
