"""Check the partition of a key. tests/broker compares many hashes with Java's."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafmt import _pure
from kafkafmt.records import Partitioner

# from Kafka's own test of murmur2
KNOWN = {
    b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, b"abc": 479470107,
}  # fmt: skip


def test_hash_has_known_values(core: ModuleType) -> None:
    assert {key: core.murmur2(key) for key in KNOWN} == KNOWN
    assert core.murmur2(memoryview(b"xfoobar")[1:]) == KNOWN[b"foobar"]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=70))))
def test_cores_agree_on_hashes(keys: list[bytes | None]) -> None:
    core = pytest.importorskip("kafkafmt._core")
    lengths = np.array([-1 if k is None else len(k) for k in keys], np.int32)
    positions = np.cumsum([0, *np.maximum(lengths, 0)], dtype=np.int64)[: len(keys)]
    hashes = []
    for one in (core, _pure):
        out = np.full(len(keys), 7, np.int32)
        one.murmur2_spans(b"".join(k or b"" for k in keys), positions, lengths, len(keys), out)
        hashes.append(out.tolist())
        assert hashes[0] == [0 if k is None else one.murmur2(k) for k in keys]
    assert hashes[0] == hashes[1]


def test_partitions_of_a_column_are_those_of_its_keys(package: ModuleType) -> None:
    keys = [b"k%d" % i for i in range(50)] + [b"", None, b"x", None, None]
    one = Partitioner(7, first=5)
    expected = [one.partition(key) for key in keys]
    assert [expected[i] for i in (51, 53, 54)] == [5, 6, 0]
    for column in (keys, pa.array(keys), np.array(keys, object)):
        many = Partitioner(7, first=5)
        assert many.column(column).tolist() == expected
        assert many.partition(None) == 1
    assert Partitioner(7).partition(b"foobar") == (KNOWN[b"foobar"] & 0x7FFFFFFF) % 7


def test_null_keys_are_spread_evenly(package: ModuleType) -> None:
    counts = np.bincount(Partitioner(6).column([None] * 600), minlength=6)
    assert counts.tolist() == [100] * 6


def test_wrong_arguments_are_rejected(core: ModuleType) -> None:
    for partitions in (0, -1, 2**31):
        with pytest.raises(ValueError, match="partitions"):
            Partitioner(partitions)
    with pytest.raises(TypeError):
        Partitioner(3).partition("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Partitioner(3).column(["text"])
    places = np.array([0, 5], np.int64), np.array([1, 2], np.int32)
    with pytest.raises(ValueError, match="span 1"):
        core.murmur2_spans(b"123456", *places, 2, np.zeros(2, np.int32))
    with pytest.raises(ValueError):
        core.murmur2_spans(b"123456", *places, 2, np.zeros(1, np.int32))
