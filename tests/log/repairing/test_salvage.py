"""Test salvage. Intact batches are copied unchanged, and all other files are rebuilt as by a broker.

The source is never changed.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from building import COMMIT, TRANSACTIONAL, batch, control_batch, mutate, record, split
from command import kafkafmt, report
from golden_cases import CASES, LEGACY, Case, case
from reports import verify_partition
from salvaging import rows_in, salvage_all
from selecting import COMMITTED

from kafkafmt import iter_batches
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.formats.checkpoints import read_leader_epochs, read_offset_checkpoint
from kafkafmt.log.formats.index_entries import read_transaction_index
from kafkafmt.log.formats.snapshots import read_snapshot
from kafkafmt.log.repairing.salvage_api import salvage


def problems(path: Path) -> list[str]:
    entries = [verify_partition(PartitionLog(d)) for d in discover([path]).partitions]
    return [f"{e['path']}: {f}" for e in entries for f in e["damaged"] + e["findings"]]


def fingerprint(path: Path) -> dict[str, tuple[str, int]]:
    files = [p for p in path.rglob("*") if p.is_file()]
    return {str(p): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in files}


@pytest.mark.parametrize("golden", [c for c in [*CASES, *LEGACY] if c.name not in ("jbod", "0.9.0.1-nested")], ids=str)
def test_salvaged_golden_log_has_the_same_records_and_segments(golden: Case, tmp_path: Path) -> None:
    """The records are equal, undamaged segments have equal bytes, and the copy has no findings."""
    (source,) = golden.roots
    before = fingerprint(source)
    reports = salvage_all(source, tmp_path / "out")
    assert fingerprint(source) == before
    assert rows_in(tmp_path / "out") == rows_in(source)
    assert problems(tmp_path / "out") == []
    for entry in reports:
        origin, copy = Path(entry["path"]), tmp_path / "out" / f"{entry['topic']}-{entry['partition']}"
        if entry["damaged"] or any(f["error"] == "unfinished_tail" for f in entry["findings"]):
            continue
        logs = sorted(p.name for p in origin.glob("*.log"))
        assert sorted(p.name for p in copy.glob("*.log")) == logs
        for name in logs:
            assert (copy / name).read_bytes() == (origin / name).read_bytes()
            assert (copy / name).stat().st_mtime_ns == (origin / name).stat().st_mtime_ns
        for name in ("leader-epoch-checkpoint", "partition.metadata"):
            if (origin / name).exists() and (origin / name).read_text():
                assert (copy / name).read_text() == (origin / name).read_text(), copy


def test_files_of_a_clean_broker_are_rebuilt_identically(tmp_path: Path) -> None:
    """The broker shut down cleanly and never compacted the log. Therefore, all files must be equal."""
    for name in ("codecs", "internal"):
        (source,) = case(f"kafka-4.3.1/{name}").roots
        out = tmp_path / name
        salvage_all(source, out)
        for file in sorted(source.rglob("*")):
            copied = out / file.relative_to(source)
            if file.name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
                assert (
                    read_offset_checkpoint(copied.read_text(), "").items()
                    <= read_offset_checkpoint(file.read_text(), "").items()
                )
            elif file.suffix in (".index", ".timeindex", ".txnindex", ".log") or file.name in (
                "meta.properties",
                "quorum-state",
            ):
                assert copied.read_bytes() == file.read_bytes(), file
            elif file.suffix == ".snapshot" and file.parent.name != "__consumer_offsets-0":
                ours = {p.producer_id: p for p in read_snapshot(copied.read_bytes())}
                assert all(ours[p.producer_id] == p for p in read_snapshot(file.read_bytes())), file


def test_stop_at_first_keeps_the_records_that_a_broker_keeps(tmp_path: Path) -> None:
    """A real broker has also recovered the golden log `torn`. Both results contain the same records."""
    torn = case("torn")
    salvage_all(torn.roots[0], tmp_path / "out", stop_at_first=True)
    kept = rows_in(tmp_path / "out")
    assert kept.keys() == torn.recovered().keys()
    assert problems(tmp_path / "out") == []


def one(base: int, n: int = 5, **fields: Any) -> bytes:
    records = [record(i, value=b"%d:" % (base + i) + random.Random(base + i).randbytes(40)) for i in range(n)]
    return batch(records, base_offset=base, last_offset_delta=n - 1, **fields)


PARTS = [one(i * 5) for i in range(30)]
AT = [sum(map(len, PARTS[10:i])) for i in range(10, 21)]
"""Positions of the batches in the second of three segments."""


def flip(data: bytes, position: int) -> bytes:
    return mutate(data, position, bytes([data[position] ^ 0x10]))


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], set[int]]] = {
    **{
        f"flipped at {f}": (partial(flip, position=AT[4] + f), {14})
        for f in (0, 5, 8, 10, 16, 17, 22, 25, 30, 40, 47, 58, 61, 100)
    },
    **{
        f"length {n}": (partial(mutate, position=AT[4] + 8, replacement=struct.pack(">i", n)), {14})
        for n in (2**31 - 1, -1, -(2**31), 0, 1, 5000)
    },
    "middle removed": (lambda d: d[: AT[3] + 50] + d[AT[5] + 20 :], {13, 14, 15}),
    "zeroed pages": (lambda d: d[: AT[3] + 50] + bytes(AT[6] - AT[3]) + d[AT[6] + 50 :], {13, 14, 15, 16}),
    "garbage inserted": (lambda d: d[: AT[5]] + random.Random(3).randbytes(333) + d[AT[5] :], set()),
    "a span repeated": (lambda d: d[: AT[6]] + d[AT[4] : AT[6]] + d[AT[6] :], set()),
    "truncated": (lambda d: d[: AT[8] + 70], {18, 19}),
    "two damages": (lambda d: flip(flip(d, AT[2] + 90), AT[7] + 20), {12, 17}),
    "an offset raised, the next batch zeroed": (
        lambda d: flip(d, AT[4] + 5)[: AT[5]] + bytes(AT[6] - AT[5]) + d[AT[6] :],
        {14, 15},
    ),
    "all zeroed": (lambda d: bytes(len(d)), set(range(10, 20))),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_every_intact_batch_is_kept(kind: str, tmp_path: Path) -> None:
    corrupt, lost = DAMAGES[kind]
    source = tmp_path / "t-0"
    source.mkdir()
    for i in range(3):
        whole = b"".join(PARTS[i * 10 : i * 10 + 10])
        (source / f"{i * 50:020}.log").write_bytes(corrupt(whole) if i == 1 else whole)
    before = fingerprint(source)
    salvage_all(source, tmp_path / "out")
    assert fingerprint(source) == before
    copy = tmp_path / "out" / "t-0"
    assert {p.name: p.read_bytes() for p in copy.glob("*.log")} == {
        f"{i * 50:020}.log": kept
        for i in range(3)
        if (kept := b"".join(PARTS[j] for j in range(i * 10, i * 10 + 10) if j not in lost))
    }
    assert problems(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("kind", "kept"), [("flipped at 100", 4), ("zeroed pages", 3), ("all zeroed", 0), ("garbage inserted", 5)]
)
def test_stop_at_first_keeps_the_batches_before_the_damage(kind: str, kept: int, tmp_path: Path) -> None:
    corrupt, _ = DAMAGES[kind]
    source = tmp_path / "t-0"
    source.mkdir()
    (source / f"{0:020}.log").write_bytes(corrupt(b"".join(PARTS[10:20])))
    (source / f"{100:020}.log").write_bytes(b"".join(PARTS[20:]))
    salvage_all(source, tmp_path / "out", stop_at_first=True)
    (copy,) = (tmp_path / "out" / "t-0").glob("*.log")
    assert split(copy.read_bytes()) == PARTS[10 : 10 + kept]
    assert problems(tmp_path / "out") == []


def test_batch_whose_records_cannot_be_read_is_omitted(tmp_path: Path) -> None:
    """The CRC of the batch matches, but a consumer cannot read further."""
    source = tmp_path / "t-0"
    source.mkdir()
    broken = batch([], base_offset=5, last_offset_delta=4, count=5, codec=4, compressed=b"no zstd at all")
    (source / f"{0:020}.log").write_bytes(PARTS[0] + broken + PARTS[2])
    (entry,) = salvage_all(source, tmp_path / "out")
    assert [(d["first_offset"], d["last_offset"]) for d in entry["damaged"]] == [(5, 9)]
    assert (tmp_path / "out" / "t-0" / f"{0:020}.log").read_bytes() == PARTS[0] + PARTS[2]
    assert problems(tmp_path / "out") == []


def test_partition_with_a_segment_that_no_index_can_hold_is_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "in" / "t-0"
    source.mkdir(parents=True)
    (source / f"{0:020}.log").write_bytes(PARTS[0] + PARTS[1] + one(2**31))
    report = salvage(tmp_path / "in", tmp_path / "out")
    (unreadable,) = report.unreadable
    assert "the batches cannot be indexed: its offsets or its size do not fit into an index" in unreadable.error
    assert unreadable.error.startswith(str(source / f"{0:020}.log"))
    assert (report.partitions, report.exit_code) == ((), 3)
    assert not (tmp_path / "out" / "t-0").exists()


def test_copy_of_a_file_with_another_name_is_named_by_its_offset(tmp_path: Path) -> None:
    (tmp_path / "rescued.log").write_bytes(PARTS[3] + PARTS[4])
    salvage_all(tmp_path / "rescued.log", tmp_path / "out")
    (copy,) = (tmp_path / "out").rglob("*.log")
    assert copy.name == f"{15:020}.log"
    assert copy.read_bytes() == PARTS[3] + PARTS[4]


def test_producers_come_from_the_snapshot_after_the_damage(tmp_path: Path) -> None:
    """The marker of a transaction is destroyed. The next snapshot shows that the transaction has ended."""

    def tx(base: int, **f: Any) -> bytes:
        return one(base, flags=TRANSACTIONAL, producer_id=7, producer_epoch=1, base_sequence=base, **f)

    whole = tmp_path / "whole" / "t-0"
    whole.mkdir(parents=True)
    marker = control_batch(COMMIT, base_offset=5, producer_id=7, producer_epoch=1)
    (whole / f"{0:020}.log").write_bytes(tx(0) + marker)
    (whole / f"{6:020}.log").write_bytes(one(6))
    salvage_all(whole, tmp_path / "valid")
    corrupted = shutil.copytree(tmp_path / "valid", tmp_path / "corrupted") / "t-0"
    (corrupted / f"{0:020}.log").write_bytes(tx(0) + flip(marker, 30))
    salvage_all(corrupted, tmp_path / "out")
    entries = {
        name: read_snapshot((tmp_path / "out" / "t-0" / f"{name:020}.snapshot").read_bytes()) for name in (6, 11)
    }
    assert [p.txn_first_offset for p in entries[6]] == [-1]
    (corrupted / f"{6:020}.snapshot").unlink()
    salvage_all(corrupted, tmp_path / "no-snapshot")
    assert [
        p.txn_first_offset
        for p in read_snapshot((tmp_path / "no-snapshot" / "t-0" / f"{11:020}.snapshot").read_bytes())
    ] == [0]


def transaction(base: int, producer_id: int = 7, **fields: Any) -> bytes:
    return one(base, flags=TRANSACTIONAL, producer_id=producer_id, producer_epoch=3, base_sequence=base, **fields)


def open_transactions(done: Any) -> list[dict[str, Any]]:
    (entry,) = json.loads(done.stdout)["partitions"]
    found: list[dict[str, Any]] = entry["open_transactions"]
    return found


@pytest.fixture
def markers_lost(tmp_path: Path) -> Path:
    """Return a log directory with three transactions. One of them has lost its marker.

    - Producer 7 wrote offset 10. Its marker at 15 is corrupted.
    - Producer 8 wrote from offset 5 on. Its commit marker at 21 is intact.
    - Producer 9 wrote from offset 22 on, and has no marker.
    """
    marker = control_batch(COMMIT, base_offset=15, producer_id=7, producer_epoch=3, coordinator_epoch=2)
    ended = control_batch(COMMIT, base_offset=21, producer_id=8, producer_epoch=3, coordinator_epoch=2)
    parts = [
        PARTS[0],
        transaction(5, 8),
        transaction(10),
        flip(marker, 30),
        one(16),
        ended,
        transaction(22, 9, leader_epoch=4),
    ]
    folder = tmp_path / "in" / "t-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    return tmp_path / "in"


def test_open_transactions_are_reported_with_a_remedy(markers_lost: Path, tmp_path: Path) -> None:
    reported = open_transactions(kafkafmt("salvage", markers_lost, "--output", tmp_path / "out", "--format", "json"))
    command = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic t --partition 0 --start-offset"
    assert reported == [
        {
            "producer_id": 7,
            "producer_epoch": 3,
            "first_offset": 10,
            "cause": "damage",
            "aborted_at": None,
            "remedy": f"{command} 10",
        },
        {
            "producer_id": 9,
            "producer_epoch": 3,
            "first_offset": 22,
            "cause": "open",
            "aborted_at": None,
            "remedy": f"{command} 22",
        },
    ]
    text = kafkafmt("salvage", markers_lost, "--output", tmp_path / "plain").stdout
    assert (
        "open     t-0: transaction of producer 7, epoch 3, which starts at offset 10; damage may have destroyed the marker of the transaction"
        in text
    )
    assert (
        "open     t-0: transaction of producer 9, epoch 3, which starts at offset 22; the transaction is open in the source too"
        in text
    )
    assert f"         {command} 10\n" in text
    source = (markers_lost / "t-0" / f"{0:020}.log").read_bytes()
    assert split((tmp_path / "out" / "t-0" / f"{0:020}.log").read_bytes()) == [
        b for i, b in enumerate(split(source)) if i != 3
    ]


def test_salvage_prints_the_number_of_transactions_in_doubt(markers_lost: Path, tmp_path: Path) -> None:
    text = kafkafmt("salvage", markers_lost, "--output", tmp_path / "out").stdout
    assert (
        "in doubt t-0: the outcome of 2 transactions is unknown; in the copy, the next marker of the same producer decides it\n"
        in text
    )


def test_open_transactions_are_aborted_on_request(markers_lost: Path, tmp_path: Path) -> None:
    """Markers are appended at the end of the copy. Intact batches and the committed transaction do not change."""
    kafkafmt("salvage", markers_lost, "--output", tmp_path / "unchanged")
    done = kafkafmt(
        "salvage", markers_lost, "--output", tmp_path / "out", "--abort-open-transactions", "--format", "json"
    )
    assert [(t["first_offset"], t["aborted_at"], t["remedy"]) for t in open_transactions(done)] == [
        (10, 27, None),
        (22, 28, None),
    ]
    (unchanged,), (kept, appended) = (sorted((tmp_path / name / "t-0").glob("*.log")) for name in ("unchanged", "out"))
    assert kept.read_bytes() == unchanged.read_bytes()
    # The markers are in a separate segment, because their timestamps are weeks later than those of
    # the records.
    markers = list(iter_batches(appended.read_bytes()))
    assert [(m.base_offset, m.producer_id, m.producer_epoch, m.leader_epoch) for m in markers] == [
        (27, 7, 3, 4),
        (28, 9, 3, 4),
    ]
    assert all(m.is_control and m.is_transactional for m in markers)
    log = PartitionLog(discover([tmp_path / "out"]).partitions[0])
    assert log.transactions.open == {}
    assert log.transactions.last_stable_offset == log.next_offset == 29
    assert [r.offset for r in log.records(COMMITTED.resolve(log))] == [*range(10), *range(16, 21)]
    assert problems(tmp_path / "out") == []
    index = read_transaction_index(appended.with_suffix(".txnindex").read_bytes())
    assert [tuple(e)[1:] for e in index.tolist()] == [(7, 10, 27, 22), (9, 22, 28, 29)]
    entries = read_snapshot((tmp_path / "out" / "t-0" / f"{29:020}.snapshot").read_bytes())
    assert {p.producer_id: (p.txn_first_offset, p.coordinator_epoch) for p in entries} == {
        7: (-1, 0),
        8: (-1, 2),
        9: (-1, 0),
    }
    for name, end in (("recovery-point", 29), ("replication", 29)):
        text = (tmp_path / "out" / f"{name}-offset-checkpoint").read_text()
        assert read_offset_checkpoint(text, "") == {("t", 0): end}
    assert (tmp_path / "out" / ".kafka_cleanshutdown").exists()


def test_stop_at_first_aborts_transactions_whose_marker_is_dropped(markers_lost: Path, tmp_path: Path) -> None:
    """The marker of producer 8 is intact, but it is dropped because it is after the first damage."""
    flags = ("--stop-at-first", "--abort-open-transactions", "--format", "json")
    done = kafkafmt("salvage", markers_lost, "--output", tmp_path / "out", *flags)
    reported = [(t["producer_id"], t["first_offset"], t["cause"], t["aborted_at"]) for t in open_transactions(done)]
    assert reported == [(8, 5, "dropped", 15), (7, 10, "dropped", 16)]
    assert problems(tmp_path / "out") == []


def test_leader_epochs_are_rebuilt_if_the_checkpoint_is_wrong(tmp_path: Path) -> None:
    source = tmp_path / "t-0"
    source.mkdir()
    parts = [one(0, leader_epoch=2), one(5, leader_epoch=2**31 - 1), one(10, leader_epoch=2), one(15, leader_epoch=4)]
    (source / f"{0:020}.log").write_bytes(b"".join(parts))
    for i, text in enumerate((None, "nonsense", "0\n2\n0 0\n3 5\n", "0\n2\n2 0\n4 15\n")):
        if text is not None:
            (source / "leader-epoch-checkpoint").write_text(text)
        salvage_all(source, tmp_path / f"out{i}")
        epochs = read_leader_epochs((tmp_path / f"out{i}" / "t-0" / "leader-epoch-checkpoint").read_text())
        assert epochs == [(2, 0), (4, 15)], text
        corrected = b"".join([parts[0], one(5, leader_epoch=2), *parts[2:]])
        assert (tmp_path / f"out{i}" / "t-0" / f"{0:020}.log").read_bytes() == corrected


@pytest.mark.parametrize("bit", range(31))
@pytest.mark.parametrize("offset", [0, 5])
def test_leader_epoch_that_contradicts_the_checkpoint_is_corrected(tmp_path: Path, bit: int, offset: int) -> None:
    """The CRC of a batch does not cover its leader epoch. The log has two segments."""
    source = tmp_path / "in" / "t-0"
    source.mkdir(parents=True)
    intact = {base: one(base, leader_epoch=64 if base < 15 else 80) for base in range(0, 25, 5)}
    for bases in ((0, 5), (10, 15, 20)):
        batches = [one(b, leader_epoch=64 ^ 1 << bit) if b == offset else intact[b] for b in bases]
        (source / f"{bases[0]:020}.log").write_bytes(b"".join(batches))
    (source / "leader-epoch-checkpoint").write_text("0\n2\n64 0\n80 15\n")
    before = {path.name: path.stat().st_mtime_ns for path in source.glob("*.log")}
    assert problems(tmp_path / "in") != []
    done = kafkafmt("salvage", tmp_path / "in", "-O", tmp_path / "out")
    assert done.returncode == 0
    assert problems(tmp_path / "out") == []
    copies = sorted((tmp_path / "out" / "t-0").glob("*.log"))
    assert {path.name: path.stat().st_mtime_ns for path in copies} == before
    if (offset, bit) == (0, 6):  # epoch 0 can precede epoch 64, so the checkpoint is rebuilt
        assert (tmp_path / "out" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n64 5\n80 15\n"
    else:
        assert b"".join(path.read_bytes() for path in copies) == b"".join(intact.values())
        assert "corrected the leader epoch of 1 batch" in done.stderr


def test_log_start_is_kept_and_never_exceeds_the_end(tmp_path: Path) -> None:
    for start, expected in ((7, {("t", 0): 7}), (0, {("t", 0): 0}), (99, {("t", 0): 10})):
        root = tmp_path / f"in{start}"
        (root / "t-0").mkdir(parents=True)
        (root / "t-0" / f"{0:020}.log").write_bytes(PARTS[0] + PARTS[1])
        (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
        salvage_all(root, tmp_path / f"out{start}")
        text = (tmp_path / f"out{start}" / "log-start-offset-checkpoint").read_text()
        assert read_offset_checkpoint(text, "") == expected


def test_command_reports_and_writes_the_copy(tmp_path: Path) -> None:
    torn = case("torn").roots[0]
    done = kafkafmt("salvage", torn, "--output", tmp_path / "out")
    assert done.returncode == 1
    when = "between 2023-11-14T22:13:24.702Z and 2023-11-14T22:13:24.900Z"
    assert f"lost     torn-flip-old-0: offsets 144 to 146, {when} (at most 3 records)" in done.stdout
    assert "salvaged 13 partitions, 901 batches, 115,328 bytes" in done.stdout
    assert report(tmp_path / "out", "--strict")["ok"]
    as_json = kafkafmt("salvage", torn, "--output", tmp_path / "json", "--format", "json")
    assert as_json.returncode == 1
    reported = json.loads(as_json.stdout)
    assert [p.pop("open_transactions") for p in reported["partitions"]] == [[]] * 13
    assert reported == json.loads(kafkafmt("verify", torn, "--format", "json").stdout)
    stopped = kafkafmt("salvage", torn, "-t", "torn-flip-old", "--output", tmp_path / "stopped", "--stop-at-first")
    assert stopped.returncode == 1
    assert "dropped  torn-flip-old-0: all offsets from 144 to 209, including intact ones" in stopped.stdout
    whole = kafkafmt("salvage", torn / "torn-none-0", "--output", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert (tmp_path / "whole" / ".kafka_cleanshutdown").exists()


def test_salvage_refuses_an_unsuitable_output(tmp_path: Path) -> None:
    source = shutil.copytree(case("torn").roots[0] / "torn-none-0", tmp_path / "data" / "torn-none-0")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    (tmp_path / "data-link").symlink_to(tmp_path / "data")
    for output in (
        tmp_path / "full",
        tmp_path / "full" / "something",
        source,
        source / "new",
        tmp_path / "data",
        tmp_path / "data-link",
    ):
        done = kafkafmt("salvage", source, "--output", output)
        assert done.returncode == 2, done.stdout
        assert "Error" in done.stderr
    # A broker does not accept other directories in its log directory.
    assert kafkafmt("salvage", tmp_path / "data", "--output", tmp_path / "data" / "new").returncode == 2
    (tmp_path / "empty").mkdir()
    assert kafkafmt("salvage", source, "--output", tmp_path / "empty").returncode == 0
