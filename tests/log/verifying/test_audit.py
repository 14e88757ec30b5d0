"""Test the checks of indexes, snapshots and checkpoints.

Files that brokers wrote have no findings, and every wrong entry is found.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from building import COMMIT, TRANSACTIONAL, batch, control_batch, record, simple_batch
from golden_cases import CASES, LEGACY, Case, case
from reports import verify_partition
from transactional_logs import damage, write_transactions

import kafkafmt
from kafkafmt import LogDirectory
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage import segment_tables, segment_walker
from kafkafmt.log.formats.checkpoints import LOG_STARTS, leader_epochs_text, read_leader_epochs
from kafkafmt.log.formats.index_entries import read_transaction_index, transaction_index_bytes
from kafkafmt.log.formats.snapshots import ProducerEntry, read_snapshot, snapshot_bytes
from kafkafmt.log.verifying import verify_pass
from kafkafmt.log.verifying.audit import PartitionAudit
from kafkafmt.records import iter_tables

Found = list[tuple[str, str]]


def findings(path: Path) -> Found:
    (directory,) = discover([path]).partitions
    report = verify_partition(PartitionLog(directory))
    assert report["damaged"] == []
    return [(f["error"], f["file"]) for f in report["findings"]]


@pytest.mark.parametrize("golden", [*CASES, *LEGACY], ids=str)
def test_logs_of_brokers_have_no_findings(golden: Case) -> None:
    """The logs were written by Kafka 0.8 to 4.3. Some are compacted, transactional, or from a killed broker.

    The only findings are unfinished tails, and index entries that point into them.
    """
    if golden.torn:
        return
    for directory in discover(golden.roots).partitions:
        found = [(f["error"], f["file"]) for f in verify_partition(PartitionLog(directory))["findings"]]
        if "truncated" in golden.name or "preallocated" in directory.topic:
            found = [f for f in found if f[0] not in ("unfinished_tail", "index_beyond_end")]
        assert found == [], directory.path


TORN = {
    "index-garbage": [("index_beyond_end", "00000000000000000096.index")],
    "index-lost": [("index_missing", "00000000000000000096.index")],
    "index-short": [("index_length", "00000000000000000096.index")],
    "timeindex-lost": [("index_missing", "00000000000000000192.timeindex")],
    "none": [],
    "cut-body": [
        ("unfinished_tail", "00000000000000000192.log"),
        ("missing_end", "replication-offset-checkpoint"),
    ],
}


@pytest.mark.parametrize("name", TORN)
def test_torn_log_has_the_findings_of_its_damage(name: str) -> None:
    assert findings(case("torn").partition_dir(f"torn-{name}", 0)) == TORN[name]


@pytest.fixture
def tx(tmp_path: Path) -> Path:
    """Return a copy of a partition of a killed broker, with transactions in several segments."""
    source = case("kafka-4.3.1/transactions").partition_dir("tx", 0)
    copy = shutil.copytree(source, tmp_path / source.name)
    assert findings(copy) == []
    return copy


def edit(path: Path, change: Callable[[bytearray], None]) -> str:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    return path.name


def index(folder: Path, suffix: str) -> Path:
    """Return the index file with the most entries, among those with a given suffix."""
    return max(folder.glob(f"*{suffix}"), key=lambda p: len(p.read_bytes().rstrip(b"\0")))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("entry", [0, 1])
def test_any_flipped_bit_of_an_index_entry_is_a_finding(tx: Path, suffix: str, entry: int) -> None:
    """There is one exception: the offset in the entry becomes the offset of one of the next two batches.

    Brokers up to 4.0 wrote entries with such offsets. With them, a lookup still finds the right batch.
    """
    path = index(tx, suffix)
    whole, size = path.read_bytes(), 8 if suffix == ".index" else 12
    undetected = []
    for bit in range(entry * size * 8, (entry + 1) * size * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        found = {error for error, file in findings(tx) if file == path.name}
        assert found <= {"index_mismatch", "index_beyond_end", "index_garbage"}
        undetected += [] if found else [bit - entry * size * 8]
    assert undetected == ([24, 25] if suffix == ".index" else [])


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_index_with_a_partial_entry_is_a_finding(tx: Path, suffix: str) -> None:
    name = edit(index(tx, suffix), lambda data: data.extend(b"\0\0\0"))
    assert ("index_length", name) in findings(tx)


def test_garbage_after_the_index_entries_is_a_finding(tx: Path) -> None:
    path = index(tx, ".index")
    name = edit(path, lambda data: data.extend(b"\0" * 16 + b"\x01" * 8))
    assert findings(tx) == [("index_garbage", name)]


def test_missing_index_entries_are_not_a_finding(tx: Path) -> None:
    for path in [*tx.glob("*.index"), *tx.glob("*.timeindex")]:
        path.write_bytes(b"")
    assert findings(tx) == []


def test_segments_without_other_files_have_no_findings(tx: Path) -> None:
    for path in tx.iterdir():
        if path.suffix != ".log":
            path.unlink()
    assert findings(tx) == []


def test_wrong_entry_of_a_transaction_index_is_a_finding(tx: Path) -> None:
    path = index(tx, ".txnindex")
    entries = [tuple(e)[1:] for e in read_transaction_index(path.read_bytes()).tolist()]
    producer, first, last, stable = entries[0]
    for wrong in [(producer + 1, first, last, stable), (producer, first + 1, last, stable), (producer, first, last + 1, stable),
                (producer, first, last, stable + 5)]:  # fmt: skip
        path.write_bytes(transaction_index_bytes([wrong, *entries[1:]]))
        assert ("index_mismatch", path.name) in findings(tx), wrong


def test_abort_missing_from_the_transaction_index_is_a_finding(tx: Path) -> None:
    path = index(tx, ".txnindex")
    data = path.read_bytes()
    path.write_bytes(data[34:])
    assert findings(tx) == [("index_mismatch", path.name)]
    path.unlink()
    assert findings(tx) == [("index_mismatch", path.name)]


def test_unreadable_snapshot_is_a_finding(tx: Path) -> None:
    path = index(tx, ".snapshot")
    name = edit(path, lambda data: data.__setitem__(20, data[20] ^ 1))
    assert ("unreadable_snapshot", name) in findings(tx)


@pytest.mark.parametrize("field", ["epoch", "last_sequence", "last_offset", "offset_delta", "txn_first_offset"])
def test_wrong_field_of_a_snapshot_is_a_finding(tx: Path, field: str) -> None:
    path = max(tx.glob("*.snapshot"))
    producers = read_snapshot(path.read_bytes())
    wrong = producers[0]._replace(**{field: getattr(producers[0], field) + 1})
    path.write_bytes(snapshot_bytes([wrong, *producers[1:]]))
    assert findings(tx) == [("snapshot_mismatch", path.name)]


def test_open_transaction_missing_from_a_snapshot_is_a_finding(tx: Path) -> None:
    path = next(
        p for p in sorted(tx.glob("*.snapshot")) if any(e.txn_first_offset >= 0 for e in read_snapshot(p.read_bytes()))
    )
    producers = read_snapshot(path.read_bytes())
    path.write_bytes(snapshot_bytes(p for p in producers if p.txn_first_offset < 0))
    assert findings(tx) == [("snapshot_mismatch", path.name)]


def test_snapshot_beyond_the_log_end_is_a_finding(tx: Path) -> None:
    shutil.copy(max(tx.glob("*.snapshot")), tx / f"{10**6:020}.snapshot")
    assert findings(tx) == [("snapshot_beyond_end", f"{10**6:020}.snapshot")]


def test_leader_epochs_that_batches_contradict_are_a_finding(tmp_path: Path) -> None:
    source = case("kafka-4.3.1/epochs").partition_dir("epochs", 0)
    copy = shutil.copytree(source, tmp_path / source.name)
    path = copy / "leader-epoch-checkpoint"
    epochs = read_leader_epochs(path.read_text())
    assert findings(copy) == []
    for wrong in (epochs[:1] + [(epochs[1][0] + 1, epochs[1][1])] + epochs[2:], epochs[:1] + [(epochs[1][0], epochs[1][1] - 1)] + epochs[2:],
                epochs[:-1] + [(epochs[-1][0] + 1, epochs[-1][1])]):  # fmt: skip
        path.write_text(leader_epochs_text(wrong))
        assert findings(copy) == [("leader_epoch_mismatch", path.name)], wrong
    path.write_text(leader_epochs_text(epochs[:-2]))  # entries may be missing
    assert findings(copy) == []


def test_log_start_beyond_the_log_end_is_a_finding(tx: Path) -> None:
    (tx.parent / LOG_STARTS).write_text("0\n1\ntx 0 100000\n")
    assert ("checkpoint_beyond_end", LOG_STARTS) in findings(tx)


def test_index_entry_of_a_damaged_batch_is_not_a_finding(tx: Path) -> None:
    path = index(tx, ".index")
    _, position = struct.unpack(">ii", path.read_bytes()[:8])
    log = path.with_suffix(".log")
    edit(log, lambda data: data.__setitem__(position + 70, data[position + 70] ^ 1))
    (directory,) = discover([tx]).partitions
    report = verify_partition(PartitionLog(directory))
    assert len(report["damaged"]) == 1
    assert not [f for f in report["findings"] if f["file"] in (path.name, path.with_suffix(".timeindex").name)]


@pytest.mark.parametrize("shallow", [False, True])
def test_valid_log_is_read_once(tx: Path, shallow: bool) -> None:
    """Batches, records, indexes, producers and transactions are all checked in one pass."""
    log = PartitionLog(discover([tx]).partitions[0])
    report = verify_partition(log, shallow)
    assert log.bytes_read == report["bytes"] == sum(p.stat().st_size for p in tx.glob("*.log"))
    assert (
        report["last_stable_offset"]
        == PartitionLog(log.directory).transactions.last_stable_offset
        < report["next_offset"]
    )


def with_wrong_offsets(path: Path, chance: Random, share: float) -> None:
    """Change the base offsets of some batches in a segment. The CRC of a batch does not cover its base offset."""
    data = bytearray(path.read_bytes())
    for row in next(iter_tables(bytes(data))).copy() if data else ():
        if chance.random() < share:
            struct.pack_into(">q", data, int(row["position"]), max(int(row["base_offset"]) + chance.randint(-9, 9), 0))
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(30))
def test_transactions_are_found_while_segments_with_wrong_offsets_are_audited(tmp_path: Path, seed: int) -> None:
    """Some logs also have damage or missing files, or a log start offset inside the first segment."""
    chance = Random(seed)
    folder = write_transactions(tmp_path, chance)
    for path in sorted(folder.glob("*.log")):
        with_wrong_offsets(path, chance, chance.choice((0, 0.02, 0.2)))
    for _ in range(seed % 3):
        damage(folder, chance)
    if seed % 4 == 1:
        (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\n{folder.name.replace('-', ' ')} 3\n")
    log = PartitionLog(discover([tmp_path]).partitions[0])
    report = verify_partition(log)
    expected = PartitionLog(log.directory).transactions
    assert log.transactions == expected
    assert report["last_stable_offset"] == expected.last_stable_offset


def test_segment_with_wrong_offsets_is_read_once_after_it_was_planned(tmp_path: Path) -> None:
    """The records, the indexes and the transactions are checked while the batches are read in offset order."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    path = folder / f"{0:020}.log"
    batches = [
        batch([record(0, value=b"v" * 40)], base_offset=i, flags=TRANSACTIONAL, producer_id=1, producer_epoch=0)
        for i in range(2000)
    ]
    path.write_bytes(b"".join(batches))
    with_wrong_offsets(path, Random(1), 0.2)
    log = PartitionLog(discover([folder]).partitions[0])
    assert verify_partition(log)["damaged"]
    assert log.bytes_read <= 2.1 * path.stat().st_size


def test_segment_that_is_read_again_is_audited_from_a_clean_state(tmp_path: Path) -> None:
    """The segment is read twice, because its unreadable batch is found after the marker was read.

    According to the snapshot, the transaction is open, but the marker has ended it.
    """
    tx = batch([record(i) for i in range(5)], flags=TRANSACTIONAL, producer_id=7, producer_epoch=1, base_sequence=0)
    marker = control_batch(COMMIT, base_offset=5, producer_id=7, producer_epoch=1)
    broken = batch([], base_offset=6, last_offset_delta=4, count=5, codec=4, compressed=b"no zstd at all")
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(tx + marker + broken)
    (path / f"{11:020}.log").write_bytes(batch([record(0)], base_offset=11))
    (path / f"{11:020}.snapshot").write_bytes(snapshot_bytes([ProducerEntry(7, 1, 4, 4, 4, 0, 0, txn_first_offset=0)]))
    report = verify_partition(PartitionLog(discover([path]).partitions[0]))
    assert [(d["first_offset"], d["last_offset"]) for d in report["damaged"]] == [(6, 10)]
    assert (report["records"], report["records_recovered"]) == (11, 6)
    assert [f["error"] for f in report["findings"]] == ["snapshot_mismatch"]


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_empty_partition_metadata_is_a_finding(tmp_path: Path) -> None:
    """A broker of Kafka 4.3 does not start with such a file (KAFKA-20177)."""
    with LogDirectory(tmp_path) as directory:
        directory.writer("t").append([(None, b"v")])
    metadata = tmp_path / "t-0" / "partition.metadata"
    for text in ("", "\n", "version: 0\n"):
        metadata.write_text(text)
        (finding,) = kafkafmt.verify(tmp_path).partitions[0].findings
        assert (finding.file, finding.code) == ("partition.metadata", "unreadable_checkpoint")


def test_verify_reads_a_segment_again_if_its_first_batches_are_not_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batches are processed before the plan shows that they contradict the rest of the segment."""
    batches = [simple_batch([b"v" * 100], 1000 + i) for i in range(40)] + [
        simple_batch([b"v" * 50], i) for i in range(200)
    ]
    (folder := tmp_path / "t-0").mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    expected = kafkafmt.verify(tmp_path).to_dict()
    monkeypatch.setattr(verify_pass, "MOST_WAITING", 4)
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 1000)
    monkeypatch.setattr(segment_walker, "SMALL_SEGMENT", 0)
    given_up: list[int] = []
    give_up = PartitionAudit.give_up

    def counting(audit: PartitionAudit) -> None:
        given_up.append(1)
        give_up(audit)

    monkeypatch.setattr(PartitionAudit, "give_up", counting)
    assert kafkafmt.verify(tmp_path).to_dict() == expected
    assert given_up == [1]
    assert expected["partitions"][0]["records_recovered"] == 200
