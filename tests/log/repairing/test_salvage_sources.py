"""Test which source files salvage reads and copies, for odd names, links and permissions."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from command import kafkafmt
from salvaging import NAME, abort, commit, committed, corrupt, data, findings, partition, salvaged

from kafkafmt.errors import StructureError
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.formats.checkpoints import (
    leader_epochs_text,
    offset_checkpoint_text,
    read_leader_epochs,
    read_offset_checkpoint,
)
from kafkafmt.log.formats.index_entries import transaction_index_bytes
from kafkafmt.log.formats.snapshots import ProducerEntry, read_snapshot, snapshot_bytes
from kafkafmt.log.writing.log_directory import LogDirectory

META = "version=1\ncluster.id=kafkafmtTestCluster000\nnode.id=1\n"
CHECKPOINTS = ("recovery-point", "replication", "log-start", "cleaner")
ODD_NAMES: dict[str, str | bytes] = {
    "a space": "sp ace-0",
    "a newline": "new\nline-0",
    "a tab": "t\tab-0",
    "not ASCII": "caf\u00e9-0",
    "not UTF-8": b"caf\xe9-0",
    "an escape sequence": "\x1b[31mred-0",
    "a no-break space": "a\u00a0b-0",
    "two dots": "..-0",
    "too long": "x" * 250 + "-0",
}


def run(*arguments: Any) -> tuple[int, dict[str, Any], str]:
    done = kafkafmt("salvage", *arguments, "--format", "json")
    return done.returncode, json.loads(done.stdout), done.stderr


def modes(path: Path) -> dict[str, int]:
    return {str(p.relative_to(path)): stat.S_IMODE(p.lstat().st_mode) for p in path.rglob("*")}


@pytest.mark.parametrize("kind", ODD_NAMES)
def test_salvage_omits_a_directory_that_no_broker_accepts(kind: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    partition(source, data(0), name="good-0")
    odd = os.path.join(os.fsencode(source), os.fsencode(ODD_NAMES[kind]))
    os.mkdir(odd)
    with open(os.path.join(odd, NAME.encode()), "wb") as file:
        file.write(data(0))
    (source / "meta.properties").write_text(META)
    code, report, stderr = run(source, "--output", out)
    assert code == 3
    assert [p["topic"] for p in report["partitions"]] == ["good"]
    (omitted,) = report["unreadable"]
    assert "no broker accepts this topic name" in omitted["error"]
    assert omitted["path"].encode("utf-8", "surrogateescape") == odd
    assert "\x1b" not in stderr
    assert all(line.startswith("kafkafmt: ") for line in stderr.splitlines())
    for name in CHECKPOINTS:
        read_offset_checkpoint((out / f"{name}-offset-checkpoint").read_text(), name)
    assert read_offset_checkpoint((out / "recovery-point-offset-checkpoint").read_text(), "") == {("good", 0): 1}
    assert {"meta.properties", ".kafka_cleanshutdown", "good-0"} <= set(os.listdir(out))


@pytest.mark.parametrize(
    "entry",
    [
        ("a b", 0, 0),
        ("a\n", 0, 0),
        ("", 0, 0),
        ("..", 0, 0),
        ("t", -1, 0),
        ("t", 2**31, 0),
        ("t", 0, -1),
        ("t", 0, 2**63),
    ],
)
def test_unreadable_checkpoint_line_is_refused(entry: tuple[str, int, int]) -> None:
    topic, number, offset = entry
    with pytest.raises(ValueError, match="a checkpoint cannot"):
        offset_checkpoint_text({("ok", 0): 5, (topic, number): offset})


def test_log_directory_drops_checkpoint_entries_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n4\ncaf\u00e9 0 5\nt -1 5\nt 0 -7\nother 3 9\n")
    with LogDirectory(tmp_path) as directory:
        directory.writer("t").append([(None, b"x")])
    text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert read_offset_checkpoint(text, "") == {("other", 3): 9, ("t", 0): 1}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file outside the source that only its owner may read."""
    path = tmp_path / "secret"
    path.write_text(META + "password=hunter2\n")
    path.chmod(0o600)
    return path


LINKS = (
    *("t-0/quorum-state", "t-0/0-0.checkpoint", "t-0/partition.metadata"),
    *("meta.properties", "bootstrap.checkpoint", "log-start-offset-checkpoint"),
)


@pytest.mark.parametrize("name", LINKS)
def test_file_that_links_out_of_the_source_is_omitted(name: str, secret: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    partition(source, data(0))
    (source / "meta.properties").write_text(META)
    (source / name).unlink(missing_ok=True)
    (source / name).symlink_to(secret)
    code, report, stderr = run(source, "--output", out)
    assert code == 3
    assert [u["path"] for u in report["unreadable"]] == [str(source / name)]
    assert f"it is a symbolic link to {secret}, outside the given path" in stderr
    assert not any("hunter2" in f.read_text(errors="replace") for f in out.rglob("*") if f.is_file())
    assert [p["topic"] for p in report["partitions"]] == ["t"]
    assert findings(out) == []


def test_segment_that_links_out_of_the_source_is_omitted(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    folder = partition(source, data(0))
    other = partition(tmp_path / "elsewhere", data(1), base=1)
    (folder / f"{1:020}.log").symlink_to(other / f"{1:020}.log")
    code, report, _ = run(source, "--output", out)
    assert code == 3
    assert [p["records_recovered"] for p in report["partitions"]] == [1]
    assert [u["path"] for u in report["unreadable"]] == [str(folder / f"{1:020}.log")]
    assert sorted(p.name for p in (out / "t-0").glob("*.log")) == [NAME]


def test_offsets_in_a_link_out_of_the_source_are_not_used(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    folder = partition(source, data(0, 7), corrupt(abort(1)), data(2), data(3))
    (tmp_path / "starts").write_text("0\n1\nt 0 2\n")
    (source / "log-start-offset-checkpoint").symlink_to(tmp_path / "starts")
    (tmp_path / "index").write_bytes(transaction_index_bytes([(7, 0, 1, 2)]))
    (folder / f"{0:020}.txnindex").symlink_to(tmp_path / "index")
    code, report, _ = run(source, "--output", out)
    assert code == 3
    assert len(report["unreadable"]) == 2
    assert report["partitions"][0]["log_start_offset"] == 0
    assert "restored_markers" not in report["partitions"][0]
    assert read_offset_checkpoint((out / "log-start-offset-checkpoint").read_text(), "") == {}


def test_partition_link_is_followed_only_into_the_given_paths(tmp_path: Path) -> None:
    source, disk = tmp_path / "in", tmp_path / "disk"
    partition(source, data(0), name="here-0")
    partition(source / "mounted", data(0), name="inside-0")
    (source / "inside-0").symlink_to(source / "mounted" / "inside-0")
    partition(disk, data(0), name="other-0")
    (source / "other-0").symlink_to(disk / "other-0")
    code, report, _ = run(source, "--output", tmp_path / "one")
    assert code == 3
    assert [p["topic"] for p in report["partitions"]] == ["here", "inside"]
    assert [u["path"] for u in report["unreadable"]] == [str(source / "other-0")]
    code, report, _ = run(source, disk, "--output", tmp_path / "both")
    assert code == 0
    assert [p["topic"] for p in report["partitions"]] == ["here", "inside", "other"]


def test_path_that_is_itself_a_link_is_followed(tmp_path: Path) -> None:
    partition(tmp_path / "real", data(0))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "link-0").symlink_to(tmp_path / "real" / "t-0")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "some.log").symlink_to(tmp_path / "real" / "t-0" / NAME)
    for i, name in enumerate(("link", "link-0", "files/some.log")):
        code, report, stderr = run(tmp_path / name, "--output", tmp_path / f"out{i}")
        assert (code, len(report["partitions"])) == (0, 1), stderr


def test_no_file_gets_permissions_that_its_source_lacks(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    folder = partition(source, data(0, 7), corrupt(abort(1)), data(2), index=[(7, 0, 1, 2)])
    partition(source, data(5), base=5)
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    for file in folder.iterdir():
        file.chmod(0o600)
    (folder / f"{5:020}.log").chmod(0o640)
    folder.chmod(0o750)
    (source / "meta.properties").write_text(META)
    (source / "meta.properties").chmod(0o604)
    source.chmod(0o711)
    before = os.umask(0)
    try:
        assert run(source, "--output", out)[0] == 1
    finally:
        os.umask(before)
    found = modes(out)
    assert stat.S_IMODE(out.stat().st_mode) == 0o711
    assert found.pop("t-0") == 0o750
    assert found.pop("meta.properties") == 0o604
    assert {found.pop(f"t-0/{5:020}.{kind}") for kind in ("log", "index", "timeindex")} == {0o640}
    assert set(found.values()) == {0o600}, found


def test_abort_markers_at_the_end_keep_the_permissions(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    folder = partition(source, data(0, 7), data(1))
    (folder / NAME).chmod(0o600)
    folder.chmod(0o700)
    assert run(source, "--output", out, "--abort-open-transactions")[0] == 0
    assert set(modes(out).values()) == {0o600, 0o700}


def test_umask_narrows_the_permissions(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0))
    (folder / NAME).chmod(0o666)
    folder.chmod(0o777)
    before = os.umask(0o027)
    try:
        run(tmp_path / "in", "--output", tmp_path / "out")
    finally:
        os.umask(before)
    found = modes(tmp_path / "out")
    assert (found["t-0"], found[f"t-0/{NAME}"]) == (0o750, 0o640)


def test_new_segments_get_the_permissions_of_existing_ones(tmp_path: Path) -> None:
    folder = partition(tmp_path, data(0))
    (folder / NAME).chmod(0o600)
    with LogDirectory(tmp_path, segment_bytes=200) as directory:
        writer = directory.writer("t")
        for _ in range(5):
            writer.append([(None, b"x" * 50)])
    assert len(list(folder.glob("*.log"))) > 3
    assert {mode for name, mode in modes(folder).items()} == {0o600}


EPOCHS: dict[str, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {
    "starts inside the batches of another": ([(2, 0), (3, 1), (4, 3)], [(2, 0), (4, 3)]),
    "decreases": ([(2, 0), (4, 3), (3, 3)], [(2, 0), (4, 3)]),
    "starts too late": ([(2, 1), (4, 4)], [(2, 0), (4, 3)]),
    "has an epoch without batches": ([(1, 0), (2, 0), (4, 3)], [(2, 0), (4, 3)]),
}


@pytest.mark.parametrize("kind", EPOCHS)
def test_leader_epochs_that_contradict_the_batches_are_rebuilt(kind: str, tmp_path: Path) -> None:
    found, expected = EPOCHS[kind]
    folder = partition(
        tmp_path / "in", *(data(i, leader_epoch=2) for i in range(3)), *(data(i, leader_epoch=4) for i in (3, 4))
    )
    (folder / "leader-epoch-checkpoint").write_text(leader_epochs_text(found))
    salvaged(tmp_path / "in", tmp_path / "out")
    assert read_leader_epochs((tmp_path / "out" / "t-0" / "leader-epoch-checkpoint").read_text()) == expected
    assert findings(tmp_path / "out") == []


def test_leader_epoch_of_lost_batches_is_kept(tmp_path: Path) -> None:
    folder = partition(
        tmp_path / "in", data(0, leader_epoch=2), corrupt(data(1, leader_epoch=3), 70), data(2, leader_epoch=4)
    )
    (folder / "leader-epoch-checkpoint").write_text(leader_epochs_text([(2, 0), (3, 1), (4, 2)]))
    salvaged(tmp_path / "in", tmp_path / "out")
    assert read_leader_epochs((tmp_path / "out" / "t-0" / "leader-epoch-checkpoint").read_text()) == [
        (2, 0),
        (3, 1),
        (4, 2),
    ]


SNAPSHOTS: dict[str, tuple[ProducerEntry, bool]] = {
    "the batch of the log": (ProducerEntry(7, 1, 0, 0, 0, 5, -1, -1), True),
    "a later batch, which is lost": (ProducerEntry(7, 1, 1, 1, 0, 5, -1, -1), True),
    "another sequence number": (ProducerEntry(7, 1, 9, 0, 0, 5, -1, -1), False),
    "an older batch than the log": (ProducerEntry(7, 1, 0, -1, 0, 5, -1, -1), False),
}


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_snapshot_is_trusted_only_if_it_agrees_with_the_batches(kind: str, tmp_path: Path) -> None:
    found, trusted = SNAPSHOTS[kind]
    folder = partition(tmp_path / "in", data(0, 7, flags=0), corrupt(data(1, 7, flags=0), 70))
    partition(tmp_path / "in", data(2), base=2)
    (folder / f"{2:020}.snapshot").write_bytes(snapshot_bytes([found]))
    salvaged(tmp_path / "in", tmp_path / "out")
    (entry,) = read_snapshot((tmp_path / "out" / "t-0" / f"{2:020}.snapshot").read_bytes())
    assert (entry == found) is trusted
    if not trusted:
        assert (entry.last_sequence, entry.last_offset) == (0, 0)
    assert findings(tmp_path / "out") == []


LATER_STATES: dict[str, tuple[bytes, ProducerEntry, int, list[int]]] = {
    "no open transaction": (data(2), ProducerEntry(7, 1, 0, 0, 0, 5, 0, -1), 4, [2, 3]),
    "a later open transaction": (data(2, 7), ProducerEntry(7, 1, 2, 2, 0, 5, 0, 2), 2, []),
}


@pytest.mark.parametrize("kind", LATER_STATES)
def test_transaction_that_ended_according_to_a_snapshot_is_in_doubt_in_the_copy(kind: str, tmp_path: Path) -> None:
    """The source reports the transaction as damaged. The copy contains no damage, but its offset 1 is missing."""
    following, state, stable, expected = LATER_STATES[kind]
    folder = partition(tmp_path / "in", data(0, 7), corrupt(commit(1)), following)
    partition(tmp_path / "in", data(3), base=3)
    (folder / f"{3:020}.snapshot").write_bytes(snapshot_bytes([state]))
    salvaged(tmp_path / "in", tmp_path / "out")
    assert findings(tmp_path / "out") == ["transaction_in_doubt"]
    (directory,) = discover([tmp_path / "out"]).partitions
    states = [PartitionLog(directory).transactions, PartitionLog(directory).open_transactions]
    assert [found.last_stable_offset for found in states] == [stable, stable]
    assert committed(tmp_path / "out") == expected


def test_wrong_snapshot_does_not_end_a_transaction_if_no_offset_is_missing(tmp_path: Path) -> None:
    folder = partition(tmp_path / "in", data(0, 7), data(1))
    (folder / f"{2:020}.snapshot").write_bytes(snapshot_bytes([]))
    (directory,) = discover([tmp_path / "in"]).partitions
    assert PartitionLog(directory).transactions.last_stable_offset == 0


def test_aborted_transaction_in_doubt_may_lack_an_index_entry(tmp_path: Path) -> None:
    """The snapshot shows that the first transaction ended in the damage, so the marker at offset 4 ended another one."""
    folder = partition(tmp_path / "in", data(0, 7))
    partition(tmp_path / "in", corrupt(data(2)), base=2)
    partition(tmp_path / "in", corrupt(data(3, 7)), abort(4), data(5), abort(6, 8), base=3, index=[(7, 3, 4, 5)])
    (folder / f"{3:020}.snapshot").write_bytes(snapshot_bytes([ProducerEntry(7, 1, 0, 0, 0, 5, 0, -1)]))
    salvaged(tmp_path / "in", tmp_path / "out")
    assert set(findings(tmp_path / "out")) == {"transaction_in_doubt"}


def test_negative_offsets_in_checkpoints_are_ignored(tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0), data(1))
    (tmp_path / "in" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 -5\n")
    (tmp_path / "in" / "replication-offset-checkpoint").write_text("0\n1\nt 0 -5\n")
    salvaged(tmp_path / "in", tmp_path / "out")
    assert read_offset_checkpoint((tmp_path / "out" / "replication-offset-checkpoint").read_text(), "") == {("t", 0): 2}


def test_unreadable_checkpoint_raises_structure_error() -> None:
    with pytest.raises(StructureError):
        read_offset_checkpoint("0\n1\nsp ace 0 1\n", "x")
