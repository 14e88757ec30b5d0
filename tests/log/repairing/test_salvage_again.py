"""Test that salvage of a salvaged copy writes the same files again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from building import batch, mutate, record, split
from golden_cases import GOLDEN
from salvaging import corrupt, data, partition

import kafkafmt
from kafkafmt.log.formats.snapshots import read_snapshot

LOGS = ["idempotent", "compacted", "delete-records", "transactions", "epochs"]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def assert_copy_is_final(source: Path, tmp_path: Path, abort_open: bool = False) -> dict[str, bytes]:
    kafkafmt.salvage(source, tmp_path / "first", abort_open_transactions=abort_open)
    kafkafmt.salvage(tmp_path / "first", tmp_path / "second", abort_open_transactions=abort_open)
    first, second = files_below(tmp_path / "first"), files_below(tmp_path / "second")
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    return first


def changed(chance: random.Random, files: dict[str, bytes]) -> None:
    """Damage one file, or remove it."""
    name = chance.choice(
        [n for n in sorted(files) if files[n] and (n.endswith(".log") or chance.random() < 0.1)] or [""]
    )
    if not name:
        return
    content, way = files[name], chance.randrange(5)
    at = chance.randrange(len(content))
    if way == 0:
        files[name] = mutate(content, at, bytes([content[at] ^ 0x10]))
    elif way == 1:
        files[name] = mutate(content, at, bytes(min(chance.choice([61, 512]), len(content) - at)))
    elif way == 2:
        files[name] = content[:at] + content[at + chance.choice([1, 61]) :]
    elif way == 3:
        files[name] = content[:at]
    else:
        del files[name]


@pytest.mark.parametrize("version", ["kafka-3.9.2", "kafka-4.3.1"])
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(("seed", "abort_open"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
@pytest.mark.slow
def test_salvage_of_a_salvaged_log_changes_nothing(
    version: str, log: str, seed: int, abort_open: bool, tmp_path: Path
) -> None:
    chance = random.Random(f"{version} {log} {seed}")
    files = files_below(GOLDEN / version / log / "log")
    for _ in range(12):
        changed(chance, files)
    for name, content in files.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert_copy_is_final(tmp_path / "source", tmp_path, abort_open)


@pytest.mark.parametrize("empty_last", [False, True])
def test_copy_with_appended_abort_markers_is_final(empty_last: bool, tmp_path: Path) -> None:
    partition(tmp_path / "in", data(0, 7), data(1, 8), data(2, 7))
    if empty_last:
        (tmp_path / "in" / "t-0" / f"{3:020}.log").touch()
    first = assert_copy_is_final(tmp_path / "in", tmp_path, abort_open=True)
    (copy,) = kafkafmt.open(tmp_path / "first").partitions
    assert [r.offset for r in copy.records(control=True)] == [0, 1, 2, 3, 4]
    assert [r.offset for r in copy.records(isolation="read_committed")] == []
    assert ".lock" not in first
    assert sorted(n for n in first if n.endswith(".log")) == [f"t-0/{base:020}.log" for base in (0, 3)]
    assert kafkafmt.verify(tmp_path / "first").to_dict()["partitions"][0]["findings"] == []


def test_producer_that_only_a_snapshot_contains_gets_no_abort_marker(tmp_path: Path) -> None:
    """All batches of producer 8 are lost, so the copy contains nothing to abort."""
    partition(tmp_path / "intact", data(0), data(1, 8), data(2, 7))
    kafkafmt.salvage(tmp_path / "intact", tmp_path / "copy")
    folder = partition(tmp_path / "in", data(0), corrupt(data(1, 8)), data(2, 7))
    snapshot = f"{3:020}.snapshot"
    (folder / snapshot).write_bytes((tmp_path / "copy" / "t-0" / snapshot).read_bytes())
    assert_copy_is_final(tmp_path / "in", tmp_path, abort_open=True)
    (copy,) = kafkafmt.verify(tmp_path / "first").to_dict()["partitions"]
    assert (copy["next_offset"], copy["last_stable_offset"]) == (4, 4)


def test_producer_of_lost_batches_stays_in_all_later_snapshots(tmp_path: Path) -> None:
    """Only the source's first snapshot contains producer 9. The second salvage sees no damage."""
    folder = tmp_path / "in" / "t-0"
    partition(tmp_path / "in", data(0, 7), data(1, 9), data(2, 8), data(3, 7))
    log = folder / f"{0:020}.log"
    parts = split(log.read_bytes())
    kafkafmt.salvage(tmp_path / "in", tmp_path / "intact")
    (folder / f"{4:020}.log").write_bytes(data(4, 7))
    (folder / f"{6:020}.log").write_bytes(data(6, 8))
    snapshot = (tmp_path / "intact" / "t-0" / f"{4:020}.snapshot").read_bytes()
    (folder / f"{4:020}.snapshot").write_bytes(snapshot)
    log.write_bytes(b"".join([parts[0], corrupt(parts[1]), *parts[2:]]))
    first = assert_copy_is_final(tmp_path / "in", tmp_path)
    for offset in (4, 6, 7):
        producers = read_snapshot(first[f"t-0/{offset:020}.snapshot"])
        assert [p.producer_id for p in producers] == [7, 8, 9]


def test_epochs_of_a_log_that_starts_inside_a_batch_are_final(tmp_path: Path) -> None:
    """Epoch 2 begins in a gap, so only the checkpoint contains its first offset."""
    many = batch([record(i, value=b"v") for i in range(5)], leader_epoch=1)
    partition(tmp_path / "in", many, data(9, leader_epoch=2))
    (tmp_path / "in" / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 7\n")
    (tmp_path / "in" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    first = assert_copy_is_final(tmp_path / "in", tmp_path)
    assert first["t-0/leader-epoch-checkpoint"] == b"0\n2\n1 3\n2 7\n"


def test_epochs_of_a_log_whose_end_is_lost_are_final(tmp_path: Path) -> None:
    """The checkpoint contains only an epoch after the end of the copy."""
    partition(tmp_path / "in", data(0), data(1))
    (tmp_path / "in" / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 400\n")
    (tmp_path / "in" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    first = assert_copy_is_final(tmp_path / "in", tmp_path)
    assert first["t-0/leader-epoch-checkpoint"] == b"0\n1\n0 2\n"
