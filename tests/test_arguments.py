"""Check that errors about arguments name the argument, and that public objects have a short repr."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from building import batch, record
from golden_cases import case

import kafkafmt

ONE = kafkafmt.build_batch([(b"k", b"v", 5)])


@pytest.fixture
def log(tmp_path: Path) -> kafkafmt.Log:
    """Return a log in which t-0 has ten records, one per second since 1970. t-1 and u-0 are empty."""
    for name, data in (
        ("t-0", batch([record(i, i * 1000) for i in range(10)], base_timestamp=0)),
        ("t-1", b""),
        ("u-0", b""),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(data)
    return kafkafmt.open(tmp_path)


@pytest.mark.parametrize(
    ("selection", "error", "words"),
    [
        ({"start": "5"}, TypeError, "start must be an offset, not '5'"),
        ({"end": 1.5}, TypeError, "end must be an offset, not 1.5"),
        ({"start_time": 1.5}, TypeError, "start_time must be a time: milliseconds since 1970"),
        ({"start_time": "soon"}, ValueError, "start_time: 'soon' is not a time"),
        ({"end_time": date(2026, 1, 1)}, TypeError, "end_time must be a time: milliseconds since 1970"),
        ({"start_time": datetime(2026, 1, 1)}, ValueError, "start_time is .* has no time zone"),
        ({"start": 5, "start_time": 5}, ValueError, "start and start_time cannot both be given"),
        (
            {"first_offset": 5},
            TypeError,
            "unknown argument 'first_offset'; the valid arguments are .*start, end, |unexpected keyword argument 'first_offset'",
        ),
        ({"on_error": "ignore"}, ValueError, "on_error is 'ignore'; it must be 'fail' or 'skip'"),
        ({"isolation": None}, ValueError, "isolation is None; it must be 'read_uncommitted' or 'read_committed'"),
    ],
)
def test_wrong_selection_is_rejected(
    log: kafkafmt.Log, selection: dict[str, Any], error: type[Exception], words: str
) -> None:
    for take in (log["t", 0].records, log["t", 0].to_arrow, log["t", 0].to_batches):
        with pytest.raises(error, match=words):
            take(**selection)


def test_unknown_argument_of_open_is_reported_with_the_public_name() -> None:
    with pytest.raises(TypeError, match=r"^open\(\) got an unexpected keyword argument 'replica'"):
        kafkafmt.open("x", replica="longest")  # type: ignore[call-arg]


def test_valid_words_are_listed() -> None:
    validator = kafkafmt.records.LogValidator
    with pytest.raises(ValueError, match="origin is 'me'; it must be 'client', 'coordinator' or 'raft_leader'"):
        validator(origin="me")
    with pytest.raises(ValueError, match="timestamp_type is 0; it must be 'CreateTime' or 'LogAppendTime'"):
        validator(timestamp_type=0)  # type: ignore[arg-type]


def test_wrong_columns_are_rejected(log: kafkafmt.Log) -> None:
    for take in (log["t", 0].to_arrow, lambda columns: kafkafmt.to_arrow(ONE, columns)):
        with pytest.raises(TypeError, match="columns must be a list of names"):
            take("offset")
        with pytest.raises(ValueError, match="no column 'ofset'; the columns are key, value, topic, "):
            take(["ofset"])
        assert take(iter(["offset", "timestampMillis"])).column_names == ["offset", "timestampMillis"]  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="no column 'timestampType'; the columns are offset, timestamp, timestamp_type"
    ):
        kafkafmt.read_records(ONE, columns=["timestampType"])


def test_times_are_milliseconds_or_have_a_time_zone(log: kafkafmt.Log) -> None:
    summer = timezone(timedelta(hours=2))
    for time in (3000, datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC), datetime(1970, 1, 1, 2, 0, 3, tzinfo=summer)):
        assert [r.offset for r in log["t", 0].records(start_time=time, end=5)] == [3, 4]
        assert log["t", 0].offset_at(time) == 3
    with pytest.raises(ValueError, match=r"time is .* has no time zone"):
        log["t", 0].offset_at(datetime(1970, 1, 1))


def test_missing_partition_is_named(log: kafkafmt.Log) -> None:
    for key, error, words in (
        (("t", 7), KeyError, "there is no partition t-7; the existing partitions are 0 and 1"),
        (("tt", 0), KeyError, "there is no topic tt; the nearest topic is t"),
        ("tt", KeyError, "there is no topic tt; the nearest topic is t"),
        (("t", 0, 1), TypeError, r"the key of log\[\.\.\.\] must be a topic, .*, not \('t', 0, 1\)"),
        (7, TypeError, r"the key of log\[\.\.\.\] must be a topic, .*, not 7"),
        (("t", "0"), TypeError, "partition must be a whole number, not '0'"),
    ):
        with pytest.raises(error, match=words):
            log[key]  # type: ignore[index]


def test_wrong_arguments_of_open_are_rejected(tmp_path: Path) -> None:
    roots = case("jbod").roots
    with kafkafmt.open(list(roots)) as log:
        assert repr(log) == repr(kafkafmt.open(*roots))
    for paths in ((), ([],), (5,), ([None],)):
        with pytest.raises(TypeError, match="path"):
            kafkafmt.open(*paths)
    with pytest.raises(kafkafmt.NoLogError, match="no Kafka log found"):
        kafkafmt.open(tmp_path)
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
        (tmp_path / name / "t-0" / f"{0:020}.log").write_bytes(ONE)
    with pytest.raises(kafkafmt.DuplicatePartitionError, match="is in both"):
        kafkafmt.open(tmp_path / "a", tmp_path / "b")
    with pytest.raises(TypeError, match="max_batch_bytes must be a whole number"):
        kafkafmt.open(roots[0], max_batch_bytes="1MB")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: kafkafmt.read_records("text"),  # type: ignore[call-overload]
            TypeError,
            "bytes-like object with batches is required, not 'text'; kafkafmt.open reads files",
        ),
        (lambda: kafkafmt.read_records(ONE, start=-1), ValueError, "start is -1; it cannot be negative"),
        (lambda: kafkafmt.read_records(ONE, end="9"), TypeError, "end must be an offset, not '9'"),  # type: ignore[call-overload]
        (lambda: kafkafmt.records.convert(ONE, "1"), ValueError, "magic is '1'; it must be 0, 1 or 2"),  # type: ignore[arg-type]
        (lambda: kafkafmt.build_batch([], magic="2"), ValueError, "magic is '2'; it must be 0, 1 or 2"),  # type: ignore[arg-type]
        (
            lambda: kafkafmt.build_batch([], max_bytes="16k"),  # type: ignore[arg-type]
            TypeError,
            "max_bytes must be a number of bytes, not '16k'",
        ),
        (lambda: kafkafmt.build_batch([], producer_id="7"), TypeError, "producer_id must be a whole number, not '7'"),  # type: ignore[arg-type]
        (lambda: kafkafmt.records.columns_of(), ValueError, "no column is given"),
        (
            lambda: kafkafmt.records.columns_of(key=b"a"),
            TypeError,
            "key must be a column, such as a list or an array, not b'a'",
        ),
        (
            lambda: kafkafmt.records.columns_of(key=[b"a"], value=[b"a", b"b"]),
            ValueError,
            "must have the same length, but key has 1, value has 2",
        ),
        (lambda: list(kafkafmt.records.build_columns([b"a"])), TypeError, "columns_of"),  # type: ignore[arg-type]
        (
            lambda: kafkafmt.records.validate_and_assign_offsets(ONE, "5"),  # type: ignore[arg-type]
            TypeError,
            "next_offset must be a whole number",
        ),
        (lambda: kafkafmt.records.Partitioner("3"), TypeError, "partitions must be a whole number"),  # type: ignore[arg-type]
        (
            lambda: kafkafmt.LogSettings(segment_bytes="64MB"),  # type: ignore[arg-type]
            TypeError,
            "segment_bytes must be a number of bytes, not '64MB'",
        ),
        (lambda: kafkafmt.LogSettings(flush_ms="1"), TypeError, "flush_ms must be a number of milliseconds, not '1'"),  # type: ignore[arg-type]
        (
            lambda: kafkafmt.LogSettings(retention_ms=None),  # type: ignore[arg-type]
            TypeError,
            "retention_ms must be a number of milliseconds, not None",
        ),
    ],
)
def test_wrong_argument_raises_with_its_name(call: Callable[[], object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_wrong_arguments_of_a_writer_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="segment_bytes must be a number of bytes"):
        kafkafmt.LogDirectory(tmp_path / "new", segment_bytes="64MB")  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    with kafkafmt.LogDirectory(tmp_path / "log") as directory:
        for topic, partition in (("t", "0"), (b"t", 0)):
            with pytest.raises((TypeError, ValueError), match=r"partition must be a whole number|a topic name has"):
                directory.writer(topic, partition)  # type: ignore[arg-type]
        writer = directory.writer("t")
        for call in (writer.truncate_to, writer.delete_before):
            with pytest.raises(TypeError, match="offset must be a whole number"):
                call("1")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            writer.append_batches(100)  # type: ignore[arg-type]


def test_headers_may_be_a_dict(package: ModuleType) -> None:
    pairs = [("a", b"1"), ("longer", None)]
    assert kafkafmt.build_batch([(b"k", b"v", 1, dict(pairs))]) == kafkafmt.build_batch([(b"k", b"v", 1, pairs)])
    columns = kafkafmt.records.columns_of(key=[b"k", b"k"], headers=[dict(pairs), None])
    assert [r.headers for r in kafkafmt.read_records(next(kafkafmt.records.build_columns(columns)))] == [
        tuple(pairs),
        (),
    ]


def test_repr_of_public_objects_is_one_line() -> None:
    log = kafkafmt.open(case("internal").roots[0])
    big = kafkafmt.build_batch([(b"k", b"v" * 10_000)])
    things = [
        log, log.partitions[0], log.groups(), kafkafmt.records.BatchBuilder(), kafkafmt.records.Partitioner(3), kafkafmt.records.LogValidator(),
        kafkafmt.LogSettings(), kafkafmt.records.columns_of(key=[b"k" * 10_000]), kafkafmt.records.convert(big, 1), kafkafmt.records.recompress(big, "zstd"),
        kafkafmt.records.validate_and_assign_offsets(big, 3), kafkafmt.check_batches(big), next(kafkafmt.iter_batches(big)),
    ]  # fmt: skip
    for thing in things:
        assert len(repr(thing)) < 300, repr(thing)
        assert " object at 0x" not in repr(thing)


def test_tab_completion_lists_public_names() -> None:
    offered = dir(kafkafmt)
    assert set(kafkafmt.__all__) < set(offered)
    assert {"protocol", "records"} < set(offered)
    assert not {"Any", "Buffer", "Sequence", "annotations"} & set(offered)
    for name in offered:
        assert getattr(kafkafmt, name) is not None


def test_errors_keep_their_attributes_when_pickled() -> None:
    with pytest.raises(kafkafmt.DamagedLogError) as caught:
        kafkafmt.open(case("torn").roots[0])["torn-flip-old", 0].to_arrow()
    error: Any = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is kafkafmt.DamagedLogError
    assert (str(error), error.damage, error.code, error.resume) == (
        str(caught.value),
        caught.value.damage,
        "corrupt_checksum",
        2176,
    )
