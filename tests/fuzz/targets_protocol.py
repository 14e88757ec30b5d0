"""Fuzz the wire protocol: requests and responses of every API and version, streams of frames, and record data."""

from __future__ import annotations

import io
import json
import struct
from functools import cache
from random import Random
from typing import Any

from capture_files import Packet, Tcp, big_endian, pcap, pcapng
from random_messages import random_message

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import apis
from kafkafmt.protocol.message_classes import Kind
from kafkafmt.types import view_of

from . import seeds
from .case import Case, of_bytes
from .mutate_batches import mutate_stream
from .mutate_bytes import cuts, mutate
from .outcome import Failed, attempt, attempt_raw, check, drained, plain, same
from .target import target
from .targets_records import LIMIT


@cache
def messages() -> list[tuple[int, int]]:
    """Return every API and version."""
    known: list[Any] = [apis.api(key) for key in apis.keys().values()]
    return [(api.key, version) for api in known for version in range(api.versions.first, api.versions.last + 1)]


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def frame_of(chance: Random, kind: Kind) -> tuple[int, int, bytes]:
    """Return the API key, version and bytes of a valid frame, which is recorded or has random values."""
    if chance.random() < 0.2:
        found = [f for f in seeds.golden_frames() if f[0] == kind]
        _, key, version, frame = chance.choice(found)
        return key, version, frame
    key, version = chance.choice(messages())
    if chance.random() < 0.15:
        key, version = chance.choice(((0, 9), (1, 12), (1, 4), (0, 3), (78, 1)))
    body = random_message(chance, protocol.message_class(key, kind), version)
    if kind == "request":
        whole: Any = protocol.make_request(
            body, version, chance.randrange(-5, 2**31), chance.choice((None, "", "client", "ü" * 40))
        )
        return key, version, b"".join(map(bytes, protocol.write_request(whole)))
    return (
        key,
        version,
        b"".join(map(bytes, protocol.write_response(protocol.make_response(body, version, chance.randrange(2**31))))),
    )


COUNTS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xfe", b"\x00", b"\x01")


def mutate_frame(chance: Random, frame: bytes) -> bytes:
    """Return a frame with changed bytes in its header or body. Its size is usually correct."""
    way = chance.randrange(10)
    if way == 0:
        return frame
    body = frame[4:]
    if way == 1:
        body = struct.pack(">hh", chance.randrange(-2, 100), chance.randrange(-1, 20)) + body[4:]
    elif way == 2:
        body = body[: chance.randrange(len(body) + 1)]
    elif way == 3:
        body += chance.choice((b"\0", chance.randbytes(9), body))
    elif way == 4 and len(body) > 12:
        at = chance.randrange(8, len(body))
        body = body[:at] + chance.choice(COUNTS) + body[at + chance.choice((1, 4)) :]
    else:
        body = mutate(chance, body)
    if chance.random() < 0.08:
        return struct.pack(">i", chance.choice((-1, 0, 3, len(body) + 1, len(body) - 1, 2**31 - 1))) + body
    return sized(body)


def request_case(chance: Random) -> Case:
    _, _, frame = frame_of(chance, "request")
    return of_bytes(mutate_frame(chance, frame))


@target("requests", request_case, quick=150)
def requests(case: Case) -> Any:
    """Check that a readable message has a repr, and does not change if it is written and read again."""
    found = attempt_raw(protocol.read_request, case.data)
    if isinstance(found, Failed):
        return found
    request = found
    if not hasattr(request.body, "SCHEMA"):  # a body of an unknown version
        return bytes(b"".join(map(bytes, protocol.write_request(request))))
    _show(request.body, request.api_version)
    again = protocol.read_request(b"".join(map(bytes, protocol.write_request(request))))
    same(
        plain([again.header, again.body]), plain([request.header, request.body]), "the request, written and read again"
    )
    _records(request.body)
    return plain([request.header, request.body, request.has_response])


def response_case(chance: Random) -> Case:
    key, version, frame = frame_of(chance, "response")
    if chance.random() < 0.05:
        version = chance.randrange(-1, 20)
    return of_bytes(mutate_frame(chance, frame), key=key, version=version)


@target("responses", response_case, quick=150)
def responses(case: Case) -> Any:
    found = attempt_raw(
        protocol.read_response, case.data, api_key=case.params["key"], api_version=case.params["version"]
    )
    if isinstance(found, Failed):
        return found
    response = found
    if not hasattr(response.body, "SCHEMA"):  # a body of an unknown version
        return bytes(b"".join(map(bytes, protocol.write_response(response))))
    _show(response.body, response.api_version)
    bytes_again = b"".join(map(bytes, protocol.write_response(response)))
    fallback = response.api_version != case.params["version"]
    if not fallback:
        again = protocol.read_response(bytes_again, api_key=case.params["key"], api_version=response.api_version)
        same(
            plain([again.header, again.body]),
            plain([response.header, response.body]),
            "the response, written and read again",
        )
    _records(response.body)
    return plain([response.header, response.body, response.api_version])


def _show(body: Any, version: int) -> None:
    json.loads(json.dumps(protocol.to_json(body, version)))
    check(isinstance(repr(body), str), "a message has a repr")


def _records(body: Any) -> None:
    """Read the record data in a message, and check it like other record data."""
    for data in protocol.record_data(body):
        drained(kafkafmt.read_records(data.records, aborted=data.aborted, max_batch_bytes=LIMIT))
        end = attempt(protocol.batches_end, data.records)
        if not isinstance(end, Failed):
            size = len(view_of(data.records))
            check(0 <= end[0] <= size, f"batches end at {end[0]} of {size}")


def record_data_case(chance: Random) -> Case:
    """Return a Produce request or a Fetch response with mutated batches."""
    data = mutate_stream(chance, seeds.stream(chance))
    if chance.random() < 0.5:
        kind: Any = protocol.ProduceRequest
        version = chance.choice((3, 7, 9, 13))
        part = kind.PartitionProduceData(index=1, records=data)
        topic = kind.TopicProduceData(name="t" if version < 13 else "", partition_data=[part] * chance.choice((1, 2)))
        body = kind(acks=1, topic_data=[topic])
        return of_bytes(
            b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version)))), request=True
        )
    kind = protocol.FetchResponse
    version = chance.choice((4, 11, 12))
    aborted = [
        kind.AbortedTransaction(producer_id=chance.choice((7, 1)), first_offset=chance.choice((0, 3)))
    ] * chance.choice((0, 1, 2))
    part = kind.PartitionData(partition_index=1, records=data, aborted_transactions=chance.choice((None, aborted)))
    body = kind(responses=[kind.FetchableTopicResponse(topic="t", partitions=[part])])
    return of_bytes(
        b"".join(map(bytes, protocol.write_response(protocol.make_response(body, version)))), version=version
    )


@target("record-data", record_data_case, quick=60)
def record_data(case: Case) -> Any:
    """Check that record data is read in the same way from a frame and from a copy."""
    if case.params.get("request"):
        body = protocol.read_request(case.data).body
    else:
        body = protocol.read_response(case.data, api_key=1, api_version=case.params["version"]).body
    found = []
    for data in protocol.record_data(body):
        inside = drained(kafkafmt.read_records(data.records, aborted=data.aborted, max_batch_bytes=LIMIT))
        alone = drained(kafkafmt.read_records(bytes(data.records), aborted=data.aborted, max_batch_bytes=LIMIT))
        same(inside, alone, "records of the view and of a copy")
        found.append([data.topic, data.partition, inside, attempt(protocol.batches_end, data.records)])
    return found


def splitter_case(chance: Random) -> Case:
    stream = b"".join(mutate_frame(chance, frame_of(chance, "request")[2]) for _ in range(chance.randrange(5)))
    pieces = cuts(chance, stream)
    return of_bytes(stream, sizes=[len(p) for p in pieces], max_size=chance.choice((100 << 20, 100 << 20, 100, 0)))


@target("splitter", splitter_case, quick=60)
def splitter(case: Case) -> Any:
    """Check that frames and errors do not depend on how a stream is divided into parts."""

    def feed(sizes: list[int]) -> list[Any]:
        made, at, found, failures = protocol.FrameSplitter(case.params["max_size"]), 0, [], []
        for size in sizes:
            given, failure = drained(made.feed(case.data[at : at + size]))
            at += size
            found += given
            failures += [] if failure is None else [failure]
            check(made.buffered <= len(case.data), f"the splitter keeps {made.buffered} bytes, more than it received")
            same(made.position, sum(map(len, found)), "the position of the next frame")
        return [found, failures[:1], made.position]

    whole = feed([len(case.data)])
    same(feed(case.params["sizes"]), whole, "frames of the parts")
    same(b"".join(whole[0]), case.data[: whole[2]], "the frames")
    return whole


def write_case(chance: Random) -> Case:
    return Case(
        {
            "seed": chance.getrandbits(32),
            "kind": chance.choice(("request", "response")),
            "which": list(chance.choice(messages())),
        }
    )


WRONG_VALUES: tuple[Any, ...] = (
    None, "", "x" * 40000, b"", b"x", 0, -1, 2**15, 2**31, 2**63, 2**64, 1.5, float("inf"), [], [None], [1], (), {}, True, "\ud800",
)  # fmt: skip
WRONG_TAGS = (((1, b""),), ((-1, b"x"),), ((5, b""), (5, b"")), ((2**32, b""),), 7, ((9, None),), None)


@target("write", write_case, quick=100)
def write(case: Case) -> Any:
    """Write a message with invalid values.

    Check that this raises ValueError or TypeError, or that the message can be read again.
    """
    chance, (key, version), kind = Random(case.params["seed"]), case.params["which"], case.params["kind"]
    body = random_message(chance, protocol.message_class(key, kind), version)
    fields = list(body.SCHEMA.fields)
    wrong_values = chance.choice((1, 1, 2))
    for _ in range(wrong_values):
        part = body
        if fields:
            name = chance.choice(fields).name
            if (
                (inner := getattr(part, name))
                and isinstance(inner, list)
                and hasattr(inner[0], "SCHEMA")
                and chance.random() < 0.6
            ):
                part, name = (
                    inner[0],
                    chance.choice([f.name for f in inner[0].SCHEMA.fields] or ["unknown_tagged_fields"]),
                )
            setattr(part, name, chance.choice(WRONG_VALUES))
    if chance.random() < 0.1:
        body.unknown_tagged_fields, wrong_values = chance.choice(WRONG_TAGS), 2

    def send() -> bytes:
        if kind == "request":
            return b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version))))
        return b"".join(map(bytes, protocol.write_response(protocol.make_response(body, version))))

    written = attempt(send, also=(ValueError, TypeError, OverflowError))
    if isinstance(written, Failed):
        # if two values are wrong, the cores may report different ones
        return type(written.error).__name__ if wrong_values == 1 else "rejected"
    if kind == "request":
        attempt_raw(protocol.read_request, written)
    else:
        attempt_raw(protocol.read_response, written, api_key=key, api_version=version)
    return written


def capture_case(chance: Random) -> Case:
    """Return a capture of a connection whose packets are lost, repeated, reordered or damaged."""
    packets: list[Packet] = []
    tcp = Tcp(packets, first=(chance.choice((0, 2**32 - 50)), 7), mss=chance.choice((20, 100, 1460)))
    if chance.random() < 0.7:
        tcp.open()
    for _ in range(chance.randrange(1, 5)):
        tcp.client(mutate_frame(chance, frame_of(chance, "request")[2])[:5000])
        tcp.broker(mutate_frame(chance, frame_of(chance, "response")[2])[:5000])
    if chance.random() < 0.5:
        tcp.close()
    for _ in range(chance.randrange(4)):
        packet = packets.pop(chance.randrange(len(packets))) if len(packets) > 1 else packets[0]
        for _ in range(chance.randrange(3)):
            packets.insert(chance.randrange(len(packets) + 1), packet)
    data = chance.choice((pcap, pcapng, lambda found, link: big_endian(pcap(found, link))))(
        packets, chance.choice(("ethernet", "vlan", "sll", "sll2", "null", "loop", "raw"))
    )
    return of_bytes(mutate(chance, data) if chance.random() < 0.5 else data)


@target("captures", capture_case, quick=60)
def captures(case: Case) -> Any:
    """Check that a capture is read to its end, and only its own errors are raised."""
    capture = protocol.read_capture(io.BytesIO(case.data))
    rows: list[Any] = []
    while not isinstance(row := attempt(next, capture, None), Failed | None):
        json.dumps(row.to_dict())
        check(row.size > 0, "a row has a size")
        rows.append([row.direction, row.position, row.size, row.body, row.error is None, row.topic_names])
    return [rows, isinstance(row, Failed), capture.messages]
