"""The export's options and its damage, on real logs, in one Spark session."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest
from exporting import assert_nothing_beside, in_micros, read_with_pyarrow, rows_of, wanted
from golden_cases import case, same_rows
from reports import verify_partition

from kafkafmt import OutputExistsError, OutputPlaceError
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.reading.read_limits import ReadLimits
from kafkafmt.log.reading.record_selection import OffsetBound
from kafkafmt.spark.export import TaskOSError
from kafkafmt.spark.export.layout import escape
from kafkafmt.spark.export.parquet import write_split
from kafkafmt.spark.export.quarantine import MAX_SPAN_BYTES

TORN = case("torn")
SPAN = ("file", "position", "length", "first_offset", "last_offset", "error", "message")


def spans(rows):
    return sorted(tuple(r[n] for n in ("topic", "partition", *SPAN)) for r in rows)


def test_damage_costs_nothing_but_itself(run_export):
    report, out = run_export(TORN.roots)
    assert not report["ok"]
    entries = {p.key: verify_partition(PartitionLog(p)) for p in discover(TORN.roots).partitions}
    got, want = rows_of(read_with_pyarrow(out / "data")), wanted(TORN)
    lost = want.keys() - got.keys()
    assert all(TORN.may_be_missing(at, entries[at[:2]]) for at in lost)
    same_rows(got, {at: row for at, row in want.items() if at not in lost})

    quarantine = pq.read_table(out / "quarantine").to_pylist()
    assert spans(quarantine) == spans(
        {"topic": t, "partition": p} | d for (t, p), e in entries.items() for d in e["damaged"]
    )
    for row in quarantine:  # the offsets named are the lost ones, and no others
        named = {o for t, p, o in want if (t, p) == (row["topic"], row["partition"]) and row["first_offset"] <= o}
        named = {o for o in named if row["last_offset"] is None or o <= row["last_offset"]}
        assert named == {o for t, p, o in lost if (t, p) == (row["topic"], row["partition"])}
        log = TORN.partition_dir(row["topic"], row["partition"]) / row["file"]
        assert row["bytes"] == log.read_bytes()[row["position"] : row["position"] + row["length"]]

    by_key = {(p["topic"], p["partition"]): p for p in report["partitions"]}
    for key, entry in entries.items():
        assert by_key[key]["quarantined"]["damaged"] == entry["damaged"]
        assert by_key[key]["written"]["records"] == entry["records_recovered"]
    assert report["quarantined"]["spans"] == len(quarantine) == 3


def test_fail_leaves_nothing(run_export, tmp_path):
    with pytest.raises(DamagedLogError, match="torn-flip"):
        run_export(TORN.roots, on_error="fail")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DamagedLogError):
        run_export(TORN.roots, on_error="fail", max_batch_bytes=100)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("split_bytes", [None, 1, 5000])
@pytest.mark.parametrize(("name", "topic"), [("codecs", "codec-zstd"), ("compacted", "compact-zstd")])
def test_batch_above_the_size_limit_is_found_by_the_tasks(run_export, tmp_path, name, topic, split_bytes):
    """The tasks that decode find it, not those that plan: here, batches that pass the limit once they are decompressed.

    However the partition is split, its offsets are those that `verify` tells, which sees it whole.
    """
    golden = case(name)
    topic = topic if (golden.roots[0] / f"{topic}-0").is_dir() else min(t for t, _, _ in golden.expected())
    root, limit = golden.partition_dir(topic, 0), 600
    entry = verify_partition(PartitionLog(discover([root]).partitions[0], ReadLimits(limit)))
    assert entry["damaged"]
    report, out = run_export([root], max_batch_bytes=limit, split_bytes=split_bytes)
    assert not report["ok"]
    quarantine = pq.read_table(out / "quarantine").to_pylist()
    assert spans(quarantine) == spans({"topic": topic, "partition": 0} | d for d in entry["damaged"])
    got = rows_of(read_with_pyarrow(out / "data"))
    want = {at: row for at, row in wanted(golden).items() if at[:2] == (topic, 0)}
    lost = {at for at in want if any(r["first_offset"] <= at[2] <= (r["last_offset"] or at[2]) for r in quarantine)}
    same_rows(got, {at: row for at, row in want.items() if at not in lost})
    assert report["partitions"][0]["written"]["records"] == entry["records_recovered"]
    with pytest.raises(DamagedLogError, match=topic):
        run_export([root], max_batch_bytes=limit, on_error="fail", split_bytes=split_bytes, output=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_long_quarantined_spans_are_truncated_and_marked(run_export, tmp_path):
    log = tmp_path / "logs" / "t-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\x17" * (MAX_SPAN_BYTES + 5))
    report, out = run_export([log.parents[1]])
    (row,) = pq.read_table(out / "quarantine").to_pylist()
    assert len(row["bytes"]) == MAX_SPAN_BYTES
    assert row["length"] == MAX_SPAN_BYTES + 5
    assert f"its first {MAX_SPAN_BYTES} of {MAX_SPAN_BYTES + 5} bytes" in row["message"]
    assert report["written"]["records"] == 0


@pytest.mark.parametrize(
    ("offsets", "keep"),
    [
        ("3:11", lambda o, end, stamp: 3 <= o < 11),
        ("-5:", lambda o, end, stamp: o >= end - 5),
        (":-5", lambda o, end, stamp: o < end - 5),
        ("@1700000002000:", None),
    ],
)
def test_offsets(run_export, offsets, keep):
    golden = case("segments")
    report, out = run_export(golden.roots, offsets=offsets)
    ends = {p.key: PartitionLog(p).next_offset for p in discover(golden.roots).partitions}
    if keep is None:  # from the first record on, in the order of offsets, that has this time or a later one
        late = [at for at, row in golden.expected().items() if row[0] >= 1700000002000]
        first = {key: min((o for t, p, o in late if (t, p) == key), default=end) for key, end in ends.items()}
        want = {at: row for at, row in golden.expected().items() if at[2] >= first[at[:2]]}
    else:
        want = {at: row for at, row in golden.expected().items() if keep(at[2], ends[at[:2]], row[0])}
    same_rows(rows_of(read_with_pyarrow(out / "data")), in_micros(want))
    part = report["partitions"][0]
    assert part["read"]["records"] == part["written"]["records"] + part["skipped"]["records"]


def test_from_what_a_group_has_committed(run_export):
    golden = case("epochs")
    committed = {key: 5 * key[1] + 3 for key in {at[:2] for at in golden.expected()}}
    report, out = run_export(golden.roots, offsets=(OffsetBound("group", committed=committed), None))
    want = {at: row for at, row in golden.expected().items() if at[2] >= committed[at[:2]]}
    same_rows(rows_of(read_with_pyarrow(out / "data")), in_micros(want))
    assert report["options"]["offsets"]["from"]["kind"] == "group"


@pytest.mark.parametrize("name", ["segments", "compacted"])
def test_many_splits_a_partition(run_export, name):
    golden = case(name)
    report, out = run_export(golden.roots, split_bytes=1)
    assert report["written"]["files"] > 3 * report["read"]["partitions"]
    same_rows(rows_of(read_with_pyarrow(out / "data")), wanted(golden))


def test_topics_partitions_and_what_is_left_out(run_export):
    golden = case("jbod")
    some = sorted({at[0] for at in golden.expected()})[0]
    report, out = run_export(golden.roots, topics=(some,), partitions=(0,))
    same_rows(
        rows_of(read_with_pyarrow(out / "data")), {at: row for at, row in wanted(golden).items() if at[:2] == (some, 0)}
    )
    reasons = {p["reason"] for p in report["skipped"]["partitions"]}
    assert "not selected" in reasons
    assert any(r.startswith("not live") for r in reasons)


def test_below_the_log_start(run_export):
    golden = case("delete-records")
    same_rows(rows_of(read_with_pyarrow(run_export(golden.roots)[1] / "data")), wanted(golden))
    report, _ = run_export(golden.roots, below_log_start=True, overwrite=True)
    assert report["written"]["records"] > len(golden.expected())


@pytest.mark.parametrize(
    ("compression", "level", "name"),
    [("zstd", 9, "ZSTD"), ("snappy", None, "SNAPPY"), ("lz4", None, "LZ4"), ("none", None, "UNCOMPRESSED")],
)
def test_compression(run_export, compression, level, name):
    golden = case("log-append-time")
    report, out = run_export(golden.roots, compression=compression, compression_level=level)
    assert report["codec"] == {"name": compression, "level": level}
    codecs = {pq.read_metadata(p).row_group(0).column(1).compression for p in out.glob("data/**/*.parquet")}
    assert codecs == {name}
    same_rows(rows_of(read_with_pyarrow(out / "data")), wanted(golden))


def test_overwrite(run_export, tmp_path):
    old, new = case("epochs"), case("compacted")
    _, out = run_export(old.roots)
    before = sorted(out.rglob("*"))
    with pytest.raises(OutputExistsError):
        run_export(new.roots)
    with pytest.raises(DamagedLogError):
        run_export(TORN.roots, overwrite=True, on_error="fail")
    assert sorted(out.rglob("*")) == before

    def old_one_is_whole(step, done, total):
        assert sorted(out.rglob("*")) == before

    run_export(new.roots, overwrite=True, progress=old_one_is_whole)
    same_rows(rows_of(read_with_pyarrow(out / "data")), wanted(new))


def test_out_never_touches_what_is_read(run_export, tmp_path, monkeypatch):
    root = shutil.copytree(case("epochs").roots[0], tmp_path / "in" / "log")
    for output in (root / "out", root, tmp_path / "in", tmp_path):
        with pytest.raises(OutputPlaceError):
            run_export([root], output=output, overwrite=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputPlaceError, match="current"):
        run_export(case("epochs").roots, output=".", overwrite=True)


def test_a_file_that_retention_takes_away_meanwhile(run_export, tmp_path):
    golden = case("segments")
    root = shutil.copytree(golden.roots[0], tmp_path / "log")
    partition = max(discover([root]).partitions, key=lambda p: len(p.segments))
    gone, told = partition.segments[0], []

    def late(number, split, settings):
        gone.path.unlink(missing_ok=True)
        return write_split(number, split, settings)

    report, out = run_export([root], write=late, tell=told.append)
    assert report["ok"]
    assert any(gone.name in m and "retention" in m for m in told)
    assert any(gone.name in m for m in report["skipped"]["messages"])
    want = {at: row for at, row in wanted(golden).items() if at[:2] != partition.key or at[2] >= gone.next_base}
    same_rows(rows_of(read_with_pyarrow(out / "data")), want)


def test_what_the_system_refuses_a_task(run_export, tmp_path):
    def refuse(number, split, settings):
        raise PermissionError(13, "Permission denied", "/somewhere/00000000000000000000.log")

    with pytest.raises(TaskOSError, match=r"^/somewhere/00000000000000000000.log: Permission denied$"):
        run_export(case("epochs").roots, write=refuse)
    assert list(tmp_path.iterdir()) == []


def test_names_that_spark_escapes(run_export, tmp_path, spark):
    assert escape("a=b/c%") == "a%3Db%2Fc%25"
    assert escape("") == "__HIVE_DEFAULT_PARTITION__"
    source = case("epochs").partition_dir(*next(iter(case("epochs").expected()))[:2])
    odd = shutil.copytree(source, tmp_path / "logs" / "back up: 100% [x]")
    _, out = run_export([odd])
    assert (out / "data" / "topic=back up%3A 100%25 %5Bx%5D" / "partition=0").is_dir()
    assert {r.topic for r in spark.read.parquet(str(out / "data")).select("topic").distinct().collect()} == {
        "back up: 100% [x]"
    }


def test_the_report_adds_up(run_export):
    report, out = run_export(case("transactions").roots, internal=True)
    assert json.loads((out / "report.json").read_text()) == report
    for part in ("read", "written"):
        for number in ("records", "bytes"):
            assert report[part][number] == sum(p[part][number] for p in report["partitions"])
    assert report["written"]["bytes"] == sum(p.stat().st_size for p in out.glob("data/**/*.parquet"))
    assert set(report["seconds"]["in_tasks"]) == {"reading", "decompressing", "decoding", "writing"}
    assert 0 < report["worker_memory"] < 400 << 20
    assert report["codec"] == {"name": "zstd", "level": 1}
    assert_nothing_beside(out)
