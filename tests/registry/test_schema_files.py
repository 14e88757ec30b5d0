"""Test schemas in files, and registries that are saved as files."""

from __future__ import annotations

import json
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from command import inside
from schema_records import ORDER, config, schema, write_schemas

import kafkafmt as k
from kafkafmt.reports import RegisteredSchema


def test_files_of_a_directory_are_schemas_without_ids(tmp_path: Path) -> None:
    for name, text in {
        "orders-value.avsc": f"\ufeff{ORDER}",
        "shop/payments.JSON": '{"type":"object"}\r\n',
        "shop/proto/a.b.proto": 'syntax = "proto3";',
        "notes.txt": "no schema",
        ".git/config.json": "{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    registry = k.schemas(tmp_path)
    assert [(v.subject, v.version, v.schema_id, v.schema_type, v.schema) for v in registry] == [
        ("orders-value", 1, None, "AVRO", ORDER),
        ("shop/payments", 1, None, "JSON", '{"type":"object"}\r\n'),
        ("shop/proto/a.b", 1, None, "PROTOBUF", 'syntax = "proto3";'),
    ]
    assert registry.findings == []
    assert k.schemas(tmp_path / "orders-value.avsc").get_latest_version("orders-value").schema == ORDER


def field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


@pytest.mark.parametrize("suffix", [".desc", ".pb", ".binpb"])
def test_descriptor_set_has_a_schema_for_each_file(suffix: str, tmp_path: Path) -> None:
    # FileDescriptorProto: name, package, a message named Order, syntax
    order = field(1, b"shop/order.proto") + field(2, b"shop") + field(4, field(1, b"Order")) + field(12, b"proto3")
    other = field(1, b"other.proto") + bytes([14 << 3, 1])  # a varint: edition
    path = tmp_path / f"shop{suffix}"
    path.write_bytes(field(1, order) + field(1, other))
    registry = k.schemas(path)
    assert [(v.subject, v.schema_type) for v in registry] == [
        ("shop/other.proto", "PROTOBUF"),
        ("shop/shop/order.proto", "PROTOBUF"),
    ]
    assert b64decode(registry.get_latest_version("shop/shop/order.proto").schema) == order
    whole = path.read_bytes()
    starts = {0, len(field(1, order)), len(whole)}
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        assert bool(k.schemas(path).findings) == (end not in starts or end == 0), end


def test_unusable_files_are_findings(tmp_path: Path) -> None:
    for name, content in {
        "bytes.avsc": b"\xff",
        "text.avsc": b"record Order",
        "deep.json": b"[" * 100_000,
        "number.json": b"1",
        "set.pb": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "group.pb": b"\x0b",
        "good.avsc": ORDER.encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
    registry = k.schemas(tmp_path)
    assert sorted(f.error for f in registry.findings) == ["invalid_schema"] * 3 + ["unreadable"] * 3
    assert all(f.message.startswith(str(tmp_path)) for f in registry.findings if f.error == "unreadable")
    assert registry.get_latest_version("good").error is None
    assert registry.exit_code == 1


RULES = {"domainRules": [{"name": "r", "type": "CEL", "tags": ["a"]}]}


def full_registry(folder: Path) -> Path:
    references = [{"name": "o", "subject": "orders/value ü", "version": 1}]
    return write_schemas(
        folder,
        [
            schema("orders/value ü", 1, 1, "\ufeff".join(("", '"int"\r\n'))),
            schema("orders/value ü", 2, 2, ORDER, metadata={"tags": {"a": ["b"]}, "properties": {"p": "\u2028"}}),
            schema("orders/value ü", 3, 3, '"long"', deleted=True, ruleSet=RULES),
            schema("..", 1, 4, 'syntax = "proto3";', schemaType="PROTOBUF"),
            schema(".", 1, 5, "<a/>", schemaType="XML"),
            schema("a" * 300, 1, 6, '{"type":"object"}', schemaType="JSON"),
            schema("ä" * 300, 1, 6, '{"type":"object"}', schemaType="JSON"),
            schema("%2E", 1, 7, "c2VjcmV0", metadata={"properties": {"__enc__": "true"}}),
            schema(":.lab:orders", 1, 1, '"string"', references=references[:0]),
            schema("payments", 1, 8, '{"type":"array","items":"o"}', references=references),
            config(None, "FULL"),
            config("payments", "NONE"),
        ],
    )


def test_saved_registry_is_equal_to_its_source(tmp_path: Path) -> None:
    data = full_registry(tmp_path / "data")
    done = inside("schemas", data, "--save", tmp_path / "saved" / "schemas")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"kafkafmt: 10 versions written to {tmp_path}/saved/schemas\n")
    before, after = k.schemas(data), k.schemas(tmp_path / "saved" / "schemas")
    assert list(after) == list(before)
    assert [(v.metadata, v.rule_set) for v in after] == [(v.metadata, v.rule_set) for v in before]
    assert after.to_dict() == before.to_dict()
    assert after.findings == before.findings
    assert {f.error for f in after.findings} == {"invalid_schema"}
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.avsc").write_text(ORDER)
    assert inside("schemas", tmp_path / "files", "--save", tmp_path / "again").returncode == 0
    assert list(k.schemas(tmp_path / "again")) == list(k.schemas(tmp_path / "files"))


def test_saved_registry_is_written_only_to_a_new_directory(tmp_path: Path) -> None:
    data = full_registry(tmp_path / "data")
    (tmp_path / "empty").mkdir()
    assert inside("schemas", data, "--save", tmp_path / "empty").returncode == 1
    for _ in range(2):
        done = inside("schemas", data, "--save", tmp_path / "empty")
        assert done.returncode == 2
        assert "the directory is not empty" in done.stderr


def saved(folder: Path, *entries: Any, **changes: Any) -> list[str]:
    """Write an index with an entry that is correct except for `changes`. Return the findings about it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "1.avsc").write_text(ORDER)
    good = {"subject": "a", "version": 1, "id": 1, "type": "AVRO", "file": "1.avsc", "deleted": False}
    (folder / "kafkafmt-schemas.json").write_text(json.dumps([*entries, good | changes] if changes else entries[0]))
    registry = k.schemas(folder)
    assert len(registry) + len(registry.findings) == 1
    assert {f.error for f in registry.findings} <= {"unreadable"}
    return [f.message for f in registry.findings]


def test_damaged_index_is_a_finding(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    assert saved(folder, deleted=True) == []
    assert saved(folder, {}) == [f"{folder}/kafkafmt-schemas.json: it is not a list of versions"]
    assert saved(folder, [1]) != []
    for changes in ({"file": "2.avsc"}, {"file": "../saved/1.avsc"}, {"file": "/1.avsc/x"}, {"file": None}, {"version": "1"}, {"subject": 1}, {"id": "1"}, {"compatibility": 1}, {"type": 1}):  # fmt: skip
        assert saved(folder, **changes) != [], changes
    (folder / "kafkafmt-schemas.json").write_bytes(b"\xff")
    assert [f.error for f in k.schemas(folder).findings] == ["unreadable"]


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.registry.files.MOST_FILES", 3)
    for n in range(4):
        (tmp_path / f"{n}.avsc").write_text(ORDER)
    with pytest.raises(k.StructureError, match="more than 3 files and directories"):
        k.schemas(tmp_path)


def test_version_is_hashable_and_compares_its_metadata() -> None:
    one = RegisteredSchema(1, None, "a", 1, "AVRO", ORDER, metadata={"properties": {}})
    assert len({one, one}) == 1
    assert one != RegisteredSchema(1, None, "a", 1, "AVRO", ORDER)
