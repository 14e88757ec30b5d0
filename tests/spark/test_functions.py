"""The functions for mapInArrow and mapPartitions, and the examples."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from building import COMMIT, batch, control_batch, record
from golden_cases import case, same_rows
from source_rows import COLUMNS, rows, table

import kafkafmt
from kafkafmt.spark.functions import TUPLE_SCHEMA, decode_batches, decode_partition, read_paths

ROOT = Path(__file__).resolve().parents[2]
HOME = {"topic": "string", "partition": "int"}
BLOB = ("offset", "timestampMillis", "timestampType", "key", "value", "headers")


def blobs(case):
    """A row a segment: topic, partition, record data."""
    found = []
    for root in case.roots:
        for log in sorted(root.glob("*/[0-9]*.log")):
            topic, _, partition = log.parent.name.rpartition("-")
            found.append((topic, int(partition), log.read_bytes()))
    return found


def test_record_data_in_a_column(spark):
    codecs = case("codecs")
    df = spark.createDataFrame(blobs(codecs), "topic string, partition int, records binary")
    decode = decode_batches(keep=HOME, columns=BLOB)
    same_rows(rows(df.mapInArrow(decode, decode.schema).toArrow()), codecs.expected())


def test_paths_in_a_column(spark):
    segments = case("segments")
    df = spark.createDataFrame([(str(segments.partition_dir(t, p)),) for t, p in segments.offsets()], "path string")
    read = read_paths(columns=COLUMNS)
    same_rows(rows(df.mapInArrow(read, read.schema).toArrow()), segments.expected())


def test_map_partitions_of_record_data_and_paths(spark):
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


def test_an_error_fails_the_task_and_names_the_row(spark):
    flipped = bytearray(good(0, b"v"))
    flipped[-1] ^= 1
    df = spark.createDataFrame([(good(0, b"v"),), (bytes(flipped),)], "records binary").coalesce(1)
    decode = decode_batches()
    with pytest.raises(
        Exception, match=r"row 1 of this task, column 'records': CRC-32C is .* \(position 0, batch at offset 0\)"
    ):
        df.mapInArrow(decode, decode.schema).collect()


# Without Spark from here on.


def arrow(function, records, **more):
    batch = pa.RecordBatch.from_pydict({"records": pa.array(records, pa.binary()), **more})
    return pa.Table.from_batches(list(function([batch])))


def good(offset, *values):
    return batch([record(i, value=v) for i, v in enumerate(values)], base_offset=offset)


def test_batches_of_many_rows_keep_their_columns():
    cut, marker = good(3, b"d") + good(4, b"cut off")[:-3], control_batch(COMMIT, base_offset=5)
    data = [good(0, b"a", b"b") + good(2, b"c"), None, b"", cut, marker, good(6, b"e")]
    got = arrow(decode_batches(keep={"n": "int"}, columns=("offset", "value")), data, n=pa.array(range(6), pa.int32()))
    assert got.to_pydict() == {"n": [0, 0, 0, 3, 5], "offset": [0, 1, 2, 3, 6], "value": [b"a", b"b", b"c", b"d", b"e"]}
    assert arrow(decode_batches(columns=("offset",), control=True), data).column("offset").to_pylist() == [
        0,
        1,
        2,
        3,
        5,
        6,
    ]


def test_small_record_batches_out_of_a_large_value():
    values = [bytes([i]) * 3_000_000 for i in range(9)]
    batches = list(
        decode_batches(keep={"n": "int"})([pa.RecordBatch.from_pydict({"records": [good(0, *values)], "n": [7]})])
    )
    assert [b.num_rows for b in batches] == [2, 2, 2, 2, 1]
    assert pa.Table.from_batches(batches).column("value").to_pylist() == values
    assert pa.Table.from_batches(batches).column("n").to_pylist() == [7] * 9


def hurt():
    """Record data with a batch between others whose CRC is wrong, and one whose length is."""
    crc, length = bytearray(good(1, b"b")), bytearray(good(3, b"d"))
    crc[-1] ^= 1
    length[8:12] = (1 << 20).to_bytes(4, "big")
    return [good(0, b"a") + crc + good(2, b"c"), good(2, b"c") + length + good(4, b"e"), good(5, b"f")]


def test_errors_as_rows_in_their_place():
    got = arrow(
        decode_batches(keep={"n": "int"}, columns=("offset",), on_error="column"),
        hurt(),
        n=pa.array([0, 1, 2], pa.int32()),
    )
    errors = [e and e.split(" ")[0] for e in got.column("error").to_pylist()]
    assert got.column("n").to_pylist()[:4] == [0, 0, 0, 1]
    assert got.column("offset").to_pylist()[:3] == [0, None, 2]
    assert errors[:3] == [None, "CRC-32C", None]
    assert got.column("offset").to_pylist()[-1] == 5
    assert got.schema.field("error").type == pa.string()


def test_errors_skipped(caplog):
    got = arrow(decode_batches(columns=("offset",), on_error="skip"), hurt())
    assert got.column("offset").to_pylist()[:3] == [0, 2, 2]
    assert got.column("offset").to_pylist()[-1] == 5
    assert "row 0 of column 'records': CRC-32C is" in caplog.records[0].getMessage()


def test_errors_inside_compressed_data_are_the_batchs_own():
    codecs = case("codecs")
    log = next(codecs.partition_dir("codec-zstd", 0).glob("*.log")).read_bytes()
    got = arrow(decode_batches(on_error="column", max_batch_bytes=1000), [log])
    good, bad = got.filter(pa.compute.is_null(got["error"])), got.filter(pa.compute.is_valid(got["error"]))
    assert 0 < good.num_rows < 547
    assert 0 < bad.num_rows
    assert good.column("offset").to_pylist() == sorted(good.column("offset").to_pylist())


def test_errors_of_paths():
    torn = case("torn")
    paths = pa.RecordBatch.from_pydict({"path": [str(torn.partition_dir("torn-flip-old", 0)), "/no/such/path"]})
    with pytest.raises(kafkafmt.KafkaFormatError, match=r"row 0 of this task, column 'path': .*offsets 144 to 146"):
        list(read_paths()([paths]))
    got = pa.Table.from_batches(list(read_paths(on_error="column", columns=("topic", "offset"))([paths])))
    assert got.num_rows == 210 - 3 + 2
    assert [e for e in got.column("error").to_pylist() if e][1].endswith("'/no/such/path'")
    assert got.column("offset").to_pylist().index(None) == 144
    assert list(decode_partition(on_error="skip")(["/no/such/path"])) == []
    with pytest.raises(OSError, match="row 0 of this task: "):
        list(decode_partition()(["/no/such/path"]))


def test_elements_that_are_rows():
    data = [(1, good(0, b"a")), (2, None)]
    assert [r.value for r in decode_partition(1)(data)] == [b"a"]
    assert [r.value for r in decode_partition("records")([{"records": good(0, b"a")}])] == [b"a"]
    assert next(decode_partition(tuples=True)([good(7, b"a")]))[1:5] == (b"a", None, None, 7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: decode_batches(on_error="ignore"), "on_error is 'ignore'"),
        (lambda: decode_partition(on_error="column"), "on_error is 'column'"),
        (lambda: decode_batches(columns=("topic", "offset")), "record data does not contain its topic"),
        (lambda: decode_batches(columns=("ofset",)), "unknown column 'ofset'"),
        (lambda: decode_batches(keep={"offset": "int"}), "the output would have offset twice"),
        (lambda: arrow(decode_batches("data"), []), "the input has no column 'data'; its columns are records"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_no_rows():
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
        ("map_partitions.py", [str(SEGMENTS.partition_dir("segments-time", 0))], "records: 200"),
    ],
)
def test_examples(script, arguments, shown):
    run = subprocess.run(
        [sys.executable, str(ROOT / "examples" / script), *arguments], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert shown in run.stdout
