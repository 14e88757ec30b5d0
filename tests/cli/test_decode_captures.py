"""Test `kafkafmt decode` on packet captures."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from capture_files import Packet, Tcp, pcap
from command import inside, process

from kafkafmt import protocol

REAL = Path(__file__).parents[1] / "protocol" / "captures" / "console-clients-4.3.1.pcap"
TOPIC_ID = "qwLXpMAhSGqq8PaebYHneg"
PLACE = ["time", "connection", "client", "broker"]
KEYS = ["direction", "position", "bytes", "apiKey", "api", "apiVersion", "correlationId", "header", "body"]


def rows(*arguments: Any) -> list[dict[str, Any]]:
    done = inside("decode", *arguments, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_json_of_a_capture_has_the_keys_of_frames_and_the_connection() -> None:
    found = rows(REAL)
    assert len(found) == 44
    assert {tuple(row) for row in found} == {(*PLACE, *KEYS), (*PLACE, *KEYS, "topicNames")}
    assert [found[0][key] for key in (*PLACE, "direction", "api")] == [
        "2026-11-30T20:19:33.622125Z", 1, "127.0.0.1:55006", "127.0.0.1:41639", "request", "ApiVersions",
    ]  # fmt: skip
    assert {name for row in found for name in row.get("topicNames", {}).items()} == {(TOPIC_ID, "orders")}


def test_text_of_a_capture_has_the_lines_of_frames_after_the_connection() -> None:
    done = inside("decode", REAL, "--records")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(
        "2026-11-30T20:19:33.622125Z  127.0.0.1:55006 > 127.0.0.1:41639  request   0  ApiVersions v4  #0  console-producer"
    )
    assert lines[1].startswith(
        "2026-11-30T20:19:33.625535Z  127.0.0.1:55006 < 127.0.0.1:41639  response  0  ApiVersions v4  #0  Api"
    )
    records = [line.split("  ")[2:] for line in lines if line.startswith("    ")]
    assert [(r[0], r[1], r[3], r[4]) for r in records] == 2 * [
        ("orders-0", str(n), f"customer-{n + 1}", f'{{"order": {n + 1}}}') for n in range(5)
    ]


def test_capture_is_read_from_stdin() -> None:
    with open(REAL, "rb") as stream:
        done = process("decode", "-", stdin=stream)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == inside("decode", REAL).stdout


def test_streams_of_one_connection_show_the_same_as_the_capture(tmp_path: Path) -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets)
    tcp.open()
    (sent,) = tcp.client(fetch())
    (tmp_path / "capture").write_bytes(pcap(packets))
    (tmp_path / "requests").write_bytes(sent.ip.data.data)
    name = f"{TOPIC_ID}=named"
    (captured,) = rows(
        tmp_path / "capture", "--topic-id", "8b0e4a72-55f0-4d7e-9c1c-000000000000=other", "--topic-id", name
    )
    (read,) = rows("--requests", tmp_path / "requests", "--topic-id", "ab02d7a4-c021-486a-aaf0-f69e6d81e77a=named")
    assert captured == {key: captured[key] for key in PLACE} | read
    assert read["topicNames"] == {TOPIC_ID: "named"}
    done = inside("decode", "--requests", tmp_path / "requests", "--topic-id", name)
    assert "FetchTopic(topic='named', topic_id=" in done.stdout


def fetch() -> bytes:
    cls: Any = protocol.FetchRequest
    (found,) = (row for row in protocol.read_capture(REAL) if row.api == "Fetch" and row.correlation_id == 13
                and row.direction == "request")  # fmt: skip
    topic = cls.FetchTopic(topic_id=found.message.topics[0].topic_id, partitions=[cls.FetchPartition()])  # type: ignore[union-attr]
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(cls(topics=[topic]), 13, 1))))


def test_port_selects_connections() -> None:
    assert len(rows(REAL, "--port", 41639, "--port", 1)) == 44
    done = inside("decode", REAL, "--port", 9092)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "kafkafmt: the capture contains no data of a connection to port 9092; it has 104 TCP segments\n"
    )


def test_capture_that_ends_inside_a_packet_is_read_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "kafka.pcap").write_bytes(REAL.read_bytes()[:-10])
    done = inside("decode", tmp_path / "kafka.pcap")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 44)
    assert "kafka.pcap ends inside a packet, at position" in done.stderr


def test_damaged_capture_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "kafka.pcap").write_bytes(REAL.read_bytes() + b"\xff" * 16)
    done = inside("decode", tmp_path / "kafka.pcap")
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 44)
    assert "is damaged: a packet has the size 4294967295. The packets after it cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"offset,key\n", "is not a pcap or pcapng file"),
        (gzip.compress(REAL.read_bytes()), "is compressed with gzip; unpack it first"),
    ],
)
def test_file_that_is_not_a_capture_exits_with_3(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "file").write_bytes(content)
    done = inside("decode", tmp_path / "file")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"kafkafmt: {tmp_path / 'file'} {message}" in done.stderr


def test_missing_capture_and_missing_package_exit_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    done = inside("decode", "/nowhere/kafka.pcap")
    assert (done.returncode, done.stderr) == (3, "kafkafmt: /nowhere/kafka.pcap: No such file or directory\n")
    monkeypatch.setitem(sys.modules, "dpkt", None)
    done = inside("decode", REAL)
    assert done.returncode == 3
    assert done.stderr == "kafkafmt: this command needs the package dpkt: pip install 'dpkt>=1.9.8'\n"


def test_connection_of_another_protocol_is_an_error(tmp_path: Path) -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets)
    tcp.open()
    tcp.client(b"GET / HTTP/1.1\r\n\r\n")
    (tmp_path / "kafka.pcap").write_bytes(pcap(packets))
    done = inside("decode", tmp_path / "kafka.pcap")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "2026-01-01T00:00:00.003000Z  10.0.0.7:50412 > 10.0.0.9:9092  request   0  ?  error: the stream is not Kafka's "
        "protocol but an HTTP request: the size field is 1195725856, the bytes b'GET '\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x", "--requests", "y"), "specify either CAPTURE, or --requests and --responses"),
        (("--requests", "y", "--port", "9092"), "--port can only be used with CAPTURE"),
        (("x", "--port", "0"), "0 is not in the range 1<=x<=65535"),
        (("x", "--topic-id", "orders"), "'orders' is not a topic id and a name"),
        (("x", "--topic-id", "orders="), "'orders=' is not a topic id and a name"),
        (("x", "--topic-id", "12=orders"), "'12=orders' is not a topic id and a name"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = inside("decode", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
