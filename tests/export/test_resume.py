"""Test exports that add what is new to an earlier output."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from command import process as command
from exporting import assert_no_leftovers, read_with_pyarrow, rows_of

import kafkafmt

pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
START = 1_767_225_600_000


def append(log: Path, partition: int, count: int, topic: str = "t") -> None:
    """Append batches of 10 records to a partition."""
    with kafkafmt.LogDirectory(log, segment_bytes=4000) as directory:
        writer = directory.writer(topic, partition)
        for _ in range(0, count, 10):
            first = writer.next_offset
            writer.append([(b"k", b"%d" % n, START + n) for n in range(first, first + 10)])


def export(log: Path, out: Path, **options: Any) -> dict[str, Any]:
    report = kafkafmt.export(log, out, engine="local", resume=True, **options).to_dict()
    assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
    assert_no_leftovers(out)
    return report


def offsets_of(out: Path) -> dict[tuple[str, int], list[int]]:
    """Return the sorted offsets of each partition. Fail if a record occurs twice."""
    found: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in sorted(rows_of(read_with_pyarrow(out / "data"))):
        found.setdefault((topic, partition), []).append(offset)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.mkdir()
    append(path, 0, 100)
    append(path, 1, 30)
    return path


def test_each_run_adds_what_is_new(log: Path, tmp_path: Path) -> None:
    out, sizes, numbers = tmp_path / "out", {0: 100, 1: 30, 2: 0}, random.Random(3)
    for run in range(6):
        report = export(log, out)
        assert report["run"] == run
        assert {p["partition"]: p["next_offset"] for p in report["partitions"]} == {p: n for p, n in sizes.items() if n}
        assert offsets_of(out) == {("t", p): list(range(n)) for p, n in sizes.items() if n}
        assert len(list((out / "reports").glob("*.json"))) == run if run else not (out / "reports").exists()
        for partition in sizes:
            more = numbers.choice([0, 10, 50])
            sizes[partition] += more
            append(log, partition, more) if more else None


def test_run_without_new_records_adds_no_file(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(log, out)
    before = sorted(p.relative_to(out) for p in out.glob("data/**/*.parquet"))
    report = export(log, out)
    assert report["written"]["records"] == 0
    assert sorted(p.relative_to(out) for p in out.glob("data/**/*.parquet")) == before


def test_records_of_an_open_transaction_are_added_when_it_ends(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    append(log, 0, 20)
    with kafkafmt.LogDirectory(log) as directory:
        writer = directory.writer("t", 0)
        writer.append_batches(
            kafkafmt.build_batch(
                [(b"k", b"v", START)] * 5, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
            )
        )
    report = export(log, out, isolation="read_committed")
    assert report["partitions"][0]["next_offset"] == 20
    with kafkafmt.LogDirectory(log) as directory:
        directory.writer("t", 0).end_transaction(7, 0, commit=True)
    export(log, out, isolation="read_committed")
    assert offsets_of(out) == {("t", 0): list(range(25))}


def test_partition_that_no_run_exported_begins_at_the_given_start(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(log, out, partitions=0, end=50)
    report = export(log, out, start=10)
    assert offsets_of(out) == {("t", 0): list(range(100)), ("t", 1): list(range(10, 30))}
    assert report["written"]["records"] == 70


def test_damage_is_kept_with_its_run(log: Path, tmp_path: Path) -> None:
    out, segment = tmp_path / "out", min((log / "t-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    assert not export(log, out)["ok"]
    append(log, 1, 20)
    assert export(log, out)["ok"]
    assert [pq.read_table(p).num_rows for p in sorted((out / "quarantine").iterdir())] == [1, 0]
    assert offsets_of(out)["t", 1] == list(range(50))


def test_output_that_cannot_be_resumed_is_refused(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(kafkafmt.ResumeError, match="contains no complete export"):
        export(log, out)
    assert list(out.iterdir()) == []
    out.rmdir()
    export(log, out)
    before = offsets_of(out)
    with pytest.raises(kafkafmt.ResumeError, match="the earlier runs had partition_by = None, not 'day'"):
        export(log, out, partition_by="day")
    with pytest.raises(ValueError, match="resume and overwrite cannot both be given"):
        export(log, out, overwrite=True)
    with pytest.raises(kafkafmt.ResumeError, match="only an output in a local directory can be resumed"):
        kafkafmt.export(log, "s3://bucket/out", engine="local", resume=True)
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(kafkafmt.ResumeError, match="another export is adding files to"):
        export(log, out)
    os.close(descriptor)
    (out / "report.json").write_text("{}")
    with pytest.raises(kafkafmt.ResumeError, match="is not the report of an export that can be resumed"):
        export(log, out)
    assert offsets_of(out) == before
    assert_no_leftovers(out)


def test_shorter_log_is_refused_and_retention_is_reported(log: Path, tmp_path: Path) -> None:
    out, messages = tmp_path / "out", list[str]()
    export(log, out)
    (log / "t-1" / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(kafkafmt.ResumeError, match="t-1 ends at offset 0, but the output contains offsets up to 30"):
        export(log, out)
    append(log, 0, 400)
    *removed, _ = sorted((log / "t-0").glob("*.log"))
    for segment in removed:
        for file in (log / "t-0").glob(f"{segment.stem}.*"):
            file.unlink()
    report = export(log, out, partitions=0, on_message=messages.append)
    start = report["partitions"][0]["log_start_offset"]
    assert start > 100
    assert any(f"retention removed offsets 100 to {start - 1}" in message for message in messages)
    assert offsets_of(out)["t", 0] == [*range(100), *range(start, 500)]


def test_resume_is_refused_if_the_topic_was_created_again(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"

    def write(count: int, topic_id: str | None) -> None:
        with kafkafmt.LogDirectory(log) as directory:
            directory.writer("t", topic_id=topic_id).append([(None, b"value", START)] * count)

    old, new = f"{'A' * 21}Q", f"{'A' * 21}g"
    write(5, old)
    assert export(log, out)["partitions"][0]["topic_id"] == old
    shutil.rmtree(log / "t-0")
    write(9, new)
    with pytest.raises(kafkafmt.ResumeError, match=f"the topic of t-0 was deleted and created again.*{new}.*{old}"):
        export(log, out)
    assert offsets_of(out) == {("t", 0): list(range(5))}
    (log / "t-0" / "partition.metadata").unlink()
    assert export(log, out)["written"]["records"] == 4


def test_topic_created_again_is_refused_after_a_run_without_topic_id(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"

    def write(topic_id: str, count: int) -> None:
        with kafkafmt.LogDirectory(log) as directory:
            directory.writer("t", topic_id=topic_id).append([(None, b"value", START)] * count)

    write(f"{'A' * 21}Q", 5)
    export(log, out)
    (log / "t-0" / "partition.metadata").unlink()
    assert export(log, out)["partitions"][0]["topic_id"] is None
    shutil.rmtree(log / "t-0")
    write(f"{'A' * 21}g", 9)
    with pytest.raises(kafkafmt.ResumeError, match="the topic of t-0 was deleted and created again"):
        export(log, out)


def test_records_below_the_log_start_are_added_only_on_request(log: Path, tmp_path: Path) -> None:
    hidden, shown, messages = tmp_path / "hidden", tmp_path / "shown", list[str]()
    export(log, hidden)
    export(log, shown)
    append(log, 0, 20)
    with kafkafmt.LogDirectory(log) as directory:
        directory.writer("t", 0).delete_before(110)
    export(log, hidden, on_message=messages.append)
    assert offsets_of(hidden)["t", 0] == [*range(100), *range(110, 120)]
    assert any("retention removed offsets 100 to 109" in message for message in messages)
    messages.clear()
    export(log, shown, below_log_start=True, on_message=messages.append)
    assert offsets_of(shown)["t", 0] == [*range(120)]
    assert messages == []


def test_killed_run_leaves_the_old_output_and_the_next_run_goes_on(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(log, out)
    before = offsets_of(out)
    append(log, 0, 2000)
    code = (
        "import kafkafmt, sys, time\n"
        "from kafkafmt.exporting import tasks\n"
        "from kafkafmt.exporting.job import Export\n"
        "Export._keep_files = lambda *_: (print('exported', flush=True), time.sleep(60))\n"
        "kafkafmt.export(sys.argv[1], sys.argv[2], engine='local', resume=True)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(log), str(out)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "exported\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert offsets_of(out) == before
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not [p for p in tmp_path.iterdir() if ".kafkafmt-" in p.name]:
        time.sleep(0.01)
    export(log, out)
    assert offsets_of(out)["t", 0] == list(range(2100))


def test_run_fails_if_another_export_replaces_the_output(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(log, out)
    append(log, 0, 20)

    def replace_output(*_: object) -> None:
        if len(offsets_of(out)) > 1:
            kafkafmt.export(log, out, engine="local", overwrite=True, partitions=1)

    with pytest.raises(kafkafmt.ResumeError, match="another export has replaced"):
        export(log, out, progress=replace_output)
    assert offsets_of(out) == {("t", 1): list(range(30))}
    assert_no_leftovers(out)
    export(log, out)
    assert offsets_of(out) == {("t", 0): list(range(120)), ("t", 1): list(range(30))}


@pytest.mark.slow
def test_command_resumes(log: Path, tmp_path: Path) -> None:
    options = ("export", log, "--output", tmp_path / "out", "--engine", "local", "--resume")
    assert command(*options).returncode == 0
    append(log, 1, 10)
    assert command(*options).returncode == 0
    assert offsets_of(tmp_path / "out")["t", 1] == list(range(40))
    done = command(*options, "--overwrite")
    assert done.returncode == 2
    assert "--resume and --overwrite cannot both be given" in done.stderr
    done = command(*options, "--partition-by", "day")
    assert done.returncode == 2
    assert "the earlier runs had partition_by" in done.stderr
