"""Check validation and offset assignment. tests/broker compares them with Kafka's LogValidator."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import building
import numpy as np
import pytest
from building import batch as build
from building import message, record, repair_crc, simple_batch
from golden_cases import GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkafmt
from kafkafmt import InvalidError, build_batch, check_batches
from kafkafmt.errors import ChecksumError, KafkaFormatError, StructureError, TruncatedError
from kafkafmt.records import KAFKA_ERRORS, assign_offsets, iter_tables, validate_and_assign_offsets
from kafkafmt.records.validated import Validated
from kafkafmt.types import BATCH_DTYPE, Buffer
from kafkafmt.typing import Codec

NOW = 1_700_000_000_000
RECORDS = [(b"k", b"a", NOW + 5), (None, b"b", NOW + 9), (b"k", None, NOW + 9), (b"", b"", -1)]


def validate(data: Buffer, next_offset: Any = 100, **options: Any) -> Validated:
    return validate_and_assign_offsets(data, next_offset, **{"now_ms": NOW, **options})


def rows_of(data: Buffer) -> list[tuple[int, int, int, bytes | None, bytes | None]]:
    return [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value) for r in kafkafmt.read_records(data)]


def header(data: Buffer) -> Any:
    return next(iter_tables(data))[0]


def test_valid_batch_is_changed_in_place(package: ModuleType) -> None:
    data = bytearray(build_batch(RECORDS))
    before = bytes(data)
    result = validate(data, leader_epoch=7)
    assert result.records is data
    assert (result.in_place, result.count, result.first_offset, result.next_offset) == (True, 4, 100, 104)
    assert (result.max_timestamp, result.offset_of_max_timestamp) == (NOW + 9, 101)
    assert rows_of(data) == [(100 + i, r[2], 0, *r[:2]) for i, r in enumerate(RECORDS)]
    assert data[17:] == before[17:]  # the CRC and all bytes that it covers
    assert header(data)["leader_epoch"] == 7


def test_read_only_buffer_is_copied(package: ModuleType) -> None:
    data = build_batch(RECORDS)
    result = validate(data)
    assert result.in_place
    assert rows_of(result.records)[0][0] == 100
    assert rows_of(data)[0][0] == 0


def test_log_append_time_is_set_in_place(package: ModuleType) -> None:
    for magic in (1, 2):
        data = bytearray(build_batch(RECORDS, magic=magic, codec="gzip"))
        result = validate(data, timestamp_type="LogAppendTime", magic=magic, now_ms=NOW + 77)
        assert result.in_place
        assert (result.max_timestamp, result.offset_of_max_timestamp) == (NOW + 77, 100)
        assert [r[:3] for r in rows_of(data)] == [(100 + i, NOW + 77, 1) for i in range(4)]


def test_wrong_maximum_timestamp_is_corrected_with_the_crc(package: ModuleType) -> None:
    data = bytearray(
        build([(0, 0, None, b"a", ()), (1, 5, None, b"b", ())], base_timestamp=NOW, max_timestamp=NOW + 99)
    )
    result = validate(data)
    assert (result.in_place, result.max_timestamp, result.offset_of_max_timestamp) == (True, NOW + 5, 101)
    assert header(data)["max_timestamp"] == NOW + 5


@pytest.mark.parametrize(
    ("options", "reason"), [({"codec": "zstd"}, "codec"), ({"magic": 1}, "format"), ({"magic": 0}, "format")]
)
def test_batch_is_rebuilt_for_another_codec_or_format(
    package: ModuleType, options: dict[str, Any], reason: str
) -> None:
    data = bytearray(build_batch(RECORDS))
    before = bytes(data)
    result = validate(data, **options)
    assert (result.rebuilt, result.in_place, bytes(data)) == (reason, False, before)
    times = [-1] * 4 if options.get("magic") == 0 else [r[2] for r in RECORDS]
    kind = -1 if options.get("magic") == 0 else 0
    assert rows_of(result.records) == [
        (100 + i, t, kind, *r[:2]) for i, (t, r) in enumerate(zip(times, RECORDS, strict=True))
    ]
    assert result.offset_of_max_timestamp == (-1 if kind else 101)


def test_wrapper_with_inner_offsets_of_old_clients_is_rebuilt(package: ModuleType) -> None:
    data = build_batch([(b"k", b"v", NOW, (), 0), (b"k", b"w", NOW, (), 2)], magic=1, codec="gzip")
    result = validate(data, magic=1)
    assert result.rebuilt == "inner_offsets"
    assert [r[0] for r in rows_of(result.records)] == [100, 101]


def test_rebuilt_batch_keeps_the_producer_state(package: ModuleType) -> None:
    data = build_batch(RECORDS, producer_id=4, producer_epoch=3, base_sequence=8, transactional=True)
    row = header(validate(data, codec="lz4", level=4, leader_epoch=6).records)
    assert [int(row[n]) for n in ("producer_id", "producer_epoch", "base_sequence", "leader_epoch")] == [4, 3, 8, 6]
    assert row["attributes"] == 0x10 | 3


RULES = [
    (b"", {}, "no_batch"),
    (simple_batch([b"a"]) * 2, {}, "one_batch"),
    (simple_batch([b"a"], 5), {}, "base_offset"),
    (simple_batch([b"a"], last_offset_delta=4), {}, "record_count"),
    (building.empty_batch(), {}, "record_count"),
    (building.control_batch(building.COMMIT), {}, "control"),
    (simple_batch([b"a"], producer_id=1, producer_epoch=0, base_sequence=-1), {}, "base_sequence"),
    (simple_batch([b"a"] * 9), {"max_message_bytes": 100}, "message_size"),
    (simple_batch([b"a"], producer_id=1, producer_epoch=0, base_sequence=0), {"magic": 1}, "producer_id_in_format"),
    (simple_batch([b"a"], flags=building.TRANSACTIONAL), {"magic": 1}, "transactional_in_format"),
    (build_batch([(b"k", b"", 1, [("h", b"")])]), {"magic": 1}, "headers_in_format"),
    (message(0, b"k", b"v") + message(1, b"k", b"v"), {}, "same_magic"),
    (message(1, None, b"\x28\xb5\x2f\xfd" + bytes(9), attributes=4), {}, "codec_in_format"),
    (simple_batch([b"a"]), {"magic": 1, "codec": "zstd"}, "codec_in_format"),
    (simple_batch([b"a"], attributes=5), {"origin": "coordinator", "check_records": False}, "codec"),
    (simple_batch([b"a"]), {"compacted": True}, "key"),
    (build_batch([(b"k", b"", NOW - 99)]), {"before_max_ms": 98}, "timestamp_bounds"),
    (build_batch([(b"k", b"", NOW + 99)]), {"after_max_ms": 98}, "timestamp_bounds"),
    (build_batch([(b"k", b"", -1)], log_append_time=NOW), {"timestamp_type": "LogAppendTime"}, "timestamp_type"),
    (simple_batch([b"a"], last_offset_delta=-5), {"origin": "coordinator"}, "record_count"),
    (simple_batch([b"a"], count=-1), {"origin": "coordinator", "check_records": False}, "record_count"),
]


@pytest.mark.parametrize(("data", "options", "rule"), RULES)
def test_violated_rule_is_named(package: ModuleType, data: bytes, options: dict[str, Any], rule: str) -> None:
    buffer = bytearray(data)
    with pytest.raises(InvalidError) as caught:
        validate(buffer, **options)
    assert caught.value.code == rule
    assert rule in KAFKA_ERRORS
    assert buffer == data


def test_every_invalid_record_is_reported(package: ModuleType) -> None:
    data = build_batch([(None if i % 2 else b"k", b"", NOW if i < 6 else NOW + 10**9) for i in range(9)])
    with pytest.raises(InvalidError, match=r"record 1: .*; record 3: .*; record 5: .*; and 3 more") as caught:
        validate(data, compacted=True)
    assert [(e.batch_index, e.code) for e in caught.value.records] == [
        (1, "key"), (3, "key"), (5, "key"), (6, "timestamp_bounds"), (7, "key"), (8, "timestamp_bounds"),
    ]  # fmt: skip
    assert caught.value.code == "timestamp_bounds"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (simple_batch([b"a"])[:-1], TruncatedError),
        (bytes(70), StructureError),
        (building.mutate(simple_batch([b"abc"]), 70, b"\xff"), ChecksumError),
        (build([record(0)], count=2, last_offset_delta=1), StructureError),
        (message(1, None, b"garbage", attributes=1), StructureError),
    ],
)
def test_damaged_batch_is_an_error_of_kafka(package: ModuleType, data: bytes, error: type[KafkaFormatError]) -> None:
    with pytest.raises(error) as caught:
        validate(data)
    assert caught.value.code in KAFKA_ERRORS


def test_broker_errors_are_those_of_kafka() -> None:
    assert set(KAFKA_ERRORS.values()) < set(kafkafmt.protocol.ErrorCode.__members__)
    assert {rule for _, _, rule in RULES} | {"timestamp"} < set(KAFKA_ERRORS)


def test_result_can_be_converted_to_bytes(package: ModuleType) -> None:
    """The result of validation supports the buffer protocol."""
    data = build_batch(RECORDS)
    for result in (validate(data), kafkafmt.records.convert(data, 1), kafkafmt.records.recompress(data, "gzip")):
        assert bytes(result) == bytes(result.records)
        assert result.__buffer__(0) == result.records
        if sys.version_info >= (3, 12):
            assert list(kafkafmt.read_records(result)) == list(kafkafmt.read_records(result.records))


def test_coordinator_may_append_several_batches(package: ModuleType) -> None:
    """Gaps in batches, control batches and batches without records are preserved."""
    parts = [
        simple_batch([b"a", b"b"], 10),
        build(
            [(1, 0, b"k", b"c", ()), (5, 3, b"k", b"d", ())], base_offset=70, last_offset_delta=8, codec=building.ZSTD
        ),
        building.control_batch(building.COMMIT, base_offset=90),
        building.empty_batch(99, 2),
    ]
    data = bytearray(b"".join(parts))
    result = validate(data, 1000, origin="coordinator", after_max_ms=10**15)
    assert (result.in_place, result.count, result.next_offset) == (True, 5, 1000 + 2 + 9 + 1 + 3)
    assert np.concatenate(list(iter_tables(data)))["base_offset"].tolist() == [1000, 1002, 1011, 1012]
    assert [r[0] for r in rows_of(data)] == [1000, 1001, 1003, 1007]
    assert (result.max_timestamp, result.offset_of_max_timestamp) == (1_700_000_000_003, 1007)
    mixed = validate(data, 0, origin="coordinator", codec="zstd", after_max_ms=10**15)
    assert mixed.rebuilt == "codec"
    assert [r[0] for r in rows_of(mixed.records)] == [0, 1, 3, 7]
    assert (np.concatenate(list(iter_tables(mixed.records)))["attributes"] & 7).tolist() == [4, 4, 0, 0]


def test_count_comes_from_headers_if_records_are_not_checked(package: ModuleType) -> None:
    data = bytearray(b"".join(simple_batch([b"a", b"b"], 9) for _ in range(300)))
    result = validate(data, 5, origin="coordinator", check_records=False)
    assert (result.in_place, result.count, result.next_offset, result.max_timestamp) == (True, 600, 605, NOW + 1)
    assert [r[0] for r in rows_of(data)] == list(range(5, 605))


def test_headers_of_old_formats_are_not_trusted(package: ModuleType) -> None:
    """The header of a wrapper message does not contain the number of inner messages."""
    parts = [build_batch([(b"k", b"v", NOW)] * 3, magic=1, codec="lz4"), message(1, b"k", b"w", timestamp=NOW + 1)]
    result = validate(b"".join(parts), 5, magic=1, origin="coordinator", check_records=False)
    assert (result.count, result.next_offset, result.offset_of_max_timestamp) == (4, 9, 8)
    assert [r[0] for r in rows_of(result.records)] == [5, 6, 7, 8]


@pytest.mark.parametrize("codec", [building.NONE, building.GZIP])
def test_offset_deltas_that_do_not_increase_follow_kafkas_rules(package: ModuleType, codec: int) -> None:
    """An uncompressed batch keeps its offset deltas. A rebuilt batch gets new ones. Other compressed batches are rejected."""
    records = [record(2, 0, b"k", b"a"), record(0, 1, None, b"b" * 9000, [(b"h", None)]), record(90_000, 0, b"k", None)]
    data = build(records, codec=codec, base_timestamp=NOW, max_timestamp=NOW + 1, last_offset_delta=2)
    result = validate(data, codec="lz4")
    assert (result.rebuilt, result.count, result.next_offset, result.offset_of_max_timestamp) == ("codec", 3, 103, 101)
    assert [(r.offset, r.timestamp, r.value) for r in kafkafmt.read_records(result.records)] == [
        (100, NOW, b"a"), (101, NOW + 1, b"b" * 9000), (102, NOW, None),
    ]  # fmt: skip
    assert [len(r.headers) for r in kafkafmt.read_records(result.records)] == [0, 1, 0]
    with pytest.raises(InvalidError, match="record 1: a compacted topic"):
        validate(data, codec="lz4", compacted=True)
    for options in ({}, {"codec": codec}):
        if codec == building.NONE:
            kept = validate(data, **options)
            assert (kept.in_place, kept.next_offset) == (True, 103)
            assert [r.offset for r in kafkafmt.read_records(kept.records)] == [102, 100, 90_100]
        else:
            with pytest.raises(InvalidError, match="must be 0, 1, 2 and so on") as refused:
                validate(data, **options)
            assert refused.value.code == "offset_deltas"
    for broken in (
        records[:2] + [b"\x40"],
        records[:2] + [b"\x00"],
        [*records[:2], record(5, 0, b"k", b"v", header_count=9)],
    ):
        with pytest.raises(StructureError):
            validate(build(broken, codec=codec, count=3, last_offset_delta=2), codec="lz4")


def test_negative_timestamps_need_a_maximum_of_minus_one(package: ModuleType) -> None:
    """If a batch is not rebuilt, its maximum timestamp becomes -1.

    A rebuilt batch cannot contain negative timestamps.
    """
    data = build([record(0, -5, b"k", b"v"), record(1, -7, b"k", b"v")], base_timestamp=0, max_timestamp=-5)
    result = validate(data)
    assert (result.in_place, result.max_timestamp, result.offset_of_max_timestamp) == (True, -1, -1)
    assert header(result.records)["max_timestamp"] == -1
    for magic in (0, 1):
        with pytest.raises(InvalidError) as caught:
            validate(simple_batch([b"a"]) + data, magic=magic, origin="coordinator")
        assert (caught.value.code, caught.value.position) == ("timestamp", len(simple_batch([b"a"])))


def test_format_0_has_no_maximum_timestamp(package: ModuleType) -> None:
    """If records are rebuilt, a broker reports the timestamp that the other format would have."""
    plain = build_batch(RECORDS[:2], magic=1)
    assert validate(plain, magic=0, timestamp_type="LogAppendTime")[5:] == (NOW, 100)
    assert validate(plain, magic=0)[5:] == (-1, -1)
    assert validate(message(0, b"k", b"v"), magic=0, timestamp_type="LogAppendTime")[5:] == (-1, -1)


def test_maximum_timestamp_can_be_that_of_an_empty_batch(package: ModuleType) -> None:
    parts = [simple_batch([b"a"]), building.empty_batch(1, 0, max_timestamp=NOW + 9)]
    result = validate(b"".join(parts), 5, origin="coordinator")
    assert (result.max_timestamp, result.offset_of_max_timestamp) == (NOW + 9, -1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"origin": "replica"}, ValueError), ({"timestamp_type": "x"}, ValueError), ({"codec": "brotli"}, ValueError),
        ({"magic": 3}, ValueError), ({"magic": 2.0}, ValueError), ({"next_offset": -1}, ValueError), ({"next_offset": 1.0}, TypeError),
        ({"now_ms": -1}, ValueError), ({"now_ms": 1.5}, TypeError), ({"now_ms": 2**63}, OverflowError), ({"level": 3}, ValueError),
        ({"codec": "gzip", "level": 99}, ValueError), ({"before_max_ms": -1}, ValueError), ({"after_max_ms": 0.5}, TypeError),
        ({"max_message_bytes": -1}, ValueError), ({"leader_epoch": 2**31}, OverflowError), ({"leader_epoch": 1.0}, TypeError),
    ],
)  # fmt: skip
def test_wrong_arguments_are_rejected(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        validate(build_batch(RECORDS), **options)


def test_numpy_integers_and_large_integers_are_accepted(package: ModuleType) -> None:
    numbers = {
        "now_ms": np.int64(NOW),
        "leader_epoch": np.int16(3),
        "max_message_bytes": np.int32(999),
        "before_max_ms": np.int64(NOW),
    }
    result = validate(build_batch(RECORDS), np.int64(100), **numbers)
    assert list(map(type, result[2:])) == [int] * 5
    assert validate(build_batch(RECORDS), after_max_ms=2**80, before_max_ms=2**80, max_message_bytes=2**80).count == 4


@pytest.mark.parametrize(
    "options", [{}, {"codec": "lz4"}, {"magic": 1}, {"check_records": False}, {"timestamp_type": "LogAppendTime"}]
)
def test_offsets_end_before_the_largest_one(package: ModuleType, options: dict[str, Any]) -> None:
    """2**63 - 1 can be the next offset, but never the offset of a record."""
    last = 2**63 - 1
    data = bytearray(build_batch(RECORDS))
    assert validate(data, last - 4, **options).next_offset == last
    for first in (last - 3, last):
        data = bytearray(build_batch(RECORDS))
        with pytest.raises(ValueError, match="do not fit into 64 bits"):
            validate(data, first, **options)
        with pytest.raises(ValueError, match="do not fit into 64 bits"):
            assign_offsets(data, first)
        assert data == build_batch(RECORDS)
    assert assign_offsets(data, last - 4) == last


def test_assign_offsets_changes_only_offsets_and_epochs(package: ModuleType) -> None:
    parts = [
        simple_batch([b"a", b"b"], 500, leader_epoch=3),
        build_batch([(None, b"c", 5), (None, b"d", 6)], magic=1, codec="lz4"),
        message(0, None, b"e", offset=3),
        message(1, None, b"f", offset=3),
        simple_batch([b"g", b"h"], last_offset_delta=7),
        simple_batch([b"i"]),
    ]
    data = bytearray(b"".join(parts))
    before = bytes(data)
    assert assign_offsets(data, 40, 9) == 40 + 2 + 2 + 1 + 1 + 8 + 1
    assert [r[0] for r in rows_of(data)] == [40, 41, 42, 43, 44, 45, 46, 47, 54]
    assert [r[4] for r in rows_of(data)] == [b"%c" % c for c in b"abcdefghi"]
    rows = np.concatenate(list(iter_tables(data)))
    assert rows["leader_epoch"][rows["magic"] == 2].tolist() == [9, 9, 9]
    touched = {i for i in range(len(data)) if data[i] != before[i]}
    offsets = {p + i for p in rows["position"].tolist() for i in range(8)}
    epochs = {p + i for p in rows["position"][rows["magic"] == 2].tolist() for i in range(12, 16)}
    assert touched <= offsets | epochs
    assert assign_offsets(data, 0) == 15
    assert np.concatenate(list(iter_tables(data)))["leader_epoch"][0] == 9
    assert assign_offsets(bytearray(), 5) == 5


def test_assign_offsets_writes_nothing_if_a_batch_is_invalid(package: ModuleType) -> None:
    for bad, error in (
        (simple_batch([b"a"])[:-1], TruncatedError),
        (build_batch([(None, b"c")], magic=0, codec="gzip"), InvalidError),
        (simple_batch([b"a"], last_offset_delta=-1), InvalidError),
    ):
        data = bytearray(simple_batch([b"a", b"b"], 500) * 300 + bad)
        before = bytes(data)
        with pytest.raises(error):
            assign_offsets(data, 0)
        assert data == before


def test_write_offsets_checks_the_positions(core: ModuleType) -> None:
    table = np.zeros(2, BATCH_DTYPE)
    table["position"], table["magic"], table["base_offset"] = (0, 20), 2, -1
    data = bytearray(40)
    for position in (-1, 24, 2**62):
        table["position"][1] = position
        with pytest.raises(ValueError, match="row 1"):
            core.write_offsets(data, table)
        assert data == bytes(40)
    with pytest.raises(ValueError, match="writable"):
        core.write_offsets(bytes(40), table)
    core.write_offsets(np.frombuffer(data, ">i4"), table[:1])
    assert data == b"\xff" * 8 + bytes(32)


def test_number_batches_checks_all_rows_before_it_writes(core: ModuleType) -> None:
    table = np.zeros(3, BATCH_DTYPE)
    table["position"], table["magic"], table["last_offset_delta"] = (0, 20, 40), (2, 1, 1), (4, 0, 2)
    table["count"] = (5, 1, -1)
    data = bytearray(60)
    for name, row, value in (("position", 2, 44), ("position", 0, -1), ("last_offset_delta", 2, -1)):
        wrong = table.copy()
        wrong[name][row] = value
        with pytest.raises(ValueError, match=f"row {row}"):
            core.number_batches(data, wrong, 7, 3)
    for offset in (-1, 2**63 - 8):
        with pytest.raises(ValueError):
            core.number_batches(data, table, offset, 3)
    with pytest.raises(ValueError, match="writable"):
        core.number_batches(bytes(60), table, 0)
    assert data == bytes(60)
    assert core.number_batches(data, table, 7) == 7 + 5 + 1 + 3
    assert [int.from_bytes(data[p : p + 8], "big") for p in (0, 20, 40)] == [7, 12, 15]
    assert data[12:16] == bytes(4)
    assert core.number_batches(data, table, 2**63 - 10, 3) == 2**63 - 1
    assert bytes(data[12:16]) == b"\0\0\0\3"
    assert bytes(data[32:36]) == bytes(4)


def sequence(values: list[bytes], base_offset: int, base_sequence: int, epoch: int = 0, **fields: Any) -> bytes:
    return simple_batch(values, base_offset, producer_id=1, producer_epoch=epoch, base_sequence=base_sequence, **fields)


def test_valid_stream_has_no_problems(package: ModuleType) -> None:
    stream = [
        sequence([b"a", b"b"], 0, 2**31 - 2),
        build_batch([(None, b"x", 5)] * 3, magic=1, codec="gzip", base_offset=2),
        sequence([b"c"], 5, 0),
        building.control_batch(building.ABORT, base_offset=6, producer_epoch=1),
        sequence([b"d"], 7, 0, epoch=1),
    ]
    data = b"".join(stream)
    assert check_batches(data) == ([], 5, 8, len(data))
    assert check_batches(b"") == ([], 0, 0, 0)
    for log in sorted((GOLDEN / "kafka-4.3.1/idempotent/log").glob("*-0/*.log")):
        assert check_batches(log.read_bytes()).ok


@pytest.mark.parametrize("size", [3, 12, 30, 60])
def test_incomplete_batch_at_the_end_is_a_problem(size: int, package: ModuleType) -> None:
    data = sequence([b"a", b"b"], 0, 0)
    checked = check_batches(data + sequence([b"c"], 2, 2)[:size])
    assert (checked.ok, checked.batches, checked.records, checked.end) == (False, 1, 2, len(data))
    assert [(p.position, p.code) for p in checked.problems] == [(len(data), "truncated")]


def test_every_problem_is_reported(package: ModuleType) -> None:
    stream = [
        sequence([b"a", b"b"], 0, 0),
        sequence([b"a", b"b"], 2, 0),
        sequence([b"c"], 4, 3),
        building.mutate(sequence([b"d"], 5, 4), 66, b"\xff"),
        sequence([b"e"], 3, 4, epoch=2),
        sequence([b"f"], 6, 0, epoch=1),
        build([record(0), b"\x02garbage"], base_offset=7, last_offset_delta=1),
        simple_batch([b"g"], 9, producer_id=5, producer_epoch=0),
        simple_batch([b"h"], 10),
    ]
    data = b"".join(stream)
    positions = [sum(map(len, stream[:i])) for i in range(len(stream))]
    check = check_batches(data)
    assert [(positions.index(p.position), p.code) for p in check.problems] == [
        (1, "sequence_duplicate"), (2, "sequence_gap"), (3, "corrupt_checksum"), (4, "offset_order"), (4, "sequence_gap"),
        (5, "producer_epoch"), (6, "corrupt_structure"), (7, "base_sequence"),
    ]  # fmt: skip
    assert (check.ok, check.batches, check.end) == (False, 7, len(data))
    assert {p.code for p in check_batches(data, sequences=False).problems} == {
        "corrupt_checksum",
        "offset_order",
        "corrupt_structure",
    }


def test_impossible_offsets_are_reported(package: ModuleType) -> None:
    """An impossible offset does not change how later batches are checked."""
    last = 2**63 - 1
    stream = [
        simple_batch([b"a"], -5),
        simple_batch([b"b", b"c"], last),
        building.empty_batch(last - 2, 3),
        building.empty_batch(3, -2),
        simple_batch([b"d"], 3),
        simple_batch([b"e"], last - 1),
    ]
    positions = [sum(map(len, stream[:i])) for i in range(len(stream))]
    check = check_batches(b"".join(stream), sequences=False)
    assert [(positions.index(p.position), p.code) for p in check.problems] == [(i, "offset_range") for i in range(4)]
    assert f"from {last} to {last + 1}" in check.problems[1].message


def test_batches_after_a_corrupted_length_are_checked(package: ModuleType) -> None:
    stream = [simple_batch([b"a"]), building.mutate(simple_batch([b"b"], 1), 8, b"\x7f"), simple_batch([b"c"], 2)]
    data = b"".join(stream)
    check = check_batches(data)
    assert [(p.position, p.code) for p in check.problems] == [(len(stream[0]), "corrupt_structure")]
    assert (check.batches, check.end) == (2, len(data))


@st.composite
def corrupted_batches(draw: st.DrawFn) -> bytearray:
    """Generate batches of any format with changed bytes. The first batch usually has a correct CRC."""
    magic = draw(st.sampled_from([0, 1, 2]))
    codecs: list[Codec] = ["none", "gzip", "lz4"]
    codec = draw(st.sampled_from(codecs))
    records = [
        (b"k", b"v" * draw(st.integers(0, 9)), -1 if magic == 0 else NOW) for _ in range(draw(st.integers(1, 4)))
    ]
    data = bytearray(build_batch(records, magic=magic, codec=codec, base_offset=0))
    for _ in range(draw(st.integers(1, 3))):
        data[draw(st.integers(0, len(data) - 1))] = draw(
            st.one_of(st.integers(0, 255), st.sampled_from([0, 0x7F, 0x80, 0xFF]))
        )
    if magic == 2 and draw(st.booleans()):
        data = bytearray(repair_crc(data))
    return data + draw(st.sampled_from([b"", simple_batch([b"x"])]))


def test_corrupted_data_raises_only_kafka_format_errors(package: ModuleType) -> None:
    @settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        corrupted_batches(),
        st.sampled_from([0, 1, 2]),
        st.sampled_from(["producer", "none", "gzip"]),
        st.sampled_from(["client", "coordinator"]),
    )
    def check(data: bytearray, magic: int, codec: Codec, origin: str) -> None:
        before = bytes(data)
        try:
            result = validate(data, magic=magic, codec=codec, origin=origin, after_max_ms=2**62)
        except KafkaFormatError:
            assert data == before
        else:
            assert sum(1 for _ in kafkafmt.read_records(result.records, control=True)) == result.count
        check_batches(before)
        for call in (lambda: validate(data, origin=origin, check_records=False), lambda: assign_offsets(data, 7)):
            try:
                call()
            except KafkaFormatError:
                pass

    check()


def test_error_lists_the_first_records_only(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that lists all records would need about 300 bytes per record."""
    monkeypatch.setattr("kafkafmt.records.rules._MAX_LISTED", 5)
    data = build_batch([(None if i % 2 else b"k", b"v", NOW if i % 3 else 1) for i in range(100)])
    with pytest.raises(InvalidError) as caught:
        validate(data, compacted=True, before_max_ms=1000)
    assert [e.batch_index for e in caught.value.records] == [0, 1, 3, 5, 6]
    assert [e.code for e in caught.value.records] == ["timestamp_bounds", "key", "key", "key", "timestamp_bounds"]
    assert "; and 2 more" in caught.value.message
