"""Test how `SchemaRegistry` finds schemas by subject, version, id and GUID, and computes GUIDs."""

from __future__ import annotations

from hashlib import md5
from typing import Any
from uuid import UUID

import pytest
from schema_records import ORDER

import kafkafmt as k
from kafkafmt.registry.models import schema_of
from kafkafmt.reports import RegisteredSchema, SchemaReference


def version(subject: str, number: int, schema_id: int | None, text: str = ORDER, **members: Any) -> RegisteredSchema:
    return schema_of({"id": schema_id, "schema": text} | members, subject, number, with_id=schema_id is not None)


CONTEXTS = [
    version("orders", 1, 1, '"int"'),
    version("orders", 2, 2, '"long"'),
    version("payments", 1, 3, '"float"'),
    version(":.lab:orders", 1, 1, '"string"'),
    version(":.lab:refunds", 1, 2, '"bytes"'),
    version(":.lab:refunds", 2, 4, '"boolean"'),
    version(":.old:orders", 1, 4, '"double"'),
    version(":.old:stock", 1, 5, '"null"'),
]


@pytest.mark.parametrize(
    ("schema_id", "subject", "found"),
    [
        (1, None, '"int"'),
        (1, "orders", '"int"'),  # the subject in the default context
        (2, "refunds", '"bytes"'),  # the subject in another context
        (4, "orders", '"double"'),
        (1, "payments", '"int"'),  # the id alone
        (5, "orders", '"null"'),  # only another context has the id
        (1, ":.lab:orders", '"string"'),  # only the context of the subject counts
        (1, ":.lab:refunds", '"string"'),
        (4, ":.lab:", '"boolean"'),
    ],
)
def test_id_is_looked_up_as_in_the_registry(schema_id: int, subject: str | None, found: str) -> None:
    assert k.SchemaRegistry(CONTEXTS).get_schema(schema_id, subject).schema == found


def test_context_of_the_registry_is_the_only_one_for_unqualified_subjects_and_ids() -> None:
    for name in (".lab", "lab", ":.lab:"):
        registry = k.SchemaRegistry(CONTEXTS, context=name)
        assert registry.subjects() == [":.lab:orders", ":.lab:refunds"]
        assert registry.get_schema(1, "orders").schema == registry.get_schema(1).schema == '"string"'
        assert registry.get_latest_version("refunds").version == 2
        assert registry.get_latest_version(":.old:stock").schema == '"null"'
        with pytest.raises(k.SchemaNotFoundError, match=r"there is no schema with id 3 in context \.lab"):
            registry.get_schema(3)


def test_id_that_stands_for_two_schemas_is_not_guessed() -> None:
    registry = k.SchemaRegistry(
        [version("a", 1, 1, '"int"'), version("b", 1, 1, '"long"'), version("b", 2, 2), version("c", 1, 2)]
    )
    assert [f.error for f in registry.findings] == ["ambiguous_id"]
    assert registry.findings[0].message == "id 1 in context . is ambiguous, because different schemas have it: a/1, b/1"
    with pytest.raises(k.SchemaNotFoundError, match="id 1 is ambiguous"):
        registry.get_schema(1)
    assert registry.get_schema(1, "b").schema == '"long"'
    assert registry.get_schema(2).subject == "b"
    same = k.SchemaRegistry([version("a", 1, 1, '"int"'), version("a", 2, 1, '"long"')])
    with pytest.raises(k.SchemaNotFoundError, match="id 1 is ambiguous"):
        same.get_schema(1, "a")


def test_id_in_two_other_contexts_is_not_guessed() -> None:
    with pytest.raises(k.SchemaNotFoundError, match="id 4 is ambiguous"):
        k.SchemaRegistry(CONTEXTS).get_schema(4)


def test_live_version_of_an_id_is_preferred() -> None:
    registry = k.SchemaRegistry([version("a", 1, 1), version("a", 2, 1), version("a", 3, 1, deleted=True)])
    assert registry.get_schema(1).version == 2


def test_unknown_names_are_errors_that_show_the_nearest() -> None:
    registry = k.SchemaRegistry(CONTEXTS)
    with pytest.raises(k.SchemaNotFoundError, match="there is no subject 'order': the nearest subject"):
        registry.get_versions("order")
    with pytest.raises(k.SchemaNotFoundError, match="subject 'orders' has no version 7; it has 1, 2"):
        registry.get_version("orders", 7)
    with pytest.raises(k.SchemaNotFoundError, match="there is no schema with id 99"):
        registry.get_schema(99)
    with pytest.raises(k.SchemaNotFoundError, match="there is no schema with GUID 'x'"):
        registry.get_by_guid("x")
    assert issubclass(k.SchemaNotFoundError, LookupError)


def guid(*parts: str | bytes) -> str:
    return str(UUID(bytes=md5(b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)).digest()))


RULE = {
    "name": "n", "doc": "d", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "tags": ["z", "a", "z"],
    "params": {"q": "2", "p": "1"}, "expr": "e", "onSuccess": "NONE", "onFailure": "DLQ", "disabled": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "members", "expected"),
    [
        ('"string"', {}, "095d71cf-1255-6b9d-5e33-0ad575b3df5d"),
        ("é", {"schemaType": "PROTOBUF"}, guid(b"\xc3\xa9")),
        (
            "x",
            {"references": [{"name": "n", "subject": "s", "version": 258}]},
            guid("xns", b"\0\0\1\2"),
        ),
        ("x", {"metadata": {}}, guid("x", b"\1")),
        ("x", {"ruleSet": {}}, guid("x", b"\1")),
        ("x", {"metadata": None, "ruleSet": None}, guid("x")),
        (
            "x",
            {
                "metadata": {
                    "tags": {"b": ["2", "1", "2"], "a": []},
                    "properties": {"q": "w", "p": "v"},
                    "sensitive": ["t", "s"],
                }
            },
            guid("x", b"\1", "ab12pvqwst"),
        ),
        # Java compares UTF-16 code units, so that a surrogate comes before U+FFFD.
        ("x", {"metadata": {"sensitive": ["\ufffd", "\U0001f600"]}}, guid("x", b"\1", "\U0001f600\ufffd")),
        ("x", {"ruleSet": {"domainRules": [RULE]}}, guid("x", b"\1", "ndCONDITIONWRITECELazp1q2eNONEDLQ")),
        (
            "x",
            {
                "ruleSet": {
                    "encodingRules": [{"name": "3", "disabled": True}],
                    "domainRules": [{"name": "2"}],
                    "migrationRules": [{"name": "1", "mode": "UPGRADE"}],
                    "enableAt": "CLIENT",
                }
            },
            guid("x", b"\1", "1TRANSFORMUPGRADE2TRANSFORMWRITEREAD3TRANSFORMWRITEREAD", b"\1", "CLIENT"),
        ),
    ],
)
def test_guid_follows_the_rule_of_the_client(text: str, members: dict[str, Any], expected: str) -> None:
    found = version("a", 1, 1, text, **members)
    assert found.guid == expected
    assert k.SchemaRegistry([found]).get_by_guid(expected.upper()) is found


def test_guid_of_schemas_of_different_types_is_not_guessed() -> None:
    text = '{"type":"string"}'
    registry = k.SchemaRegistry([version("a", 1, 1, text), version("b", 1, 2, text, schemaType="JSON")])
    with pytest.raises(k.SchemaNotFoundError, match="is ambiguous, because different schemas have it"):
        registry.get_by_guid(guid(text))


def refers(*subjects: str) -> dict[str, Any]:
    return {"references": [{"name": f"type of {s}", "subject": s, "version": 1} for s in subjects]}


def test_references_are_resolved_in_the_context_of_the_schema() -> None:
    registry = k.SchemaRegistry(
        [
            version("a", 1, 1, '"a"', **refers("b", "c")),
            version("b", 1, 2, '"b"', **refers("c")),
            version("c", 1, 3, '"c"'),
            version(":.lab:a", 1, 1, '"lab a"', **refers("c")),
            version(":.lab:c", 1, 2, '"lab c"'),
            version("d", 1, 4, '"d"', **refers(":.lab:c", "e")),
            version(":.old:e", 1, 1, '"old e"'),
        ]
    )
    found = {v.subject: [r.schema for r in registry.get_references(v).values()] for v in registry}
    assert found["a"] == ['"c"', '"b"']
    assert found[":.lab:a"] == ['"lab c"']
    assert found["d"] == ['"lab c"', '"old e"']
    assert registry.findings == []
    assert registry.get_version("b", 1).references == (SchemaReference("type of c", "c", 1),)


def test_missing_and_circular_references_are_errors() -> None:
    chain = [version(f"s{n}", 1, n, f'"{n}"', **refers(f"s{n + 1}")) for n in range(3000)]
    registry = k.SchemaRegistry(
        [*chain, version("x", 1, 9000, '"x"', **refers("y")), version("y", 1, 9001, '"y"', **refers("x"))]
    )
    assert [(f.error, f.message) for f in registry.findings] == [
        ("missing_reference", "s2999/1 refers to s3000/1, which does not exist")
    ]
    with pytest.raises(k.SchemaNotFoundError, match="s2999/1 refers to s3000/1"):
        registry.get_references(chain[0])
    with pytest.raises(k.SchemaNotFoundError, match="x/1 refers to itself"):
        registry.get_references(registry.get_version("x", 1))


def test_arrow_table_has_a_row_for_each_version() -> None:
    pytest.importorskip("pyarrow")
    table = k.SchemaRegistry([*CONTEXTS, version("file", 1, None)]).to_arrow()
    assert table.num_rows == len(CONTEXTS) + 1
    assert table.column("context").to_pylist().count(".lab") == 3
    assert table.column("schema_id").null_count == 1
    assert k.SchemaRegistry([]).to_arrow().schema == table.schema
