"""Test `kafkafmt decode` on recorded streams of frames."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from command import kafkafmt, process
from wire_golden import VERSIONS, fields_of, frames

from kafkafmt import protocol

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
            done = process(
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


SECRET = b"open sesame"
TEXT = SECRET.decode()


def written(message: Any, version: int, number: int) -> tuple[str, bytes]:
    """Return the direction and the frame of a message."""
    if type(message).__name__.endswith("Request"):
        return "request", b"".join(map(bytes, protocol.write_request(protocol.make_request(message, version, number))))
    return "response", b"".join(map(bytes, protocol.write_response(protocol.make_response(message, version, number))))


def secret_messages() -> list[tuple[Any, int]]:
    """Return messages that contain a secret, each with its version. Each request is before its response."""
    p = protocol
    alter = p.AlterConfigsRequest
    config = alter.AlterableConfig
    incremental = p.IncrementalAlterConfigsRequest
    change = incremental.AlterableConfig
    create = p.CreateTopicsRequest
    described = p.DescribeConfigsResponse
    result = described.DescribeConfigsResourceResult
    synonym = described.DescribeConfigsSynonym(name="listener.name.ssl.ssl.key.password", value=TEXT)
    scram = p.AlterUserScramCredentialsRequest
    tokens = p.DescribeDelegationTokenResponse
    return [
        (p.SaslAuthenticateRequest(auth_bytes=b"\0user\0" + SECRET), 2),
        (p.SaslAuthenticateResponse(auth_bytes=SECRET), 2),
        (alter(resources=[alter.AlterConfigsResource(configs=[config(name="ssl.key.password", value=TEXT)])]), 1),
        (p.AlterConfigsResponse(), 1),
        (
            incremental(
                resources=[incremental.AlterConfigsResource(configs=[change(name="sasl.jaas.config", value=TEXT)])]
            ),
            1,
        ),
        (p.IncrementalAlterConfigsResponse(), 1),
        (
            create(topics=[create.CreatableTopic(configs=[create.CreatableTopicConfig(name="my.secret", value=TEXT)])]),
            7,
        ),
        (p.CreateTopicsResponse(), 7),
        (p.DescribeConfigsRequest(), 4),
        (
            described(
                results=[
                    described.DescribeConfigsResult(
                        configs=[
                            result(name="unknown", value=TEXT, config_type=9),
                            result(name="flagged", value=TEXT, is_sensitive=True),
                            result(name="other", value="visible", synonyms=[synonym]),
                        ]
                    )
                ]
            ),
            4,
        ),
        (scram(upsertions=[scram.ScramCredentialUpsertion(name="user", salt=SECRET, salted_password=SECRET)]), 0),
        (p.AlterUserScramCredentialsResponse(), 0),
        (p.CreateDelegationTokenRequest(), 3),
        (p.CreateDelegationTokenResponse(hmac=SECRET), 3),
        (p.RenewDelegationTokenRequest(hmac=SECRET), 2),
        (p.RenewDelegationTokenResponse(), 2),
        (p.ExpireDelegationTokenRequest(hmac=SECRET), 2),
        (p.ExpireDelegationTokenResponse(), 2),
        (p.DescribeDelegationTokenRequest(), 3),
        (tokens(tokens=[tokens.DescribedDelegationToken(token_id="id", hmac=SECRET)]), 3),
        (p.EnvelopeRequest(request_data=SECRET, request_principal=b"user", client_host_address=b""), 0),
        (p.EnvelopeResponse(response_data=SECRET), 0),
        (p.SaslHandshakeRequest(mechanism="PLAIN"), 0),
        (p.SaslHandshakeResponse(), 0),
    ]


@pytest.mark.parametrize("output", ["text", "json"])
def test_secrets_are_hidden_unless_they_are_requested(tmp_path: Path, output: str) -> None:
    out = {"request": b"", "response": b""}
    messages = secret_messages()
    for number, (message, version) in enumerate(messages):
        direction, data = written(message, version, number // 2)
        out[direction] += data
    token = b"\0user\0" + SECRET
    for direction in out:
        out[direction] += len(token).to_bytes(4, "big") + token
    arguments = [*write_streams(tmp_path, out), "--format", output]
    encoded = [base64.b64encode(data).decode() for data in (SECRET, token)]
    hidden, shown = kafkafmt("decode", *arguments), kafkafmt("decode", *arguments, "--show-secrets")
    for done in (hidden, shown):
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == len(messages) + 2
    assert not [secret for secret in (TEXT, *encoded) if secret in hidden.stdout]
    assert "(hidden)" in hidden.stdout
    assert "visible" in hidden.stdout
    assert TEXT in shown.stdout
    if output == "json":
        rows = [[json.loads(line) for line in done.stdout.splitlines()] for done in (hidden, shown)]
        changed = set()
        for row, complete in zip(*rows, strict=True):
            assert shape(row) == shape(complete)
            if row != complete:
                changed.add((row["direction"], row["api"]))
        assert changed == {
            *(
                ("request", name)
                for name in ("SaslAuthenticate", "AlterConfigs", "IncrementalAlterConfigs", "CreateTopics")
            ),
            *(("request", name) for name in ("AlterUserScramCredentials", "RenewDelegationToken", "Envelope", None)),
            *(("response", name) for name in ("SaslAuthenticate", "DescribeConfigs", "CreateDelegationToken")),
            *(("response", name) for name in ("DescribeDelegationToken", "Envelope", None)),
            ("request", "ExpireDelegationToken"),
        }


def shape(value: Any) -> Any:
    """Return a JSON value with each scalar replaced by the name of its type."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return [shape(part) for part in value] if isinstance(value, list) else type(value).__name__


def test_values_of_other_configs_are_not_hidden(tmp_path: Path) -> None:
    make = protocol.IncrementalAlterConfigsRequest
    configs = [
        make.AlterableConfig(name=name, value=value)
        for name, value in (("retention.ms", "1000"), ("ssl.key.password", None), ("sasl.jaas.config", ""))
    ]
    _, data = written(make(resources=[make.AlterConfigsResource(configs=configs)]), 1, 0)
    (tmp_path / "request").write_bytes(data)
    lines = {
        kafkafmt("decode", "--requests", tmp_path / "request", "--format", "json", *more).stdout
        for more in ([], ["--show-secrets"])
    }
    assert len(lines) == 1
