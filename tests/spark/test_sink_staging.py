"""Test that staged files are removed after each batch, after an error, and if a driver was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

import kafkafmt
from kafkafmt.spark.processes import start_time
from kafkafmt.spark.schema import struct_of
from kafkafmt.spark.sink import job_staging
from kafkafmt.spark.sink.job_staging import remove_leftovers, remove_staging, staging_of
from kafkafmt.spark.source.data_source import KafkaLogSource

ROWS = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})


def staged_next_to(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir() if p.name.startswith("."))


def stream_writer(path: Path, **options: str) -> Any:
    source = KafkaLogSource(CaseInsensitiveDict({"path": str(path), "topic": "t", **options}))
    return source.streamWriter(struct_of(["value"]), False)


@pytest.mark.parametrize("options", [{"checkpointLocation": "s3://bucket/c"}, {"txnAppId": "mine"}, {}], ids=str)
def test_committing_writer_removes_what_another_writer_staged(tmp_path: Path, options: dict[str, str]) -> None:
    path = tmp_path / "log"
    for number in range(5):
        staged = [stream_writer(path, **options).write(iter([ROWS])) for _ in range(2)]
        assert staged_next_to(path)
        stream_writer(path, **options).commit(staged, number)
        assert staged_next_to(path) == []
    assert len(list(kafkafmt.open(path)["t", 0])) == 20


@pytest.mark.parametrize("options", [{"checkpointLocation": "/c"}, {}], ids=str)
def test_aborting_writer_removes_what_another_writer_staged(tmp_path: Path, options: dict[str, str]) -> None:
    path = tmp_path / "log"
    staged = stream_writer(path, **options).write(iter([ROWS]))
    stream_writer(path, **options).abort([staged, None], 0)
    assert staged_next_to(path) == []


def test_next_commit_removes_what_a_failed_batch_of_the_query_left(tmp_path: Path) -> None:
    path, query = tmp_path / "log", {"checkpointLocation": "/c"}
    stream_writer(path, **query).write(iter([ROWS]))  # the batch fails, and Spark does not call any writer
    staged = stream_writer(path, **query).write(iter([ROWS]))
    stream_writer(path, **query).commit([staged], 0)
    assert staged_next_to(path) == []
    assert len(list(kafkafmt.open(path)["t", 0])) == 2


def test_staged_file_that_changed_is_not_appended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = stream_writer(path)
    big = [pa.RecordBatch.from_pydict({"value": [os.urandom(60_000)]}) for _ in range(5)]
    staged = writer.write(iter(big))
    (file,) = Path(staged.staged.folder).iterdir()
    first = next(iter(kafkafmt.iter_batches(file.read_bytes())))
    file.write_bytes(file.read_bytes()[: len(first.data)])  # complete batches, but not all of them
    with pytest.raises(OSError, match=r"bytes on the driver, but a task staged"):
        writer.commit([staged], 0)
    assert list(kafkafmt.open(path)["t", 0]) == []
    assert staged_next_to(path) == []


def owned_by_a_dead_process(path: Path, query: str | None) -> Path:
    """Return a staging directory whose driver has ended."""
    program = "import sys; sys.path[:0] = eval(sys.argv[1]); from pathlib import Path; from kafkafmt.spark.sink import job_staging as j;"
    program += "j.JVM = ''; print(j.staging_of(Path(sys.argv[2]), eval(sys.argv[3])))"
    command = [sys.executable, "-c", program, repr(sys.path), str(path), repr(query)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made = Path(done.stdout.strip())
    (made / "attempt").mkdir(parents=True)
    (made / "attempt" / "t-0").write_bytes(b"half")
    return made


def on_another_machine(path: Path) -> Path:
    """Rename a staging directory as if its driver ran on another machine."""
    head, _, tail = path.name.partition(job_staging.MARK)
    return path.rename(path.with_name(f"{head}{job_staging.MARK}00000000{tail[8:]}"))


def test_leftovers_are_removed_only_if_unused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    owned_by_a_dead_process(path, None)
    owned_by_a_dead_process(path, "other query")
    remote = on_another_machine(owned_by_a_dead_process(path, None))
    remote_query = on_another_machine(owned_by_a_dead_process(path, "other query"))
    earlier_run = on_another_machine(owned_by_a_dead_process(path, "/c"))
    running = staging_of(path)
    running.mkdir()
    other_log = owned_by_a_dead_process(tmp_path / "log2", None)
    odd = [tmp_path / ".log.kafkafmt-write-notes", tmp_path / ".log.kafkafmt-0a1b2c3d", tmp_path / ".logs"]
    for folder in odd:
        folder.mkdir()
    stream_writer(path, checkpointLocation="/c")
    assert not earlier_run.exists()
    assert sorted(p for p in tmp_path.iterdir()) == sorted([remote, remote_query, running, other_log, *odd])


def test_staging_of_a_live_driver_is_kept_even_by_its_query(tmp_path: Path) -> None:
    path = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        own = staging_of(path, "/c")
        head, _, tail = own.name.partition(job_staging.MARK)
        place, _, _, job = tail.split("-")
        started = start_time(parent.pid)
        other = own.with_name(f"{head}{job_staging.MARK}{place}-{parent.pid}-{started}-{job}")
        other.mkdir()
        remove_leftovers(path, own)
        assert other.exists()
    finally:
        parent.kill()
        parent.wait()
    remove_leftovers(path, own)
    assert not other.exists()


def test_only_staging_next_to_the_log_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for folder in (tmp_path / "elsewhere" / staging_of(path).name, tmp_path / ".log.precious", path):
        folder.mkdir(parents=True)
        remove_staging(path, [folder])
        assert folder.exists()


SINK = """
import sys
sys.path[:0] = {path!r}
from kafkafmt.spark import make_session, register
settings = {{"spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}}
spark = make_session("local[2]", "killed", **settings)
register(spark)
frame = spark.readStream.format("kafkafmt").option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2000).load({source!r})
query = frame.select("value", "topic").writeStream.format("kafkafmt").option("checkpointLocation", {checkpoint!r}).start({log!r})
query.awaitTermination()
"""


def run_stream(spark: SparkSession, source: Path, log: Path, checkpoint: Path) -> None:
    frame = (
        spark.readStream.format("kafkafmt")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2000)
        .load(str(source))
    )
    writer = frame.select("value", "topic").writeStream.format("kafkafmt").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(log)).awaitTermination(300)


def source_log(path: Path, total: int) -> Path:
    with kafkafmt.LogDirectory(path) as directory:
        directory.writer("orders").append([(None, b"%d" % i, 1_700_000_000_000 + i) for i in range(total)])
    return path


def values(path: Path) -> Counter[int]:
    return Counter(int(r.value or b"") for p in kafkafmt.open(path) for r in p)


def test_five_micro_batches_leave_no_staging(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "parent").mkdir()
    log = tmp_path / "parent" / "log"
    run_stream(spark, source_log(tmp_path / "source", 10_000), log, tmp_path / "c")
    assert len(list((tmp_path / "c" / "commits").glob("[0-9]*"))) == 5
    assert [p.name for p in log.parent.iterdir()] == ["log"]
    assert values(log) == Counter(range(10_000))


@pytest.mark.full
def test_killed_stream_leaves_no_staging_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "parent").mkdir()
    source, log, total = source_log(tmp_path / "source", 40_000), tmp_path / "parent" / "log", 40_000
    program = SINK.format(path=sys.path, source=str(source), log=str(log), checkpoint=str(tmp_path / "c"))
    left = []
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            before = len(list((tmp_path / "c" / "commits").glob("[0-9]*")))
            while process.poll() is None and len(list((tmp_path / "c" / "commits").glob("[0-9]*"))) < before + 2:
                time.sleep(0.01)
            while process.poll() is None and not staged_next_to(log):  # until a batch is being staged
                pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        left.append(staged_next_to(log))
    assert any(left)
    run_stream(spark, source, log, tmp_path / "c")
    assert [p.name for p in log.parent.iterdir()] == ["log"]
    assert values(log) == Counter(range(total))
