"""Test that scripts/compare_schemas.py finds and merges differences to the schemas in a kafka-clients jar."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import compare_schemas
import java_tools
import pytest

from kafkafmt.messages.schema import Versions


def field(name: str, type_: str, versions: str = "0+", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "versions": versions} | more


def message(kind: str, key: int, name: str, versions: str, fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    given = {
        "apiKey": key,
        "type": kind,
        "name": name + kind.title(),
        "validVersions": versions,
        "flexibleVersions": "1+",
    }
    return given | {"fields": fields} | more


@pytest.fixture
def schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a schema directory with versions 0 and 1 of one API, which the script uses."""
    monkeypatch.setattr(compare_schemas, "SCHEMAS", tmp_path / "schemas")
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "07_greet.txt").write_text(
        "7 Greet, versions 0-1, flexible 1+\n\n"
        "request\n    Name  string  0+\n    Loud  bool  0\n\n"
        "response\n    Code  int16  0+  also status\n"
    )
    return tmp_path / "schemas"


def jar(path: Path, *messages: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for made in messages:
            archive.writestr(f"common/message/{made['name']}.json", "// a comment\n" + json.dumps(made))
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: Path | str) -> int:
    monkeypatch.setattr(sys, "argv", ["compare_schemas.py", *map(str, arguments)])
    return compare_schemas.main()


def test_schema_file_is_parsed_and_written_without_loss() -> None:
    for schema in compare_schemas.ours().values():
        again = compare_schemas.from_text(compare_schemas.to_text(schema))
        assert (again.key, again.name, again.versions, again.flexible) == (
            schema.key,
            schema.name,
            schema.versions,
            schema.flexible,
        )
        for kind in compare_schemas.KINDS:
            for version in range(schema.versions.last + 1):
                assert compare_schemas.in_version(again, kind, version) == compare_schemas.in_version(
                    schema, kind, version
                )


def test_new_version_and_new_api_are_reported_and_written(
    schemas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = {"name": "Point", "versions": "0+", "fields": [field("X", "float64", default="0.0")]}
    path = jar(
        tmp_path / "clients.jar",
        message(
            "request",
            7,
            "Greet",
            "1-2",
            [field("Name", "string"), field("Tone", "int8", "2+", default="0x0a", ignorable=True)],
        ),
        message("response", 7, "Greet", "1-2", [field("Code", "int16")]),
        message(
            "request",
            9,
            "DrawLine",
            "0",
            [field("Ends", "[]Point", nullableVersions="0+", default="null")],
            commonStructs=[point],
        ),
        message("response", 9, "DrawLine", "0", [field("Code", "int16", taggedVersions="0+", tag=0)]),
        message("request", 8, "Reserved", "none", []),
        message("response", 8, "Reserved", "none", []),
    )
    assert run(monkeypatch, path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "7 Greet: versions 2 to 2 are missing",
        "9 DrawLine: the API is missing",
        "2 APIs compared, 2 differ",
    ]
    assert run(monkeypatch, path, "--write") == 0
    assert (schemas / "09_draw_line.txt").read_text() == (
        "9 DrawLine, version 0, flexible 1+\n\nrequest\n    Ends   []Point?  0+    = null\n    struct Point\n        X  float64   0+\n\n"
        "response\n    Code  int16  0+    tag 0\n"
    )
    greet = compare_schemas.from_text((schemas / "07_greet.txt").read_text())
    assert greet.versions == Versions(0, 2)
    assert list(compare_schemas.in_version(greet, "request", 0)) == ["Name", "Loud"]
    assert compare_schemas.in_version(greet, "request", 2)["Tone"] == ("int8", False, None, "10", True, True)
    assert greet.bodies["response"].nodes[0].field.second_name == "status"
    capsys.readouterr()
    assert run(monkeypatch, path) == 0
    assert capsys.readouterr().out == "2 APIs compared, 0 differ\n"


def test_each_kind_of_difference_is_reported(
    schemas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = jar(
        tmp_path / "clients.jar",
        message(
            "request",
            7,
            "Greet",
            "0-1",
            [field("Name", "[]string", nullableVersions="1+"), field("Other", "bool", default="true")],
        ),
        message("response", 7, "Greet", "0-1", [field("Code", "int16", ignorable=True)]),
    )
    assert run(monkeypatch, path) == 1
    out = capsys.readouterr().out
    for line in (
        "request v0: Name: type is string, []string in the jar",
        "request v1: Name: nullable is False, True in the jar",
        "request v0: Other is missing",
        "request v0: Loud is not in the jar",
        "response v1: Code: ignorable is False, True in the jar",
    ):
        assert f"7 Greet: {line}\n" in out


def test_merge_that_would_change_an_older_version_is_not_written(
    schemas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (schemas / "07_greet.txt").read_text()
    path = jar(
        tmp_path / "clients.jar",
        message("request", 7, "Greet", "1-2", [field("Name", "bytes")]),
        message("response", 7, "Greet", "1-2", [field("Code", "int16")]),
    )
    assert run(monkeypatch, path, "--write") == 1
    assert "merge by hand" in capsys.readouterr().out
    assert (schemas / "07_greet.txt").read_text() == before


@pytest.mark.slow
@pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are installed")
def test_schemas_are_those_of_the_newest_kafka_clients(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from protocol.test_java_oracle import NEWEST

    path = java_tools.classpath(
        f"org.apache.kafka:kafka-clients:{NEWEST}", "com.fasterxml.jackson.core:jackson-databind:2.18.3"
    )
    assert run(monkeypatch, next(p for p in path.split(":") if f"kafka-clients-{NEWEST}" in p)) == 0, (
        capsys.readouterr().out
    )
