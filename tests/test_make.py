"""Test `kafkafmt.make` and the command `make`, which write a log directory from rows."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from command import inside, kafkafmt, process, records, report

import kafkafmt as k
from kafkafmt.making.table_files import RowsError
from kafkafmt.support.times import now_millis

pa = pytest.importorskip("pyarrow")
table_files = pytest.importorskip("kafkafmt.making.table_files")

FIRST = 1_767_225_600_000


def rows_of(path: Path, topic: str) -> dict[int, list[Any]]:
    """Return (key, value, timestamp, headers) of all records of a topic, by partition number."""
    found: dict[int, list[Any]] = {}
    for p in k.open(path):
        if p.topic == topic:
            found[p.partition] = [(r.key, r.value, r.timestamp, r.headers) for r in p]
    return found


def table(n: int = 1000, **columns: Any) -> Any:
    keys = [None if i % 5 == 0 else b"key %d" % (i % 37) for i in range(n)]
    values = [None if i % 11 == 0 else b"value %d" % i for i in range(n)]
    return pa.table({"key": keys, "value": values, "timestamp": [FIRST + i for i in range(n)]} | columns)


def test_keys_go_to_the_partitions_of_the_partitioner(tmp_path: Path) -> None:
    made = k.make(table(), tmp_path / "out", topic="orders", partitions=4)
    found, partitioner = rows_of(tmp_path / "out", "orders"), k.records.Partitioner(4)
    assert sorted(found) == [0, 1, 2, 3]
    for number, rows in found.items():
        assert {partitioner.partition(key) for key, *_ in rows if key is not None} == {number}
    everything = sorted((r for rows in found.values() for r in rows), key=lambda r: r[2])
    rows = table().to_pylist()
    assert everything == [(r["key"], r["value"], r["timestamp"], ()) for r in rows]
    assert [p.records for p in made.partitions] == [len(found[n]) for n in range(4)]
    assert sum(p.bytes for p in made.partitions) == sum(f.stat().st_size for f in (tmp_path / "out").rglob("*.log"))
    assert report(tmp_path / "out")["ok"]


def test_rows_keep_their_order_within_a_partition(tmp_path: Path) -> None:
    k.make(table(200_000), tmp_path / "out", topic="orders", partitions=3)
    for rows in rows_of(tmp_path / "out", "orders").values():
        times = [timestamp for _, _, timestamp, _ in rows]
        assert times == sorted(times)


def test_keyless_rows_fill_one_batch_of_a_partition_after_another(tmp_path: Path) -> None:
    rows = pa.table({"value": [b"x" * 88] * 100})
    k.make(rows, tmp_path / "out", topic="t", partitions=3, batch_bytes=1000)
    found = [len(rows) for rows in rows_of(tmp_path / "out", "t").values()]
    assert found == [40, 30, 30]  # ten records of about 100 bytes in each turn


def test_columns_partition_and_topic_choose_the_partition(tmp_path: Path) -> None:
    rows = table(6, topic=["a", "b", "a", "b", "a", "a"], partition=pa.array([1, 0, 1, None, 0, 1], pa.int32()))
    made = k.make(rows, tmp_path / "out", partitions=2)
    assert made.topic is None
    assert [(p.topic, p.partition) for p in made.partitions] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    a = rows_of(tmp_path / "out", "a")
    assert [[t - FIRST for _, _, t, _ in a[n]] for n in (0, 1)] == [[4], [0, 2, 5]]
    b = rows_of(tmp_path / "out", "b")
    expected = k.records.Partitioner(2).partition(b"key 3")
    assert 3 in [t - FIRST for _, _, t, _ in b[expected]]


def test_headers_are_written_from_structs_and_from_pairs(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    structs = pa.array([[{"key": "a", "value": b"1"}], None, [{"key": "b", "value": None}]], kind)
    pairs = pa.array([[["a", "1"]], None, [["b", None]]], pa.list_(pa.list_(pa.string())))
    for i, headers in enumerate((structs, pairs, pairs.slice(1))):
        rows = pa.table({"value": [b"v"] * len(headers), "headers": headers})
        k.make(rows, tmp_path / str(i), topic="t")
        expected = [(("a", b"1"),), (), (("b", None),)]
        assert [tuple(map(tuple, r[3])) for r in rows_of(tmp_path / str(i), "t")[0]] == expected[-len(headers) :]


@pytest.mark.parametrize(
    "kind",
    [
        pa.large_list(pa.large_list(pa.large_string())),  # the type that Polars uses
        pa.list_(pa.list_(pa.string(), 2)),
    ],
)
def test_headers_are_written_from_every_list_type(kind: Any, tmp_path: Path) -> None:
    headers = pa.array([[["a", "1"], ["a", "2"]], None, []], kind)
    k.make(pa.table({"value": ["v"] * 3, "headers": headers}), tmp_path / "out", topic="t")
    assert [r[3] for r in rows_of(tmp_path / "out", "t")[0]] == [(("a", b"1"), ("a", b"2")), (), ()]


@pytest.mark.parametrize("form", ["table", "parquet"])
def test_dictionary_encoded_columns_are_decoded(form: str, tmp_path: Path) -> None:
    import pyarrow.parquet

    texts = {"topic": ["x", "y", "x"], "key": ["a", None, "a"], "value": ["1", "2", None]}
    rows = pa.table({name: pa.array(column).dictionary_encode() for name, column in texts.items()})
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(rows, path)
    k.make(path if form == "parquet" else rows, tmp_path / "out")
    found = {topic: [r[:2] for r in rows_of(tmp_path / "out", topic)[0]] for topic in "xy"}
    assert found == {"x": [(b"a", b"1"), (b"a", None)], "y": [(None, b"2")]}


TIMES = [
    ("2026-01-01", 0),
    ("2026-01-01T00:00:00Z", 0),
    ("2026-01-01 01:00:00.25+01:00", 250),
    ("2026-01-01T00:00:01.123456", 1123),
    ("2025-12-31T23:30:00.999999-0030", 999),
    (str(FIRST + 7), 7),
]


def test_times_as_text_may_have_different_forms(tmp_path: Path) -> None:
    rows = pa.table({"value": ["v"] * len(TIMES), "timestamp": [text for text, _ in TIMES]})
    k.make(rows, tmp_path / "out", topic="t")
    assert [r[2] - FIRST for r in rows_of(tmp_path / "out", "t")[0]] == [ms for _, ms in TIMES]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.date32(), pa.date64(), pa.timestamp("ns")], ids=str
)
def test_null_times_of_every_type_are_now(kind: Any, tmp_path: Path) -> None:
    rows = pa.table({"value": ["v"] * 2, "timestamp": pa.array([datetime(2026, 1, 1), None], kind)})
    before = now_millis()
    k.make(rows, tmp_path / "out", topic="t")
    first, now = (r[2] for r in rows_of(tmp_path / "out", "t")[0])
    assert first == FIRST
    assert before <= now <= now_millis()


def test_null_times_in_json_and_csv_are_now(tmp_path: Path) -> None:
    given = {
        "json": '{"value": "a", "timestamp": "2026-01-01T00:00:00Z"}\n{"value": "b"}\n',
        "csv": "value,timestamp\na,2026-01-01\nb,\n",
    }
    before = now_millis()
    for kind, text in given.items():
        (tmp_path / f"rows.{kind}").write_text(text)
        k.make(tmp_path / f"rows.{kind}", tmp_path / kind, topic="t")
        first, now = (r[2] for r in rows_of(tmp_path / kind, "t")[0])
        assert first == FIRST
        assert now >= before


def test_times_without_a_zone_are_in_utc_and_missing_times_are_now(tmp_path: Path) -> None:
    rows = pa.table({"value": ["v"] * 3, "timestamp": ["2026-01-01T00:00:00", None, "2026-01-01T00:00:01"]})
    before = now_millis()
    k.make(rows, tmp_path / "out", topic="t")
    first, second, third = (r[2] for r in rows_of(tmp_path / "out", "t")[0])
    assert (first, third) == (FIRST, FIRST + 1000)
    assert before <= second


def test_log_append_time_codec_and_segment_size_are_used(tmp_path: Path) -> None:
    options = {"codec": "zstd", "level": 3, "segment_bytes": 20_000, "timestamp_type": "LogAppendTime"}
    k.make(table(20_000), tmp_path / "out", topic="t", **options)  # type: ignore[arg-type]
    (p,) = k.open(tmp_path / "out")
    assert {r.timestamp_type for r in p} == {1}
    assert len(list((tmp_path / "out" / "t-0").glob("*.log"))) > 3
    (summary,) = json.loads(kafkafmt("ls", tmp_path / "out", "--format", "json").stdout)["partitions"]
    assert (summary["codecs"], summary["records"]) == (["zstd"], 20_000)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [1]}, "value is an Arrow array of int64; it must be binary or string; cast"),
        ({"value": ["v"], "key": [1.5]}, "key is an Arrow array of double"),
        ({"value": ["v"], "colour": ["red"]}, "the column 'colour' is unknown"),
        ({"key": ["v"]}, "the column 'value' is missing"),
        (
            {"value": ["v"], "partition": [2]},
            "the partition of a row is 2, but the largest partition number of topic t is 1",
        ),
        ({"value": ["v"], "partition": [-1]}, "the partition of a row is -1"),
        ({"value": ["v"], "partition": ["0"]}, "the column 'partition' has the type string"),
        ({"value": ["v"], "timestamp": ["yesterday"]}, "valid forms are a number of milliseconds"),
        ({"value": ["v"], "timestamp": [1.5]}, "timestamp must contain integers or times"),
        ({"value": ["v"], "timestamp": [-5]}, "a row of topic t cannot be written: timestamp -5 is negative"),
        ({"value": ["v"], "timestamp": ["1969-12-31T23:59:59.999Z"]}, "contains a time before 1970"),
        ({"value": ["v", "v"], "timestamp": [True, None]}, "not the Arrow type bool"),
        ({"value": ["v"], "headers": [[["a"]]]}, "contains a list that is not a pair"),
        ({"value": ["v"], "headers": [[["a", "1"], None]]}, "contains a list that is not a pair"),
        ({"value": ["v"], "headers": [[None]]}, "contains a null in a list"),
        ({"value": ["v"], "headers": [[{"key": None, "value": b"1"}]]}, "cannot be written: a header key is null"),
    ],
)
def test_wrong_rows_are_refused_and_leave_nothing(columns: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        k.make(pa.table(columns), tmp_path / "out", topic="t", partitions=2)
    assert not (tmp_path / "out").exists()


def test_python_objects_of_polars_are_refused(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"value": polars.Series([object(), None])})
    with pytest.raises(RowsError, match="the column 'value' contains Python objects"):
        k.make(table, tmp_path / "made", topic="t")
    assert not (tmp_path / "made").exists()


def test_sizes_that_are_too_small_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    rows = pa.table({"value": ["x" * 3000]})
    with pytest.raises(ValueError, match="batch_bytes is 0"):
        k.make(rows, tmp_path / "out", topic="t", batch_bytes=0)
    with pytest.raises(ValueError, match="a segment can have at most 2048 bytes, but a batch has 30"):
        k.make(rows, tmp_path / "out", topic="t", segment_bytes=2048)
    assert list(tmp_path.iterdir()) == []


def test_missing_or_invalid_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the topic is missing"):
        k.make(table(1), tmp_path / "out")
    with pytest.raises(ValueError, match="topic of a row is 'a/b'"):
        k.make(table(1, topic=["a/b"]), tmp_path / "out")
    with pytest.raises(ValueError, match="topic of a row is null"):
        k.make(table(1, topic=pa.array([None], pa.string())), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_error_in_the_middle_leaves_nothing_and_keeps_an_empty_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()

    def batches() -> Iterator[Any]:
        yield from table(50_000).to_batches()
        assert list(out.iterdir()) == [out / ".kafkafmt-salvage"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        k.make(pa.RecordBatchReader.from_batches(table(50).schema, batches()), out, topic="t", partitions=3)
    assert list(out.iterdir()) == []


def test_output_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        k.make(table(1), tmp_path, topic="t")
    done = inside("make", "--from", tmp_path / "file", "--input-format", "json", "-t", "t", "--output", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_command_reads_every_format(kind: str, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    rows = [("a", "1", FIRST), (None, "2026-01-01", FIRST + 1), ("", None, FIRST + 2), ("b,c", 'q"', FIRST + 3)]
    names, path = ("key", "value", "timestamp"), tmp_path / f"rows.{kind}"
    given = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    if kind == "parquet":
        pyarrow.parquet.write_table(given, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(given, path)
    else:
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    done = kafkafmt("make", "--from", path, "-t", "t", "--output", tmp_path / "out", "--format", "json")
    size = (tmp_path / "out" / "t-0" / f"{0:020}.log").stat().st_size
    partition = {"topic": "t", "partition": 0, "records": 4, "bytes": size}
    assert json.loads(done.stdout) == {"topic": "t", "partitions": [partition]}
    assert "run `kafkafmt restore`" in done.stderr
    assert [(r["key"], r["value"], r["timestamp"]) for r in records(tmp_path / "out")] == rows


def test_csv_values_may_contain_line_breaks_in_a_file_of_several_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "BLOCK_BYTES", 1000)
    values = ["\n".join(f"line {n}.{i}" for i in range(n % 30)) for n in range(300)]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([["value"], *([value] for value in values)])
    k.make(tmp_path / "rows.csv", tmp_path / "out", topic="t")
    assert [r.value for r in k.open(tmp_path / "out")["t"]] == [value.encode() for value in values]


def test_command_reports_that_stdin_is_closed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkafmt", "make", "--from", "-", "-t", "t", "--output", str(tmp_path / "out")]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "kafkafmt: stdin: Bad file descriptor\n")


def test_command_reads_a_named_pipe(tmp_path: Path) -> None:
    for suffix, text in (("json", '{"value":"x"}\n'), ("csv", "value\nx\n")):
        pipe = tmp_path / f"pipe.{suffix}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(text,))
        writer.start()
        done = inside("make", "--from", pipe, "-t", "t", "--output", tmp_path / suffix)
        writer.join()
        assert done.returncode == 0, done.stderr
        assert [r["value"] for r in records(tmp_path / suffix)] == ["x"]


def test_command_reads_the_output_of_cat(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b"x"}] if i % 3 == 0 else None for i in range(100)], kind)
    k.make(table(100, headers=headers), tmp_path / "one", topic="t", partitions=3)
    lines = tmp_path / "lines"
    lines.write_text(kafkafmt("cat", tmp_path / "one", "--format", "json").stdout)
    with lines.open() as stdin:
        done = process("make", "--from", "-", "-P", "3", "--output", tmp_path / "two", stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert "ignored columns: offset, timestampType" in done.stderr
    assert rows_of(tmp_path / "one", "t") == rows_of(tmp_path / "two", "t")


PAIRS = 'headers must be lists of pairs of strings, such as [["name", "value"]]'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"value":{"a":1}}', "the column 'value' contains an object; it must contain text; jq -c '.value |= tojson' converts it to JSON text"),
        ("a.json", '{"value":"x"}\n{"value":5}', "the column 'value' contains a number; it must contain text"),
        ("a.json", '{"value":"x","key":[1]}', "the column 'key' contains an array; it must contain text"),
        ("a.json", '{"value":"x","topic":true}', "the column 'topic' contains true or false; it must contain text ("),
        ("a.json", '[{"value":"x"}]', "a line contains an array; each line must contain one JSON object; jq -c '.[]' converts"),
        ("a.json", "5", "a line contains a number; each line must contain one JSON object"),
        ("a.json", '{"value":"x","partition":"0"}', "the column 'partition' contains text; a partition number must be an integer"),
        ("a.json", '{"value":"x","partition":1.5}', "the column 'partition' contains '1.5'; a partition number must be an integer"),
        ("a.csv", "value,partition\nx,first\n", "the column 'partition' contains 'first'; a partition number must be an integer"),
        ("a.csv", "value,partition\nx,7\n", "the partition of a row is 7, but the largest partition number of topic t is 0"),
        ("a.json", '{"value":"x","headers":{"a":"b"}}', f"the column 'headers' contains values of the type struct<a: string>; {PAIRS}"),
        ("a.json", '{"value":"x","headers":[[null,"b"]]}', f"the column 'headers' contains a header key that is null; {PAIRS}"),
        ("a.csv", "value,partition\nx,-1\n", "the partition of a row is -1, which is negative ("),
        ("a.json", '{"value":"x","headers":["a"]}', f"the column 'headers' contains values of the type list<item: string>; {PAIRS}"),
        ("a.json", '{"value":"x","headers":[["a"]]}', f"the column 'headers' contains a list that is not a pair; {PAIRS}"),
        ("a.json", '{"value":"x","headers":[["a","b"]]}\n{"value":"x","headers":[["a",1]]}', f"the column 'headers' contains a number; {PAIRS}"),
        ("a.csv", "value,headers\nx,a=b\n", f"the column 'headers' contains values of the type string; {PAIRS}"),
        ("a.csv", "value,timestamp\nx,noon\n", "the column 'timestamp' contains 'noon', which is not a time"),
        ("a.json", '{"value":"x","timestamp":1}\n{"value":"x","timestamp":"noon"}', "the column 'timestamp' contains text, and other rows contain a number"),
    ],
)  # fmt: skip
def test_wrong_values_are_reported_by_column(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    done = inside("make", "--from", tmp_path / name, "-t", "t", "--output", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_command_reports_unreadable_files_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    expected: dict[str, tuple[int, str]] = defaultdict(lambda: (3, "No such file"))
    expected["bad.parquet"] = 3, "the file cannot be read as parquet"
    expected["rows.txt"] = 2, "the format of"
    for name in ("bad.parquet", "missing.csv", "rows.txt"):
        done = kafkafmt("make", "--from", tmp_path / name, "-t", "t", "--output", tmp_path / "out")
        assert (done.returncode, done.stdout) == (expected[name][0], "")
        assert expected[name][1] in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
