"""Test the options of the data source, in the form in which Spark passes them, without Spark."""

import gzip
import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from building import TRANSACTIONAL, batch, record
from golden_cases import Case, case, same_rows
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from source_rows import COLUMNS, offsets, plan, read, rows, source

from kafkafmt.log import DamagedLogError, NoLogError
from kafkafmt.log.transactions.transactions import TransactionInDoubtError
from kafkafmt.spark.option_text import OptionError
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.sink.write_options import parse_write
from kafkafmt.spark.source.data_source import KafkaLogSource
from kafkafmt.spark.source.options import NAMES
from kafkafmt.spark.source.planning import DataLossError

SEGMENTS = case("segments")
TIME = "segments-time"  # 200 records, 7 s apart
FIRST = 1_700_000_000_000


def read_offsets(case: Case, **options: object) -> dict[tuple[str, int], list[int]]:
    return offsets(read(case.roots, COLUMNS, **options))


def test_internal_topics_are_not_read_by_default() -> None:
    internal = case("internal")
    topics = {topic for topic, _ in read_offsets(internal)}
    assert "source" in topics
    assert [t for t in topics if t.startswith("__")] == []


def test_internal_topics_are_read_if_they_are_named() -> None:
    internal = case("internal")
    assert set(read_offsets(internal, subscribe="__consumer_offsets")) == {
        ("__consumer_offsets", 0),
        ("__consumer_offsets", 1),
    }
    assert set(read_offsets(internal, assign='{"__consumer_offsets": [1], "sink": [0]}')) == {
        ("__consumer_offsets", 1),
        ("sink", 0),
    }
    assert {t for t, _ in read_offsets(internal, subscribePattern="__.*_state")} >= {"__transaction_state"}
    assert [t for t, _ in read_offsets(internal, subscribePattern=".*") if t.startswith("__")] == []
    one_partition = internal.partition_dir("__consumer_offsets", 1)
    assert set(offsets(read(one_partition))) == {("__consumer_offsets", 1)}


def test_topics_are_selected_by_name_pattern_or_assignment() -> None:
    assert set(read_offsets(SEGMENTS, subscribe=f" {TIME}, segments-size")) == {
        (TIME, 0),
        ("segments-size", 0),
        ("segments-size", 1),
    }
    assert set(read_offsets(SEGMENTS, subscribePattern="segments-[st].*")) == {
        (TIME, 0),
        ("segments-size", 0),
        ("segments-size", 1),
    }
    # the pattern must match the whole name, as in Java
    assert read_offsets(SEGMENTS, subscribePattern="segments") == {}
    assert set(read_offsets(SEGMENTS, assign='{"segments-size": [1]}')) == {("segments-size", 1)}


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({}, 0, 199),
        ({"startingOffsets": "earliest", "endingOffsets": "LATEST"}, 0, 199),
        ({"startingOffsets": {TIME: {"0": 101}}}, 101, 199),
        ({"startingOffsets": {TIME: {"0": -2}}, "endingOffsets": {TIME: {"0": -1}}}, 0, 199),
        ({"endingOffsets": {TIME: {"0": 57}}}, 0, 56),
        ({"startingOffsets": {TIME: {"0": 56}}, "endingOffsets": {TIME: {"0": 57}}}, 56, 56),
        ({"startingTimestamp": FIRST + 700_000}, 100, 199),
        ({"startingTimestamp": FIRST + 699_999, "endingTimestamp": FIRST + 700_001}, 100, 100),
        ({"endingTimestamp": FIRST + 10**9}, 0, 199),
        ({"startingOffsetsByTimestamp": {TIME: {"0": FIRST + 1}}}, 1, 199),
        ({"endingOffsetsByTimestamp": {TIME: {"0": str(FIRST + 7000)}}}, 0, 0),
        # in Spark's order of precedence: one time, a time for each partition, offsets
        ({"startingTimestamp": FIRST + 7000, "startingOffsetsByTimestamp": {TIME: {"0": FIRST + 14_000}}}, 1, 199),
        ({"startingOffsetsByTimestamp": {TIME: {"0": FIRST + 14_000}}, "startingOffsets": "latest"}, 2, 199),
        ({"endingTimestamp": FIRST + 7000, "endingOffsets": {TIME: {"0": 57}}}, 0, 0),
    ],
)
def test_bounds_select_offsets(options: dict[str, object], first: int, last: int) -> None:
    options = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in options.items()}
    assert read_offsets(SEGMENTS, subscribe=TIME, **options) == {(TIME, 0): list(range(first, last + 1))}


def test_bounds_without_records_select_nothing_or_raise() -> None:
    assert read_offsets(SEGMENTS, subscribe=TIME, startingOffsets=json.dumps({TIME: {"0": 200}})) == {}
    assert (
        read_offsets(
            SEGMENTS,
            subscribe=TIME,
            startingOffsets=json.dumps({TIME: {"0": 9}}),
            endingOffsets=json.dumps({TIME: {"0": 9}}),
        )
        == {}
    )
    late = {"startingTimestamp": FIRST + 10**9, "startingOffsetsByTimestampStrategy": "latest"}
    assert read_offsets(SEGMENTS, subscribe=TIME, **late) == {}
    with pytest.raises(
        OptionError,
        match=r"startingTimestamp: segments-time-0 has no record with timestamp \d+ or later; .*Strategy=latest",
    ):
        read_offsets(SEGMENTS, subscribe=TIME, startingTimestamp=FIRST + 10**9)


def test_starting_timestamp_finds_the_brokers_offset() -> None:
    for (topic, partition), answers in SEGMENTS.offsets().items():
        for answer in answers["offsetsForTimes"][2:5]:
            found = read_offsets(SEGMENTS, assign=json.dumps({topic: [partition]}), startingTimestamp=answer["asked"])
            assert found[topic, partition][0] == answer["offset"]


def test_records_below_the_log_start_are_read_on_request() -> None:
    deleted = case("delete-records")
    assert read_offsets(deleted)["deleted", 0][0] == 137
    first = int(min(deleted.partition_dir("deleted", 0).glob("*.log")).stem)
    assert first < 137
    assert read_offsets(deleted, belowLogStart="true")["deleted", 0] == list(range(first, 400))
    assert (
        read_offsets(
            deleted, belowLogStart="true", assign='{"deleted": [0]}', startingOffsets='{"deleted": {"0": 120}}'
        )["deleted", 0][0]
        == 120
    )


def test_several_log_directories_are_read_together() -> None:
    jbod = case("jbod")
    assert len(jbod.roots) == 2
    same_rows(rows(read(jbod.roots)), jbod.expected())
    one = rows(read(jbod.roots[0]))
    assert 0 < len(one) < len(jbod.expected())
    as_uri = [jbod.roots[0].as_uri(), str(jbod.roots[1])]
    same_rows(rows(read(as_uri)), jbod.expected())


def test_replicas_raise_unless_the_longest_is_chosen(tmp_path: Path) -> None:
    epochs = case("epochs")
    for name in ("one", "two"):
        shutil.copytree(epochs.roots[0], tmp_path / name)
    shorter = tmp_path / "one" / "epochs-0"
    last = max(shorter.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-100])
    both = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(
        OptionError,
        match=r"epochs-0 is in both .*; pass only one of the two directories, set the option replicas=longest, or merge",
    ):
        read(both)
    same_rows(rows(read(both, replicas="longest")), epochs.expected())


def test_splits_never_share_an_offset_and_keep_the_order() -> None:
    _, partitions = plan(SEGMENTS.roots, splitBytes="2k")
    splits = [split for p in partitions for split in p.task.splits]
    assert len(partitions) == len(splits) > 20
    for key, found in offsets(read(SEGMENTS.roots, splitBytes="2k")).items():
        assert found == sorted(offset for topic, partition, offset in SEGMENTS.expected() if (topic, partition) == key)


def test_large_segment_is_split_between_batches(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    batches = [
        batch([record(0, value=bytes(500_000)), record(1, value=bytes(500_000))], base_offset=2 * i) for i in range(20)
    ]
    entries = [struct.pack(">ii", 2 * i + 1, i * len(batches[0])) for i in range(1, 20)]
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    (tmp_path / "t-0" / f"{0:020}.index").write_bytes(b"".join(entries))
    reader, partitions = plan(tmp_path, columns=("offset",), splitBytes="4m")
    parts = [[o for b in reader.read(p) for o in b.column("offset").to_pylist()] for p in partitions]
    assert len(parts) > 2
    assert all(part[0] % 2 == 0 and len(part) > 2 for part in parts)
    assert [offset for part in parts for offset in part] == list(range(40))


def test_small_partitions_share_a_task() -> None:
    _, partitions = plan(case("jbod").roots)
    assert len(partitions) == 1
    assert len(partitions[0].task.splits) > 10


def test_columns_without_record_fields_are_read() -> None:
    only = read(SEGMENTS.roots, columns=("partition", "topic"), subscribe=TIME)
    assert only.schema.names == ["partition", "topic"]
    assert only.num_rows == 200


def test_batch_above_max_batch_bytes_is_the_only_damage() -> None:
    codecs = case("codecs")
    intact = read(codecs.roots, subscribe="codec-zstd", maxBatchBytes="1k", mode="DROPMALFORMED")
    assert 0 < intact.num_rows < 547
    with pytest.raises(DamagedLogError, match=r"codec-zstd-0/0{20}\.log: .*offsets \d+ to \d+ cannot be read"):
        read(codecs.roots, subscribe="codec-zstd", maxBatchBytes="1k", mode="FAILFAST")


def test_permissive_mode_logs_each_damaged_span(caplog: pytest.LogCaptureFixture) -> None:
    read(case("torn").roots)
    logged = [r.getMessage() for r in caplog.records]
    [flip] = [t for t in logged if "torn-flip-old-0: offsets 144 to 146 cannot be read: " in t]
    assert "00000000000000000096.log, 128 damaged bytes at position 2048: CRC-32C is" in flip
    assert any("offsets 210 to the end cannot be read" in t for t in logged)
    caplog.clear()
    read(case("torn").roots, mode="DROPMALFORMED")
    assert caplog.records == []


def test_failfast_mode_fails_only_for_damage_in_the_range() -> None:
    torn = case("torn")
    bounds = {"mode": "FAILFAST", "subscribe": "torn-flip-old"}
    with pytest.raises(DamagedLogError, match="offsets 144 to 146"):
        read(torn.roots, **bounds)
    assert read_offsets(torn, endingOffsets='{"torn-flip-old": {"0": 144}}', **bounds) == {
        ("torn-flip-old", 0): list(range(144))
    }
    assert read_offsets(torn, startingOffsets='{"torn-flip-old": {"0": 147}}', **bounds) == {
        ("torn-flip-old", 0): list(range(147, 210))
    }


def test_removed_oldest_segment_is_logged_as_retention(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(SEGMENTS.partition_dir(TIME, 0), tmp_path / f"{TIME}-0")
    reader, partitions = plan(tmp_path, splitBytes=1)
    first = min((tmp_path / f"{TIME}-0").glob("*.log"))
    first.unlink()
    left = sum(b.num_rows for p in partitions for b in reader.read(p))
    assert 0 < left < 200
    assert any(f"{first}: deleted by retention before it was read" in r.getMessage() for r in caplog.records)


def test_reader_can_be_pickled() -> None:
    from pyspark import cloudpickle  # as Spark does

    reader, partitions = cloudpickle.loads(cloudpickle.dumps(plan(SEGMENTS.roots, subscribe=TIME)))  # type: ignore[no-untyped-call]
    assert sum(b.num_rows for p in partitions for b in reader.read(p)) == 200


def test_every_option_is_accepted() -> None:
    values = dict.fromkeys(NAMES, "true") | {
        "kafka.bootstrap.servers": "x:9092",
        "kafka.isolation.level": "read_uncommitted",
    }
    with pytest.raises(OptionError, match="only one of subscribe, subscribePattern and assign"):
        source(".", **{k: v for k, v in values.items() if k not in ("path", "paths")})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribes": "x"}, "unknown option subscribes; did you mean subscribe?"),
        ({"xyzzy": "x"}, "unknown option xyzzy; the valid options are subscribe, subscribePattern, assign"),
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign cannot be combined"),
        ({"subscribePattern": "("}, r"subscribePattern is '\(', which is not a valid regular expression"),
        ({"assign": "orders"}, "assign is not valid JSON"),
        ({"assign": '{"orders": 1}'}, "assign must be JSON such as"),
        (
            {"assign": '{"segments-size": [7, 1]}'},
            "assign contains segments-size-7, which does not exist; the existing topics are segments-entries",
        ),
        (
            {"subscribe": "orders"},
            "subscribe contains orders, which does not exist; the existing topics are segments-entries",
        ),
        ({"subscribe": " , "}, "subscribe is ' , ', which selects no topic; omit it to read all topics"),
        ({"subscribePattern": ""}, "subscribePattern is '', which selects no topic"),
        ({"assign": '{"segments-time": []}'}, "assign is .*, which selects no topic"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "5"}, "startingOffsets is '5'; it must be earliest or JSON such as"),
        ({"startingOffsets": "{"}, "startingOffsets is not valid JSON"),
        ({"startingOffsets": '{"segments-time": 5}'}, "startingOffsets must be JSON such as"),
        ({"startingOffsets": '{"segments-time": {"0": true}}'}, "startingOffsets must be JSON such as"),
        (
            {"startingOffsets": '{"segments-time": {"0": -1}}'},
            r"startingOffsets cannot be -1 \(latest\) for segments-time-0",
        ),
        (
            {"endingOffsets": '{"segments-time": {"0": -2}}'},
            r"endingOffsets cannot be -2 \(earliest\) for segments-time-0",
        ),
        (
            {"endingOffsets": '{"segments-time": {"0": -3}}'},
            "endingOffsets of segments-time-0 is -3; it must be at least -2",
        ),
        (
            {"startingOffsets": '{"segments-time": {"0": 1}}'},
            "startingOffsets must include segments-entries-0, .* and 1 more, because the query reads them",
        ),
        (
            {"subscribe": TIME, "startingOffsets": '{"segments-time": {"0": 1, "1": 1}}'},
            "startingOffsets includes segments-time-1, but the query does not read it",
        ),
        ({"startingTimestamp": "2024-01-01"}, "startingTimestamp is '2024-01-01', which is not an integer"),
        ({"startingTimestamp": "-5"}, "startingTimestamp is -5; it must be at least 0"),
        (
            {"startingOffsetsByTimestampStrategy": "first"},
            "startingOffsetsByTimestampStrategy is 'first'; it must be error or latest",
        ),
        ({"mode": "STRICT"}, "mode is 'STRICT'; it must be PERMISSIVE or DROPMALFORMED or FAILFAST"),
        ({"includeHeaders": "yes"}, "includeHeaders is 'yes'; it must be false or true"),
        ({"replicas": "any"}, "replicas is 'any'; it must be longest"),
        (
            {"splitBytes": "0"},
            "splitBytes is '0'; it must be a positive number of bytes, or a size such as 64k, 64m or 1g",
        ),
        ({"maxBatchBytes": "lots"}, "maxBatchBytes is 'lots'"),
        (
            {"kafka.isolation.level": "all"},
            "kafka.isolation.level is 'all'; it must be read_uncommitted or read_committed",
        ),
    ],
)
def test_wrong_option_is_reported_in_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        read(SEGMENTS.roots, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("paths", ["[]", '"x"', "[1]", "{"])
def test_wrong_paths_raise_option_error(paths: str) -> None:
    with pytest.raises(OptionError, match="path"):
        source([], paths=paths)


@pytest.mark.parametrize("path", ["s3://bucket/data", "dbfs:/mnt/x", "hdfs://nn/x", "C:\\logs", "file://host/x"])
def test_remote_path_of_an_output_raises_option_error(path: str) -> None:
    with pytest.raises(OptionError, match=r"only local files|local log directories only"):
        parse_write({"path": path, "topic": "t"})


def test_wrong_url_of_an_input_raises_option_error() -> None:
    for path, message in (("dbfs:/mnt/x", "two slashes"), ("C:\\logs", "drive letter"), ("file://host/x", "local")):
        with pytest.raises(OptionError, match=message):
            source(path)


def test_relative_paths_and_file_urls_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("a b", "./a b", (tmp_path / "a b").as_uri()):
        assert parse_write({"path": given, "topic": "t"}).path == str(tmp_path / "a b")
        assert source(given).parsed.paths == (str(tmp_path / "a b"),)


def test_path_without_a_log_raises(tmp_path: Path) -> None:
    with pytest.raises(NoLogError, match="no Kafka log found"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "gone")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("offset int", "the type of offset in the schema is int, but it must be bigint"),
        ("Offset bigint", "unknown column 'Offset'; the valid columns are key, value, topic"),
        (
            "headers array<string>",
            "the type of headers in the schema is array<string>, but it must be array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_schema_that_does_not_fit_raises(spark: SparkSession, schema: str, message: str) -> None:
    struct = StructType.fromDDL(schema)
    assert isinstance(struct, StructType)
    with pytest.raises(ValueError, match=message):
        source(SEGMENTS.roots).reader(struct)


def log_in_doubt(folder: Path) -> None:
    """Write a transaction whose marker may be in a missing segment, and normal records from offset 20."""
    (folder / "t-0").mkdir()
    for base, producer_id, flags in ((0, 7, TRANSACTIONAL), (5, 7, TRANSACTIONAL), (20, -1, 0), (25, -1, 0)):
        records = [record(i) for i in range(5)]
        data = batch(records, base_offset=base, flags=flags, producer_id=producer_id, producer_epoch=0 if flags else -1)
        (folder / "t-0" / f"{base:020}.log").write_bytes(data)


def test_transactions_in_doubt_are_reported_according_to_the_mode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_in_doubt(tmp_path)
    # The missing segment is lost data too.
    committed = {"kafka.isolation.level": "read_committed", "failOnDataLoss": "false"}
    assert offsets(read(tmp_path, **committed)) == {("t", 0): list(range(20, 30))}
    logged = [r.getMessage() for r in caplog.records]
    assert any(
        "t-0: a missing segment may hide how producer 7's transaction ended: its records at offsets 0 to 9" in t
        for t in logged
    )
    with pytest.raises(TransactionInDoubtError, match="offsets 0 to 9"):
        read(tmp_path, mode="FAILFAST", **committed)
    caplog.clear()
    late = committed | {"startingOffsets": '{"t": {"0": 20}}'}
    assert read(tmp_path, mode="FAILFAST", **late).num_rows == 10
    assert caplog.records == []
    assert read(tmp_path, mode="DROPMALFORMED", **committed).num_rows == 10
    (message,) = [r.getMessage() for r in caplog.records]
    assert "no segment contains these offsets" in message


START = {"startingOffsets": '{"t": {"0": %d}}'}
END = {"endingOffsets": '{"t": {"0": %d}}'}


def log_of_two_segments(folder: Path) -> None:
    """Write offsets 10 to 29 of a log whose log start offset is 15."""
    (folder / "t-0").mkdir()
    for base in (10, 20):
        batches = [batch([record(i) for i in range(5)], base_offset=base + at) for at in (0, 5)]
        (folder / "t-0" / f"{base:020}.log").write_bytes(b"".join(batches))
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nt 0 15\n")


@pytest.mark.parametrize(
    ("start", "end", "below", "first", "last", "message"),
    [
        (15, 30, False, 15, 29, None),
        (30, None, False, None, None, None),
        (None, 15, False, None, None, None),
        (10, None, True, 10, 29, None),
        (14, None, False, 15, 29, "t-0: startingOffsets is 14, but the log starts at offset 15"),
        (0, None, False, 15, 29, "t-0: startingOffsets is 0, but the log starts at offset 15"),
        (9, None, True, 10, 29, "t-0: startingOffsets is 9, but the log starts at offset 10"),
        (31, None, False, None, None, "t-0: startingOffsets is 31, but the log ends at offset 30"),
        (5000, 6000, False, None, None, "t-0: startingOffsets is 5000, but the log ends at offset 30"),
        (None, 31, False, 15, 29, "t-0: endingOffsets is 31, but the log ends at offset 30"),
        (16, 5000, False, 16, 29, "t-0: endingOffsets is 5000, but the log ends at offset 30"),
        (None, 14, False, None, None, "t-0: endingOffsets is 14, but the log starts at offset 15"),
    ],
)
def test_offsets_out_of_range_fail_unless_data_loss_is_allowed(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    start: int | None,
    end: int | None,
    below: bool,
    first: int | None,
    last: int | None,
    message: str | None,
) -> None:
    log_of_two_segments(tmp_path)
    bounds = {
        name: text % value
        for options, value in ((START, start), (END, end))
        if value is not None
        for name, text in options.items()
    }
    bounds["belowLogStart"] = str(below).lower()
    expected = list(range(first, last + 1)) if first is not None and last is not None else []
    if message is None:
        assert offsets(read(tmp_path, **bounds)).get(("t", 0), []) == expected
    else:
        for given in ({}, {"failOnDataLoss": "true"}):
            with pytest.raises(
                DataLossError, match=f"^{message}; set failOnDataLoss=false to read the offsets that exist$"
            ):
                read(tmp_path, **bounds, **given)
    caplog.clear()
    assert offsets(read(tmp_path, **bounds, failOnDataLoss="false")).get(("t", 0), []) == expected
    assert [r.getMessage().removeprefix("kafkafmt: ") for r in caplog.records][:1] == ([message] if message else [])


def test_bounds_in_the_wrong_order_are_an_error(tmp_path: Path) -> None:
    log_of_two_segments(tmp_path)
    for loss in ("true", "false"):
        with pytest.raises(
            OptionError, match="startingOffsets of t-0 is 25; it must not be greater than endingOffsets, which is 20"
        ):
            read(tmp_path, startingOffsets='{"t": {"0": 25}}', endingOffsets='{"t": {"0": 20}}', failOnDataLoss=loss)
        with pytest.raises(
            OptionError, match="startingTimestamp of t-0 is 5; it must not be greater than endingTimestamp, which is 4"
        ):
            read(
                tmp_path,
                startingTimestamp="5",
                endingTimestamp="4",
                startingOffsetsByTimestampStrategy="latest",
                failOnDataLoss=loss,
            )


HINTED = {
    "groupIdPrefix": "spark",
    "kafkaConsumer.pollTimeoutMs": "512",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
    "kafka.group.id": "x",
    "kafka.bootstrap.servers": "host:9092",
}


def test_hints_of_sparks_kafka_source_are_ignored_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_of_two_segments(tmp_path)
    assert read(tmp_path, **HINTED).num_rows == 15
    assert [r.getMessage() for r in caplog.records] == [
        f"kafkafmt: {', '.join(HINTED)} are ignored because no broker is contacted"
    ]
    caplog.clear()
    assert read(tmp_path, **{"kafka.isolation.level": "read_committed"}).num_rows == 15
    assert caplog.records == []
    stream_only = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1m"}
    assert read(tmp_path, **stream_only).num_rows == 15
    assert [r.getMessage() for r in caplog.records] == [
        f"kafkafmt: {', '.join(stream_only)} are ignored in a batch query"
    ]


def test_stream_ignores_hints_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log_of_two_segments(tmp_path)
    source(tmp_path, groupIdPrefix="x").streamReader(struct_of(["offset"]))
    assert [r.getMessage() for r in caplog.records] == [
        "kafkafmt: groupIdPrefix is ignored because no broker is contacted"
    ]


def test_sink_ignores_producer_settings_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"kafka.acks": "all", "kafka.linger.ms": "5", "kafka.compression.gzip.level": "4"}
    used = {"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "3", "kafka.batch.size": "1000"}
    options = {"topic": "t", "includeHeaders": "true", **used, **settings}
    for stream in (False, True):
        sink = KafkaLogSource(CaseInsensitiveDict({"path": str(tmp_path / f"log-{stream}"), **options}))
        schema = struct_of(["value"])
        writer: Any = sink.streamWriter(schema, False) if stream else sink.writer(schema, False)
        rows = pa.record_batch({"value": pa.array([b"x"], pa.binary())})
        for version in (0, 1) if stream else (None,):
            writer.commit([writer.write(iter([rows]))], *([] if version is None else [version]))
        assert [r.getMessage() for r in caplog.records] == [
            f"kafkafmt: {', '.join(settings)} are ignored because no broker is contacted"
        ]
        caplog.clear()


def test_min_partitions_is_the_approximate_number_of_tasks() -> None:
    for minimum in (1, 7, 20):
        reader, partitions = plan(SEGMENTS.partition_dir(TIME, 0), columns=("offset",), minPartitions=minimum)
        assert 0.8 * minimum <= len(partitions) <= 3 * minimum + 5  # a segment can be divided only at index entries
        assert [o for p in partitions for b in reader.read(p) for o in b.column("offset").to_pylist()] == list(
            range(200)
        )
    with pytest.raises(OptionError, match="minPartitions is 0; it must be at least 1"):
        source(".", minPartitions="0")


def test_damage_after_the_last_valid_batch_fails_tasks_with_few_offsets(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    valid, damaged = (batch([record(i) for i in range(5)], base_offset=first) for first in (0, 5))
    damaged = damaged[:-1] + b"\xff"
    for content, expected in ((valid + damaged * 2, [0, 1, 2, 3, 4]), (damaged, [])):
        (tmp_path / "t-0" / f"{0:020}.log").write_bytes(content)
        assert read(tmp_path, maxRecordsPerPartition=2)["offset"].to_pylist() == expected
        with pytest.raises(DamagedLogError, match="CRC-32C is"):
            read(tmp_path, maxRecordsPerPartition=2, mode="FAILFAST")


def test_offsets_before_the_first_segment_need_no_task(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{10**15:020}.log").write_bytes(batch([record(i) for i in range(5)], base_offset=10**15))
    _, partitions = plan(tmp_path, maxRecordsPerPartition=2, belowLogStart=True)
    assert len(partitions) == 3


def test_gap_in_offsets_is_not_divided_into_too_many_tasks(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    for base in (0, 10**15):
        (tmp_path / "t-0" / f"{base:020}.log").write_bytes(batch([record(i) for i in range(5)], base_offset=base))
    with pytest.raises(
        OptionError, match=r"maxRecordsPerPartition is 1000, but t-0 has 10{14}5 offsets to read, .* 5000000001"
    ):
        plan(tmp_path, maxRecordsPerPartition=1000)
    assert len(plan(tmp_path, maxRecordsPerPartition=5_000_000_001)[1]) == 200_000
    assert read(tmp_path, maxRecordsPerPartition=10**12, failOnDataLoss="false").num_rows == 10


def test_schema_without_columns_is_an_error() -> None:
    with pytest.raises(ValueError, match="name at least one column"):
        source(SEGMENTS.roots).reader(StructType([]))


@pytest.mark.parametrize("read_bytes", [slice(None, -20), slice(0, 30)])
def test_truncated_compressed_segment_fails_the_query(tmp_path: Path, read_bytes: slice) -> None:
    shutil.copytree(SEGMENTS.partition_dir(TIME, 0), tmp_path / f"{TIME}-0")
    first = min((tmp_path / f"{TIME}-0").glob("*.log"))
    packed = first.with_name(f"{first.name}.gz")
    packed.write_bytes(gzip.compress(first.read_bytes())[read_bytes])
    first.unlink()
    with pytest.raises(OSError, match=rf"the gzip data is damaged or incomplete .*{packed}"):
        read(tmp_path)
