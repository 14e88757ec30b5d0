"""Test the options of the export on golden logs with damage, in one Spark session."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from exporting import RunExport, assert_no_leftovers, expected_rows, in_micros, read_with_pyarrow, rows_of
from golden_cases import case, same_rows
from pyspark.sql import SparkSession
from reports import verify_partition

import kafkafmt
from kafkafmt import LogDirectory, OutputExistsError, OutputPlaceError
from kafkafmt.exporting import TaskOSError
from kafkafmt.exporting.bundles import Bundle
from kafkafmt.exporting.layout import escape
from kafkafmt.exporting.quarantine import MAX_SPAN_BYTES
from kafkafmt.exporting.tasks import BundleResult, TaskSettings, write_bundle
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.damage.plan import ReadLimits
from kafkafmt.log.reading.record_selection import OffsetBound

TORN = case("torn")
SPAN = ("file", "position", "length", "first_offset", "last_offset", "error", "message")


def spans(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(r[n] for n in ("topic", "partition", *SPAN)) for r in rows)


def test_only_damaged_records_are_lost(run_export: RunExport) -> None:
    report, out = run_export(TORN.roots)
    assert not report["ok"]
    entries = {p.key: verify_partition(PartitionLog(p)) for p in discover(TORN.roots).partitions}
    actual, expected = rows_of(read_with_pyarrow(out / "data")), expected_rows(TORN)
    lost = expected.keys() - actual.keys()
    assert all(TORN.may_be_missing(at, entries[at[:2]]) for at in lost)
    same_rows(actual, {at: row for at, row in expected.items() if at not in lost})

    quarantine = pq.read_table(out / "quarantine").to_pylist()
    assert spans(quarantine) == spans(
        {"topic": t, "partition": p} | d for (t, p), e in entries.items() for d in e["damaged"]
    )
    for row in quarantine:  # the reported offsets are exactly the lost ones
        named = {o for t, p, o in expected if (t, p) == (row["topic"], row["partition"]) and row["first_offset"] <= o}
        named = {o for o in named if row["last_offset"] is None or o <= row["last_offset"]}
        assert named == {o for t, p, o in lost if (t, p) == (row["topic"], row["partition"])}
        log = TORN.partition_dir(row["topic"], row["partition"]) / row["file"]
        assert row["bytes"] == log.read_bytes()[row["position"] : row["position"] + row["length"]]

    by_key = {(p["topic"], p["partition"]): p for p in report["partitions"]}
    for key, entry in entries.items():
        assert by_key[key]["quarantined"]["damaged"] == entry["damaged"]
        assert by_key[key]["written"]["records"] == entry["records_recovered"]
    assert report["quarantined"]["spans"] == len(quarantine) == 3


def test_fail_mode_leaves_no_output(run_export: RunExport, tmp_path: Path) -> None:
    with pytest.raises(DamagedLogError, match="torn-flip"):
        run_export(TORN.roots, on_error="fail")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DamagedLogError):
        run_export(TORN.roots, on_error="fail", max_batch_bytes=100)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("split_bytes", [None, 1, 5000])
@pytest.mark.parametrize(("name", "topic"), [("codecs", "codec-zstd"), ("compacted", "compact-zstd")])
def test_batch_above_the_size_limit_is_found_by_the_tasks(
    run_export: RunExport, tmp_path: Path, name: str, topic: str, split_bytes: int | None
) -> None:
    """Only tasks find this damage, because the batches exceed the limit after decompression.

    For any splits of a partition, the damaged offsets equal those of `verify`, which reads all of
    it.
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
    actual = rows_of(read_with_pyarrow(out / "data"))
    expected = {at: row for at, row in expected_rows(golden).items() if at[:2] == (topic, 0)}
    lost = {at for at in expected if any(r["first_offset"] <= at[2] <= (r["last_offset"] or at[2]) for r in quarantine)}
    same_rows(actual, {at: row for at, row in expected.items() if at not in lost})
    assert report["partitions"][0]["written"]["records"] == entry["records_recovered"]
    with pytest.raises(DamagedLogError, match=topic):
        run_export([root], max_batch_bytes=limit, on_error="fail", split_bytes=split_bytes, output=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_long_quarantined_spans_are_truncated_and_marked(run_export: RunExport, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "t-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\x17" * (MAX_SPAN_BYTES + 5))
    report, out = run_export([log.parents[1]])
    (row,) = pq.read_table(out / "quarantine").to_pylist()
    assert len(row["bytes"]) == MAX_SPAN_BYTES
    assert row["length"] == MAX_SPAN_BYTES + 5
    assert f"only the first {MAX_SPAN_BYTES} of {MAX_SPAN_BYTES + 5} damaged bytes were stored" in row["message"]
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
def test_offset_range_selects_records(
    run_export: RunExport, offsets: str, keep: Callable[[int, int, int], bool] | None
) -> None:
    golden = case("segments")
    report, out = run_export(golden.roots, offsets=offsets)
    ends = {p.key: PartitionLog(p).next_offset for p in discover(golden.roots).partitions}
    if keep is None:  # the range starts at the first record, in offset order, with this timestamp or a later one
        later = [at for at, row in golden.expected().items() if row[0] >= 1700000002000]
        first = {key: min((o for t, p, o in later if (t, p) == key), default=end) for key, end in ends.items()}
        expected = {at: row for at, row in golden.expected().items() if at[2] >= first[at[:2]]}
    else:
        expected = {at: row for at, row in golden.expected().items() if keep(at[2], ends[at[:2]], row[0])}
    same_rows(rows_of(read_with_pyarrow(out / "data")), in_micros(expected))
    part = report["partitions"][0]
    assert part["read"]["records"] == part["written"]["records"] + part["skipped"]["records"]


def test_export_starts_at_the_offsets_of_a_group(run_export: RunExport) -> None:
    golden = case("epochs")
    committed = {key: 5 * key[1] + 3 for key in {at[:2] for at in golden.expected()}}
    report, out = run_export(golden.roots, offsets=(OffsetBound("group", committed=committed), None))
    expected = {at: row for at, row in golden.expected().items() if at[2] >= committed[at[:2]]}
    same_rows(rows_of(read_with_pyarrow(out / "data")), in_micros(expected))
    assert report["options"]["offsets"]["from"]["kind"] == "group"


@pytest.mark.parametrize("name", ["segments", "compacted"])
def test_many_splits_of_a_partition_give_the_same_records(run_export: RunExport, name: str) -> None:
    golden = case(name)
    report, out = run_export(golden.roots, split_bytes=1)
    assert report["written"]["files"] > 3 * report["read"]["partitions"]
    same_rows(rows_of(read_with_pyarrow(out / "data")), expected_rows(golden))


def test_report_lists_partitions_that_are_not_selected(run_export: RunExport) -> None:
    golden = case("jbod")
    one_topic = sorted({at[0] for at in golden.expected()})[0]
    report, out = run_export(golden.roots, topics=(one_topic,), partitions=(0,))
    same_rows(
        rows_of(read_with_pyarrow(out / "data")),
        {at: row for at, row in expected_rows(golden).items() if at[:2] == (one_topic, 0)},
    )
    reasons = {p["reason"] for p in report["skipped"]["partitions"]}
    assert "not selected" in reasons
    assert any(r.startswith("not live") for r in reasons)


def test_records_below_the_log_start_are_exported_on_request(run_export: RunExport) -> None:
    golden = case("delete-records")
    same_rows(rows_of(read_with_pyarrow(run_export(golden.roots)[1] / "data")), expected_rows(golden))
    report, _ = run_export(golden.roots, below_log_start=True, overwrite=True)
    assert report["written"]["records"] > len(golden.expected())


@pytest.mark.parametrize(
    ("compression", "level", "name"),
    [("zstd", 9, "ZSTD"), ("snappy", None, "SNAPPY"), ("lz4", None, "LZ4"), ("none", None, "UNCOMPRESSED")],
)
def test_files_have_the_chosen_compression(
    run_export: RunExport, compression: str, level: int | None, name: str
) -> None:
    golden = case("log-append-time")
    report, out = run_export(golden.roots, compression=compression, compression_level=level)
    assert report["codec"] == {"name": compression, "level": level}
    codecs = {pq.read_metadata(p).row_group(0).column(1).compression for p in out.glob("data/**/*.parquet")}
    assert codecs == {name}
    same_rows(rows_of(read_with_pyarrow(out / "data")), expected_rows(golden))


def test_existing_output_is_replaced_only_by_a_complete_export(run_export: RunExport, tmp_path: Path) -> None:
    old, new = case("epochs"), case("compacted")
    _, out = run_export(old.roots)
    before = sorted(out.rglob("*"))
    with pytest.raises(OutputExistsError):
        run_export(new.roots)
    with pytest.raises(DamagedLogError):
        run_export(TORN.roots, overwrite=True, on_error="fail")
    assert sorted(out.rglob("*")) == before

    def old_one_is_whole(step: str, done: int, total: int) -> None:
        assert sorted(out.rglob("*")) == before

    run_export(new.roots, overwrite=True, progress=old_one_is_whole)
    same_rows(rows_of(read_with_pyarrow(out / "data")), expected_rows(new))


def test_output_that_contains_the_source_is_refused(
    run_export: RunExport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(case("epochs").roots[0], tmp_path / "in" / "log")
    for output in (root / "out", root, tmp_path / "in", tmp_path):
        with pytest.raises(OutputPlaceError):
            run_export([root], output=output, overwrite=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputPlaceError, match="current"):
        run_export(case("epochs").roots, output=".", overwrite=True)


def test_segment_removed_by_retention_is_reported(run_export: RunExport, tmp_path: Path) -> None:
    golden = case("segments")
    root = shutil.copytree(golden.roots[0], tmp_path / "log")
    partition = max(discover([root]).partitions, key=lambda p: len(p.segments))
    removed, following = partition.segments[:2]
    messages: list[str] = []

    def write_after_removal(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        removed.path.unlink(missing_ok=True)
        return write_bundle(bundle, settings)

    report, out = run_export([root], write=write_after_removal, tell=messages.append)
    assert report["ok"]
    assert any(removed.name in m and "retention" in m for m in messages)
    assert any(removed.name in m for m in report["skipped"]["messages"])
    expected = {
        at: row
        for at, row in expected_rows(golden).items()
        if at[:2] != partition.key or at[2] >= (following.base_offset or 0)
    }
    same_rows(rows_of(read_with_pyarrow(out / "data")), expected)


def test_permission_error_in_a_task_is_reported(run_export: RunExport, tmp_path: Path) -> None:
    def refuse(bundle: Bundle, settings: TaskSettings) -> BundleResult:
        raise PermissionError(13, "Permission denied", "/somewhere/00000000000000000000.log")

    with pytest.raises(TaskOSError, match=r"^/somewhere/00000000000000000000.log: Permission denied \(on host \S+\)$"):
        run_export(case("epochs").roots, write=refuse)
    assert list(tmp_path.iterdir()) == []


def test_topic_name_is_escaped_like_in_spark(run_export: RunExport, tmp_path: Path, spark: SparkSession) -> None:
    assert escape("a=b/c%") == "a%3Db%2Fc%25"
    assert escape("") == "__HIVE_DEFAULT_PARTITION__"
    source = case("epochs").partition_dir(*next(iter(case("epochs").expected()))[:2])
    odd = shutil.copytree(source, tmp_path / "logs" / "back up: 100% [x]")
    _, out = run_export([odd])
    assert (out / "data" / "topic=back up%3A 100%25 %5Bx%5D" / "partition=0").is_dir()
    assert {r.topic for r in spark.read.parquet(str(out / "data")).select("topic").distinct().collect()} == {
        "back up: 100% [x]"
    }


def test_report_sums_its_partitions(run_export: RunExport) -> None:
    report, out = run_export(case("transactions").roots, internal=True)
    assert json.loads((out / "report.json").read_text()) == report
    for part in ("read", "written"):
        for number in ("records", "bytes"):
            assert report[part][number] == sum(p[part][number] for p in report["partitions"])
    assert report["written"]["bytes"] == sum(p.stat().st_size for p in out.glob("data/**/*.parquet"))
    assert set(report["seconds"]["in_tasks"]) == {"reading", "decompressing", "decoding", "writing"}
    assert 0 < report["worker_memory"] < 400 << 20
    assert report["codec"] == {"name": "zstd", "level": 1}
    assert_no_leftovers(out)


def test_files_are_in_offset_order_if_only_some_splits_are_exported_again(
    run_export: RunExport, tmp_path: Path
) -> None:
    with LogDirectory(tmp_path / "log", segment_bytes=8000, index_interval_bytes=1) as directory:
        writer = directory.writer("t", 0)
        for _ in range(220):
            writer.append([(None, b"v" * 30, 0)])
    first, _, third = sorted(tmp_path.glob("log/t-0/*.log"))
    for log in (first, third):
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
    expected = [record.offset for record in kafkafmt.open(tmp_path / "log")["t", 0].records(on_error="skip")]
    assert len(expected) == 218
    _, out = run_export([tmp_path / "log"], split_bytes=5000)
    files = sorted(out.glob("data/topic=t/partition=0/*.parquet"))
    assert [o for file in files for o in pq.ParquetFile(file).read(["offset"])["offset"].to_pylist()] == expected
