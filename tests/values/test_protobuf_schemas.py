"""Parse Protobuf schemas of all forms, choose their messages, and check the types of the columns."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from decoding_values import decode_columns, framed, registry_of, version
from google.protobuf import descriptor_pb2

import kafkafmt
from kafkafmt.registry import RegisteredSchema, SchemaRegistry
from kafkafmt.registry.models import SchemaReference
from kafkafmt.values.errors import InvalidSchemaError
from kafkafmt.values.plan import ValuePlan
from kafkafmt.values.protobuf import parsing
from kafkafmt.values.protobuf.writer import ProtobufWriter
from kafkafmt.values.record_decoder import RecordDecoder
from kafkafmt.values.writers import SchemaProblem, SubjectWriters, is_protobuf, parse_writer

ALL = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/any.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/empty.proto";
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; uint32 count = 2; }
  int32 a = 1; sint64 b = 2; uint32 c = 3; fixed64 d = 4; float e = 5; double f = 6; bool g = 7; string h = 8;
  bytes i = 9; State state = 10; repeated Line lines = 11; map<int32, Line> by_id = 12; optional string note = 13;
  oneof payment { string card = 14; Line gift = 15; }
  google.protobuf.Timestamp at = 16; google.protobuf.Duration took = 17; google.protobuf.UInt32Value maybe = 18;
  repeated google.protobuf.Int64Value numbers = 19; google.protobuf.Struct any_json = 20;
  google.protobuf.Any any = 21; google.protobuf.FieldMask mask = 22; google.protobuf.Empty empty = 23;
  Order parent = 24; repeated Order children = 25;
}
message Other { int32 x = 1; message Inner { int32 y = 1; message Deep { int32 z = 1; } } }
"""


def proto(text: str, number: int = 1, **given: Any) -> RegisteredSchema:
    return version(text=text, number=number, schema_type="PROTOBUF", **given)


def messages(body: str, syntax: str = 'syntax = "proto3";') -> str:
    return f"{syntax}\n{body}\n"


def test_types_of_columns() -> None:
    line = pa.struct([("sku", pa.string()), ("count", pa.uint32())])
    expected = {
        "a": pa.int32(),
        "b": pa.int64(),
        "c": pa.uint32(),
        "d": pa.uint64(),
        "e": pa.float32(),
        "f": pa.float64(),
        "g": pa.bool_(),
        "h": pa.string(),
        "i": pa.binary(),
        "state": pa.dictionary(pa.int32(), pa.string()),
        "lines": pa.list_(line),
        "by_id": pa.map_(pa.int32(), line),
        "note": pa.string(),
        "card": pa.string(),
        "gift": line,
        "at": pa.timestamp("us", "UTC"),
        "took": pa.duration("us"),
        "maybe": pa.uint32(),
        "numbers": pa.list_(pa.int64()),
        "any_json": pa.string(),
        "any": pa.string(),
        "mask": pa.string(),
        "empty": pa.struct([]),
        "parent": pa.string(),
        "children": pa.list_(pa.string()),
    }
    found = ValuePlan(SubjectWriters(registry_of(proto(ALL)), "t-value")).root.arrow
    assert {field.name: field.type for field in found} == expected


def test_absent_fields_are_defaults_or_null(core: ModuleType) -> None:
    result = decode_columns(core, registry_of(proto(ALL)), [framed(b"\0")])
    assert result.values == [
        {
            "a": 0,
            "b": 0,
            "c": 0,
            "d": 0,
            "e": 0.0,
            "f": 0.0,
            "g": False,
            "h": "",
            "i": b"",
            "state": "NEW",
            "lines": [],
            "by_id": [],
            "note": None,
            "card": None,
            "gift": None,
            "at": None,
            "took": None,
            "maybe": None,
            "numbers": [],
            "any_json": None,
            "any": None,
            "mask": None,
            "empty": None,
            "parent": None,
            "children": [],
        }
    ]


def test_edition_decides_presence_and_the_form_of_messages(core: ModuleType) -> None:
    text = """\
    edition = "2023";
    package e;
    message M {
      int32 explicit = 1;
      int32 implicit = 2 [features.field_presence = IMPLICIT];
      M inner = 3 [features.message_encoding = DELIMITED];
      Closed closed = 4;
      Open open = 5;
    }
    enum Closed { option features.enum_type = CLOSED; ONE = 1; }
    enum Open { ZERO = 0; }
    """
    registry = registry_of(proto(text))
    group = b"\x1b\x08\x05\x1c"
    result = decode_columns(core, registry, [framed(b"\0" + body) for body in (b"", group, b"\x20\x07\x28\x07")])
    empty = {"explicit": None, "implicit": 0, "inner": None, "closed": None, "open": None}
    inner = '{"explicit": 5, "implicit": 0, "inner": null, "closed": null, "open": null}'
    assert result.values == [empty, {**empty, "inner": inner}, {**empty, "open": "7"}]


def test_required_field_that_is_missing_is_null(core: ModuleType) -> None:
    text = 'syntax = "proto2"; message M { required int32 a = 1; optional int32 b = 2 [default = 7]; }'
    assert decode_columns(core, registry_of(proto(text)), [framed(b"\0")]).values == [{"a": None, "b": None}]


@pytest.mark.parametrize("name", ["Inner", "shop.Other.Inner"])
def test_message_is_found_by_its_short_or_full_name(name: str) -> None:
    writer = ProtobufWriter(ALL, message=name)
    assert writer.message == "shop.Other.Inner"
    assert writer.messages[:2] == ["shop.Order", "shop.Order.Line"]


def test_unknown_message_is_an_error_with_the_nearest_ones() -> None:
    with pytest.raises(SchemaProblem, match=r"there is no message shop\.Ordr: the nearest message") as error:
        parse_writer(registry_of(proto(ALL)), proto(ALL), "shop.Ordr")
    assert error.value.code == "invalid_schema"


def test_short_name_of_two_messages_is_an_error() -> None:
    text = messages("message A { message X {} } message B { message X {} }")
    with pytest.raises(InvalidSchemaError, match=r"the message X is ambiguous: it can be A\.X, B\.X"):
        ProtobufWriter(text, message="X")


@pytest.mark.parametrize(
    ("indexes", "name"),
    [
        (b"\0", "shop.Order"),
        (b"\2\0", "shop.Order"),
        (b"\2\2", "shop.Other"),
        (b"\4\0\0", "shop.Order.Line"),
        (b"\6\2\0\0", "shop.Other.Inner.Deep"),
        (b"\1\1", "shop.Other"),  # unsigned, as written by old clients
        (b"\3\1\0\0", "shop.Other.Inner.Deep"),
        (b"\4\0\2", None),
        (b"\2\4", None),
        (b"", None),
        (b"\x84", None),
    ],
)
def test_message_of_the_indexes(core: ModuleType, indexes: bytes, name: str | None) -> None:
    registry = registry_of(proto(ALL))
    writer = parse_writer(registry, proto(ALL))
    assert is_protobuf(writer)
    assert writer.message_of(memoryview(indexes + b"\x08")) == name or indexes in (b"", b"\x84")
    error = decode_columns(core, registry, [framed(indexes)]).errors[0]
    missing = "truncated" if indexes in (b"", b"\x84") else "bad_index"
    expected = missing if name is None else None if name == "shop.Order" else "no_branch"
    assert error == (None if expected is None else (expected, 5))
    found = RecordDecoder(SubjectWriters(registry, "t-value"), "value").decode(framed(indexes))
    assert found.message == name
    assert (found.error and found.error.code) == (missing if name is None else None)
    assert name is None or (found.schema_dict() or {})["message"] == name


def test_indexes_count_the_entries_of_maps_as_python_clients_do(core: ModuleType) -> None:
    text = messages("message A { map<int32, int32> m = 1; message B { int32 b = 1; } }")
    file = descriptor_pb2.FileDescriptorSet.FromString(parsing._compiled(text, {})).file[0]
    encoded = base64.b64encode(file.SerializeToString()).decode()
    for schema, stored in ((text, b"\4\0\0\x08\1"), (text, b"\4\0\2\x08\1"), (encoded, b"\4\0\2\x08\1")):
        with_message = ProtobufWriter(schema, message="B")
        assert with_message.message_of(memoryview(stored)) == "A.B"
        assert with_message.to_json(memoryview(stored)) == {"b": 1}
    assert ProtobufWriter(encoded).message_of(memoryview(b"\4\0\0")) == "A.B"


REFERENCED = messages(
    'package r; import "google/protobuf/timestamp.proto"; message R { google.protobuf.Timestamp t = 1; }'
)
MAIN = messages('import "dir/r.proto"; message M { r.R r = 1; }')


@pytest.mark.parametrize(("encodes_main", "encodes_reference"), [(a, b) for a in (False, True) for b in (False, True)])
def test_references_are_imports(core: ModuleType, encodes_main: bool, encodes_reference: bool) -> None:
    def encoded(text: str, references: dict[str, str]) -> str:
        files = descriptor_pb2.FileDescriptorSet.FromString(parsing._compiled(text, references)).file
        return base64.b64encode(files[-1].SerializeToString()).decode()

    main = encoded(MAIN, {"dir/r.proto": REFERENCED}) if encodes_main else MAIN
    other = encoded(REFERENCED, {}) if encodes_reference else REFERENCED
    registry = SchemaRegistry(
        [
            proto(other, schema_id=7, subject="r"),
            proto(main, references=(SchemaReference("dir/r.proto", "r", 1),)),
        ]
    )
    body = b"\0\x0a\x04\x0a\x02\x08\x05"
    assert decode_columns(core, registry, [framed(body)]).values == [{"r": {"t": 5_000_000}}]


def test_annotations_of_confluent_and_google_can_be_imported() -> None:
    text = messages(
        'import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/date.proto";\n'
        'message M { string a = 1 [(confluent.field_meta) = { doc: "x", tags: ["PII"] }];\n'
        "confluent.type.Decimal price = 2; google.type.Date day = 3; }"
    )
    assert ProtobufWriter(text).message == "M"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message M { int32 a = 1", 'line 3: Expected ";".'),
        ('import "missing.proto"; message M {}', "missing.proto: File not found"),
        ("message M { int32 a = 1; int32 b = 1; }", 'line 2: Field number 1 has already been used in "M"'),
        ("enum E { A = 0; }", "the schema contains no message"),
        ("message M { Missing a = 1; }", '"Missing" is not defined'),
    ],
)
def test_invalid_schema(text: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSchemaError) as error:
        ProtobufWriter(messages(text))
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "path", ["../../evil.proto", "/etc/evil.proto", "a//b.proto", "", "a\0b", "x" * 300 + ".proto"]
)
def test_reference_with_another_path_is_an_error(path: str) -> None:
    with pytest.raises(InvalidSchemaError):
        ProtobufWriter(messages("message M {}"), {path: messages("message Evil {}")} if path else {"a/": "x y"})


@pytest.mark.parametrize("path", ["grpc_tools/protoc.py", "grpc_tools/__init__.py", "sitecustomize.py", "runpy.py"])
def test_reference_is_never_run_as_code(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = f"open({str(tmp_path / 'executed')!r}, 'w')"
    assert ProtobufWriter(messages("message M { int32 a = 1; }"), {path: code}).message == "M"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["AAAA", "CgM=", base64.b64encode(b"\xff" * 9).decode(), "syntax"])
def test_base64_that_is_no_descriptor_is_an_error(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        ProtobufWriter(text)


def test_messages_that_are_nested_too_deeply_for_columns_can_be_json() -> None:
    names = [f"M{i}" for i in range(80)]
    text = messages(
        " ".join(f"message {a} {{ {b} f = 1; }}" for a, b in zip(names, [*names[1:], "int32"], strict=True))
    )
    writer = ProtobufWriter(text)
    with pytest.raises(InvalidSchemaError, match="more than 64 levels"):
        _ = writer.type
    assert writer.to_json(memoryview(b"\0")) == {"f": None}


def test_many_messages_that_contain_each_other(core: ModuleType) -> None:
    names = [f"M{i}" for i in range(40)]
    text = messages(" ".join(f"message {a} {{ M{(i + 1) % 40} f = 1; int32 n = 2; }}" for i, a in enumerate(names)))
    result = decode_columns(core, registry_of(proto(text)), [framed(b"\0\x10\x05")], fields={"n": None})
    assert result.values == [{"n": 5}]


def test_without_grpcio_tools_the_error_names_the_packages(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    parsing._parse.cache_clear()
    monkeypatch.setattr(parsing, "find_spec", lambda name: None)
    registry = registry_of(proto(ALL), version("int", 2))
    with pytest.raises(ValueError, match=r"cannot be decoded: .*Protobuf schemas need .*pip install 'grpcio-tools"):
        ValuePlan(SubjectWriters(registry_of(proto(ALL)), "t-value"))
    found = RecordDecoder(SubjectWriters(registry, "t-value"), "value").decode(framed(b"\0")).error
    assert found is not None
    assert found.code == "invalid_schema"
    assert "grpcio-tools" in found.message
    assert decode_columns(core, registry, [framed(b"\x02", 2)]).values == [1]


def test_proto_files_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "orders-value.proto").write_text(ALL)
    registry = kafkafmt.schemas(tmp_path)
    batch = kafkafmt.decode_values([b"\0\0\0\0\1\0\x08\x05"], registry=registry, subject="orders-value")
    assert batch["value_error"].to_pylist() == ["unknown_schema: there is no schema with id 1"]
    assert batch["value"].type.field("a").type == pa.int32()


def test_grpcio_tools_is_loaded_only_for_protobuf() -> None:
    code = "import sys, kafkafmt.values.writers; print([m for m in sys.modules if m.startswith(('grpc', 'google'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
