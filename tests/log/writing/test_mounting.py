"""Test the warning about partitions that a KRaft broker would rename to `…-stray`."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from uuid import UUID

import pytest
from command import kafkafmt
from golden_cases import case
from metadata_logs import record, uuid
from salvaging import data, partition

import kafkafmt as k
from kafkafmt.log.writing.mounting import GUIDE, Metadata, read_metadata, strays

KRAFT = [case(f"kafka-{version}/internal") for version in ("4.3.1", "3.9.2")]
META = "version=1\ncluster.id=kafkafmtTestCluster000\nnode.id={}\n"


@pytest.fixture(params=KRAFT, ids=str)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a broker's log directory, with the metadata log."""
    return shutil.copytree(request.param.roots[0], tmp_path / "in")


def topic_id(root: Path, name: str) -> str:
    return (root / name / "partition.metadata").read_text().split()[-1]


def stray_warnings(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "-stray" in line]


def test_metadata_log_names_every_topic_of_its_broker(source: Path) -> None:
    found = read_metadata(source)
    assert found is not None
    assert {"sink", "source", "__consumer_offsets", "__transaction_state"} <= found.topics.keys()
    assert {len(replicas) for replicas in found.replicas.values()} == {1}
    partitions = [(p.name.rpartition("-")[0], int(p.name.rpartition("-")[2])) for p in source.iterdir() if p.is_dir()]
    assert strays(source, partitions) == []


def test_salvage_prints_no_warning_if_the_metadata_log_names_every_topic(source: Path, tmp_path: Path) -> None:
    done = kafkafmt("salvage", source, "--output", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("choice", [("-t", "source"), ("-t", "source", "-p", "1"), ("-p", "0")])
def test_salvage_of_some_partitions_copies_the_metadata_log(
    choice: tuple[str, ...], source: Path, tmp_path: Path
) -> None:
    done = kafkafmt("salvage", source, *choice, "--output", tmp_path / "out", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    topics = [(p["topic"], p["partition"]) for p in json.loads(done.stdout)["partitions"]]
    assert ("__cluster_metadata", 0) in topics
    assert ("source", 2) not in topics or "-p" not in choice
    assert (tmp_path / "out" / "__cluster_metadata-0" / "quorum-state").exists()


def test_salvage_of_one_partition_warns_that_a_broker_renames_it(source: Path, tmp_path: Path) -> None:
    done = kafkafmt("salvage", source / "source-0", "--output", tmp_path / "out")
    (line,) = stray_warnings(done.stderr)
    assert "there is no metadata log (__cluster_metadata-0) with the topics" in line
    assert "source-0" in line
    assert "create the topics on a broker, stop it, and run `kafkafmt restore`" in line
    assert line.endswith(f'see "{GUIDE}" in the documentation')
    assert str(tmp_path / "out") in line


REASONS = {
    "another topic id": "partition.metadata contains a different topic id than the metadata log",
    "no topic id": "partition.metadata is missing or unreadable",
    "an unknown topic": "the metadata log does not contain the topics",
    "an unknown partition": "the metadata log contains the topics, but not these partitions",
    "another broker": "the metadata log does not assign the partitions to broker 99",
}


@pytest.mark.parametrize("kind", REASONS)
def test_salvage_names_the_reason_why_a_broker_would_not_serve(kind: str, source: Path, tmp_path: Path) -> None:
    metadata = source / "source-0" / "partition.metadata"
    if kind == "another topic id":
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    elif kind == "no topic id":
        metadata.unlink()
    elif kind == "an unknown topic":
        (source / "source-0").rename(source / "elsewhere-0")
    elif kind == "an unknown partition":
        (source / "source-0").rename(source / "source-77")
    else:
        (source / "meta.properties").write_text(META.format(99))
    (line,) = stray_warnings(kafkafmt("salvage", source, "--output", tmp_path / "out").stderr)
    assert REASONS[kind] in line


def test_writer_warns_when_the_directory_is_closed(tmp_path: Path) -> None:
    directory = k.LogDirectory(tmp_path)
    for topic in "abcdefg":
        directory.writer(topic).append([(None, b"x")])
    with pytest.warns(k.StrayPartitionWarning) as caught:
        directory.close()
    (warning,) = caught
    assert "a-0, b-0, c-0, d-0, e-0 and 2 more" in str(warning.message)
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        directory.close()
        with k.LogDirectory(tmp_path):
            pass  # no partition was written


def test_warning_that_is_an_error_leaves_the_directory_cleanly_closed(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        directory = k.LogDirectory(tmp_path)
        directory.writer("t").append([(None, b"x")])
        with pytest.raises(k.StrayPartitionWarning):
            directory.close()
        assert k.LogDirectory(tmp_path).clean


def test_writer_in_a_directory_of_a_broker_does_not_warn(source: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with k.LogDirectory(source) as directory:
            directory.writer("source", 0).append([(None, b"x")])
    with (
        pytest.warns(k.StrayPartitionWarning, match="does not contain the topics"),
        k.LogDirectory(source) as directory,
    ):
        directory.writer("other", 0, topic_id=topic_id(source, "source-0")).append([(None, b"x")])


def test_unreadable_metadata_log_names_no_topic(tmp_path: Path) -> None:
    partition(tmp_path, data(0))
    partition(tmp_path, b"nonsense" * 40, name="__cluster_metadata-0")
    (tmp_path / "__cluster_metadata-0" / f"{5:020}-{1:010}.checkpoint").write_bytes(b"nonsense" * 40)
    (message,) = strays(tmp_path, [("t", 0)])
    assert "the metadata log does not contain the topics" in message


@pytest.mark.parametrize(
    ("end", "topics"),
    [
        (["EndTransactionRecord"], {"a": uuid(1), "b": uuid(2), "c": uuid(3)}),
        (["AbortTransactionRecord"], {"a": uuid(1), "c": uuid(3)}),
        (["BeginTransactionRecord", "EndTransactionRecord"], {"a": uuid(1), "c": uuid(3)}),
    ],
)
def test_records_of_an_aborted_transaction_are_ignored(end: list[str], topics: dict[str, UUID]) -> None:
    found = Metadata()
    found.add(record("TopicRecord", name="a", topic_id=uuid(1)))
    found.add(record("BeginTransactionRecord"))
    found.add(record("TopicRecord", name="b", topic_id=uuid(2)))
    assert list(found.topics) == ["a"]
    for name in end:
        found.add(record(name))
    found.add(record("TopicRecord", name="c", topic_id=uuid(3)))
    assert found.topics == topics


def test_topic_that_was_created_again_keeps_its_new_id() -> None:
    found = Metadata()
    for topic_id in (uuid(1), uuid(2)):
        found.add(record("TopicRecord", name="a", topic_id=topic_id))
    found.add(record("RemoveTopicRecord", topic_id=uuid(1)))
    assert found.topics == {"a": uuid(2)}
    found.add(record("RemoveTopicRecord", topic_id=uuid(2)))
    assert found.topics == {}
