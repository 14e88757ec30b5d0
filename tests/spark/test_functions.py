"""Test the functions for `mapInArrow` and `mapPartitions`, and the examples."""

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from building import COMMIT, batch, control_batch, record
from golden_cases import Case, case, same_rows
from pyspark.sql import SparkSession
from source_rows import COLUMNS, rows, table

import kafkafmt
from kafkafmt.spark.functions import TUPLE_SCHEMA, decode_batches, decode_partition, read_paths

ROOT = Path(__file__).resolve().parents[2]
HOME = {"topic": "string", "partition": "int"}
BLOB = ("offset", "timestampMillis", "timestampType", "key", "value", "headers")


def blobs(case: Case) -> list[tuple[str, int, bytes]]:
    """Return a row for each segment: topic, partition and record data."""
    found = []
    for root in case.roots:
        for log in sorted(root.glob("*/[0-9]*.log")):
            topic, _, partition = log.parent.name.rpartition("-")
            found.append((topic, int(partition), log.read_bytes()))
    return found


def test_decode_batches_reads_record_data_in_a_column(spark: SparkSession) -> None:
    codecs = case("codecs")
    df = spark.createDataFrame(blobs(codecs), "topic string, partition int, records binary")
    decode = decode_batches(keep=HOME, columns=BLOB)
    same_rows(rows(df.mapInArrow(decode, decode.schema).toArrow()), codecs.expected())


def test_read_paths_reads_the_paths_in_a_column(spark: SparkSession) -> None:
    segments = case("segments")
    df = spark.createDataFrame([(str(segments.partition_dir(t, p)),) for t, p in segments.offsets()], "path string")
    read = read_paths(columns=COLUMNS)
    same_rows(rows(df.mapInArrow(read, read.schema).toArrow()), segments.expected())


def test_decode_partition_reads_record_data_and_paths(spark: SparkSession) -> None:
    epochs = case("epochs")
    found = (
        spark.sparkContext.parallelize([data for _, _, data in blobs(epochs)], 2)
        .mapPartitions(decode_partition())
        .collect()
    )
    assert len(found) == 129
    assert all(isinstance(r, kafkafmt.Record) for r in found)
    paths = spark.sparkContext.parallelize([str(epochs.roots[0])])
    df = paths.mapPartitions(decode_partition(tuples=True)).toDF(TUPLE_SCHEMA)
    same_rows(rows(df.toArrow()), epochs.expected())


def test_error_fails_the_task_and_names_the_row(spark: SparkSession) -> None:
    flipped = bytearray(valid_batch(0, b"v"))
    flipped[-1] ^= 1
    df = spark.createDataFrame([(valid_batch(0, b"v"),), (bytes(flipped),)], "records binary").coalesce(1)
    decode = decode_batches()
    with pytest.raises(
        Exception, match=r"row 1 of this task, column 'records': CRC-32C is .* \(position 0, batch at offset 0\)"
    ):
        df.mapInArrow(decode, decode.schema).collect()


# The tests below run without Spark.


def run_on_arrow(
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    records: Sequence[bytes | None],
    **more: pa.Array,
) -> pa.Table:
    batch = pa.RecordBatch.from_pydict({"records": pa.array(records, pa.binary()), **more})
    return pa.Table.from_batches(list(function([batch])))


def valid_batch(offset: int, *values: bytes) -> bytes:
    return batch([record(i, value=v) for i, v in enumerate(values)], base_offset=offset)


def test_decode_batches_keeps_columns_of_many_rows() -> None:
    truncated, marker = valid_batch(3, b"d") + valid_batch(4, b"cut off")[:-3], control_batch(COMMIT, base_offset=5)
    data = [valid_batch(0, b"a", b"b") + valid_batch(2, b"c"), None, b"", truncated, marker, valid_batch(6, b"e")]
    actual = run_on_arrow(
        decode_batches(keep={"n": "int"}, columns=("offset", "value"), incomplete="ignore"),
        data,
        n=pa.array(range(6), pa.int32()),
    )
    assert actual.to_pydict() == {
        "n": [0, 0, 0, 3, 5],
        "offset": [0, 1, 2, 3, 6],
        "value": [b"a", b"b", b"c", b"d", b"e"],
    }
    decode = decode_batches(columns=("offset",), control=True, incomplete="ignore")
    assert run_on_arrow(decode, data).column("offset").to_pylist() == [
        0,
        1,
        2,
        3,
        5,
        6,
    ]


def test_incomplete_batch_at_the_end_of_a_value_is_an_error() -> None:
    good = valid_batch(0, b"a", b"b")
    data = [good, good[:-4], b"abc", good + good[:-4]]
    keep = {"n": "int"}
    numbers = pa.array(range(4), pa.int32())
    found = run_on_arrow(decode_batches(keep=keep, columns=("offset",), on_error="column"), data, n=numbers)
    rows = [(row["n"], row["offset"], row["error"] is not None) for row in found.to_pylist()]
    whole = [[(n, 0, False), (n, 1, False)] for n in (0, 3)]
    assert rows == [*whole[0], (1, None, True), (2, None, True), *whole[1], (3, None, True)]
    with pytest.raises(kafkafmt.KafkaFormatError, match=r"row 1 of this task.*the data ends"):
        run_on_arrow(decode_batches(), data)
    assert run_on_arrow(decode_batches(on_error="skip"), data).num_rows == 4
    assert run_on_arrow(decode_batches(incomplete="ignore"), data).num_rows == 4
    with pytest.raises(kafkafmt.KafkaFormatError, match="row 1 of this task"):
        list(decode_partition()(data))
    assert len(list(decode_partition(incomplete="ignore")(data))) == 4
    with pytest.raises(ValueError, match="incomplete is 'no'"):
        decode_batches(incomplete="no")
    for value in data[1:]:
        with pytest.raises(kafkafmt.TruncatedError):
            kafkafmt.to_arrow(value)
        kafkafmt.to_arrow(value, incomplete="ignore")


def test_large_value_becomes_small_arrow_record_batches() -> None:
    values = [bytes([i]) * 3_000_000 for i in range(9)]
    batches = list(
        decode_batches(keep={"n": "int"})(
            [pa.RecordBatch.from_pydict({"records": [valid_batch(0, *values)], "n": [7]})]
        )
    )
    assert [b.num_rows for b in batches] == [2, 2, 2, 2, 1]
    assert pa.Table.from_batches(batches).column("value").to_pylist() == values
    assert pa.Table.from_batches(batches).column("n").to_pylist() == [7] * 9


def corrupted_record_data() -> list[bytes]:
    """Return record data with two damaged batches between valid ones: a wrong CRC and a wrong length."""
    crc, length = bytearray(valid_batch(1, b"b")), bytearray(valid_batch(3, b"d"))
    crc[-1] ^= 1
    length[8:12] = (1 << 20).to_bytes(4, "big")
    return [
        valid_batch(0, b"a") + crc + valid_batch(2, b"c"),
        valid_batch(2, b"c") + length + valid_batch(4, b"e"),
        valid_batch(5, b"f"),
    ]


def test_errors_become_rows_in_offset_order() -> None:
    actual = run_on_arrow(
        decode_batches(keep={"n": "int"}, columns=("offset",), on_error="column"),
        corrupted_record_data(),
        n=pa.array([0, 1, 2], pa.int32()),
    )
    errors = [e and e.split(" ")[0] for e in actual.column("error").to_pylist()]
    assert actual.column("n").to_pylist()[:4] == [0, 0, 0, 1]
    assert actual.column("offset").to_pylist()[:3] == [0, None, 2]
    assert errors[:3] == [None, "CRC-32C", None]
    assert actual.column("offset").to_pylist()[-1] == 5
    assert actual.schema.field("error").type == pa.string()


def test_errors_are_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    actual = run_on_arrow(decode_batches(columns=("offset",), on_error="skip"), corrupted_record_data())
    assert actual.column("offset").to_pylist()[:3] == [0, 2, 2]
    assert actual.column("offset").to_pylist()[-1] == 5
    assert "row 0 of column 'records': CRC-32C is" in caplog.records[0].getMessage()


def test_error_in_compressed_data_is_limited_to_its_batch() -> None:
    codecs = case("codecs")
    log = next(codecs.partition_dir("codec-zstd", 0).glob("*.log")).read_bytes()
    actual = run_on_arrow(decode_batches(on_error="column", max_batch_bytes=1000), [log])
    valid_batch, with_error = (
        actual.filter(pa.compute.is_null(actual["error"])),
        actual.filter(pa.compute.is_valid(actual["error"])),
    )
    assert 0 < valid_batch.num_rows < 547
    assert 0 < with_error.num_rows
    assert valid_batch.column("offset").to_pylist() == sorted(valid_batch.column("offset").to_pylist())


def test_errors_of_paths_raise_or_become_rows() -> None:
    torn = case("torn")
    paths = pa.RecordBatch.from_pydict({"path": [str(torn.partition_dir("torn-flip-old", 0)), "/no/such/path"]})
    with pytest.raises(kafkafmt.KafkaFormatError, match=r"row 0 of this task, column 'path': .*offsets 144 to 146"):
        list(read_paths()([paths]))
    actual = pa.Table.from_batches(list(read_paths(on_error="column", columns=("topic", "offset"))([paths])))
    assert actual.num_rows == 210 - 3 + 2
    assert [e for e in actual.column("error").to_pylist() if e][1].endswith("'/no/such/path'")
    assert actual.column("offset").to_pylist().index(None) == 144
    assert list(decode_partition(on_error="skip")(["/no/such/path"])) == []
    with pytest.raises(OSError, match="row 0 of this task: "):
        list(decode_partition()(["/no/such/path"]))


def test_unreadable_segment_is_reported_and_the_next_partition_is_read(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path, segment_bytes=300) as directory:
        for topic in ("a", "b"):
            writer = directory.writer(topic)
            for i in range(6):
                writer.append([(None, bytes(80), i)])
    last = max((tmp_path / "a-0").glob("*.log"))
    last.unlink()
    last.symlink_to(last)
    paths = pa.RecordBatch.from_pydict({"path": [str(tmp_path), "no-such-scheme://a", "a\0b"]})
    actual = pa.Table.from_batches(list(read_paths(on_error="column", columns=("topic", "offset"))([paths])))
    assert actual["topic"].to_pylist() == ["a"] * 4 + [None] + ["b"] * 6 + [None] * 2
    unreadable, scheme, zero = (e for e in actual["error"].to_pylist() if e)
    assert f"{last}: the file is listed but cannot be opened" in unreadable
    assert "no-such-scheme" in scheme
    assert "null byte" in zero
    for decode in (read_paths(columns=("offset",)), lambda rows: decode_partition("path")(rows[0].to_pylist())):
        with pytest.raises(OSError, match=r"row 0 of this task, column 'path': .*cannot be opened"):
            list(decode([paths]))
    assert len(list(decode_partition(on_error="skip")([str(tmp_path), "no-such-scheme://a"]))) == 10


def test_decode_partition_decodes_a_field_of_each_row() -> None:
    data = [(1, valid_batch(0, b"a")), (2, None)]
    assert [r.value for r in decode_partition(1)(data)] == [b"a"]
    assert [r.value for r in decode_partition("records")([{"records": valid_batch(0, b"a")}])] == [b"a"]
    assert next(decode_partition(tuples=True)([valid_batch(7, b"a")]))[1:5] == (b"a", None, None, 7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: decode_batches(on_error="ignore"), "on_error is 'ignore'"),  # type: ignore[arg-type]
        (lambda: decode_partition(on_error="column"), "on_error is 'column'"),  # type: ignore[arg-type]
        (lambda: decode_batches(columns=("topic", "offset")), "record data does not contain the topic"),
        (lambda: decode_batches(columns=("ofset",)), "unknown column 'ofset'"),
        (lambda: decode_batches(keep={"offset": "int"}), "the output would contain the column offset twice"),
        (
            lambda: run_on_arrow(decode_batches("data"), []),
            "the input has no column 'data'; the input columns are records",
        ),
    ],
)
def test_wrong_argument_raises_value_error(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_no_input_rows_give_no_output() -> None:
    assert list(decode_batches()([])) == []
    assert table([]).num_rows == 0


SEGMENTS, TORN = case("segments"), case("torn")


@pytest.mark.parametrize(
    ("script", "arguments", "shown"),
    [
        ("data_source.py", [str(SEGMENTS.roots[0]), "segments-time"], "|segments-time|        0|  200|"),
        (
            "map_in_arrow.py",
            [str(p) for p in sorted(TORN.partition_dir("torn-flip-old", 0).glob("[0-9]*.log"))],
            "CRC-32C is",
        ),
        ("map_partitions.py", [str(SEGMENTS.partition_dir("segments-time", 0))], "200 b'k'"),
    ],
)
def test_example_prints_its_result(script: str, arguments: list[str], shown: str) -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert shown in run.stdout


def test_decode_partition_keeps_other_fields() -> None:
    rows = [
        ("a", kafkafmt.build_batch([(b"k", b"1"), (b"k", b"2")]), 7),
        ("b", None, 8),
        ("c", kafkafmt.build_batch([(b"k", b"3")]), 9),
    ]
    found = decode_partition(1, keep=[0, 2])(rows)
    assert [(name, number, record.value) for name, number, record in found] == [
        ("a", 7, b"1"),
        ("a", 7, b"2"),
        ("c", 9, b"3"),
    ]
    named = [{"source": name, "data": data} for name, data, _ in rows]
    tuples = list(decode_partition("data", keep=["source"], tuples=True)(named))
    assert [(t[0], t[2]) for t in tuples] == [("a", b"1"), ("a", b"2"), ("c", b"3")]
    with pytest.raises(ValueError, match="keep needs column"):
        decode_partition(keep=[0])
