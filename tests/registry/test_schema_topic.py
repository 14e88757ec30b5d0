"""Test the replay of the topic `_schemas`, as Confluent's registry, Karapace and Redpanda write it."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from command import inside
from schema_records import (
    NOOP,
    ORDER,
    Pair,
    clearing,
    config,
    deletion,
    hard_deleted,
    packed,
    schema,
    write_schemas,
)

import kafkafmt as k


def read(folder: Path, *records: Pair) -> k.SchemaRegistry:
    return k.schemas(write_schemas(folder / "data", records))


def findings(registry: k.SchemaRegistry) -> list[tuple[int | None, str]]:
    return [(f.offset, f.error) for f in registry.findings]


def test_versions_have_all_members_of_the_record(tmp_path: Path) -> None:
    references = [{"name": "a.proto", "subject": "a", "version": 1}]
    more = {"schemaType": "PROTOBUF", "references": references, "metadata": {"properties": {"owner": "shop"}}}
    registry = read(
        tmp_path,
        NOOP,
        schema("a", 1, 1, 'syntax = "proto3";', **more | {"references": []}),
        schema("b", 3, 2, "x", **more),
    )
    version = registry.get_latest_version("b")
    assert (version.schema_id, version.version, version.schema_type, version.schema) == (2, 3, "PROTOBUF", "x")
    assert [(r.name, r.subject, r.version) for r in version.references] == [("a.proto", "a", 1)]
    assert version.metadata == {"properties": {"owner": "shop"}}
    assert registry.get_references(version) == {"a.proto": registry.get_version("a", 1)}
    assert (registry.findings, registry.exit_code, len(registry)) == ([], 0, 2)


def test_last_record_of_a_version_counts(tmp_path: Path) -> None:
    registry = read(
        tmp_path, schema("a", 1, 1), schema("a", 1, 1, deleted=True), schema("b", 1, 2), schema("b", 1, 3, '"int"')
    )
    assert registry.get_version("a", 1).deleted
    assert registry.get_version("b", 1).schema_id == 3
    with pytest.raises(k.SchemaNotFoundError):
        registry.get_schema(2)


def test_deleted_subject_keeps_its_versions_for_decoding(tmp_path: Path) -> None:
    registry = read(
        tmp_path,
        schema("a", 1, 1, '"int"'),
        schema("a", 2, 2, '"long"'),
        deletion("a", 2),
        schema("a", 3, 3, '"string"'),
        schema("b", 1, 1, '"int"'),
        deletion("b", 1),
    )
    assert (registry.get_versions("a"), registry.get_versions("a", deleted=True)) == ([3], [1, 2, 3])
    assert (registry.subjects(), registry.subjects(deleted=True)) == (["a"], ["a", "b"])
    assert registry.get_schema(2).deleted
    with pytest.raises(k.SchemaNotFoundError, match="all versions of subject 'b' are soft-deleted"):
        registry.get_latest_version("b")


def test_permanently_deleted_versions_are_not_there(tmp_path: Path) -> None:
    registry = read(
        tmp_path,
        schema("a", 1, 1, '"int"'),
        schema("a", 2, 2),
        deletion("a", 1),
        hard_deleted("a", 1),
        hard_deleted("z", 9),
    )
    assert registry.get_versions("a", deleted=True) == [2]
    with pytest.raises(k.SchemaNotFoundError, match="there is no schema with id 1"):
        registry.get_schema(1)


def test_cleared_subject_or_context_loses_only_deleted_versions(tmp_path: Path) -> None:
    registry = read(
        tmp_path,
        *(schema(subject, n, n, f'"{kind}"') for subject in ("a", ":.lab:a", ":.lab:b") for n, kind in enumerate(("int", "long"), 1)),
        *(deletion(subject, 1) for subject in ("a", ":.lab:a", ":.lab:b")),
        clearing("a"),
        clearing(":.lab:"),
        clearing("unknown"),
    )  # fmt: skip
    assert [(v.subject, v.version) for v in registry] == [("a", 2), (":.lab:a", 2), (":.lab:b", 2)]
    assert registry.findings == []


def test_compatibility_is_that_of_subject_or_context_or_global(tmp_path: Path) -> None:
    subjects = ("a", "b", ":.lab:a", ":.lab:b", ":.x:a")
    records = [schema(subject, 1, n) for n, subject in enumerate(subjects)]
    levels = [config(None, "FULL"), config("b", "NONE"), config(":.lab:", "FORWARD"), config(":.lab:b", "BACKWARD")]
    registry = read(tmp_path, *records, *levels, config("a", "NONE"), config("a", None))
    assert {v.subject: v.compatibility for v in registry} == {
        "a": "FULL", "b": "NONE", ":.lab:a": "FORWARD", ":.lab:b": "BACKWARD", ":.x:a": None,
    }  # fmt: skip
    everywhere = k.schemas(write_schemas(tmp_path / "2", [*records, config(":.__GLOBAL:", "FULL_TRANSITIVE")]))
    assert {v.compatibility for v in everywhere} == {"FULL_TRANSITIVE"}


def test_records_of_karapace_are_read(tmp_path: Path) -> None:
    key = b'{"subject": "a", "version": 1, "magic": 1, "keytype": "SCHEMA"}'
    value = packed({"deleted": False, "id": 1, "schema": ORDER, "subject": "a", "version": 1})
    registry = read(tmp_path, (key, value), (b'{"keytype":"NOOP","magic":0}', b"{}"))
    assert registry.get_schema(1).guid == registry.get_by_guid(registry.get_schema(1).guid or "").guid
    assert registry.findings == []


def redpanda(subject: str, version: int, seq: int, node: int, **value: Any) -> Pair:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1, "seq": seq, "node": node}
    return packed(key), packed({"subject": subject, "version": version, "deleted": False} | value) if value else None


def test_first_record_with_a_sequence_number_of_redpanda_counts(tmp_path: Path) -> None:
    registry = read(
        tmp_path,
        redpanda("a", 1, 0, 0, id=1, schema='"int"'),
        redpanda("a", 2, 1, 1, id=2, schema='"long"'),
        redpanda("a", 2, 1, 0, id=2, schema='"string"'),  # node 0 lost the race, and tries again
        redpanda("a", 3, 3, 0, id=3, schema='"string"'),
        redpanda("a", 1, 4, 1, id=1, schema='"int"', deleted=True),
        redpanda("a", 1, 0, 0),
        redpanda("a", 1, 4, 1),
    )
    assert [(v.version, v.schema) for v in registry] == [(2, '"long"'), (3, '"string"')]
    assert registry.findings == []


def test_encrypted_texts_and_fields_are_named(tmp_path: Path) -> None:
    rule = {"name": "pii", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"]}
    registry = read(
        tmp_path,
        schema("text", 1, 1, "c2VjcmV0", metadata={"properties": {"__enc__": "true"}}),
        schema("fields", 1, 2, ruleSet={"domainRules": [rule]}),
        schema("payload", 1, 3, '"int"', ruleSet={"encodingRules": [rule | {"type": "ENCRYPT_PAYLOAD"}]}),
        schema("off", 1, 4, '"long"', ruleSet={"domainRules": [rule | {"disabled": True}]}),
    )
    assert {v.subject: v.error for v in registry} == {
        "text": "encrypted", "fields": "encrypted", "payload": "encrypted", "off": None,
    }  # fmt: skip
    assert registry.get_schema(1).guid is None
    assert registry.findings == []


DEEP = "[" * 100_000
BAD: dict[str, tuple[Pair, str]] = {
    "no key": ((None, b"{}"), "invalid_json"),
    "key is no JSON": ((b"\x00\x01", None), "invalid_json"),
    "key is a list": ((b"[]", None), "invalid_json"),
    "key is UTF-16": (('{"keytype":"NOOP"}'.encode("utf-16"), None), "invalid_json"),
    "key is deep": ((DEEP.encode(), None), "invalid_json"),
    "value is no JSON": ((schema("a", 1, 1)[0], b"\xff"), "invalid_json"),
    "value is deep": ((schema("a", 1, 1)[0], b'{"metadata":' + DEEP.encode() + b"}"), "invalid_json"),
    "value has half of a surrogate pair": (schema("a", 1, 1, '"\ud800"'), "invalid_json"),
    "no key type": ((b"{}", b"{}"), "unknown_key_type"),
    "key type is unknown": ((b'{"keytype":"NEW"}', None), "unknown_key_type"),
    "key type is a list": ((b'{"keytype":[]}', None), "invalid_record"),
    "no subject": ((b'{"keytype":"SCHEMA","version":1}', None), "invalid_record"),
    "subject is a number": ((b'{"keytype":"CONFIG","subject":1}', b"{}"), "invalid_record"),
    "version is a text": ((b'{"keytype":"SCHEMA","subject":"a","version":"1"}', None), "invalid_record"),
    "version is huge": ((b'{"keytype":"SCHEMA","subject":"a","version":4294967296}', None), "invalid_record"),
    "version is true": ((b'{"keytype":"SCHEMA","subject":"a","version":true}', None), "invalid_record"),
    "seq is a text": ((b'{"keytype":"NOOP","seq":"1"}', b"{}"), "invalid_record"),
    "no text": ((schema("a", 1, 1)[0], b'{"id":1}'), "invalid_record"),
    "text is an object": (schema("a", 1, 1, {}), "invalid_record"),  # type: ignore[arg-type]
    "no id": ((schema("a", 1, 1)[0], b'{"schema":"1"}'), "invalid_record"),
    "id is negative": (schema("a", 1, -1), "invalid_record"),
    "id is a fraction": (schema("a", 1, 1.5), "invalid_record"),  # type: ignore[arg-type]
    "deleted is a text": (schema("a", 1, 1, deleted="false"), "invalid_record"),
    "references are an object": (schema("a", 1, 1, references={}), "invalid_record"),
    "a reference is a text": (schema("a", 1, 1, references=["b"]), "invalid_record"),
    "a reference has no subject": (schema("a", 1, 1, references=[{"name": "b", "version": 1}]), "invalid_record"),
    "metadata is a list": (schema("a", 1, 1, metadata=[]), "invalid_record"),
    "metadata is deep": (schema("a", 1, 1, metadata={"x": json.loads("[" * 400 + "]" * 400)}), "invalid_record"),
    "rules are deep": (schema("a", 1, 1, ruleSet={"x": json.loads("[" * 20 + "]" * 20)}), "invalid_record"),
    "a property is a list": (schema("a", 1, 1, metadata={"properties": {"a": []}}), "invalid_record"),
    "tags are numbers": (schema("a", 1, 1, metadata={"tags": {"a": [1]}}), "invalid_record"),
    "rules are numbers": (schema("a", 1, 1, ruleSet={"domainRules": [1]}), "invalid_record"),
    "rules are a number": (schema("a", 1, 1, ruleSet={"domainRules": 1}), "invalid_record"),
    "type of a rule is a list": (schema("a", 1, 1, ruleSet={"domainRules": [{"type": []}]}), "invalid_record"),
    "compatibility is a number": ((config("a", "x")[0], b'{"compatibilityLevel":1}'), "invalid_record"),
    "deletion without a version": ((deletion("a", 1)[0], b"{}"), "invalid_record"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_record_is_a_finding_and_the_others_are_read(name: str, tmp_path: Path) -> None:
    record, error = BAD[name]
    registry = read(tmp_path, schema("good", 1, 10), record, schema("good", 2, 11, '"int"'))
    assert findings(registry) == [(1, error)]
    assert registry.get_versions("good") == [1, 2]
    done = inside("schemas", tmp_path / "data", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["findings"][0]["offset"]) == (1, 1)
    assert done.stderr.startswith("kafkafmt: offset 1: ")


@pytest.mark.parametrize(
    ("kind", "text"),
    [("AVRO", "{"), ("AVRO", "1"), ("AVRO", DEEP), ("AVRO", ""), ("JSON", '"string"'), ("JSON", '"\\ud800"'), ("XML", "<a/>")],
)  # fmt: skip
def test_text_that_is_no_schema_is_a_finding(kind: str, text: str, tmp_path: Path) -> None:
    registry = read(tmp_path, schema("a", 1, 1, text, schemaType=kind))
    assert registry.get_schema(1).error == "invalid_schema"
    assert findings(registry) == [(None, "invalid_schema")]


def test_damage_is_a_finding(tmp_path: Path) -> None:
    data = write_schemas(tmp_path, [schema("a", n, n, f'"{n}"') for n in range(1, 6)])
    (log,) = data.glob("_schemas-0/*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    registry = k.schemas(data)
    assert findings(registry) == [(2, "damage")]
    assert registry.get_versions("a") == [1, 2, 4, 5]


def test_lost_segment_is_a_finding(tmp_path: Path) -> None:
    data = write_schemas(tmp_path, [schema("a", n, n, f'"{n}"') for n in range(1, 6)], segment_bytes=400)
    logs = sorted(data.glob("_schemas-0/*.log"))
    assert len(logs) > 2
    logs[1].unlink()
    assert "damage" in {error for _, error in findings(k.schemas(data))}


def test_topic_can_be_given_in_all_forms(tmp_path: Path) -> None:
    data = write_schemas(tmp_path / "data", [schema("a", 1, 1)])
    (log,) = data.glob("_schemas-0/*.log")
    with tarfile.open(tmp_path / "disk.tar", "w") as archive:
        archive.add(data, "data")
    logs = k.open(data)
    for source in (
        data,
        str(data),
        data / "_schemas-0",
        log,
        tmp_path / "disk.tar",
        logs,
        logs["_schemas"],
        logs["_schemas", 0],
    ):
        assert k.schemas(source).subjects() == ["a"], source


def test_topic_with_another_name_is_read_if_it_is_named(tmp_path: Path) -> None:
    data = write_schemas(tmp_path, [schema("a", 1, 1)], topic="registry")
    assert k.schemas(data / "registry-0").subjects() == ["a"]
    with pytest.raises(k.NoLogError, match="there is no topic _schemas"):
        k.schemas(data)


def test_topic_with_other_records_is_refused(tmp_path: Path) -> None:
    write_schemas(tmp_path, [(b"k", b"v")] * 200, topic="orders")
    write_schemas(tmp_path, [(b"k", b"v")], topic="payments")
    for topic in ("orders-0", "payments-0"):
        with pytest.raises(k.NoLogError, match="the records are not those of a schema registry"):
            k.schemas(tmp_path / topic)


def test_wrong_path_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(FileNotFoundError):
        k.schemas(tmp_path / "missing")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(k.NoLogError, match="there is no schema file either"):
            k.schemas(path)
    with pytest.raises(TypeError, match="context must be a str"):
        k.schemas(tmp_path, context=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="source must be a path"):
        k.schemas(1)  # type: ignore[arg-type]
