"""Check what `protocol.read_capture` decodes from packet captures."""

from __future__ import annotations

import io
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import capture_files as files
import dpkt
import pytest
from capture_files import LINKS, Packet, Tcp, big_endian, pcap, pcapng
from hypothesis import given
from hypothesis import strategies as st

from kafkafmt import protocol
from kafkafmt.errors import StructureError
from kafkafmt.protocol import DecodedFrame, captures

TOPIC_ID = UUID("1f7a9c52-3f0e-4a55-9d0c-2f9f0e6c8a11")
REAL = Path(__file__).parent / "captures" / "console-clients-4.3.1.pcap"


def request(number: int, topic: str = "orders") -> bytes:
    names = [protocol.MetadataRequest.MetadataRequestTopic(name=topic)]
    made = protocol.make_request(protocol.MetadataRequest(topics=names), 12, number, client_id="shop")
    return b"".join(map(bytes, protocol.write_request(made)))


def response(number: int, topic: str = "orders", partitions: int = 1) -> bytes:
    cls: Any = protocol.MetadataResponse
    parts = [cls.MetadataResponsePartition(partition_index=n) for n in range(partitions)]
    body = cls(topics=[cls.MetadataResponseTopic(name=topic, topic_id=TOPIC_ID, partitions=parts)])
    return b"".join(map(bytes, protocol.write_response(protocol.make_response(body, 12, number))))


def fetch(number: int) -> bytes:
    cls: Any = protocol.FetchRequest
    topic = cls.FetchTopic(topic_id=TOPIC_ID, partitions=[cls.FetchPartition(partition=0)])
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(cls(topics=[topic]), 13, number))))


def decoded(data: bytes, **keywords: Any) -> list[DecodedFrame]:
    return list(protocol.read_capture(io.BytesIO(data), **keywords))


def outline(rows: list[DecodedFrame]) -> list[tuple[str, int | None, str | None]]:
    """Return direction, correlation id and error of each row."""
    return [(row.direction, row.correlation_id, row.error) for row in rows]


def pairs(*numbers: int) -> list[tuple[str, int | None, str | None]]:
    return [(direction, n, None) for n in numbers for direction in ("request", "response")]


def conversation(tcp: Tcp, numbers: range, partitions: int = 1) -> list[Packet]:
    """Append a request and a response for each number. Return the new packets."""
    return [p for n in numbers for p in (*tcp.client(request(n)), *tcp.broker(response(n, partitions=partitions)))]


def whole(mss: int = 1460, **keywords: Any) -> list[Packet]:
    """Return the packets of a connection with three requests and their responses."""
    packets: list[Packet] = []
    tcp = Tcp(packets, mss=mss, **keywords)
    tcp.open()
    conversation(tcp, range(1, 4))
    tcp.close()
    return packets


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize(("link", "ip"), [(link, ip) for link in LINKS for ip in (4, 6) if link != f"ip{10 - ip}"])
def test_frames_of_each_link_type(link: str, write: Callable[..., bytes], ip: int) -> None:
    ends: dict[str, Any] = {"client": files.CLIENT_6, "broker": files.BROKER_6} if ip == 6 else {}
    rows = decoded(write(whole(**ends), link))
    assert outline(rows) == pairs(1, 2, 3)
    names = {(row.connection.client, row.connection.broker) for row in rows if row.connection}
    assert names == {("[2001:db8::7]:50412", "[2001:db8::9]:9092") if ip == 6 else ("10.0.0.7:50412", "10.0.0.9:9092")}
    assert [row.time_text for row in rows[:2]] == ["2026-01-01T00:00:00.003000Z", "2026-01-01T00:00:00.004000Z"]


def test_pcap_with_big_endian_headers_is_read() -> None:
    for nano in (False, True):
        assert outline(decoded(big_endian(pcap(whole(), nano=nano)))) == pairs(1, 2, 3)


def test_pcapng_with_big_endian_blocks_and_other_units_of_time_is_read() -> None:
    packets = whole()
    options = b"\0\x09\0\1\x09\0\0\0" + b"\0\x0e\0\x08" + (100).to_bytes(8, "big") + bytes(4)
    blocks = [(0x0A0D0D0A, b"\x1a\x2b\x3c\x4d\0\1\0\0" + b"\xff" * 8), (1, b"\0\x65\0\0" + bytes(4) + options)]
    for time, ip in packets:
        data, nanos = bytes(ip), round((time - 100) * 1e9)
        head = struct.pack(">IIIII", 0, nanos >> 32, nanos & 0xFFFFFFFF, len(data), len(data))
        blocks += [(6, head + data + bytes(-len(data) % 4)), (0x0BAD, b"skip")]
    capture = b"".join(struct.pack(">II", k, len(b) + 12) + b + struct.pack(">I", len(b) + 12) for k, b in blocks)
    rows = decoded(capture)
    assert outline(rows) == pairs(1, 2, 3)
    assert str(rows[0].time_text)[:23] in ("2026-01-01T00:00:00.003", "2026-01-01T00:00:00.002")
    # A second section has separate interfaces.
    other = Tcp([], client=("10.0.0.8", 1))
    other.open()
    conversation(other, range(1, 2))
    assert outline(decoded(capture + pcapng(other.packets, "sll"))) == pairs(1, 2, 3, 1)


def test_interfaces_of_a_pcapng_file_have_separate_link_types() -> None:
    assert outline(decoded(pcapng(whole(), "ethernet", "sll2", "raw"))) == pairs(1, 2, 3)


def test_pcap_with_nanoseconds_has_the_same_times() -> None:
    # dpkt writes the last digit of a time in seconds inexactly.
    times = [row.time for row in decoded(pcap(whole(), nano=True)) if row.time]
    assert [round(time.microsecond, -3) for time in times] == [3000, 4000, 5000, 6000, 7000, 8000]


@given(chance=st.randoms(use_true_random=False), mss=st.integers(1, 60), wrap=st.booleans())
def test_retransmissions_and_reordering_change_nothing(chance: random.Random, mss: int, wrap: bool) -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets, first=(2**32 - 30, 2**32 - 2) if wrap else (0, 0), mss=mss)
    tcp.open()
    for number in (1, 2, 3):
        for data in (tcp.client(request(number)), tcp.broker(response(number))):
            # The other side has not acknowledged these packets, so they can arrive in any order.
            mixed = data + chance.sample(data, chance.randrange(len(data) + 1))
            chance.shuffle(mixed)
            packets[-len(data) :] = mixed
    tcp.close()
    rows = decoded(pcap(packets))
    assert outline(rows) == pairs(1, 2, 3)


@pytest.mark.parametrize("ports", [(), (9092,)])
def test_capture_that_starts_inside_a_connection_begins_at_a_frame(ports: tuple[int, ...]) -> None:
    packets = whole(mss=50)
    start = next(n for n, p in enumerate(packets) if p.ip.data.data and p.ip.data.sport == 9092) + 1
    rows = decoded(pcap(packets[start:]), ports=ports)
    assert [(row.direction, row.correlation_id) for row in rows if row.error is None] == [
        (direction, n) for n in (2, 3) for direction in ("request", "response")
    ]
    (lost,) = (row for row in rows if row.error)
    assert (lost.direction, lost.position, lost.size) == ("response", 0, len(response(1)) - 50)
    assert lost.error == (
        f"the capture starts inside the connection; {lost.size} captured bytes before the next frame, "
        f"at position {lost.size}, not decoded"
    )


def test_client_of_an_unseen_start_is_the_side_that_sends_requests() -> None:
    for reverse in (False, True):
        packets: list[Packet] = []
        tcp = Tcp(packets)
        if reverse:  # the broker's packet is the first one
            tcp.broker(response(9))
        conversation(tcp, range(1, 3))
        rows = [row for row in decoded(pcap(packets)) if row.error is None]
        assert outline(rows) == pairs(1, 2)
        assert rows[0].connection == protocol.Connection(1, "10.0.0.7:50412", "10.0.0.9:9092")


def test_lost_packet_inside_a_frame_costs_only_this_frame() -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets, mss=100)
    tcp.open()
    tcp.client(request(1))
    lost = tcp.broker(response(1, partitions=50))[2]
    conversation(tcp, range(2, 4))
    packets.remove(lost)
    rows = decoded(pcap(packets))
    assert outline(rows)[2:] == pairs(2, 3) or outline(rows)[3:] == pairs(3)
    (damaged,) = (row for row in rows if row.error)
    size = len(response(1, partitions=50))
    assert (damaged.api, damaged.correlation_id, damaged.position, damaged.size) == ("Metadata", 1, 0, size)
    assert damaged.error == (
        "the capture lacks bytes of the stream from position 200; 100 bytes missing in 1 part; "
        f"{size - 100} captured bytes before the next frame, at position {size}, not decoded"
    )


def test_lost_frame_boundary_is_found_again() -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets, mss=40)
    tcp.open()
    first, second = tcp.client(request(1) + request(2) + request(3) + request(4)), tcp.broker(response(1))
    packets.remove(first[1])  # it contains the end of the first request, and the start of the second one
    rows = decoded(pcap(packets))
    assert second
    done = [row.correlation_id for row in rows if row.direction == "request" and row.error is None]
    (lost,) = (row for row in rows if row.direction == "request" and row.error)
    assert done == [3, 4]
    assert (lost.correlation_id, lost.position, lost.size) == (1, 0, 2 * len(request(1)))
    # The header of request 1 was captured, so its response is decoded.
    assert [(row.correlation_id, row.error) for row in rows if row.direction == "response"] == [(1, None)]


def test_lost_request_is_reported_before_its_response() -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets)
    tcp.open()
    (lost,) = tcp.client(request(1))
    tcp.broker(response(1))
    conversation(tcp, range(2, 3))
    packets.remove(lost)
    rows = decoded(pcap(packets))
    size = len(request(1))
    assert rows[0].unmatched
    assert rows[1].error == f"the capture lacks bytes of the stream from position 0; {size} bytes missing in 1 part"
    assert (rows[1].direction, rows[1].position, rows[1].size) == ("request", 0, size)
    assert outline(rows[2:]) == pairs(2)


def test_connections_are_matched_separately() -> None:
    packets: list[Packet] = []
    first, second = Tcp(packets), Tcp(packets, client=("10.0.0.8", 50412))
    for tcp in (first, second):
        tcp.open()
    first.client(request(1))
    second.client(fetch(1))
    first.broker(response(1))
    first.close()
    rows = decoded(pcap(packets))
    assert [(row.connection.number, row.direction, row.api) for row in rows if row.connection] == [
        (1, "request", "Metadata"), (2, "request", "Fetch"), (1, "response", "Metadata"),
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["close", "reset", None])
def test_reused_port_is_a_new_connection(end: str | None) -> None:
    packets: list[Packet] = []
    for first in ((1000, 5000), (2_000_000_000, 3_000_000_000)):
        tcp = Tcp(packets, first=first)
        tcp.open()
        conversation(tcp, range(1, 2))
        if end is not None:
            getattr(tcp, end)()
    rows = decoded(pcap(packets))
    assert outline(rows) == pairs(1, 1)
    assert [(row.connection.number, row.position) for row in rows if row.connection] == [(1, 0), (1, 0), (2, 0), (2, 0)]


def test_first_request_can_have_a_version_that_is_too_new() -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets)
    tcp.open()
    made = protocol.make_request(protocol.ApiVersionsRequest(), 4, 1)
    newer = bytearray(b"".join(map(bytes, protocol.write_request(made))))
    newer[7] = 9
    tcp.client(bytes(newer))
    conversation(tcp, range(2, 3))
    rows = decoded(pcap(packets))
    assert "ApiVersionsRequest version 9 is not supported" in str(rows[0].error)
    assert outline(rows[1:]) == pairs(2)


def test_reused_port_without_a_syn_is_a_new_connection() -> None:
    packets: list[Packet] = []
    for first in ((3_000_000_000, 5000), (2_500_000_000, 4_000_000_000)):
        tcp = Tcp(packets, first=first)
        conversation(tcp, range(1, 2))
    rows = decoded(pcap(packets))
    assert [row.connection.number for row in rows if row.connection] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), "not Kafka's protocol but TLS"),
        (b"*1\r\n$4\r\nPING\r\nPING", "its first bytes are b'*1"),
        (b"\0\0\0\x1b\0\3\0\x09" + bytes(4) + b"\0\5" + b"\xff" * 17, "the first request is invalid: "),
    ],
)
def test_other_protocol_is_one_line(sent: bytes, expected: str) -> None:
    packets: list[Packet] = []
    other = Tcp(packets, client=("10.0.0.8", 40000))
    other.open()
    other.client(sent)
    other.broker(b"anything else, which is not Kafka's either")
    other.client(sent)
    conversation(Tcp(packets), range(1, 2))
    rows = decoded(pcap(packets))
    assert outline(rows[1:]) == pairs(1)
    assert expected in str(rows[0].error)
    assert (rows[0].position, rows[0].size) == (0, len(sent))


def test_other_protocol_of_an_unseen_start_is_one_line() -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets)
    tcp.broker(b"\x17\x03\x03\x00\x80" + bytes(128))
    tcp.client(b"\x17\x03\x03\x00\x80" + bytes(128))
    (row,) = decoded(pcap(packets))
    assert "not Kafka's protocol but TLS" in str(row.error)
    assert row.size == 266
    packets.clear()
    Tcp(packets).client(b"nothing known")
    (row,) = decoded(pcap(packets))
    assert row.error == "no frame of Kafka's protocol was found in 13 bytes, which begin with b'nothing known'"


def test_connection_of_which_all_data_is_missing_is_reported() -> None:
    packets: list[Packet] = []
    tcp = Tcp(packets)
    tcp.open()
    (lost,) = tcp.client(request(1))
    tcp.acknowledge("broker")
    packets.remove(lost)
    (row,) = decoded(pcap(packets))
    assert (row.position, row.size) == (0, len(request(1)))
    assert str(row.error).startswith("the capture lacks bytes of the stream from position 0; ")


def test_names_of_topics_come_from_earlier_metadata_of_any_connection() -> None:
    packets: list[Packet] = []
    first, second = Tcp(packets), Tcp(packets, client=("10.0.0.8", 50412))
    first.client(fetch(1))
    second.client(request(1))
    second.broker(response(1))
    first.client(fetch(2))
    before, *_, after = decoded(pcap(packets))
    assert (before.message.topics[0].topic, before.topic_names) == ("", {})  # type: ignore[union-attr]
    assert (after.message.topics[0].topic, after.topic_names) == ("orders", {TOPIC_ID: "orders"})  # type: ignore[union-attr]
    assert after.to_dict()["topicNames"] == {"H3qcUj8OSlWdDC-fDmyKEQ": "orders"}
    assert "topicNames" not in before.to_dict()
    assert after.to_dict()["body"]["topics"][0].keys() == {"topicId", "partitions"}
    before, *_, after = decoded(pcap(packets), topic_names={TOPIC_ID: "named"})
    assert {row.message.topics[0].topic for row in (before, after)} == {"named"}  # type: ignore[union-attr]


def test_several_captures_are_read_as_one() -> None:
    packets = whole(mss=30)
    for write in (pcap, pcapng):
        for cut in range(0, len(packets), 5):
            parts = [io.BytesIO(write(part)) for part in (packets[:cut], packets[cut:])]
            assert outline(list(protocol.read_capture(*parts))) == pairs(1, 2, 3)


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_capture_that_ends_inside_a_packet_is_read_up_to_it(write: Callable[..., bytes]) -> None:
    packets = whole()
    data, shorter = write(packets[:6]), write(packets[:5])
    for end in range(len(shorter) + 1, len(data)):
        capture = protocol.read_capture(io.BytesIO(data[:end]))
        assert outline(list(capture)) == [*pairs(1)]
        (message,) = capture.messages
        assert (
            message == f"the stream ends inside a packet, at position {len(shorter)}; all packets before it were read"
        )


def test_packets_that_were_captured_in_part_are_counted() -> None:
    raw = [bytes(ip)[:100] for _, ip in whole()]
    out = io.BytesIO()
    dpkt.pcap.Writer(out, 100, 101).writepkts((files.START, data) for data in raw)
    capture = protocol.read_capture(io.BytesIO(out.getvalue()))
    errors = [row.error for row in capture if row.error]
    cut = sum(len(ip) > 100 for _, ip in whole())
    assert len(errors) == cut
    assert all(str(error).startswith(("the capture lacks bytes", "no request")) for error in errors) or errors
    assert capture.messages == [
        f"{cut} packets incomplete: the capture has only their first bytes; the option -s 0 of tcpdump captures all"
    ]


def test_unread_packets_are_counted_by_reason() -> None:
    packets = whole()
    packets[4].ip.mf = 1
    data = pcap(packets) + pcap([Packet(1, b"\x45\0")], "raw")[24:]
    capture = protocol.read_capture(io.BytesIO(data))
    assert list(capture)
    assert capture.messages == [
        "1 packet skipped: IP fragments are not reassembled", "1 packet skipped: the headers are damaged",
    ]  # fmt: skip
    capture = protocol.read_capture(io.BytesIO(b"".join((data[:20], (999).to_bytes(4, "little"), data[24:]))))
    with pytest.raises(StructureError, match="contains no TCP segment; it has 13 packets"):
        list(capture)
    assert capture.messages == ["13 packets skipped: the link type 999 is not supported"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a pcap or pcapng file: it starts with b''"),
        (b"offset,key\n", "is not a pcap or pcapng file: it starts with b'offs'"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "is compressed with gzip; unpack it first"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "is compressed with zstd; unpack it first"),
        (pcap([])[:20], "ends inside the header of the file"),
        (pcap([]), "contains no TCP segment; it has 0 packets"),
        (pcapng([]), "contains no TCP segment; it has 0 packets"),
        (pcap(whole()[:3]), "contains no data of a connection; it has 3 TCP segments"),
        (pcap([]) + b"\0" * 8 + b"\xff" * 8, "is damaged: a packet has the size 4294967295"),
        (pcapng([]) + b"\6\0\0\0\x09\0\0\0", "is damaged: a block has the size 9"),
        (b"\n\r\r\n" + bytes(20), "has no valid byte order"),
    ],
)
def test_unusable_capture_raises_an_error(data: bytes, message: str) -> None:
    with pytest.raises(StructureError) as raised:
        decoded(data)
    assert message in raised.value.message


def test_damaged_capture_is_read_up_to_the_damage() -> None:
    good = pcap(whole())
    capture = protocol.read_capture(io.BytesIO(good + b"\xff" * 16 + good[24:]))
    rows = [next(capture) for _ in range(6)]
    assert outline(rows) == pairs(1, 2, 3)
    with pytest.raises(StructureError, match=f"a packet has the size 4294967295.*position {len(good)}"):
        next(capture)


def test_number_of_connections_and_waiting_requests_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(captures, "MAX_WAITING", 5)
    packets: list[Packet] = []
    for number in range(5):
        conversation(Tcp(packets, client=("10.0.0.7", 40000 + number)), range(2))
    tcp = Tcp(packets, client=("10.0.0.7", 50000))
    for number in range(20):
        tcp.client(request(number))
    tcp.broker(response(2))
    tcp.broker(response(19))
    capture = protocol.read_capture(io.BytesIO(pcap(packets)))
    rows = list(capture)
    assert len(rows) == 5 * 4 + 22
    assert rows[-1].error is None
    assert any("more than 3 connections were open" in message for message in capture.messages)


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dpkt", None)
    with pytest.raises(ModuleNotFoundError, match=r"packet captures need dpkt: pip install 'dpkt>=1.9.8'"):
        protocol.read_capture("kafka.pcap")


def test_real_capture_of_console_clients() -> None:
    """tests/protocol/captures/README.md describes the capture."""
    capture = protocol.read_capture(REAL)
    rows = list(capture)
    assert capture.messages == []
    assert [row.error for row in rows if row.error] == []
    assert len(rows) == 44
    assert {row.connection.number for row in rows if row.connection} == {1, 2, 3, 4, 5}
    fetched = [row for row in rows if row.api == "Fetch" and row.direction == "response"]
    assert [row.api_version for row in fetched] == [18, 18, 18]
    (data,) = (data for row in fetched if row.message for data in protocol.record_data(row.message))
    assert data.topic == "orders"


@pytest.mark.parametrize("step", [3, 7, 10])
def test_real_capture_with_lost_packets_has_only_frames_of_the_whole_one(step: int) -> None:
    data = REAL.read_bytes()
    complete = {(row.direction, row.correlation_id, row.position): row.body for row in decoded(data)}
    packets = [data[:24]]
    at = 24
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        packets.append(data[at:end])
        at = end
    assert len(packets) == 105
    for first in range(1, step + 1):
        rows = decoded(b"".join(p for n, p in enumerate(packets) if n == 0 or (n - first) % step))
        found = [row for row in rows if row.error is None]
        assert found
        # Positions count from the first captured byte, so only the content is compared.
        assert all(row.body in complete.values() for row in found)
        assert len(found) < 44
