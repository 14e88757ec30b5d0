"""Test `kafkafmt cat --decode`."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from avro_schemas import encode
from command import inside
from decoded_logs import write_log
from decoding_values import framed, version

KEY = {"type": "string"}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "who", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "ratio", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "left", "type": {"type": "fixed", "name": "L", "size": 12, "logicalType": "duration"}},
    ],
}
NEWER = {**ORDER, "fields": [{"name": "extra", "type": ["int", "string"]}, *ORDER["fields"]]}
VERSIONS = [version(KEY, 1, 3, "t-key"), version(ORDER, 1), version(NEWER, 2)]


def order(number: int, cents: int, who: str | None, ratio: float = 0.5, **extra: Any) -> dict[str, Any]:
    amount = cents.to_bytes(4, "big", signed=True)
    left = b"\1\0\0\0\2\0\0\0\3\0\0\0"
    return {"id": number, "amount": amount, "who": who, "raw": b"\0\xff", "ratio": ratio, "at": 0, "left": left} | extra


def shown(number: int, amount: str, who: str | None, ratio: Any = 0.5, **extra: Any) -> dict[str, Any]:
    left = {"months": 1, "days": 2, "milliseconds": 3}
    return {
        **extra,
        "id": number,
        "amount": amount,
        "who": who,
        "raw": "AP8=",
        "ratio": ratio,
        "at": "1970-01-01T00:00:00.000Z",
        "left": left,
    }


def key(text: str) -> bytes:
    return framed(encode(KEY, text), 3)


BROKEN = framed(b"\x02\x80", 1)
RECORDS: list[tuple[bytes | None, bytes | None]] = [
    (key("ä"), framed(encode(ORDER, order(1, 12345, "größe")), 1)),
    (key("b"), framed(encode(NEWER, order(2, -5, None, float("nan"), extra="x")), 2)),
    (None, None),
    (key("c"), BROKEN),
    (b"plain", framed(encode(ORDER, order(5, 100, "")), 99)),
]
VALUES = [shown(1, "123.45", "größe"), shown(2, "-0.05", None, "NaN", extra={"string": "x"}), None, None, None]
REPORT = "kafkafmt: "


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("log"), RECORDS, VERSIONS)


def lines(log: Path, *arguments: str, code: int = 1) -> list[dict[str, Any]]:
    done = inside("cat", log, "-t", "t", *arguments, "--format", "json")
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_lines(log: Path) -> None:
    found = lines(log, "--decode")
    assert [line["key"] for line in found] == ["ä", "b", None, "c", None]
    assert [line["value"] for line in found] == VALUES
    about = found[0]["value_schema"]
    assert about == {
        "id": 1,
        "guid": VERSIONS[1].guid,
        "subject": "t-value",
        "version": 1,
        "type": "AVRO",
        "message": None,
    }
    assert found[1]["value_schema"]["version"] == 2
    assert found[0]["key_schema"]["subject"] == "t-key"
    assert not {"value_schema", "value_error", "key_schema", "key_error"} & set(found[2])
    assert found[3]["value_error"] == {"error": "truncated", "message": "truncated at byte 6", "position": 6}
    assert found[3]["value_raw"] == base64.b64encode(BROKEN).decode()
    assert found[4]["key_error"]["error"] == "no_schema_id"
    assert found[4]["key_raw"] == base64.b64encode(b"plain").decode()
    assert found[4]["value_error"]["error"] == "unknown_schema"
    assert found[4]["value_error"]["position"] is None


def test_only_the_decoded_parts_of_json_lines_change(log: Path) -> None:
    plain, decoded = lines(log, code=0), lines(log, "--decode=value")
    for before, after in zip(plain, decoded, strict=True):
        added = {"value_schema", "value_error", "value_raw"}
        assert [name for name in after if name not in added] == list(before)
        assert {n: after[n] for n in before if n != "value"} == {n: before[n] for n in before if n != "value"}


@pytest.mark.parametrize(
    ("option", "keys"),
    [("--decode", True), ("--decode=key,value", True), ("--decode=key", True), ("--decode=value", False)],
)
def test_sides(log: Path, option: str, keys: bool) -> None:
    found = lines(log, option, code=1)
    assert (found[0]["key"] == "ä") is keys
    assert (found[0]["value"] == VALUES[0]) is (option != "--decode=key")


def test_custom_format(log: Path) -> None:
    done = inside("cat", log, "-t", "t", "--decode", "--format", "%o %k %s\\n", "-o", ":2")
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    number, found, value = first.split(" ", 2)
    assert (number, json.loads(found), json.loads(value)) == ("0", "ä", VALUES[0])
    assert json.loads(second.split(" ", 2)[2]) == VALUES[1]
    assert ": " not in value
    sizes = inside("cat", log, "-t", "t", "--decode", "--format", "%S\\n", "-o", ":1")
    assert int(sizes.stdout) == len(value.encode())


def test_text(log: Path) -> None:
    done = inside("cat", log, "-t", "t", "--decode")
    assert done.returncode == 1
    texts = done.stdout.splitlines()
    assert '"who":"größe"' in texts[0]
    assert "null" in texts[2]


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "%o %s\\n"]], ids=str)
def test_exit_code_and_report_of_undecodable_records(log: Path, form: list[str]) -> None:
    done = inside("cat", log, "-t", "t", "--decode=value", *form)
    assert done.returncode == 1
    assert "truncated" in done.stderr
    assert "unknown_schema" in done.stderr
    assert len(done.stderr.splitlines()) <= 3
    good = inside("cat", log, "-t", "t", "--decode=value", *form, "-o", ":3")
    assert (good.returncode, good.stderr) == (0, "")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("value.amount > 100", [0]),
        ("value.amount < 0", [1]),
        ("value.amount >= -0.05", [0, 1]),
        ('value.who = "größe"', [0]),
        ("value.who = null", [1, 2, 3, 4]),
        ("value = null", [2, 3, 4]),
        ("not value = null", [0, 1]),
        ('value.extra.string = "x"', [1]),
        ("value.left.days = 2", [0, 1]),
        ('key = "b" or value.id = 1', [0, 1]),
        ('key = "b" and value.id = 1', []),
        ('value.at >= "1970" and value.ratio = 0.5', [0]),
        ('key = "c"', [3]),
    ],
)
def test_where(log: Path, condition: str, expected: list[int]) -> None:
    done = inside("cat", log, "-t", "t", "--decode", "--where", condition, "--format", "%o ")
    assert [int(offset) for offset in done.stdout.split()] == expected
    assert done.returncode in (0, 1)


def test_where_with_other_conditions(log: Path) -> None:
    def found(*arguments: str) -> str:
        return inside("cat", log, "-t", "t", "--decode", *arguments, "--format", "%o ").stdout

    assert found("--where", "value.id > 0", "-n", "1") == "0 "
    assert found("--where", "value.id > 0", "-o", "1:") == "1 "
    assert found("--where", "value.id > 0", "--key", "hex:" + key("b").hex()) == "1 "
    assert found("--value-json", "id=2") == "1 "
    assert found("--value-json", "who=null") == "1 "
    assert found("--value-json", "left.days=2", "--where", "value.id = 1") == "0 "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "value.id = 1"], "--registry, --framing and --where need --decode"),
        (["--registry", "x"], "--registry, --framing and --where need --decode"),
        (["--decode", "--where", "value.id"], "it ends where an operator"),
        (["--decode=values"], "'values' is not key, value or key,value"),
        (["--decode="], "is not key, value or key,value"),
    ],
)
def test_usage_errors(log: Path, arguments: list[str], message: str) -> None:
    done = inside("cat", log, "-t", "t", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_topic_without_schemas_is_a_usage_error(log: Path, tmp_path: Path) -> None:
    other = write_log(tmp_path / "other", RECORDS, [version(ORDER, subject="orders-value")])
    done = inside("cat", other, "-t", "t", "--decode")
    assert done.returncode == 2
    assert "there is no subject t-key or t-value" in done.stderr
    found = inside("cat", other, "-t", "t", "--decode", "--registry", log, "--format", "json", "-o", ":1")
    assert found.returncode == 0
    assert json.loads(found.stdout)["value"] == VALUES[0]


def test_topics_without_schemas_are_printed_as_they_are(log: Path) -> None:
    done = inside("cat", log, "--decode", "--format", "json")
    topics = {row["topic"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert isinstance(topics["_schemas"]["value"], str)
    assert "topics without schemas are not decoded: _schemas" in done.stderr
    assert any(topic != "_schemas" for topic in topics)


def test_pyarrow_is_not_needed(log: Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from kafkafmt.cli import main; main()"
    for options in ([], ["--decode"]):
        command = [sys.executable, "-c", code, "cat", str(log), "-t", "t", "-n", "1", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), options


def test_log_without_schemas_says_so(tmp_path: Path) -> None:
    import kafkafmt

    with kafkafmt.LogDirectory(tmp_path / "bare") as directory:
        directory.writer("t", 0).append([(None, b"x", 5)])
    done = inside("cat", tmp_path / "bare", "--decode")
    assert done.returncode in (2, 3)
    assert "_schemas" in done.stderr


def test_damage_is_skipped(log: Path, tmp_path: Path) -> None:
    path = write_log(tmp_path / "damaged", RECORDS[:2] * 50, VERSIONS, per_batch=20)
    (file,) = (path / "t-0").glob("*.log")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    done = inside("cat", path, "-t", "t", "--decode", "--on-error", "skip", "--format", "json")
    assert done.returncode == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 80
    assert all(line["value"] == VALUES[line["offset"] % 2] for line in found)
