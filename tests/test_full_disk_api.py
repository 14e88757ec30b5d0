"""Test that an error of the Python API about a full disk contains the path of the output."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from golden_cases import case

import kafkafmt
from kafkafmt.server.groups.offsets_file import Entry, GroupsFile

pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limit the size of each file that is written, because a test cannot fill a disk."""
    # Python would store a truncated file of bytecode, which every later import of the module would read.
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log")


def write_log(path: Path) -> Path:
    with kafkafmt.LogDirectory(path, segment_bytes=20_000) as directory:
        writer = directory.writer("source")
        for n in range(60):
            writer.append([(b"key-%d" % (n % 9), b"v" * 1000, 1000 + n)])
    return path


def salvage(log: Path, output: Path) -> Any:
    return kafkafmt.salvage(log, output)


def merge(log: Path, output: Path) -> Any:
    replica = log.with_name("replica")
    if not replica.exists():
        shutil.copytree(log, replica)
    return kafkafmt.salvage([log, replica], output, replicas="merge")


def rewrite(log: Path, output: Path) -> Any:
    return kafkafmt.rewrite(log, output)


def rewrite_compacted(log: Path, output: Path) -> Any:
    return kafkafmt.rewrite(log, output, compact=True)


def make(log: Path, output: Path) -> Any:
    table = pytest.importorskip("pyarrow").table({"value": [b"v" * 1000] * 60})
    return kafkafmt.make(table, output, topic="t")


@pytest.mark.parametrize("size", [0, 10, 500, 5_000])
@pytest.mark.parametrize("write", [salvage, merge, rewrite, rewrite_compacted, make], ids=lambda f: f.__name__)
def test_full_disk_error_contains_the_output(
    write: Callable[[Path, Path], Any], size: int, log: Path, tmp_path: Path
) -> None:
    merge(log, tmp_path / "merged")
    output, before = tmp_path / "out", sorted(tmp_path.iterdir())
    with full_disk(size), pytest.raises(OSError) as caught:
        write(log, output)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(output))
    assert sorted(tmp_path.iterdir()) == before
    write(log, output)


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Return the log directory of a stopped broker, in which `source-0` is empty."""
    root = shutil.copytree(case("kafka-4.3.1/internal").roots[0], tmp_path / "broker")
    for path in (root / "source-0").glob("0*"):
        path.write_bytes(b"")
    return root


@pytest.mark.parametrize("size", [0, 10, 500, 5_000])
def test_full_disk_error_of_restore_contains_the_broker_directory(size: int, log: Path, broker: Path) -> None:
    before = {path: path.read_bytes() for path in broker.rglob("*") if path.is_file() and path.name != ".lock"}
    with full_disk(size), pytest.raises(OSError) as caught:
        kafkafmt.restore(log, broker)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(broker))
    assert {path: path.read_bytes() for path in broker.rglob("*") if path.is_file() and path.name != ".lock"} == before
    kafkafmt.restore(log, broker)


def test_full_disk_error_of_a_writer_contains_the_segment(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path / "log") as directory:
        writer = directory.writer("t")
        writer.append([(None, b"v" * 4000, 1)])
        with full_disk(5_000), pytest.raises(OSError) as caught:
            writer.append([(None, b"v" * 4000, 2)])
        segment = tmp_path / "log" / "t-0" / f"{0:020}.log"
        assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(segment))


def test_full_disk_error_of_a_directory_contains_the_checkpoint(tmp_path: Path) -> None:
    directory = kafkafmt.LogDirectory(tmp_path / "log")
    writer = directory.writer("t")
    writer.append([(None, b"v", 1)])
    with full_disk(0), pytest.raises(OSError) as caught:
        directory.close()
    assert caught.value.errno == errno.EFBIG
    assert Path(caught.value.filename).parent in (tmp_path / "log", tmp_path / "log" / "t-0")
    assert not caught.value.filename.endswith(".tmp")


def test_full_disk_error_of_charts_contains_the_file(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report, chart = kafkafmt.stats(log), tmp_path / "chart.svg"
    report.plot(chart)
    chart.unlink()
    with full_disk(100), pytest.raises(OSError) as caught:
        report.plot(chart)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(chart))


def test_full_disk_error_of_the_groups_file_contains_its_path(tmp_path: Path) -> None:
    path = tmp_path / "groups"
    groups = GroupsFile(path)
    groups.rewrite([])
    content = path.read_bytes()
    for write in (groups.append, groups.rewrite):
        with full_disk(30), pytest.raises(OSError) as caught:
            write([Entry(group="g" * 50)])
        assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
        assert path.read_bytes() == content
    groups.close()


def test_full_disk_error_of_the_spark_sink_contains_the_staging_file(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    pa = pytest.importorskip("pyarrow")
    from kafkafmt.spark.sink.write_options import parse_write
    from kafkafmt.spark.sink.writing import Stage, commit

    options = parse_write({"path": str(tmp_path / "log"), "topic": "t"})
    rows = pa.record_batch({"value": pa.array([b"v" * 10_000] * 9, pa.binary())})
    stage = Stage(options, {}, tmp_path / "failed")
    with full_disk(20_000), pytest.raises(OSError) as caught:
        stage.add(rows)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "failed" / "t-0"))

    stage = Stage(options, {}, tmp_path / "staged")
    stage.add(rows)
    staged = stage.finish()
    with full_disk(20_000), pytest.raises(OSError) as caught:
        commit(options, [staged], None)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "log" / "t-0" / f"{0:020}.log"))
    assert commit(options, [staged], None)
    assert len(list(kafkafmt.open(tmp_path / "log")["t", 0])) == 9


@pytest.mark.parametrize("command", ["read", "salvage", "export"])
def test_full_temporary_directory_is_reported_instead_of_the_output(command: str, log: Path, tmp_path: Path) -> None:
    """A compressed segment is unpacked into a temporary file, which can be on another disk than the output."""
    segment = max((log / "source-0").glob("*.log"))
    compressed = tmp_path / "compressed" / "source-0" / f"{segment.name}.gz"
    compressed.parent.mkdir(parents=True)
    compressed.write_bytes(gzip.compress(segment.read_bytes()))
    runs: dict[str, Callable[[], Any]] = {
        "read": lambda: list(kafkafmt.open(compressed.parent)["source", 0]),
        "salvage": lambda: kafkafmt.salvage(compressed.parent, tmp_path / "out"),
        "export": lambda: kafkafmt.export(compressed.parent, tmp_path / "out", engine="local"),
    }
    if command == "export":
        pytest.importorskip("pyarrow")
    with full_disk(1000), pytest.raises(OSError) as caught:
        runs[command]()
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, tempfile.gettempdir())
    assert not os.path.exists(tmp_path / "out")
