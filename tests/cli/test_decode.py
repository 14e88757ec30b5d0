"""Test `kafkafmt decode` on recorded streams of frames."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from command import kafkafmt
from wire_golden import VERSIONS, fields_of, frames

KEYS = ["direction", "position", "bytes", "apiKey", "api", "apiVersion", "correlationId", "header", "body"]


def streams(version: str) -> tuple[dict[str, bytes], dict[str, list[dict[str, Any]]]]:
    """Return a stream of all requests, a stream of all responses, and the manifest entries of the frames in both.

    Correlation ids are changed to be unique, because a stream contains the frames of several
    connections.
    """
    out = {"request": b"", "response": b""}
    entries: dict[str, list[dict[str, Any]]] = {"request": [], "response": []}
    for golden in frames(version):
        entry, at = golden.entry, 8 if golden.entry["direction"] == "request" else 4
        number = entry["connection"] * 1000 + entry["correlation_id"]
        out[entry["direction"]] += golden.frame[:at] + number.to_bytes(4, "big") + golden.frame[at + 4 :]
        entries[entry["direction"]].append(entry | {"correlation_id": number})
    return out, entries


def write_streams(tmp_path: Path, out: dict[str, bytes]) -> list[str | Path]:
    for name, data in out.items():
        (tmp_path / name).write_bytes(data)
    return ["--requests", tmp_path / "request", "--responses", tmp_path / "response"]


@pytest.mark.parametrize(("version", "backend"), [*((v, "native") for v in VERSIONS), ("2.8.2", "pure")])
def test_json_equals_what_kafka_reads_from_every_frame(tmp_path: Path, version: str, backend: str) -> None:
    out, entries = streams(version)
    done = kafkafmt("decode", *write_streams(tmp_path, out), "--format", "json", backend=backend)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    expected = entries["request"] + entries["response"]
    assert len(rows) == len(expected)
    position = 0
    for row, entry in zip(rows, expected, strict=True):
        assert list(row) == KEYS
        assert row["body"] == fields_of(entry)
        assert [row[k] for k in KEYS[:7] if k != "position"] == [
            entry[k] for k in ("direction", "bytes", "api_key", "api", "api_version", "correlation_id")
        ]
        position = 0 if row is rows[len(entries["request"])] else position
        assert row["position"] == position
        position += row["bytes"]
        if row["direction"] == "request":
            assert row["header"] == {
                "requestApiKey": row["apiKey"],
                "requestApiVersion": row["apiVersion"],
                "correlationId": row["correlationId"],
                "clientId": entry["client_id"],
            }
        else:
            assert row["header"] == {"correlationId": row["correlationId"]}


def test_records_have_the_fields_that_cat_prints(tmp_path: Path) -> None:
    out, _ = streams("2.8.2")
    lines = kafkafmt(
        "decode", *write_streams(tmp_path, out), "--format", "json", "--records", "--bytes", "base64"
    ).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    fetched = next(r for r in rows if r["direction"] == "response" and r["api"] == "Fetch" and r["bytes"] > 4000)
    assert list(fetched) == [*KEYS, "records"]
    assert [(r["partition"], r["offset"]) for r in fetched["records"][:3]] == [(0, 0), (0, 1), (0, 2)]
    first = fetched["records"][0]
    assert list(first) == ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
    assert (first["topic"], base64.b64decode(first["key"]), base64.b64decode(first["value"])) == (
        "wire",
        b"k0",
        b"value 0",
    )
    assert next(r for r in rows if r["api"] == "Metadata")["records"] == []


def test_frame_with_damaged_record_data_is_shown(tmp_path: Path) -> None:
    golden = next(
        g
        for g in frames("2.8.2")
        if g.entry["api"] == "Produce" and g.entry["bytes"] > 1000 and g.entry["direction"] == "request"
    )
    (tmp_path / "request").write_bytes(golden.frame[:200] + bytes([golden.frame[200] ^ 1]) + golden.frame[201:])
    done = kafkafmt("decode", "--requests", tmp_path / "request", "--format", "json", "--records")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, row["body"], row["records"]) == (1, fields_of(golden.entry), [])
    assert "record data of wire-" in done.stderr
    assert "CRC" in done.stderr
    # Without --records, records are not decoded.
    assert kafkafmt("decode", "--requests", tmp_path / "request").returncode == 0


def test_text_has_one_line_per_frame(tmp_path: Path) -> None:
    out, entries = streams("0.9.0.1")
    done = kafkafmt("decode", *write_streams(tmp_path, out))
    lines = done.stdout.splitlines()
    assert len(lines) == sum(map(len, entries.values()))
    assert lines[0].startswith("request   0  ")
    assert any("Produce v1" in line and "acks=-1" in line for line in lines)


def test_unreadable_frame_does_not_stop_the_next_ones(tmp_path: Path) -> None:
    valid_frame = next(
        g.frame for g in frames("2.8.2") if g.entry["api"] == "Metadata" and g.entry["direction"] == "request"
    )
    unknown = valid_frame[:4] + (999).to_bytes(2, "big") + valid_frame[6:]
    newer = valid_frame[:6] + (99).to_bytes(2, "big") + valid_frame[8:]
    tiny = bytes([0, 0, 0, 3, 1, 2, 3])
    broken = valid_frame[:-1] + b"\5"
    (tmp_path / "request").write_bytes(unknown + newer + tiny + broken + valid_frame + valid_frame[:9])
    done = kafkafmt("decode", "--requests", tmp_path / "request", "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [("error" in r, "body" in r) for r in rows] == [(True, False)] * 4 + [(False, True), (True, False)]
    assert rows[0]["apiKey"] == 999
    assert rows[0]["api"] is None
    assert "API key 999" in rows[0]["error"]
    assert rows[1]["api"] == "Metadata"
    assert rows[1]["header"]["clientId"]
    assert rows[5]["position"] == sum(map(len, (unknown, newer, tiny, broken, valid_frame)))
    assert rows[5]["bytes"] == 9
    assert "ends inside a frame" in rows[5]["error"]
    assert kafkafmt("decode", "--requests", tmp_path / "request").stdout.count("\n") == 6


def test_invalid_frame_size_ends_the_stream_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "request").write_bytes(b"\xff\xff\xff\xfe" + bytes(100))
    done = kafkafmt("decode", "--requests", tmp_path / "request", "--format", "json")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert "size field is -2" in row["error"]


def test_responses_without_requests_need_api_and_version(tmp_path: Path) -> None:
    responses = [g for g in frames("1.1.1") if g.entry["api"] == "Fetch" and g.entry["direction"] == "response"]
    (tmp_path / "response").write_bytes(b"".join(g.frame for g in responses))
    done = kafkafmt("decode", "--responses", tmp_path / "response", "--format", "json")
    assert done.returncode == 1
    assert "--api and --api-version" in json.loads(done.stdout.splitlines()[0])["error"]
    for name in ("Fetch", "fetch", "1"):
        with open(tmp_path / "response", "rb") as stream:
            done = kafkafmt(
                "decode", "--responses", "-", "--api", name, "--api-version", 7, "--format", "json", stdin=stream
            )
        assert [json.loads(line)["body"] for line in done.stdout.splitlines()] == [
            fields_of(g.entry) for g in responses
        ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--requests, --responses or both"),
        (("--requests", "-", "--responses", "-"), "only one of --requests and --responses"),
        (("--responses", "x", "--api", "Fetch"), "can only be used together"),
        (("--responses", "x", "--api", "Nonsense", "--api-version", "1"), "there is no API 'Nonsense'"),
    ],
)
def test_wrong_usage_exits_with_2_and_a_message(arguments: tuple[str, ...], message: str) -> None:
    done = kafkafmt("decode", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_missing_file_exits_with_3() -> None:
    done = kafkafmt("decode", "--requests", "/nowhere/at/all")
    assert (done.returncode, done.stdout) == (3, "")
    assert "No such file" in done.stderr
