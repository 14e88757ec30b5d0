"""Check frames with many elements and fields, on the pure-Python core, whose lines can be counted."""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from capture_files import Packet, Tcp, pcap
from fuzz import cores

from kafkafmt import KafkaFormatError, protocol

from .growth import grows_linearly, lines_of


@pytest.fixture(autouse=True)
def _pure() -> Iterator[None]:
    with cores.using("pure"):
        yield


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def written(body: protocol.Message, version: int) -> bytes:
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version))))


def test_messages_grow_linearly_with_elements() -> None:
    def work(n: int) -> Counter[str]:
        topic = protocol.MetadataRequest.MetadataRequestTopic
        body = protocol.MetadataRequest(topics=[topic(name="t") for _ in range(n)])
        return lines_of(
            lambda: protocol.read_request(written(body, 12)), lambda: protocol.read_request(written(body, 1))
        )

    grows_linearly(50, work)


def test_messages_grow_linearly_with_tagged_fields() -> None:
    def work(n: int) -> Counter[str]:
        body = protocol.MetadataRequest(unknown_tagged_fields=tuple((100 + i, b"x") for i in range(n)))
        return lines_of(lambda: protocol.read_request(written(body, 12)))

    grows_linearly(50, work)


def test_reading_does_not_depend_on_a_wrong_element_count() -> None:
    """The frame states a count of 2^31 - 1, but contains only n more bytes."""

    def work(n: int) -> Counter[str]:
        data = frame(struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff" + bytes(n))

        def reject() -> None:
            with pytest.raises(KafkaFormatError):
                protocol.read_request(data)

        return lines_of(reject)

    grows_linearly(100, work)


@pytest.mark.parametrize("size", [1, 3])
def test_splitter_grows_linearly_with_small_parts(size: int) -> None:
    def work(n: int) -> Counter[str]:
        stream = frame(bytes(n)) + frame(b"") * n

        def feed() -> None:
            splitter = protocol.FrameSplitter()
            found = [f for at in range(0, len(stream), size) for f in splitter.feed(stream[at : at + size])]
            assert len(found) == n + 1

        return lines_of(feed)

    grows_linearly(100, work)


def test_splitter_copies_each_byte_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the bytes that the splitter copies before a frame is complete."""

    class Held(bytearray):
        copied = 0

        def __iadd__(self, data: Any) -> Any:  # type: ignore[misc]  # only the types of __add__ and __iadd__ differ
            Held.copied += len(data)
            return super().__iadd__(data)

        def __getitem__(self, key: Any) -> Any:
            found = super().__getitem__(key)
            Held.copied += len(found)
            return found

    def work(n: int) -> int:
        Held.copied = 0
        splitter = protocol.FrameSplitter()
        splitter._held = Held()
        for byte in frame(bytes(n)):
            list(splitter.feed(bytes([byte])))
        return Held.copied

    grows_linearly(100, work)


def test_correlation_grows_linearly_with_equal_correlation_ids() -> None:
    def work(n: int) -> Counter[str]:
        def answer() -> None:
            waiting = protocol.Correlation()
            for _ in range(n):
                waiting.expect(7, "metadata", 1)
            for _ in range(n):
                assert waiting.take(7) == (3, 1)

        return lines_of(answer)

    grows_linearly(100, work)


def read_capture(packets: list[Packet]) -> Counter[str]:
    data = pcap(packets)
    return lines_of(lambda: list(protocol.read_capture(io.BytesIO(data))))


def connected(**keywords: Any) -> tuple[list[Packet], Tcp]:
    packets: list[Packet] = []
    tcp = Tcp(packets, **keywords)
    tcp.open()
    return packets, tcp


@pytest.mark.parametrize("order", ["sent", "reversed"])
def test_captures_grow_linearly_with_segments_in_any_order(order: str) -> None:
    frames = written(protocol.MetadataRequest(), 12)

    def work(n: int) -> Counter[str]:
        packets, tcp = connected(mss=10)
        sent = tcp.client(frames * n)
        if order == "reversed":
            packets[-len(sent) :] = sent[::-1]
        return read_capture(packets)

    grows_linearly(20, work)


@pytest.mark.parametrize("garbage", [bytes(14), written(protocol.MetadataRequest(), 12)[:14], b"\0\0\xff" + bytes(11)])
def test_search_for_a_frame_grows_linearly_with_skipped_bytes(garbage: bytes) -> None:
    def work(n: int) -> Counter[str]:
        packets: list[Packet] = []
        tcp = Tcp(packets)
        tcp.client(written(protocol.MetadataRequest(), 12))  # the capture starts inside the connection
        tcp.client(garbage * n)
        tcp.broker(garbage * n)
        return read_capture(packets)

    grows_linearly(100, work)


def test_captures_grow_linearly_with_connections() -> None:
    def work(n: int) -> Counter[str]:
        packets: list[Packet] = []
        for port in range(n):
            Tcp(packets, client=("10.0.0.7", 10_000 + port)).client(written(protocol.MetadataRequest(), 12))
        return read_capture(packets)

    grows_linearly(20, work)


def test_holes_grow_linearly() -> None:
    def work(n: int) -> Counter[str]:
        packets, tcp = connected(mss=50)
        sent = tcp.client(written(protocol.MetadataRequest(), 12) * 20 * n)
        tcp.acknowledge("broker")
        lost = sent[5::7]
        return read_capture([p for p in packets if p not in lost])

    grows_linearly(5, work)
