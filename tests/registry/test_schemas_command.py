"""Test `kafkafmt schemas`: its lists, texts, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import inside
from schema_records import ORDER, config, deletion, packed, schema, write_schemas

PRETTY = '{\n  "type": "string"\n}\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    records = [
        schema("orders-value", 1, 1, '"int"'),
        schema("orders-value", 2, 7, ORDER),
        schema("a/1", 1, 2, PRETTY),
        schema(
            "a/1",
            2,
            3,
            "\x1b[31m\u202e",
            schemaType="PROTOBUF",
            references=[{"name": "n", "subject": "orders-value", "version": 2}],
        ),
        schema("old", 1, 4, '"long"', deleted=True),
        schema("secret", 1, 5, "eA==", metadata={"properties": {"__enc__": "true"}}),
        schema(":.lab:orders", 1, 1, '"string"'),
        deletion("orders-value", 1),
        config(None, "BACKWARD"),
    ]
    return write_schemas(tmp_path / "data", records)


def lines(*arguments: Any) -> list[list[str]]:
    done = inside("schemas", *arguments)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_live_versions_are_listed(data: Path) -> None:
    done = inside("schemas", data)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["subject", "version", "id", "type", "compatibility", "references", "state", "guid"]
    assert [row[:5] for row in rows[1:]] == [
        ["a/1", "1", "2", "AVRO", "BACKWARD"],
        ["a/1", "2", "3", "PROTOBUF", "BACKWARD"],
        ["orders-value", "2", "7", "AVRO", "BACKWARD"],
        ["secret", "1", "5", "AVRO", "BACKWARD"],
        [":.lab:orders", "1", "1", "AVRO", "-"],
    ]
    assert rows[2][5] == "orders-value/2"
    assert rows[4][5:] == ["encrypted", "-"]
    assert (done.returncode, done.stderr) == (0, "kafkafmt: 2 soft-deleted versions omitted; --deleted lists them\n")


def test_deleted_versions_are_listed_on_request(data: Path) -> None:
    done = inside("schemas", data, "--deleted")
    assert done.stdout.count(" deleted ") == 2
    assert done.stderr == ""
    assert [row[1] for row in lines(data, "orders-value", "--deleted")] == ["version", "1", "2"]
    assert [row[1] for row in lines(data, "orders-value")] == ["version", "2"]
    assert inside("schemas", data, "old").stderr == "kafkafmt: 1 soft-deleted version omitted; --deleted lists them\n"


def test_text_of_a_version_is_printed_unchanged(data: Path) -> None:
    for name, text in {
        "orders-value/latest": ORDER + "\n",
        "orders-value/1": '"int"\n',
        "a/1/1": PRETTY,
        ":.lab:orders/latest": '"string"\n',
        "a/1/2": "\x1b[31m\u202e\n",
    }.items():
        done = inside("schemas", data, name)
        assert (done.returncode, done.stdout, done.stderr) == (0, text, ""), name


def test_json_has_the_keys_of_the_contract(data: Path) -> None:
    report = json.loads(inside("schemas", data, "--format", "json").stdout)
    assert list(report) == ["subjects", "findings"]
    (orders,) = (s for s in report["subjects"] if s["subject"] == "orders-value")
    (live,) = orders.pop("versions")
    assert orders == {"subject": "orders-value", "context": ".", "compatibility": "BACKWARD"}
    assert live.pop("guid")
    assert live == {"version": 2, "id": 7, "type": "AVRO", "deleted": False, "references": [], "error": None}
    everything = json.loads(inside("schemas", data, "--deleted", "--format", "json").stdout)
    assert sum(len(s["versions"]) for s in everything["subjects"]) == 7
    (only,) = json.loads(inside("schemas", data, "a/1", "--format", "json").stdout)["subjects"]
    assert only["versions"][1]["references"] == [{"name": "n", "subject": "orders-value", "version": 2}]
    one = json.loads(inside("schemas", data, "secret/1", "--format", "json").stdout)
    assert one == {
        "subject": "secret", "context": ".", "compatibility": "BACKWARD", "version": 1, "id": 5, "guid": None,
        "type": "AVRO", "deleted": False, "references": [], "error": "encrypted", "schema": "eA==",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("order-value", "there is no subject 'order-value': the nearest subject is orders-value"),
        ("orders-value/3", "subject 'orders-value' has no version 3; it has 1, 2"),
        ("orders-value/newest", "there is no subject 'orders-value/newest': the nearest subject is orders-value"),
        ("orders-value/" + "9" * 5000, "there is no subject"),
        ("old/latest", "all versions of subject 'old' are soft-deleted"),
        ("/1", "there is no subject ''"),
    ],
)
def test_unknown_subject_is_a_usage_error(name: str, message: str, data: Path) -> None:
    done = inside("schemas", data, name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"kafkafmt: {message}")
    assert len(done.stderr) < 400


def test_exit_codes(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for code, arguments in {
        0: (data,),
        2: (data, "orders-value", "--save", tmp_path / "x"),
        3: (tmp_path / "empty",),
    }.items():
        assert inside("schemas", *arguments).returncode == code
    assert inside("schemas", tmp_path / "missing").returncode == 3
    write_schemas(tmp_path / "bad", [(packed([]), None)])
    done = inside("schemas", tmp_path / "bad")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kafkafmt: offset 0: the key is not a JSON object\nkafkafmt: there is no schema\n"
