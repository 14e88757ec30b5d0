"""Check that kafkafmt and other packages can read built batches, which are equal on both cores."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import building
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from decoding import Fields, fields, required
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.lib import ChunkedArray, ListArray, MapArray

import kafkafmt
from kafkafmt import InvalidError, KafkaFormatError, TooLargeError, _pure, build_batch, build_batches, read_records
from kafkafmt.codecs.compressor import Compressor
from kafkafmt.records import BatchBuilder, LogValidator, build_columns, columns_of, iter_tables
from kafkafmt.typing import Codec

CODECS: list[Codec] = ["none", "gzip", "snappy", "lz4", "zstd"]
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in (CODECS if magic == 2 else CODECS[:4])]
LEVELS = [
    ("gzip", 1),
    ("gzip", 9),
    ("gzip", -1),
    ("lz4", 1),
    ("lz4", 9),
    ("lz4", 17),
    ("zstd", -5),
    ("zstd", 1),
    ("zstd", 19),
]

Input = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]], int]
"""Arguments of `BatchBuilder.append`: key, value, timestamp, headers and offset."""

maybe_bytes = st.one_of(st.none(), st.binary(max_size=8), st.binary(min_size=100, max_size=200))
header_lists = st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=4)
times = st.one_of(st.integers(-1, 10**13), st.integers(-1, 2**63 - 1))
QUICK = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@st.composite
def batches(draw: st.DrawFn, magic: int) -> tuple[dict[str, Any], list[Input]]:
    """Generate options of a builder, and arguments of `append` with explicit offsets."""
    options = {"magic": magic, "codec": draw(st.sampled_from([c for m, c in FORMATS if m == magic]))}
    if magic and draw(st.booleans()):
        options["log_append_time"] = draw(st.integers(0, 2**62))
    if magic == 2:
        options["leader_epoch"] = draw(st.integers(-1, 9))
        if draw(st.booleans()):
            options |= {"producer_id": draw(st.integers(0, 2**62)), "producer_epoch": draw(st.integers(0, 99))}
            options |= {"base_sequence": draw(st.integers(0, 2**31 - 1)), "transactional": draw(st.booleans())}
        options["control"] = draw(st.booleans())
        if draw(st.booleans()):
            options["delete_horizon"] = draw(st.integers(0, 2**62))
    offset = draw(st.sampled_from([0, 5, 2**40]))
    if draw(st.booleans()):
        options["base_offset"] = max(0, offset - draw(st.integers(0, 3)))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        timestamp = draw(times) if magic else -1
        headers = draw(header_lists) if magic == 2 else []
        records.append((draw(maybe_bytes), draw(maybe_bytes), timestamp, headers, offset))
        offset += draw(st.sampled_from([1, 1, 1, 2, 300]))
    return options, records


def read(data: bytes) -> list[Fields]:
    return [fields(r) for r in kafkafmt.read_records(data, control=True)]


def expected(options: dict[str, Any], records: list[Input]) -> list[Fields]:
    """Return the field values that a reader of the built batch must return."""
    stamp, magic = options.get("log_append_time"), options["magic"]
    kind = -1 if magic == 0 else 0 if stamp is None else 1
    return [(o, t if stamp is None else stamp, kind, k, v, tuple((n, d) for n, d in h)) for k, v, t, h, o in records]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_built_batch_is_read_back(package: ModuleType, magic: int) -> None:
    @QUICK
    @given(batches(magic))
    def check(
        case: tuple[dict[str, Any], list[Input]],
    ) -> None:
        options, records = case
        data = build_batch(records, **options)
        assert read(data) == expected(options, records)
        tables = [t.copy() for t in iter_tables(data)]
        rows = np.concatenate(tables)
        if magic == 2:
            (row,) = rows
            assert row["base_offset"] == options.get("base_offset", records[0][4])
            assert row["max_timestamp"] == options.get("log_append_time", max(t for _, _, t, _, _ in records))
            assert row["base_timestamp"] == options.get("delete_horizon", records[0][2])
            for name in ("producer_id", "producer_epoch", "base_sequence", "leader_epoch"):
                assert row[name] == options.get(name, -1)

    check()


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_cores_build_the_same_bytes(
    native: ModuleType, pure: ModuleType, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @QUICK
    @given(batches(magic), st.integers(60, 400))
    def check(
        case: tuple[dict[str, Any], list[Input]],
        room: int,
    ) -> None:
        options, records = case
        keys, values, timestamps, headers, offsets = map(list, zip(*records, strict=True))
        columns = columns_of(keys, values, timestamps, headers if magic == 2 else None, offsets)
        made: list[Any] = []
        for core in (native, pure):
            monkeypatch.setattr("kafkafmt.records.builder.core", core)
            made.append([list(build_batches(records, room, **options)), list(build_columns(columns, room, **options))])
        assert made[0] == made[1]
        assert made[0][0] == made[0][1]
        for core in (native, pure):  # many batches in one call
            if options["codec"] == "none":
                buffer = core.RecordBuffer(magic, max_size=room)
                assert buffer.append_columns(*columns[1:], 0, len(records), True) == len(records)
                buffer.close()
                made.append(buffer.take_closed())
        assert len(set(made[2:])) <= 1

    check()


def test_uncompressed_bytes_are_those_of_an_independent_builder(package: ModuleType) -> None:
    records: list[Input] = [
        (b"k", b"v", 1000, [("h", None)], 0),
        (None, b"", 900, [], 3),
        (b"", None, 2**40, [("ä", b"x" * 70)] * 2, 70),
    ]
    ours = build_batch(records, leader_epoch=7, producer_id=4, producer_epoch=2, base_sequence=9, transactional=True)
    theirs = building.batch(
        [(o, t - 1000, k, v, [(n.encode(), d) for n, d in h]) for k, v, t, h, o in records],
        base_timestamp=1000, leader_epoch=7, producer_id=4, producer_epoch=2, base_sequence=9, flags=building.TRANSACTIONAL,
    )  # fmt: skip
    assert ours == theirs


def test_plain_messages_are_those_of_an_independent_builder(package: ModuleType) -> None:
    for magic in (0, 1):
        time = 5 if magic else -1
        ours = build_batch([(b"k", b"v", time, (), 4), (None, None, time, (), 9)], magic=magic)
        theirs = [
            building.message(magic, *kv, offset=o, timestamp=time) for o, kv in ((4, (b"k", b"v")), (9, (None, None)))
        ]
        assert ours == b"".join(theirs)


@pytest.mark.parametrize(("codec", "level"), LEVELS)
def test_batch_with_any_level_is_read_back(package: ModuleType, codec: Codec, level: int) -> None:
    records = [(b"key", b"some words that come again and again %d" % i) for i in range(500)]
    data = build_batch(records, codec=codec, level=level)
    assert [r[3:5] for r in read(data)] == records


@pytest.mark.parametrize(
    ("codec", "level"), [("gzip", 0), ("gzip", 10), ("snappy", 1), ("lz4", 0), ("lz4", 18), ("zstd", 23), ("none", 1)]
)
def test_level_unknown_to_kafka_is_rejected(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=r"level"):
        BatchBuilder(codec=codec, level=level)


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("size", [0, 1, 100, 65536, 200_001])
def test_compressed_size_never_exceeds_the_bound(codec: Codec, size: int) -> None:
    compressor = Compressor(CODECS.index(codec))
    noise = np.random.default_rng(size).bytes(size)
    assert len(compressor.compress(noise)) <= compressor.max_size(size)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_batch_size_never_exceeds_the_limit(package: ModuleType, magic: int, codec: Codec) -> None:
    rng = np.random.default_rng(1)
    records = [(None, rng.bytes(int(rng.integers(0, 200)))) for _ in range(300)]
    made = list(build_batches(records, 1500, magic=magic, codec=codec))
    assert max(map(len, made)) <= 1500
    assert min(map(len, made[:-1])) > 700
    assert [r[0] for r in read(b"".join(made))] == list(range(300))
    assert [r[3:5] for r in read(b"".join(made))] == records


def test_remaining_space_is_reported_exactly(package: ModuleType) -> None:
    builder = BatchBuilder(max_bytes=200)
    assert builder.has_room_for(None, b"x" * 1000)  # the first record is always accepted
    builder.append(b"k", b"v")
    rest = 200 - builder.size
    for n in range(rest - 20, rest + 5):
        assert builder.has_room_for(None, b"x" * n) == (len(building.record(1, 1, None, b"x" * n)) <= rest)
    assert builder.append(None, b"x" * (rest - 9))
    assert builder.size == 200
    assert not builder.append(None, None)
    assert len(builder.finish()) == 200
    assert (builder.count, builder.next_offset) == (0, 2)
    assert builder.finish() == b""


def test_record_larger_than_the_limit_gets_a_separate_batch(package: ModuleType) -> None:
    made = list(build_batches([(None, b"x" * 50), (None, b"y" * 500), (None, b"z")], 150))
    assert [len(read(data)) for data in made] == [1, 1, 1]


def test_sequences_and_offsets_continue_in_the_next_batch(package: ModuleType) -> None:
    made = list(
        build_batches(
            [(None, b"x" * 40)] * 10, 170, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3, base_offset=100
        )
    )
    rows = np.concatenate([t.copy() for t in iter_tables(b"".join(made))])
    assert rows["base_offset"].tolist() == [100, 102, 104, 106, 108]
    assert rows["base_sequence"].tolist() == [2**31 - 3, 2**31 - 1, 1, 3, 5]


def test_last_offset_can_be_after_the_last_record(package: ModuleType) -> None:
    builder = BatchBuilder(producer_id=1, producer_epoch=0, base_sequence=0)
    builder.append(b"k", b"v", offset=10)
    with pytest.raises(ValueError, match="last_offset is 9"):
        builder.finish(last_offset=9)
    data = builder.finish(last_offset=14)
    (table,) = iter_tables(data)
    assert (table["base_offset"][0], table["last_offset_delta"][0], table["count"][0]) == (10, 4, 1)
    builder.append(b"k", b"v")
    (table,) = iter_tables(builder.finish())
    assert (table["base_offset"][0], table["base_sequence"][0]) == (15, 5)


RECORD_RULES = [
    ({}, (b"", b"", -2), "timestamp"),
    ({}, (b"", b"", 1, (), 4), "offset_order"),
    ({}, (b"", b"", 1, (), 5 + 2**31), "offset_delta"),
    ({}, (b"", b"", 1, (), 2**63 - 1), "offset_order"),
    ({}, (b"", b"", 1, (), -1), "offset_order"),
    ({"magic": 1}, (b"", b"", 1, [("h", b"")]), "headers_in_format"),
    ({"magic": 0}, (b"", b"", 1), "timestamp_in_format"),
]


@pytest.mark.parametrize(("options", "record", "rule"), RECORD_RULES)
def test_record_that_violates_a_rule_is_rejected(
    package: ModuleType, options: dict[str, Any], record: tuple[Any, ...], rule: str
) -> None:
    builder = BatchBuilder(base_offset=5, **options)
    for _ in range(2):
        before = builder.count, builder.size, builder.next_offset
        for call in (builder.append, builder.has_room_for, lambda *r: builder.extend([r])):
            with pytest.raises(InvalidError) as caught:
                call(*record)
            assert caught.value.code == rule
        assert (builder.count, builder.size, builder.next_offset) == before
        assert builder.append(None, b"valid")
    assert [r[0] for r in read(builder.finish())] == [5, 6]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"magic": 1, "codec": "zstd"}, "codec_in_format"),
        ({"magic": 1, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0}, "producer_id_in_format"),
        ({"magic": 0, "transactional": True}, "transactional_in_format"),
        ({"magic": 1, "control": True}, "control_in_format"),
        ({"magic": 1, "delete_horizon": 5}, "delete_horizon_in_format"),
        ({"magic": 0, "log_append_time": 5}, "timestamp_in_format"),
        ({"transactional": True}, "producer_id"),
        ({"producer_id": -2}, "producer_id"),
        ({"producer_id": 1, "base_sequence": 0}, "producer_epoch"),
        ({"producer_id": 1, "producer_epoch": 0}, "base_sequence"),
        ({"log_append_time": -1}, "timestamp"),
    ],
)
def test_batch_that_violates_a_rule_is_rejected(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidError) as caught:
        BatchBuilder(**options)
    assert caught.value.code == rule


WRONG = [
    (("text", b""), TypeError), ((b"", 5), TypeError), ((b"", b"", 1.5), TypeError), ((b"", b"", None), TypeError),
    ((b"", b"", 2**63), OverflowError), ((b"", b"", 1, (), "x"), TypeError), ((b"", b"", 1, [(None, b"")]), TypeError),
    ((b"", b"", 1, [("h", "text")]), TypeError), ((b"", b"", 1, [("h",)]), ValueError), ((b"", b"", 1, 5), TypeError),
    ((b"", b"", 1, [("\ud800", b"")]), ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("record", "error"), WRONG)
def test_wrong_record_is_rejected(package: ModuleType, record: tuple[Any, ...], error: type[Exception]) -> None:
    builder = BatchBuilder()
    with pytest.raises(error):
        builder.append(*record)
    with pytest.raises(error):
        builder.extend([record])
    assert builder.count == 0


def test_bytes_like_keys_and_values_are_accepted(package: ModuleType) -> None:
    builder = BatchBuilder()
    append: Callable[..., bool] = builder.append  # the types of these arguments are wider than the declared types
    append(
        bytearray(b"k"),
        memoryview(b"value")[1:],
        np.int64(7),
        ((np.str_("h"), memoryview(b"x")), [b"i", None]),
        np.int32(4),
    )
    builder.append(np.array([1, 2], ">i2"), pa.py_buffer(b"arrow"), True)
    builder.extend([(b"", b"", 1, None)])
    assert read(builder.finish()) == [
        (4, 7, 0, b"k", b"alue", (("h", b"x"), ("i", None))),
        (5, 1, 0, b"\0\1\0\2", b"arrow", ()),
        (6, 1, 0, b"", b"", ()),
    ]


def test_records_that_were_read_can_be_built_again(package: ModuleType) -> None:
    data = build_batch([(b"k", b"v", 5, [("h", b"x")]), (None, None, 6)])
    assert build_batch(kafkafmt.read_records(data)) == data


def test_extend_continues_at_the_returned_index(package: ModuleType) -> None:
    records = [(None, b"x" * 30)] * 10
    builder = BatchBuilder(max_bytes=200)
    stops, at = [], 0
    while at < 10:
        at = builder.extend(records, at)
        stops.append(at)
        builder.finish()
    assert stops == [3, 6, 9, 10]
    wrong: list[tuple[Any, type[Exception]]] = [
        (iter(()), TypeError),
        ([5], TypeError),
        ([(b"",)], ValueError),
        ([(b"",) * 6], ValueError),
    ]
    for argument, error in wrong:
        with pytest.raises(error):
            builder.extend(argument)


def test_build_batch_rejects_records_that_do_not_fit(package: ModuleType) -> None:
    with pytest.raises(TooLargeError, match="only 2 of 3 records fit into one batch"):
        build_batch([(b"", b"x" * 40)] * 3, max_bytes=170)


COLUMNS: dict[str, tuple[Any, list[bytes | None]]] = {
    "list": ([b"a", None, b"ccc"], [b"a", None, b"ccc"]),
    "bytearrays": ([bytearray(b"a"), memoryview(b"bb")], [b"a", b"bb"]),
    "objects": (np.array([b"a", None, b"c\0"], object), [b"a", None, b"c\0"]),
    "S": (np.array([b"a", b"", b"ccc"]), [b"a", b"", b"ccc"]),
    "S, strided": (np.array([b"a", b"x", b"cc", b"x"])[::2], [b"a", b"cc"]),
    "rows": (np.arange(6, dtype=np.uint8).reshape(3, 2), [b"\0\1", b"\2\3", b"\4\5"]),
    "binary": (pa.array([b"a", None, b"ccc"]), [b"a", None, b"ccc"]),
    "sliced": (pa.array([b"a", None, b"ccc", None, b"", b"f" * 99])[1:5], [None, b"ccc", None, b""]),
    "string": (pa.array(["ä", None]), ["ä".encode(), None]),
    "large": (pa.array([b"a", None, b"ccc"], pa.large_binary())[1:], [None, b"ccc"]),
    "large string": (pa.array(["a"], pa.large_string()), [b"a"]),
    "fixed": (pa.array([b"ab", None, b"cd"], pa.binary(2))[1:], [None, b"cd"]),
    "view": (pa.array([b"a", None, b"c" * 20], pa.binary_view()), [b"a", None, b"c" * 20]),
    "string view": (pa.array(["a", None], pa.string_view()), [b"a", None]),
    "dictionary": (pa.array([b"a", b"b", b"a"]).dictionary_encode(), [b"a", b"b", b"a"]),
    "chunked": (pa.chunked_array([[b"a"], [b"b", None]]), [b"a", b"b", None]),
    "nulls": (pa.nulls(2), [None, None]),
    "pandas": (pd.Series([b"a", None]), [b"a", None]),
    "polars": (pl.Series([b"a", None, b"ccc"]), [b"a", None, b"ccc"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_keys_and_values_are_built(package: ModuleType, kind: str) -> None:
    column, plain = COLUMNS[kind]
    data = b"".join(build_columns(columns_of(key=column, value=column, timestamp=7)))
    assert [(r[1], r[3], r[4]) for r in read(data)] == [(7, v, v) for v in plain]


TIMES = {
    "list": [5, None, 7],
    "int32": np.array([5, -1, 7], np.int32),
    "ms": np.array([5, "NaT", 7], "datetime64[ms]"),
    "us": np.array([5999, "NaT", 7000], "datetime64[us]"),
    "arrow": pa.array([5_000_001, None, 7_000_000], pa.timestamp("ns", "UTC")),
    "arrow ints": pa.array([9, 5, None, 7])[1:],
    "pandas": pd.Series(np.array([5, "NaT", 7], "datetime64[ms]")),
    "polars": pl.Series([5, None, 7]),
    "arrow, chunked": pa.chunked_array([pa.array([5, None]), pa.array([7])]),
}


@pytest.mark.parametrize("kind", TIMES)
def test_columns_of_timestamps_are_converted(kind: str) -> None:
    assert required(columns_of(timestamp=TIMES[kind]).timestamps).tolist() == [5, -1, 7]


HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
HEADERS = [[("a", b"1"), ("b", None)], None, [], [("", b"")]]


@pytest.mark.parametrize(
    "column",
    [
        HEADERS,
        pa.array(HEADERS, HEADERS_TYPE),
        pa.array([[("z", b"z")] * 3, *HEADERS, None], HEADERS_TYPE)[1:5],
        pa.array(HEADERS, pa.map_(pa.string(), pa.binary())),
        pa.chunked_array([pa.array(HEADERS[:1], HEADERS_TYPE), pa.array(HEADERS[1:], HEADERS_TYPE)]),
    ],
)
def test_columns_of_headers_are_built(
    package: ModuleType, column: list[list[tuple[str, bytes | None]] | None] | ChunkedArray | ListArray | MapArray
) -> None:
    data = b"".join(build_columns(columns_of(headers=column)))
    assert [r[5] for r in read(data)] == [(("a", b"1"), ("b", None)), (), (), (("", b""),)]


def test_arrow_table_can_be_built_again(package: ModuleType) -> None:
    """`columns_of` accepts the columns that `to_arrow` returns."""
    records = [(b"k%d" % i, None if i % 5 == 0 else b"v" * i, 1000 + i, [("h", b"x")] * (i % 3)) for i in range(50)]
    data = b"".join(build_batches(records, 400))
    (batch,) = kafkafmt.to_arrow(data).to_batches()
    columns = columns_of(batch["key"], batch["value"], batch["timestamp"], batch["headers"], batch["offset"])
    assert b"".join(build_columns(columns, 400)) == data


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"magic": 2.0}, ValueError), ({"magic": True}, ValueError), ({"codec": True}, ValueError), ({"base_offset": 1.5}, TypeError),
        ({"leader_epoch": 2**31}, OverflowError), ({"producer_id": 2**63}, OverflowError), ({"log_append_time": 2**63}, OverflowError),
        ({"producer_epoch": 2**15, "producer_id": 1, "base_sequence": 0}, OverflowError), ({"delete_horizon": 0.5}, TypeError),
    ],
)  # fmt: skip
def test_option_that_does_not_fit_its_field_is_rejected(
    package: ModuleType, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        BatchBuilder(**options)


def test_size_limit_beyond_64_bits_means_no_limit() -> None:
    assert build_batch([(b"k", b"v")], max_bytes=2**80) == build_batch([(b"k", b"v")])


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"key": [b""], "value": [b"", b""]}, ValueError),
        ({"timestamp": 5}, ValueError),
        ({"key": ["text"]}, TypeError),
        ({"key": pa.array([5])}, TypeError),
        ({"timestamp": [1.5]}, TypeError),
        ({"timestamp": ["x"]}, TypeError),
    ],
)
def test_wrong_columns_are_rejected(columns: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        columns_of(**columns)


def test_spans_outside_their_buffer_are_rejected(core: ModuleType) -> None:
    from kafkafmt.types import HeaderSpans, Spans

    def spans(*places: tuple[int, int], size: int = 10) -> Spans:
        positions, lengths = zip(*places, strict=True)
        return Spans(bytes(size), np.array(positions, np.int64), np.array(lengths, np.int32))

    for bad in (
        spans((0, 2), (9, 2)),
        spans((0, 2), (-1, 1)),
        spans((0, 2), (11, 0)),
        spans((0, 2), (2**62, 2**31 - 1)),
    ):
        buffer = core.RecordBuffer()
        with pytest.raises(ValueError, match="row 1"):
            buffer.append_columns(bad, None, None, None, None, 0, 2)
        assert buffer.count == 1
    good = spans((0, 2), (1, 2))
    for starts, counts in (((0, 2), (1, 1)), ((0, -1), (1, 1)), ((0, 0), (1, 3)), ((0, 0), (1, -1))):
        headers = HeaderSpans(np.array(starts, np.int64), np.array(counts, np.int32), good, good)
        with pytest.raises(ValueError, match="row 1"):
            core.RecordBuffer().append_columns(None, good, None, None, headers, 0, 2)
    headers = HeaderSpans(np.array([0], np.int64), np.array([1], np.int32), spans((0, -1)), good)
    with pytest.raises(InvalidError) as caught:
        core.RecordBuffer().append_columns(None, good, None, None, headers, 0, 1)
    assert caught.value.code == "header_key"
    for arguments in ((good, None, None, None, None, 0, 3), (good, None, None, None, None, 2, 1)):
        with pytest.raises(ValueError):
            core.RecordBuffer().append_columns(*arguments)


odd_values = st.one_of(st.none(), st.binary(max_size=70), st.just("text"), st.just(bytearray(b"xy")), st.just(5))
odd_headers = st.one_of(
    st.none(), st.just(()), st.lists(st.tuples(st.one_of(st.text(max_size=3), st.binary(max_size=3), st.none()), odd_values), max_size=3),
    st.just([("h",)]), st.just({"a": b"b"}), st.just(7), st.just([["k", b"v"]]),
)  # fmt: skip
odd_numbers = st.one_of(
    st.integers(-3, 10), st.integers(-(2**64), 2**64), st.sampled_from([2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63)])
)
odd_records = st.tuples(
    odd_values, odd_values, st.one_of(odd_numbers, st.none()), odd_headers, st.one_of(st.none(), odd_numbers)
)


@settings(deadline=None, max_examples=250)
@given(
    st.sampled_from([0, 1, 2]), st.sampled_from([0, 8, 1, 0x40]), st.integers(50, 300), st.one_of(st.none(), st.just(3)),
    st.lists(st.tuples(st.sampled_from(["append", "has_room_for", "extend", "close"]), odd_records), max_size=8),
)  # fmt: skip
def test_cores_agree_on_valid_and_invalid_calls(
    magic: int,
    attributes: int,
    room: int,
    base_offset: int | None,
    calls: list[
        tuple[
            str,
            tuple[
                bytearray | bytes | int | str | None,
                bytearray | bytes | int | str | None,
                int | None,
                dict[str, bytes]
                | int
                | list[list[bytes | str] | tuple[bytearray | bytes | int | str | None, ...]]
                | tuple[()]
                | None,
                int | None,
            ],
        ]
    ],
) -> None:
    """Compare results, types of errors, our own error messages, and the buffer after each call."""
    native = pytest.importorskip("kafkafmt._core")
    outcomes = []
    for core in (native, _pure):
        buffer = core.RecordBuffer(magic, attributes, room, base_offset, append_time=5, delete_horizon=6)
        seen = []
        for name, record in calls:
            try:
                if name == "close":
                    seen.append(buffer.close(b"packed" if attributes & 7 else None))
                else:
                    seen.append(
                        buffer.extend([record, record[:2]]) if name == "extend" else getattr(buffer, name)(*record)
                    )
            except KafkaFormatError as error:
                seen.append((str(error), type(error).__name__, error.code))
            except (TypeError, ValueError, OverflowError) as error:
                seen.append(type(error).__name__)
            seen.append((buffer.count, buffer.size, buffer.base_offset, buffer.next_offset, buffer.max_timestamp))
            seen.append(buffer.records())
        buffer.close(b"packed" if attributes & 7 else None)
        outcomes.append((seen, buffer.take_batches()))
    assert outcomes[0] == outcomes[1]


def test_error_in_an_argument_leaves_the_batch_unchanged(package: ModuleType) -> None:
    def broken() -> Iterator[tuple[str, bytes]]:
        yield ("a", b"1")
        raise ZeroDivisionError

    class Number:
        def __init__(self, records: list[Any]) -> None:
            self.records = records

        def __index__(self) -> int:
            self.records.clear()
            return 7

    builder = BatchBuilder()
    builder.append(b"k", b"v", 5)
    size = builder.size
    calls: list[Callable[[], object]] = [
        lambda: builder.append(b"k", b"w", 5, broken()),
        lambda: builder.has_room_for(b"k", b"w", 5, broken()),
        lambda: builder.extend([(b"k", b"w", 5, broken())]),
    ]
    for add in calls:
        with pytest.raises(ZeroDivisionError):
            add()
        assert (builder.count, builder.size) == (1, size)
    records: list[Any] = [(b"k", b"w", 6)] * 3
    records[1] = (b"k", b"w", Number(records))
    assert builder.extend(records) == 2  # the list is emptied while the second record is appended
    assert [(r.value, r.timestamp) for r in read_records(builder.finish())] == [(b"v", 5), (b"w", 6), (b"w", 7)]


def test_validator_can_be_shared_by_threads() -> None:
    import threading

    validator, outcomes = LogValidator(now_ms=9), []
    batches = [build_batch([(b"k", b"v" * i, 5)] * 50, codec=codec) for i, codec in enumerate(CODECS)]

    def work(batch: bytes, first: int) -> None:
        for _ in range(20):
            done = validator.validate(batch, first)
            outcomes.append(
                (
                    done.next_offset - first,
                    [r.offset for r in read_records(done.records)] == list(range(first, first + 50)),
                )
            )

    threads = [threading.Thread(target=work, args=(batch, 10 * i)) for i, batch in enumerate(batches * 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [(50, True)] * 200


def test_second_thread_on_one_buffer_raises(native: ModuleType) -> None:
    """The second thread waits or gets an error. In both cases, the buffer remains consistent."""
    import threading

    columns = columns_of(value=[b"v" * 90] * 20_000)
    buffer, done = native.RecordBuffer(max_size=16384), []

    def work() -> None:
        for _ in range(30):
            try:
                done.append(buffer.append_columns(*columns[1:], 0, columns.rows, True))
            except RuntimeError as error:
                assert "another thread" in str(error)  # noqa: PT017

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.close()
    assert len(read(buffer.take_closed())) == 20_000 * len(done)


@pytest.mark.slow  # needs kafka-python, which `make setup` does not install
@pytest.mark.parametrize("codec", CODECS[:4])
def test_kafka_python_reads_built_batches(codec: Codec) -> None:
    """lz4 is omitted for format 0, because kafka-python then needs the package xxhash."""
    from kafka.record import MemoryRecords

    records = [(b"k", b"v" * 50, 5), (None, b"", 6), (b"", None, 7)]
    for magic in (0, 1, 2):
        if magic == 0 and codec == "lz4":
            continue
        data = build_batch([(*r[:2], r[2] if magic else -1) for r in records], magic=magic, codec=codec, base_offset=10)
        read = [(r.offset, r.key, r.value) for batch in iter(MemoryRecords(data).next_batch, None) for r in batch]
        assert read == [(10 + i, *r[:2]) for i, r in enumerate(records)]


def test_lz4_of_format_0_has_the_wrong_checksum_of_kafka(package: ModuleType) -> None:
    (right, wrong) = (build_batch([(None, b"v" * 99)], magic=magic, codec="lz4") for magic in (1, 0))
    at = (12 + 22 + 6, 12 + 14 + 6)
    assert (right[at[0]], wrong[at[1]]) == (0x82, 0xBC) or right[at[0]] != wrong[at[1]]
    assert struct.unpack_from(">I", wrong, 26)[0] == 0x04224D18


def test_errors_can_be_pickled() -> None:
    import pickle

    error = InvalidError("m", 1, 2, 3, "rule")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, KafkaFormatError)
    assert (str(again), again.code, again.resume) == (str(error), "rule", 3)
