"""Open logs, topics and partitions as arguments of the functions that take paths."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkafmt
from kafkafmt import Log

COUNTS = {("orders", 0): 2, ("orders", 1): 3, ("users", 0): 5}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with kafkafmt.LogDirectory(tmp_path / "data") as directory:
        for (topic, partition), count in COUNTS.items():
            directory.writer(topic, partition).append([(b"k", b"v", 5)] * count)
    return tmp_path / "data"


def opened(data: Path) -> list[tuple[Any, int]]:
    """Return everything that can be passed as `paths`, with the number of its records."""
    log = kafkafmt.open(data)
    return [
        (log, 10),
        (log["orders"], 5),
        (log["orders", 1], 3),
        ([log["users"], log["orders", 0]], 7),
        ([log["users", 0], str(data / "orders-1"), data / "orders-0"], 10),
        ((source for source in [log]), 10),
    ]


def verified(source: Any) -> int:
    return sum(p.records_recovered for p in kafkafmt.verify(source).partitions)


def exported(source: Any, output: Path) -> int:
    return kafkafmt.export(source, output, engine="local").written.records


def salvaged(source: Any, output: Path) -> int:
    kafkafmt.salvage(source, output)
    return records(kafkafmt.open(output))


def rewritten(source: Any, output: Path) -> int:
    kafkafmt.rewrite(source, output, codec="zstd")
    return records(kafkafmt.open(output))


def records(log: Log) -> int:
    return sum(sum(1 for _ in partition) for partition in log.partitions)


FUNCTIONS: dict[str, Callable[[Any, Path], int]] = {
    "open": lambda source, _: records(kafkafmt.open(*source if isinstance(source, list) else [source])),
    "verify": lambda source, _: verified(source),
    "stats": lambda source, _: sum(t.content.records or 0 for t in kafkafmt.stats(source, deep=True).topics),
    "describe": lambda source, _: sum(p.next_offset for p in kafkafmt.describe(source).partitions),
    "scan_polars": lambda source, _: len(kafkafmt.scan_polars(source).collect()),
    "export": exported,
    "salvage": salvaged,
    "rewrite": rewritten,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("case", range(6))
def test_open_log_can_be_passed_as_paths(name: str, case: int, data: Path, tmp_path: Path) -> None:
    source, count = opened(data)[case]
    if name == "open" and case == 5:
        source = tuple(source)
    assert FUNCTIONS[name](source, tmp_path / "output") == count


def test_dump_restricts_a_topic_to_its_partitions(data: Path) -> None:
    found = {dumped.path.parent.name for dumped in kafkafmt.dump(kafkafmt.open(data)["orders"])}
    assert found == {"orders-0", "orders-1"}


def test_diff_compares_topics(data: Path, tmp_path: Path) -> None:
    kafkafmt.salvage(data, tmp_path / "copy")
    with kafkafmt.LogDirectory(data) as directory:
        directory.writer("users", 0).append([(b"k", b"v", 5)])
    first, second = kafkafmt.open(data), kafkafmt.open(tmp_path / "copy")
    report = kafkafmt.diff(first["orders"], second["orders"])
    assert [(p.topic, p.partition, p.equal, p.paths) for p in report.partitions] == [
        ("orders", n, True, (str(data), str(tmp_path / "copy"))) for n in (0, 1)
    ]
    assert [p.equal for p in kafkafmt.diff([first, second]).partitions] == [True, True, False]
    with pytest.raises(ValueError, match="at least two copies are needed for a comparison, not 1"):
        kafkafmt.diff(first["orders"])


def test_serve_restricts_a_topic_to_its_partitions(data: Path) -> None:
    log = kafkafmt.open(data)
    assert (kafkafmt.serve(log["orders"]).topics, kafkafmt.serve(log).topics) == (["orders"], ["orders", "users"])


def test_metadata_needs_one_path(data: Path, tmp_path: Path) -> None:
    log = kafkafmt.open(data)
    with pytest.raises(OSError, match="there is no __cluster_metadata-0"):
        kafkafmt.metadata(log)
    with pytest.raises(ValueError, match=r"path must have a single path, but <kafkafmt.Topic .*> has 2 paths"):
        kafkafmt.metadata(log["orders"])


def test_schemas_need_one_path(data: Path) -> None:
    log = kafkafmt.open(data)
    with pytest.raises(OSError, match="there is no topic _schemas"):
        kafkafmt.schemas(log)
    with pytest.raises(ValueError, match=r"source must have a single path, but <kafkafmt.Topic .*> has 2 paths"):
        kafkafmt.schemas(log["orders"])


def test_segment_file_stays_a_segment_file(data: Path) -> None:
    with kafkafmt.LogDirectory(data, segment_bytes=100) as directory:
        directory.writer("orders", 0).append([(b"k", b"w", 5)])
    names = sorted(path.name for path in (data / "orders-0").glob("*.log"))
    assert len(names) > 1
    log = kafkafmt.open(data / "orders-0" / names[0])
    assert [p.records for p in kafkafmt.verify(log["orders"]).partitions] == [2]


def test_topic_keeps_the_chosen_replica(data: Path, tmp_path: Path) -> None:
    kafkafmt.salvage(data, tmp_path / "copy")
    with kafkafmt.LogDirectory(data) as directory:
        directory.writer("orders", 0).append([(b"k", b"v", 5)])
    log = kafkafmt.open(tmp_path / "copy", data, replicas="longest")
    assert [p.records for p in kafkafmt.verify(log).partitions] == [3, 3, 5]
    assert exported(log, tmp_path / "output") == 11
    assert [p.records for p in kafkafmt.verify(log["orders"]).partitions] == [3, 3]
    assert records(kafkafmt.open(log)) == 11


def test_topic_in_an_archive_can_be_passed_as_paths(data: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "data.tar", "w") as archive:
        archive.add(data, "data")
    log = kafkafmt.open(tmp_path / "data.tar")
    assert [p.records for p in kafkafmt.verify(log["orders"]).partitions] == [2, 3]


def test_internal_topic_is_exported_if_it_is_passed(tmp_path: Path) -> None:
    with kafkafmt.LogDirectory(tmp_path / "data") as directory:
        directory.writer("__consumer_offsets", 0).append([(b"k", b"v", 5)])
    log = kafkafmt.open(tmp_path / "data")
    assert exported(log["__consumer_offsets"], tmp_path / "output") == 1


@pytest.mark.parametrize("call", [kafkafmt.salvage, kafkafmt.rewrite, kafkafmt.restore, kafkafmt.export, kafkafmt.make])
def test_output_must_be_a_path(call: Callable[[Any, Any], object], data: Path) -> None:
    log = kafkafmt.open(data)
    with pytest.raises(TypeError, match=r"an output must be a path, not <kafkafmt.Topic 'orders' with .*>") as error:
        call(str(data), log["orders"])
    assert "\n" not in str(error.value)
