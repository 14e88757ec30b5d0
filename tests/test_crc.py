"""CRC-32C in every way that this processor offers."""

import random

import crc32c as reference
import pytest

WAYS = range(3)


@pytest.fixture(params=WAYS)
def way(core, request):
    """Each way in turn; afterwards the fastest again, which is the one taken at import."""
    yield core.crc32c_way(request.param)
    for faster in WAYS:
        core.crc32c_way(faster)


def test_known_values(core, way):
    assert core.crc32c(b"123456789") == 0xE3069283
    assert core.crc32c(b"") == 0
    assert core.crc32c(bytes(32)) == 0x8A9136AA  # this and the next three: RFC 3720, B.4
    assert core.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert core.crc32c(bytes(range(32))) == 0x46DD794E
    assert core.crc32c(bytes(range(31, -1, -1))) == 0x113FDB5C


def test_every_size_at_every_alignment(core, way):
    data = random.Random(1).randbytes(5000)
    for size in [*range(1100), *range(4020, 4100), 4936]:
        for start in (0, 1, 7, 63):
            assert core.crc32c(data, 0, start, start + size) == reference.crc32c(data[start : start + size])


def test_it_goes_on_from_what_came_before(core, way):
    data = random.Random(2).randbytes(3000)
    whole = core.crc32c(data)
    for cut in (0, 1, 8, 500, 513, 2999, 3000):
        assert core.crc32c(data, core.crc32c(data, 0, 0, cut), cut) == whole


def test_the_ways_differ(native):
    best = native.crc32c_way()
    assert native.crc32c_way(0) == "table"
    for faster in WAYS:
        native.crc32c_way(faster)
    assert native.crc32c_way() == best


def test_only_the_low_bits_of_the_value_count(core):
    assert core.crc32c(b"abc", 2**32 + 5) == core.crc32c(b"abc", 5)
    assert core.crc32c(b"abc", -1) == core.crc32c(b"abc", 2**32 - 1)


def test_a_range_outside_the_buffer_is_a_value_error(core):
    for start, end in ((-1, None), (0, 4), (2, 1)):
        with pytest.raises(ValueError):
            core.crc32c(b"abc", 0, start, end)
