"""Test `kafkafmt.restore` with the directory of a broker that has created empty topics."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from building import TRANSACTIONAL, batch, record
from command import inside, process
from golden_cases import LEGACY, case
from patching import patch_everywhere
from rewriting import batches, rows, write_random_log
from salvaging import abort, corrupt, data, partition
from writing import FIRST

import kafkafmt as k
from kafkafmt.log.formats.checkpoints import read_offset_checkpoint
from kafkafmt.log.rewriting import broker_directory, rewrite_partition
from kafkafmt.log.storage import local_files
from kafkafmt.log.storage.syncing import sync_tree
from kafkafmt.log.writing.mounting import read_metadata

CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def empty_partition(root: Path, name: str, metadata: str | None = None) -> Path:
    """Write a partition directory as a broker creates it."""
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"{0:020}{suffix}").touch()
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    if metadata is not None:
        (folder / "partition.metadata").write_text(metadata)
    return folder


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Return the log directory of a stopped KRaft broker, in which the partitions of `source` are empty."""
    root = shutil.copytree(case("kafka-4.3.1/internal").roots[0], tmp_path / "broker")
    for number in range(3):
        empty_partition(root, f"source-{number}", (root / f"source-{number}" / "partition.metadata").read_text())
    for name in CHECKPOINTS:
        offsets = read_offset_checkpoint((root / name).read_text(), name)
        kept = [f"{t} {p} {o}" for (t, p), o in offsets.items() if t != "source"]
        (root / name).write_text("\n".join(["0", str(len(kept)), *kept, ""]))
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":42}')
    return root


def leader_epoch(root: Path) -> int:
    metadata = read_metadata(root)
    assert metadata is not None
    return metadata.leader_epochs[metadata.topics["source"], 0]


def source(root: Path, *raw: bytes, name: str = "source-0") -> Path:
    partition(root, *raw, name=name)
    return root


def state_of(root: Path) -> dict[str, Any]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != ".lock"}


@pytest.mark.parametrize("seed", range(8))
def test_restored_log_has_the_same_records_and_offsets(seed: int, broker: Path, tmp_path: Path) -> None:
    chance = Random(seed)
    root = write_random_log(tmp_path / "in", chance)
    (root / "t-0").rename(root / "source-0")
    before = {f: (broker / f).read_bytes() for f in (".kafka_cleanshutdown", "meta.properties")}
    abort_open = chance.random() < 0.5
    report = k.restore(root, broker, abort_open_transactions=abort_open)
    (original,), copy = k.open(root), k.open(broker)["source", 0]
    assert rows(copy) == rows(original)
    (made,) = report.partitions
    if abort_open:
        assert copy.last_stable_offset == copy.next_offset == original.next_offset + made.aborted_transactions
        assert made.open_transactions == 0
        assert rows(copy, isolation="read_committed").items() >= rows(original, isolation="read_committed").items()
    else:
        assert copy.next_offset == original.next_offset
        assert copy.last_stable_offset == original.last_stable_offset
        assert rows(copy, isolation="read_committed") == rows(original, isolation="read_committed")
    assert made.next_offset == copy.next_offset
    assert [f for p in k.verify(broker).partitions if p.topic == "source" for f in p.findings] == []
    for name in CHECKPOINTS:
        assert read_offset_checkpoint((broker / name).read_text(), name)["source", 0] == copy.next_offset
    assert {f: (broker / f).read_bytes() for f in before} == before
    assert not list(broker.glob("*-delete"))


def test_batches_change_only_in_their_leader_epoch(broker: Path, tmp_path: Path) -> None:
    current = leader_epoch(broker)
    raw = [data(n, leader_epoch=epoch) for n, epoch in enumerate((0, current, current + 5, current + 7))]
    k.restore(source(tmp_path / "in", *raw), broker)
    after = batches(broker / "source-0")
    for n, one in enumerate(raw):
        epoch = min(int.from_bytes(one[12:16], "big"), current)
        assert after[n] == one[:12] + epoch.to_bytes(4, "big") + one[16:]
    text = (broker / "source-0" / "leader-epoch-checkpoint").read_text().split("\n")
    assert text == ["0", "2", "0 0", f"{current} 1", ""]


def test_topic_id_is_that_of_the_metadata_log(broker: Path, tmp_path: Path) -> None:
    expected = (broker / "source-0" / "partition.metadata").read_text()
    folder = tmp_path / "in" / "source-0"
    source(tmp_path / "in", data(0))
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    (made,) = k.restore(tmp_path / "in", broker).partitions
    assert (broker / "source-0" / "partition.metadata").read_text() == expected
    assert made.topic_id == expected.split()[-1]


@pytest.mark.parametrize("until", [FIRST - 1, FIRST, FIRST + 1, FIRST + 4, FIRST + 7, FIRST + 99])
def test_log_ends_after_the_last_record_before_the_time(until: int, broker: Path, tmp_path: Path) -> None:
    one = batch([record(i, i) for i in range(5)], base_timestamp=FIRST, max_timestamp=FIRST + 4)
    two = batch([record(i, i) for i in range(5)], base_offset=5, base_timestamp=FIRST + 5, max_timestamp=FIRST + 9)
    source(tmp_path / "in", one, two)
    (made,) = k.restore(tmp_path / "in", broker, until_time=until).partitions
    copy = k.open(broker)["source", 0]
    assert sorted(rows(copy)) == [n for n in range(10) if FIRST + n < until]
    assert made.next_offset == copy.next_offset == min(max(until - FIRST, 0), 10)
    whole = {4: one, 9: two}
    assert [last for last, raw in batches(broker / "source-0").items() if whole.get(last) == raw] == [
        last for last in whole if FIRST + last < until
    ]


def test_records_of_old_formats_end_before_the_time(broker: Path, tmp_path: Path) -> None:
    golden = next(c for c in LEGACY if c.name == "0.10.2.2-codecs")
    folder = next(p for p in golden.roots[0].iterdir() if p.is_dir() and (p / f"{0:020}.log").stat().st_size)
    shutil.copytree(folder, tmp_path / "in" / "source-0")
    (original,) = k.open(tmp_path / "in")
    times = sorted(row[0] for row in rows(original).values())
    until = times[len(times) // 2]
    k.restore(tmp_path / "in", broker, until_time=until)
    last = max(o for o, row in rows(original).items() if row[0] < until)
    assert rows(k.open(broker)["source", 0]) == {o: r for o, r in rows(original).items() if o <= last}


def test_producers_of_another_cluster_are_forgotten(broker: Path, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"producer_id": 5, "producer_epoch": 3, "base_sequence": 0}
    raw = batch([record(0)], **fields) + batch(
        [record(0)], base_offset=1, **fields | {"producer_id": 6}, flags=TRANSACTIONAL
    )
    source(tmp_path / "in", raw)
    k.restore(tmp_path / "in", broker)
    with k.LogDirectory(broker) as directory:
        writer = directory.writer("source", 0)
        assert [(e.producer_id, e.txn_first_offset) for e in writer.open_transactions] == [(6, 1)]
        assert set(writer._log.state.producers.entries) == {6}
    assert k.verify(broker).partitions[-3].findings == ()


def test_producers_of_the_same_cluster_are_kept(broker: Path, tmp_path: Path) -> None:
    source(tmp_path / "in", batch([record(0)], producer_id=5, producer_epoch=3, base_sequence=0))
    shutil.copy(broker / "meta.properties", tmp_path / "in")
    k.restore(tmp_path / "in", broker)
    with k.LogDirectory(broker) as directory:
        assert set(directory.writer("source", 0)._log.state.producers.entries) == {5}


def test_open_transaction_is_reported(broker: Path, tmp_path: Path) -> None:
    raw = [data(0, 7), data(1, 8), abort(2, 8)]
    report = k.restore(source(tmp_path / "in", *raw), broker)
    assert report.partitions[0].open_transactions == 1
    assert report.messages[-1].startswith("source-0: the log ends with 1 open transaction; ")


def not_empty(root: Path) -> None:
    (root / "source-0" / f"{0:020}.log").write_bytes(data(0))


def without_partition(root: Path) -> None:
    shutil.rmtree(root / "source-0")


def of_another_broker(root: Path) -> None:
    text = (root / "meta.properties").read_text()
    (root / "meta.properties").write_text(text.replace("node.id=1", "node.id=9"))


def without_metadata(root: Path) -> None:
    shutil.rmtree(root / "__cluster_metadata-0")


def without_identity(root: Path) -> None:
    (root / "meta.properties").unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (not_empty, "is not empty"),
        (without_partition, "does not exist; start the broker once"),
        (of_another_broker, "is stored on broker 1"),
        (without_metadata, "there is no metadata log"),
        (without_identity, "meta.properties is missing"),
    ],
)
def test_directory_that_must_not_be_changed_is_refused(
    change: Callable[[Path], None], message: str, broker: Path, tmp_path: Path
) -> None:
    change(broker)
    before = state_of(broker)
    with pytest.raises(k.RestoreError, match=message):
        k.restore(source(tmp_path / "in", data(0)), broker)
    assert state_of(broker) == before


def test_missing_topics_are_named_with_the_command_that_creates_them(broker: Path, tmp_path: Path) -> None:
    source(tmp_path / "in", data(0), name="new-0")
    source(tmp_path / "in", data(0), name="new-3")
    source(tmp_path / "in", data(0), name="source-7")
    before = state_of(broker)
    done = inside("restore", tmp_path / "in", "--into", broker)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--create --topic new --partitions 4 --replication-factor 1" in done.stderr
    assert "--alter --topic source --partitions 8" in done.stderr
    assert state_of(broker) == before


def test_locked_directory_is_refused(broker: Path, tmp_path: Path) -> None:
    source(tmp_path / "in", data(0))
    with k.LogDirectory(broker):
        done = process("restore", tmp_path / "in", "--into", broker)
    assert done.returncode == 3
    assert "has locked the log directory" in done.stderr


def test_damaged_partition_is_refused_and_nothing_changes(broker: Path, tmp_path: Path) -> None:
    source(tmp_path / "in", data(0), corrupt(data(1), 65), data(2))
    source(tmp_path / "in", data(0), name="source-1")
    before = state_of(broker)
    done = inside("restore", tmp_path / "in", "--into", broker)
    assert (done.returncode, done.stdout) == (1, "")
    assert "run `kafkafmt salvage` first" in done.stderr
    assert state_of(broker) == before


def test_copy_with_missing_offsets_before_an_abort_marker_is_restored(broker: Path, tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), data(1), corrupt(data(2)), name="source-0")
    partition(tmp_path / "in", abort(3), data(4), base=3, name="source-0")
    k.salvage(tmp_path / "in", tmp_path / "copy")
    k.restore(tmp_path / "copy", into=broker)
    assert [r.offset for r in k.open(broker)["source", 0].records(isolation="read_committed")] == [1, 4]


@pytest.mark.parametrize("at", range(12))
def test_failure_at_any_rename_leaves_only_complete_partitions(
    at: int, broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker deletes directories whose names end in `-delete`. It creates missing directories again."""
    raw = [data(n) for n in range(3)]
    for number in range(2):
        source(tmp_path / "in", *raw, name=f"source-{number}")
    calls = 0

    def failing(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > at:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(os, "rename", failing(os.rename))
    patch_everywhere(monkeypatch, local_files.replace_file, failing(local_files.replace_file))
    monkeypatch.setattr(broker_directory, "sync_tree", failing(sync_tree))
    interrupted = False
    try:
        k.restore(tmp_path / "in", broker)
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted == (at < 11)
    for number in range(2):
        folder = broker / f"source-{number}"
        if folder.exists():
            assert len(batches(folder)) in (0, 3)
    others = [p.name for p in broker.iterdir() if p.is_dir() and "source" in p.name and len(p.name) > 8]
    assert all(name.endswith("-delete") for name in others)
    if interrupted and (broker / ".kafka_cleanshutdown").exists():
        assert [len(batches(broker / f"source-{number}")) for number in range(2)] == [0, 0]


def test_zookeeper_broker_keeps_its_topic_id_and_epoch(tmp_path: Path) -> None:
    root = tmp_path / "broker"
    metadata = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    empty_partition(root, "source-0", metadata)
    empty_partition(root, "source-1")
    (root / "meta.properties").write_text("version=0\ncluster.id=kafkafmtTestCluster000\nbroker.id=1\n")
    for number in range(2):
        source(tmp_path / "in", data(0, leader_epoch=9), name=f"source-{number}")
    first, second = k.restore(tmp_path / "in", root).partitions
    assert (first.topic_id, second.topic_id) == ("AAAAAAAAAAAAAAAAAAAAAQ", None)
    assert (root / "source-0" / "partition.metadata").read_text().split() == metadata.split()
    assert not (root / "source-1" / "partition.metadata").exists()
    assert (root / "source-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"
    assert batches(root / "source-0")[0][12:16] == bytes([0, 0, 0, 1])


def test_metadata_log_can_be_in_another_directory(broker: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (broker / "__cluster_metadata-0").rename(tmp_path / "other" / "__cluster_metadata-0")
    done = inside("restore", source(tmp_path / "in", data(0)), "--into", broker, "--metadata-dir", tmp_path / "other")
    assert done.returncode == 0, done.stderr


def test_metadata_log_of_another_cluster_is_refused(broker: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (broker / "__cluster_metadata-0").rename(other / "__cluster_metadata-0")
    text = (broker / "meta.properties").read_text()
    (other / "meta.properties").write_text(text.replace("cluster.id=", "cluster.id=A"))
    before = state_of(broker)
    with pytest.raises(ValueError, match=r"belongs to the cluster A.*specify a directory of the cluster"):
        k.restore(source(tmp_path / "in", data(0)), broker, metadata_directory=other)
    assert state_of(broker) == before
    (other / "meta.properties").write_text(text)
    k.restore(tmp_path / "in", broker, metadata_directory=other)


def test_committed_offsets_are_written_for_restored_partitions(broker: Path, tmp_path: Path) -> None:
    original = case("kafka-4.3.1/internal").roots[0]
    expected = [o for o in k.open(original).groups().offsets if o.topic == "source"]
    assert expected
    file = tmp_path / "groups.csv"
    k.restore(original, broker, topics="source", groups_csv=file)
    several = len({o.group for o in expected}) > 1
    lines = [[*([o.group] if several else []), o.topic, str(o.partition), str(o.offset)] for o in expected]
    assert [line.split(",") for line in file.read_text().splitlines()] == lines


def test_iterator_of_topics_restores_only_these_topics(broker: Path, tmp_path: Path) -> None:
    for name in ("source-1", "sink-0"):
        source(tmp_path / "in", data(0), name=name)
    report = k.restore(tmp_path / "in", broker, topics=iter(["source"]))
    assert [(p.topic, p.partition) for p in report.partitions] == [("source", 1)]


def test_missing_groups_are_reported_before_anything_changes(broker: Path, tmp_path: Path) -> None:
    source(tmp_path / "in", data(0))
    before = state_of(broker)
    with pytest.raises(k.NoLogError, match="__consumer_offsets"):
        k.restore(tmp_path / "in", broker, groups_csv=tmp_path / "groups.csv")
    assert state_of(broker) == before


@pytest.mark.parametrize("place", ["missing/groups.csv", "folder"])
def test_groups_file_is_checked_before_anything_changes(place: str, broker: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    before = state_of(broker)
    with pytest.raises(OSError, match=str(tmp_path)) as raised:
        k.restore(case("kafka-4.3.1/internal").roots[0], broker, topics="source", groups_csv=tmp_path / place)
    assert not str(raised.value.filename).endswith(".tmp")
    assert state_of(broker) == before


def test_broker_directory_is_unchanged_if_the_groups_file_fails(
    broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, replace = tmp_path / "groups.csv", local_files.replace_file

    def fail(path: Path, data: bytes, *rest: Any) -> None:
        if path == file:
            raise OSError(28, "No space left on device", str(path))
        replace(path, data, *rest)

    patch_everywhere(monkeypatch, local_files.replace_file, fail)
    before, folders = state_of(broker), sorted(broker.iterdir())
    with pytest.raises(OSError, match="No space left") as raised:
        k.restore(case("kafka-4.3.1/internal").roots[0], broker, topics="source", groups_csv=file)
    assert raised.value.filename == str(file)
    assert state_of(broker) == before
    assert sorted(path for path in broker.iterdir() if path.name != ".lock") == folders


def test_groups_file_can_be_a_pipe_or_a_link(broker: Path, tmp_path: Path) -> None:
    """/dev/stdout is a link. A file must not replace it."""
    original, file, link = case("kafka-4.3.1/internal").roots[0], tmp_path / "groups.csv", tmp_path / "link"
    link.symlink_to(file)
    k.restore(original, broker, topics="source", partitions=0, groups_csv=link)
    assert link.is_symlink()
    assert "source,0," in file.read_text()
    reading, writing = os.pipe()
    k.restore(original, broker, topics="source", partitions=1, groups_csv=f"/dev/fd/{writing}")
    os.close(writing)
    with open(reading) as pipe:
        assert "source,1," in pipe.read()


def test_command_prints_the_report(broker: Path, tmp_path: Path) -> None:
    arguments = ["restore", source(tmp_path / "in", data(0), data(1)), "--into", broker]
    done = inside(*arguments, "--until", "@2030-01-01", "--format", "json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["partitions"]
    assert (row["topic"], row["partition"], row["first_offset"], row["next_offset"]) == ("source", 0, 0, 2)
    assert row["topic_id"] == (broker / "source-0" / "partition.metadata").read_text().split()[-1]
    assert inside("restore", broker, "--into", broker, "-t", "source").returncode == 2
    assert inside("restore", tmp_path / "missing", "--into", broker).returncode == 3
    assert inside("restore", tmp_path / "in", "--into", tmp_path / "missing").returncode == 3


def test_interrupt_while_copying_changes_nothing(broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    before = state_of(broker)
    monkeypatch.setattr(rewrite_partition.OpenSegment, "write", interrupted)
    done = inside("restore", source(tmp_path / "in", data(0)), "--into", broker)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == f"kafkafmt: interrupted: {broker} contains no incomplete partition\n"
    assert state_of(broker) == before


def test_restored_copy_of_a_log_with_lost_offsets_has_no_damage(broker: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old" / "source-0"
    folder.mkdir(parents=True)
    for base in (0, 10):
        (folder / f"{base:020}.log").write_bytes(batch([record(0), record(1)], base_offset=base))
    with pytest.raises(k.DamagedLogError, match="offsets 2 to 9"):
        k.restore(tmp_path / "old", broker, topics="source")
    k.salvage(tmp_path / "old", tmp_path / "salvaged")
    k.restore(tmp_path / "salvaged", broker, topics="source")
    (restored,) = k.verify(broker, topics="source", partitions=0).partitions
    assert (list(restored.damaged), restored.records_recovered, restored.next_offset) == ([], 4, 12)
