"""Frames: many elements, tagged fields, bytes one at a time. On the pure core, whose loops can be counted."""

from __future__ import annotations

import struct

import pytest
from fuzz import cores

from kafkafmt import KafkaFormatError, protocol

from .growth import grows_linearly, lines_of


@pytest.fixture(autouse=True)
def _pure():
    with cores.using("pure"):
        yield


def frame(body):
    return struct.pack(">i", len(body)) + body


def written(body, version):
    return b"".join(map(bytes, protocol.write_request(protocol.make_request(body, version))))


def test_frames_of_many_elements():
    def work(n):
        topic = protocol.MetadataRequest.MetadataRequestTopic
        body = protocol.MetadataRequest(topics=[topic(name="t") for _ in range(n)])
        return lines_of(
            lambda: protocol.read_request(written(body, 12)), lambda: protocol.read_request(written(body, 1))
        )

    grows_linearly(50, work)


def test_frames_of_many_tagged_fields():
    def work(n):
        body = protocol.MetadataRequest(unknown_tagged_fields=tuple((100 + i, b"x") for i in range(n)))
        return lines_of(lambda: protocol.read_request(written(body, 12)))

    grows_linearly(50, work)


def test_frames_with_a_wrong_element_count():
    """A count of 2^31 - 1 before n bytes."""

    def work(n):
        data = frame(struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff" + bytes(n))

        def refused():
            with pytest.raises(KafkaFormatError):
                protocol.read_request(data)

        return lines_of(refused)

    grows_linearly(100, work)


@pytest.mark.parametrize("size", [1, 3])
def test_frames_fed_in_small_pieces(size):
    def work(n):
        stream = frame(bytes(n)) + frame(b"") * n

        def feed():
            splitter = protocol.FrameSplitter()
            found = [f for at in range(0, len(stream), size) for f in splitter.feed(stream[at : at + size])]
            assert len(found) == n + 1

        return lines_of(feed)

    grows_linearly(100, work)


def test_frames_fed_in_small_pieces_copy_each_byte_few_times(monkeypatch):
    """The bytes that the splitter keeps while a frame grows."""

    class Held(bytearray):
        copied = 0

        def __iadd__(self, data):
            Held.copied += len(data)
            return super().__iadd__(data)

        def __getitem__(self, key):
            found = super().__getitem__(key)
            Held.copied += len(found)
            return found

    def work(n):
        Held.copied = 0
        splitter = protocol.FrameSplitter()
        splitter._held = Held()
        for byte in frame(bytes(n)):
            list(splitter.feed(bytes([byte])))
        return Held.copied

    grows_linearly(100, work)


def test_responses_to_many_requests_with_one_correlation_id():
    def work(n):
        def answer():
            waiting = protocol.Correlation()
            for _ in range(n):
                waiting.expect(7, "metadata", 1)
            for _ in range(n):
                assert waiting.take(7) == (3, 1)

        return lines_of(answer)

    grows_linearly(100, work)
