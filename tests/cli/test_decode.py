"""`kafkafmt decode`: streams of recorded frames, as a person or a program would have them decoded."""

import base64
import json
import sys
from pathlib import Path

import pytest
from command import kafkafmt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "protocol"))
from wire_golden import VERSIONS, fields_of, frames

KEYS = ["direction", "position", "bytes", "apiKey", "api", "apiVersion", "correlationId", "header", "body"]


def streams(version, connection=None):
    """What clients and brokers sent, as two streams, with the entries of their frames. Correlation ids are made unique."""
    out = {"request": b"", "response": b""}
    entries = {"request": [], "response": []}
    for golden in frames(version):
        entry, at = golden.entry, 8 if golden.entry["direction"] == "request" else 4
        number = entry["connection"] * 1000 + entry["correlation_id"]
        out[entry["direction"]] += golden.frame[:at] + number.to_bytes(4, "big") + golden.frame[at + 4 :]
        entries[entry["direction"]].append(entry | {"correlation_id": number})
    return out, entries


def written(tmp_path, out):
    for name, data in out.items():
        (tmp_path / name).write_bytes(data)
    return ["--requests", tmp_path / "request", "--responses", tmp_path / "response"]


@pytest.mark.parametrize(("version", "backend"), [*((v, "native") for v in VERSIONS), ("2.8.2", "pure")])
def test_json_has_what_kafka_reads_in_every_frame(tmp_path, version, backend):
    out, entries = streams(version)
    done = kafkafmt("decode", *written(tmp_path, out), "--format", "json", backend=backend)
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


def test_records_are_shown_as_cat_shows_them(tmp_path):
    out, _ = streams("2.8.2")
    lines = kafkafmt(
        "decode", *written(tmp_path, out), "--format", "json", "--records", "--bytes", "base64"
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


def test_record_data_that_is_damaged_does_not_hide_its_frame(tmp_path):
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
    assert kafkafmt("decode", "--requests", tmp_path / "request").returncode == 0  # nobody asked for the records


def test_text_is_a_line_a_frame(tmp_path):
    out, entries = streams("0.9.0.1")
    done = kafkafmt("decode", *written(tmp_path, out))
    lines = done.stdout.splitlines()
    assert len(lines) == sum(map(len, entries.values()))
    assert lines[0].startswith("request   0  ")
    assert any("Produce v1" in line and "acks=-1" in line for line in lines)


def test_a_frame_that_cannot_be_read_does_not_stop_the_next(tmp_path):
    good = next(g.frame for g in frames("2.8.2") if g.entry["api"] == "Metadata" and g.entry["direction"] == "request")
    unknown = good[:4] + (999).to_bytes(2, "big") + good[6:]
    newer = good[:6] + (99).to_bytes(2, "big") + good[8:]
    tiny = bytes([0, 0, 0, 3, 1, 2, 3])
    broken = good[:-1] + b"\5"
    (tmp_path / "request").write_bytes(unknown + newer + tiny + broken + good + good[:9])
    done = kafkafmt("decode", "--requests", tmp_path / "request", "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert [("error" in r, "body" in r) for r in rows] == [(True, False)] * 4 + [(False, True), (True, False)]
    assert rows[0]["apiKey"] == 999
    assert rows[0]["api"] is None
    assert "API key 999" in rows[0]["error"]
    assert rows[1]["api"] == "Metadata"
    assert rows[1]["header"]["clientId"]
    assert rows[5]["position"] == sum(map(len, (unknown, newer, tiny, broken, good)))
    assert rows[5]["bytes"] == 9
    assert "ends inside a frame" in rows[5]["error"]
    assert kafkafmt("decode", "--requests", tmp_path / "request").stdout.count("\n") == 6


def test_a_size_that_cannot_be_ends_the_stream_with_an_error(tmp_path):
    (tmp_path / "request").write_bytes(b"\xff\xff\xff\xfe" + bytes(100))
    done = kafkafmt("decode", "--requests", tmp_path / "request", "--format", "json")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert "size field is -2" in row["error"]


def test_responses_without_requests(tmp_path):
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
    ("arguments", "says"),
    [
        ((), "--requests, --responses or both"),
        (("--requests", "-", "--responses", "-"), "only one"),
        (("--responses", "x", "--api", "Fetch"), "must be given together"),
        (("--responses", "x", "--api", "Nonsense", "--api-version", "1"), "there is no API 'Nonsense'"),
    ],
)
def test_wrong_usage(arguments, says):
    done = kafkafmt("decode", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_missing_file():
    done = kafkafmt("decode", "--requests", "/nowhere/at/all")
    assert (done.returncode, done.stdout) == (3, "")
    assert "No such file" in done.stderr
