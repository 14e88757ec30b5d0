"""Check the conversion between formats and codecs.

tests/broker compares it with the conversion of Kafka 3.9.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType

import building
import numpy as np
import pytest
from building import message
from decoding import Fields, fields, required
from golden_cases import GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkafmt
from kafkafmt import InvalidError, KafkaFormatError, build_batch, iter_batches
from kafkafmt.errors import StructureError, UnsupportedError
from kafkafmt.records import build_marker, convert, recompress
from kafkafmt.typing import Codec

CODECS: list[Codec] = ["none", "gzip", "snappy", "lz4", "zstd"]
LOGS = sorted(p for case in ("0.9.0.1-codecs", "0.10.2.2-codecs", "2.8.2-mixed", "1.1.1-compacted", "0.10.2.2-append-time")
              for p in (GOLDEN / "legacy" / case / "log").glob("*/*.log"))  # fmt: skip


def fields_of(data: bytearray | bytes) -> list[Fields]:
    return list(map(fields, kafkafmt.read_records(data)))


def plain(records: list[Fields]) -> list[tuple[int, bytes | None, bytes | None, int, int]]:
    """Return offset, key, value, timestamp and timestamp type. A missing timestamp is -1, with type 0."""
    return [(o, k, v, *((t, kind) if kind >= 0 else (-1, 0))) for o, t, kind, k, v, _ in records]


@pytest.mark.parametrize("log", LOGS, ids=lambda p: f"{p.parents[2].name}/{p.parent.name}")
def test_logs_of_old_brokers_are_converted_up_and_down(package: ModuleType, log: Path) -> None:
    data = log.read_bytes()
    before = fields_of(data)
    up = convert(data, 2)
    assert {b.magic for b in iter_batches(up.records)} <= {2}
    assert plain(fields_of(up.records)) == plain(before)
    assert {k: n for k, n in up.lost.items() if k != "headers"} == {}
    down = convert(up.records, 1)
    assert {b.magic for b in iter_batches(down.records)} <= {1}
    assert plain(fields_of(down.records)) == plain(before)
    zero = convert(data, 0)
    assert {b.magic for b in iter_batches(zero.records)} <= {0}
    assert [r[:2] for r in plain(fields_of(zero.records))] == [r[:2] for r in plain(before)]
    assert zero.lost.get("timestamps", 0) == sum(r[2] >= 0 and r[1] != -1 for r in before)


def test_conversion_reports_lost_properties(package: ModuleType) -> None:
    parts = [
        build_batch([(b"k", b"v", 5, [("h", b"x")]), (b"k", b"w", -1)], producer_id=1, producer_epoch=0, base_sequence=0, leader_epoch=3,
                    transactional=True, delete_horizon=9),
        build_marker(1, 0, commit=True, base_offset=2),
        building.empty_batch(3, 1),
        build_batch([(b"k", b"x", 6)], base_offset=5, codec="gzip"),
        message(1, b"k", b"y", offset=6, timestamp=7),
    ]  # fmt: skip
    data = b"".join(parts)
    one = convert(data, 1)
    common = {
        "control_batches": 1,
        "delete_horizons": 1,
        "empty_batches": 1,
        "headers": 1,
        "leader_epochs": 1,
        "producer_ids": 1,
    }
    assert one.lost == {**common, "transactional": 1}
    assert (one.converted, one.kept) == (4, 1)
    assert fields_of(one.records) == [
        (0, 5, 0, b"k", b"v", ()), (1, -1, 0, b"k", b"w", ()), (5, 6, 0, b"k", b"x", ()), (6, 7, 0, b"k", b"y", ()),
    ]  # fmt: skip
    assert convert(data, 0).lost == {**one.lost, "timestamps": 3}
    assert convert(data, 1, start=1).lost == {**one.lost, "below_start": 1}
    assert convert(data, 0, up=False, down=False) == (data, 0, 5, {})
    assert convert(data, 2, down=False).kept == 4
    assert convert(b"", 1) == (b"", 0, 0, {})


def test_plain_messages_are_converted_to_batches(package: ModuleType) -> None:
    data = b"".join(message(0, None, b"v" * 50, offset=i * 3) for i in range(40))
    up = convert(data, 2, max_bytes=600)
    batches = list(iter_batches(up.records))
    assert all(b.size <= 600 for b in batches)
    assert sum(required(b.count) for b in batches) == 40
    assert [r[0] for r in fields_of(up.records)] == [i * 3 for i in range(40)]
    assert len(list(iter_batches(convert(data, 2, codec="zstd", max_bytes=10**6).records))) == 1


def test_log_append_times_are_kept(package: ModuleType) -> None:
    data = b"".join(message(1, None, b"v", offset=i, timestamp=t, attributes=8) for i, t in enumerate((5, 5, 9)))
    up = convert(data, 2)
    assert [(b.count, b.max_timestamp, b.timestamp_type) for b in iter_batches(up.records)] == [(2, 5, 1), (1, 9, 1)]
    assert fields_of(up.records) == fields_of(data)
    assert convert(up.records, 1).records == data


def test_zstd_cannot_be_converted_to_format_1(package: ModuleType) -> None:
    data = build_batch([(b"k", b"v", 5)], codec="zstd")
    with pytest.raises(InvalidError) as caught:
        convert(data, 1)
    assert caught.value.code == "codec_in_format"
    assert fields_of(convert(data, 1, codec="lz4").records) == fields_of(data)
    with pytest.raises(ValueError, match="magic"):
        convert(data, 3)


MIXED = [
    build_batch(
        [(b"k", b"words and words " * 20, 5 + i, [("h", b"x")]) for i in range(20)], leader_epoch=4, log_append_time=99
    ),
    build_batch(
        [(b"k", b"v" * 90, 5, [], 20), (None, None, 6, [], 27)],
        codec="snappy",
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
    ),
    building.empty_batch(28, 3),
    build_marker(1, 2, commit=False, base_offset=32),
]
OLD = [
    build_batch([(b"k", b"v" * 90, 5 + i) for i in range(9)], magic=1, codec="gzip", base_offset=40),
    *(message(1, b"k", b"v" * 50, offset=50 + 2 * i, timestamp=i) for i in range(5)),
    build_batch([(b"k", b"v" * 90)] * 4, magic=0, codec="lz4", base_offset=60),
    message(0, None, b"", offset=70),
]


@pytest.mark.parametrize("codec", CODECS)
def test_recompress_keeps_records_and_batches(package: ModuleType, codec: Codec) -> None:
    data = b"".join(MIXED if codec == "zstd" else MIXED + OLD)
    done = recompress(data, codec)
    assert fields_of(done.records) == fields_of(data)
    assert (done.before, done.after) == (len(data), len(done.records))
    assert [sum(column) for column in zip(*done.sizes, strict=True)] == [done.before, done.after]
    pairs = list(itertools.islice(zip(iter_batches(data), iter_batches(done.records), strict=False), 4))
    assert [b.codec for _, b in pairs] == [codec, codec, "none", "none"]
    for old, new in pairs:
        names = (
            "base_offset",
            "last_offset",
            "count",
            "base_timestamp",
            "max_timestamp",
            "leader_epoch",
            "producer_id",
            "base_sequence",
        )
        assert [getattr(old, n) for n in names] == [getattr(new, n) for n in names]
        assert old.attributes & ~7 == new.attributes & ~7
    again = recompress(b"".join(MIXED), codec).records
    assert recompress(recompress(again, "none").records, codec).records == again
    assert {b.codec for b in iter_batches(done.records)} <= {codec, "none"}


def test_level_changes_the_compressed_size(package: ModuleType) -> None:
    data = build_batch([(None, b"a few words, %d of them" % (i * 7919 % 997)) for i in range(2000)])
    # 9 is the default level of lz4. At this level, the fast mode is used.
    levels: list[tuple[Codec, int, int]] = [("zstd", -5, 3), ("gzip", 1, 9), ("lz4", 9, 12)]
    for codec, low, high in levels:
        assert recompress(data, codec, low).after > recompress(data, codec, high).after


def test_wrong_arguments_and_corrupted_data_are_rejected(package: ModuleType) -> None:
    with pytest.raises(InvalidError) as caught:
        recompress(b"".join(OLD), "zstd")
    assert caught.value.code == "codec_in_format"
    for codec, level in (("brotli", None), ("gzip", 11), ("none", 3)):
        with pytest.raises(ValueError):
            recompress(b"", codec, level)  # type: ignore[arg-type]
    broken = building.batch(compressed=b"garbage", codec=building.GZIP, count=1, base_offset=4)
    for call in (lambda: recompress(MIXED[0] + broken, "zstd"), lambda: convert(MIXED[0] + broken, 1)):
        with pytest.raises(StructureError) as damaged:
            call()
        assert (damaged.value.position, damaged.value.base_offset) == (len(MIXED[0]), 4)
    unknown = building.repair_crc(building.mutate(building.simple_batch([b"a"]), 22, b"\x05"))
    for call in (lambda: recompress(unknown, "zstd"), lambda: convert(unknown, 1)):
        with pytest.raises(UnsupportedError, match="codec 5"):
            call()


def test_single_messages_are_compressed_into_large_wrappers(package: ModuleType) -> None:
    data = b"".join(message(1, b"k%d" % i, bytes(90), offset=3 * i, timestamp=i) for i in range(999))
    done = recompress(data, "lz4")
    batches = list(iter_batches(done.records))
    assert 5 < len(batches) < 12
    assert all(b.is_compressed for b in batches)
    assert fields_of(done.records) == fields_of(data)
    assert done.sizes == [(len(data), len(done.records))]


def test_corrupted_data_raises_only_kafka_format_errors(package: ModuleType) -> None:
    every = b"".join(MIXED + OLD)

    @settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(st.tuples(st.integers(0, len(every) - 1), st.integers(0, 255)), max_size=3), st.sampled_from([0, 1, 2])
    )
    def check(changes: list[tuple[int, int]], magic: int) -> None:
        data = bytearray(every)
        for at, byte in changes:
            data[at] = byte
        for call in (lambda: convert(data, magic), lambda: recompress(data, "lz4")):
            try:
                result = call()
            except KafkaFormatError:
                continue
            assert len(fields_of(result.records)) == len(fields_of(data))

    check()


def test_batch_views_have_the_fields_of_the_headers(package: ModuleType) -> None:
    data = b"".join(MIXED + OLD)
    batches = list(iter_batches(data))
    assert b"".join(b.data for b in batches) == data
    assert [b.position for b in batches] == np.cumsum([0, *(b.size for b in batches)])[:-1].tolist()
    first, second, empty, marker, wrapper = batches[:5]
    assert (first.magic, first.codec, first.timestamp_type, first.max_timestamp, first.leader_epoch) == (
        2,
        "none",
        1,
        99,
        4,
    )
    assert (second.base_offset, second.last_offset, second.count, second.codec) == (20, 27, 2, "snappy")
    assert (second.producer_id, second.producer_epoch, second.base_sequence, second.last_sequence) == (1, 2, 3, 10)
    assert (first.last_sequence, first.delete_horizon, first.key, first.key_size) == (-1, None, None, -1)
    assert (empty.count, list(empty.records())) == (0, [])
    assert (marker.is_control, marker.is_transactional, first.is_control, first.is_transactional) == (
        True,
        True,
        False,
        False,
    )
    assert [r.key for r in marker.records()] == [b"\0\0\0\0"]
    assert (wrapper.base_offset, wrapper.last_offset, wrapper.count, wrapper.is_compressed) == (40, 48, None, True)
    assert bytes(wrapper.payload[:2]) == b"\x1f\x8b"
    assert (wrapper.key, wrapper.key_size, wrapper.payload_size) == (None, -1, len(wrapper.payload))
    single = batches[5]
    assert (bytes(required(single.key)), single.key_size, bytes(single.payload), single.payload_size) == (
        b"k",
        1,
        b"v" * 50,
        50,
    )
    assert (single.base_offset, single.last_offset, single.count, single.base_timestamp) == (50, 50, 1, 0)
    assert single.payload.obj is first.payload.obj is data
    last = batches[-1]
    assert (last.timestamp_type, last.max_timestamp, bytes(last.payload), last.payload_size) == (-1, -1, b"", 0)
    assert build_batch([(b"", b"x", 5)], delete_horizon=9)[22] == 0x40
    assert next(iter_batches(build_batch([(b"", b"x", 5)], delete_horizon=9))).delete_horizon == 9
    assert all(b.is_valid for b in batches)
    corrupted = next(iter_batches(building.mutate(MIXED[0], 100, b"\xff"), check_crc=False))
    assert (corrupted.is_valid, corrupted.crc == corrupted.computed_crc) == (False, False)
    assert [list(map(fields, b.records())) for b in batches[:2]] == [fields_of(MIXED[0]), fields_of(MIXED[1])]
    place = f"at {second.position}: last offset 27, 2 records, snappy, {second.size} bytes"
    assert repr(second) == f"<batch of format 2 {place}>"
    assert repr(wrapper).startswith("<wrapper of format 1 at ")
