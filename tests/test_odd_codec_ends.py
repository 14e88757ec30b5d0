"""Check that data is decompressed up to its odd end, and that the description of the end is right."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest
from odd_batches import changed, odd_ends

from kafkafmt.codecs.compressor import Compressor
from kafkafmt.codecs.decompressor import Arena, Decompressor
from kafkafmt.codecs.odd_ends import decompress_prefix
from kafkafmt.constants import CODEC_GZIP, CODEC_LZ4, CODEC_SNAPPY, CODEC_ZSTD, XERIAL_HEADER_SIZE
from kafkafmt.errors import KafkaFormatError, TooLargeError

LIMIT = 1 << 27
TEXTS = {
    "short": b"a short text",
    "mixed": random.Random(1).randbytes(3000) + b"repeated " * 9000,
    "large": random.Random(2).randbytes(300_000) + bytes(700_000),
}


@pytest.mark.parametrize("text", TEXTS)
def test_data_before_an_odd_end_is_decompressed(text: str) -> None:
    data = TEXTS[text]
    for name, codec, payload, words, java_reads in odd_ends(data):
        with pytest.raises(KafkaFormatError):
            Decompressor().decompress(codec, payload, Arena())
        prefix = decompress_prefix(codec, memoryview(payload), LIMIT)
        assert prefix is not None, name
        assert prefix.data == data, name
        assert words in prefix.oddity, name
        assert prefix.java_reads == java_reads, name


@pytest.mark.parametrize("codec", [CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD])
def test_every_truncation_gives_a_prefix_of_the_data(codec: int) -> None:
    data = random.Random(3).randbytes(200) + b"word " * 300
    payload = bytes(Compressor(codec).compress(data))
    for end in range(len(payload)):
        prefix = decompress_prefix(codec, memoryview(payload)[:end], LIMIT)
        assert prefix is None or data.startswith(prefix.data)


@pytest.mark.parametrize("codec", [CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD])
def test_mutated_data_gives_at_most_the_limit(codec: int) -> None:
    rng = random.Random(codec)
    data = rng.randbytes(200) + b"word " * 3000
    payload = bytes(Compressor(codec).compress(data))
    for _ in range(400):
        copy = bytearray(payload)
        for _ in range(rng.randint(1, 3)):
            copy[rng.randrange(len(copy))] = rng.randrange(256)
        try:
            prefix = decompress_prefix(codec, memoryview(bytes(copy)), 20_000)
        except TooLargeError:
            continue
        assert prefix is None or len(prefix.data) <= 20_000


def test_several_gzip_members_have_trailers_of_their_own() -> None:
    payload = gzip.compress(b"first") + changed(gzip.compress(b"second"), -5)
    prefix = decompress_prefix(CODEC_GZIP, memoryview(payload), LIMIT)
    assert prefix == (b"firstsecond", "the gzip trailer is wrong or missing", False)


def test_gzip_header_with_optional_fields_is_skipped() -> None:
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(b"text") + raw.flush()
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\x00abc" + b"name\x00" + b"comment\x00" + b"\x00\x00"
    prefix = decompress_prefix(CODEC_GZIP, memoryview(header + body), LIMIT)
    assert prefix == (b"text", "the gzip trailer is wrong or missing", False)


def test_xerial_header_alone_gives_nothing() -> None:
    payload = bytes(Compressor(CODEC_SNAPPY).compress(b"text"))[:XERIAL_HEADER_SIZE]
    assert decompress_prefix(CODEC_SNAPPY, memoryview(payload), LIMIT) is None
