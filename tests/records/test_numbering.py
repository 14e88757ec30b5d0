"""Check the fast path that validates batches and assigns offsets in place.

The fast path of both cores returns the result of the slow path, or leaves the batches unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import building as build
import pytest
from decoding import MAX, MIN
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import QUICK, loose_batch, mutated_batch, valid_batch

from kafkafmt import KafkaFormatError, _pure, build_batch, read_records
from kafkafmt.records import LogValidator, iter_tables
from kafkafmt.typing import Codec

_core = pytest.importorskip("kafkafmt._core")

NOW = 1_700_000_000_000
OPTIONS = {
    "client": False,
    "codec": None,
    "max_size": None,
    "check_records": True,
    "compacted": False,
    "earliest": MIN,
    "latest": MAX,
}
keys = st.one_of(st.none(), st.binary(max_size=3), st.binary(min_size=60, max_size=70))
values = st.one_of(keys, st.integers(8180, 8200).map(bytes))
some_headers = st.lists(st.tuples(st.binary(max_size=3), st.one_of(st.none(), st.binary(max_size=70))), max_size=3)


@st.composite
def produced(draw: st.DrawFn, most: int = 6, codec: int = build.NONE) -> bytes:
    """Generate a valid batch, as clients send it."""
    step = st.sampled_from([1, 1, 1, 1, 2, 9000])
    records, delta = [], -1
    for _ in range(draw(st.integers(1, most))):
        delta += draw(step)
        records.append(
            build.record(delta, draw(st.integers(-100, 20_000)), draw(keys), draw(values), draw(some_headers))
        )
    highest = NOW + max(map(build_time, records)) + draw(st.sampled_from([0, 0, 0, 0, 1]))
    base_offset = draw(st.sampled_from([0, 0, 5]))
    return build.batch(
        records, base_offset=base_offset, leader_epoch=2, codec=codec, base_timestamp=NOW, max_timestamp=highest
    )


def build_time(record: bytes) -> int:
    """Return the timestamp delta of a record."""
    _, p = _pure.read_varint(record)
    return _pure.read_varlong(record, p + 1)[0]


streams = st.lists(st.one_of(produced(), produced(), valid_batch(), mutated_batch(), loose_batch()), max_size=4).map(
    b"".join
)
times = st.one_of(
    st.sampled_from([MIN, MAX, NOW - 100, NOW, NOW + 100, NOW + 20_000, -1]), st.integers(NOW - 200, NOW + 30_000)
)


def outcomes(name: str, data: bytes, *arguments: Any) -> Any:
    """Check that both cores return the same result and change the same bytes, and return this result."""
    found = []
    for core in (_core, _pure):
        buffer = bytearray(data)
        found.append((getattr(core, name)(buffer, *arguments), bytes(buffer)))
    assert found[0] == found[1]
    result, after = found[0]
    assert result is not None or after == data
    return result


@st.composite
def cases(draw: st.DrawFn) -> tuple[bytes, int, dict[str, Any]]:
    data = bytearray(draw(streams))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    settings = OPTIONS | {
        "client": draw(st.booleans()), "codec": draw(st.sampled_from([None, None, 0, 1])), "max_size": draw(st.sampled_from([None, 8400])),
        "check_records": draw(st.booleans()), "compacted": draw(st.booleans()), "earliest": draw(times), "latest": draw(times),
        "append_time": draw(st.sampled_from([None, None, 0, NOW + 7])),
    }  # fmt: skip
    offset = draw(st.sampled_from([0, 2**40, MAX - 3, MAX]))
    return bytes(data[: draw(st.sampled_from([len(data), len(data), len(data) - 1]))]), offset, settings


def both_cores(case: tuple[bytes, int, dict[str, Any]]) -> None:
    data, offset, options = case
    outcomes("number_buffer", data, offset, None, False)
    outcomes("number_buffer", data, offset, 7)
    outcomes("validate_buffer", data, offset, 7, *options.values())
    payload = data[61:]
    assert _core.look_at_payload(payload, 2, 9001) == _pure.look_at_payload(payload, 2, 9001)


test_both_cores = settings(max_examples=120, **QUICK)(given(cases())(both_cores))
test_both_cores_for_long = pytest.mark.full(settings(max_examples=6_000, **QUICK)(given(cases())(both_cores)))


@pytest.mark.parametrize("spare", [0, 7, 31, 32, 33, 100])
def test_cores_agree_on_every_changed_byte(spare: int) -> None:
    """With bytes after the batch, the core uses unchecked reads; without them, checked reads."""
    fields = [(i, i * 50, b"key", b"v" * i, [(b"h", b"x" * i), (b"i", None)][: i % 3]) for i in range(5)]
    data = build.batch(fields, base_timestamp=NOW, max_timestamp=NOW + 200)
    rest = build.simple_batch([bytes(spare)]) if spare else b""
    result = set()
    for at in range(21, len(data)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, data[at] ^ 1, data[at] ^ 2):
            changed = build.mutate(data, at, bytes([value]))
            result.add(outcomes("validate_buffer", build.repair_crc(changed) + rest, 3, 1, *OPTIONS.values()) is None)
            assert _core.look_at_payload(changed[61:], 5, 4) == _pure.look_at_payload(changed[61:], 5, 4)
    assert result == {False, True}


@pytest.mark.parametrize("compacted", [False, True])
def test_valid_batches_take_the_fast_path(compacted: bool) -> None:
    """Each kind of valid record is tested at the end of the buffer, and with records after it."""
    kinds = [
        build.record(0, 0, b"k", b"v"),
        build.record(0, 0, b"k" * 9000, None),
        build.record(0, 3_000_000, b"", b"v" * 100),
        build.record(0, 2**40, b"k", bytes(2**14), [(b"h", None), (b"", b"x" * 70)]),
        build.record(0, -70, b"k", b"v" * 2_000_000),
        build.sized(b"\0" + b"\x80\0" + b"\x80\x80\0" + build.sized(b"k") + b"\x82\0" + b"v" + b"\x80\0"),
    ]
    for record in kinds:
        data = build.batch([record], base_timestamp=NOW, max_timestamp=NOW + build_time(record))
        for count, stream in ((1, data), (2, data + build.simple_batch([bytes(99)]))):
            result = outcomes(
                "validate_buffer", stream, 40, 1, *(OPTIONS | {"compacted": compacted and count == 1}).values()
            )
            assert result[:2] == (count, 40 + count), record[:20]


def test_validate_buffer_returns_totals_or_declines(core: ModuleType) -> None:
    first = build_batch([(b"k", b"v", NOW + 5), (b"k", b"v", NOW + 9), (b"k", b"v", NOW + 9)])
    data = bytearray(first + build_batch([(None, b"v", NOW + 8)]) + build_batch([(b"k", b"v", NOW + 9)]))
    assert core.validate_buffer(data, 10, 3, *OPTIONS.values()) == (5, 15, NOW + 9, 11)
    assert core.validate_buffer(data, 10, 3, *(OPTIONS | {"check_records": False}).values()) == (5, 15, NOW + 9, -1)
    for broken in (
        {"compacted": True},
        {"earliest": NOW + 6},
        {"latest": NOW + 8},
        {"codec": 1},
        {"max_size": 80},
        {"client": True},
    ):
        assert core.validate_buffer(data, 20, 4, *(OPTIONS | broken).values()) is None
    rows = next(iter_tables(data))
    assert (rows["base_offset"].tolist(), rows["leader_epoch"].tolist()) == ([10, 13, 14], [3, 3, 3])
    assert core.validate_buffer(data, 10, 3, *OPTIONS.values(), NOW + 99) == (5, 15, NOW + 99, 10)
    assert {(r.timestamp, r.timestamp_type) for r in read_records(data)} == {(NOW + 99, 1)}
    assert (
        core.validate_buffer(data, 10, 3, *OPTIONS.values(), NOW + 99) is None
    )  # the batches already have LogAppendTime
    nothing_set = bytearray(build_batch([(b"k", b"v"), (b"k", b"v")]))
    assert core.validate_buffer(nothing_set, 1, 3, *(OPTIONS | {"earliest": 0}).values()) == (2, 3, -1, -1)


def test_changes_are_undone_if_a_later_batch_is_invalid(core: ModuleType) -> None:
    """Format 0 has no leader epoch. Its CRC is at the same position."""
    data = b"".join(
        [build.simple_batch([b"a"], 5), build.message(0, b"k", b"v", offset=9), build.simple_batch([b"b"], 6)] * 90
    )
    broken = bytearray(build.mutate(data, len(data) - 1, b"x"))
    before = bytes(broken)
    assert core.number_buffer(broken, 70, 3) is None
    assert broken == before
    assert core.number_buffer(broken, 70, 3, False) == 340
    data = build.simple_batch([b"a"], 5, leader_epoch=7) * 90
    broken = bytearray(build.mutate(data, len(data) - 1, b"x"))
    before = bytes(broken)
    assert core.validate_buffer(broken, 70, 3, *OPTIONS.values(), NOW) is None
    assert broken == before


@pytest.mark.parametrize(
    ("offset", "epoch", "error"), [(-1, 0, ValueError), (2**63, 0, OverflowError), (0, 2**31, OverflowError)]
)
def test_offset_or_epoch_that_does_not_fit_is_rejected(
    core: ModuleType, offset: int, epoch: int, error: type[Exception]
) -> None:
    data = bytearray(build.simple_batch([b"a"]))
    calls: list[Callable[[], object]] = [
        lambda: core.number_buffer(data, offset, epoch),
        lambda: core.validate_buffer(data, offset, epoch, *OPTIONS.values()),
        lambda: core.number_batches(data, next(iter_tables(data)), offset, epoch),
    ]
    for call in calls:
        with pytest.raises(error):
            call()
    with pytest.raises(ValueError, match="writable"):
        core.number_buffer(bytes(data), 0)
    assert data == build.simple_batch([b"a"])


def test_look_at_payload_returns_timestamps_and_keys(core: ModuleType) -> None:
    records = [build.record(0, 9, b"k", b"v"), build.record(2, -5, None, b"w"), build.record(3, 9, b"", None)]
    assert core.look_at_payload(b"".join(records), 3, 3) == (-5, 9, 0, True)
    assert core.look_at_payload(memoryview(b"".join(records[::2])), 2, 7) == (9, 9, 0, False)
    for payload, count, last in (
        (records[::-1], 3, 3),
        (records, 3, 2),
        (records, 2, 3),
        (records, 4, 9),
        ([], 0, 0),
        (records, -1, 3),
    ):
        assert core.look_at_payload(b"".join(payload), count, last) is None


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """Generate batches, most of which are valid, and the settings of a topic."""
    codec = draw(st.sampled_from([build.NONE, build.NONE, build.LZ4, build.GZIP]))
    several = st.lists(st.one_of(produced(), produced(), produced(), valid_batch()), min_size=1, max_size=3).map(
        b"".join
    )
    data = draw(produced(codec=codec) if codec else several)
    options = {
        "codec": draw(st.sampled_from(["producer", "producer", "none", "lz4"])),
        "compacted": draw(st.sampled_from([False, False, False, True])),
        "origin": draw(st.sampled_from(["coordinator", "coordinator", "client"])),
        "check_records": draw(st.sampled_from([True, True, False])),
        "before_max_ms": draw(st.sampled_from([MAX, MAX, MAX, 100, 0])),
        "after_max_ms": draw(st.sampled_from([MAX, MAX, MAX, 10_000, 0])),
        "now_ms": NOW,
        "timestamp_type": draw(st.sampled_from(["CreateTime", "CreateTime", "LogAppendTime"])),
        "leader_epoch": 7,
    }
    return data, options


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("codec", build.CODECS)
def test_fast_path_validates_batches_of_clients(package: ModuleType, codec: Codec, kind: str) -> None:
    data = build_batch([(b"k", b"v" * i, NOW + i % 7) for i in range(50)], codec=codec)
    validator = LogValidator(now_ms=NOW + 9, compacted=True, timestamp_type=kind)
    for _ in range(2):  # the second time, the buffer contains the changes of the first validation
        fast, slow = bytearray(data), bytearray(data)
        result = validator._fast_path(fast, 40, NOW + 9)
        assert result == validator._slow.validate(slow, 40, NOW + 9)._replace(records=fast)
        assert fast == slow


def test_fast_path_equals_the_slow_path(package: ModuleType) -> None:
    validated = 0

    @settings(max_examples=150, derandomize=True, **QUICK)
    @given(requests())
    def check(case: tuple[bytes, dict[str, Any]]) -> None:
        nonlocal validated
        data, options = case
        validator = LogValidator(**options)
        fast, slow = bytearray(data), bytearray(data)
        result = validator._fast_path(fast, 40, NOW)
        if result is None:
            assert fast == data
            return
        validated += 1
        try:
            assert validator._slow.validate(slow, 40, NOW) == result._replace(records=slow)
        except KafkaFormatError as error:
            raise AssertionError(f"the slow path rejects the batches: {error}") from None
        assert slow == fast

    check()
    assert validated > 20
