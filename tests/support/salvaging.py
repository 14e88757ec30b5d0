"""Write partitions, salvage them, and read the copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, record
from reports import verify_partition
from selecting import COMMITTED, interval

from kafkafmt.log import Damage, PartitionLog, discover
from kafkafmt.log.formats.index_entries import read_transaction_index, transaction_index_bytes
from kafkafmt.log.repairing.salvage_api import Salvaged, finish_directory, salvage_partition
from kafkafmt.log.verifying import verify_api as verify

NAME = f"{0:020}.log"
Rows = dict[tuple[str, int, int], Any]


def data(offset: int, producer_id: int | None = None, **fields: Any) -> bytes:
    """Return a batch of one record. It is transactional if it has a producer id."""
    if producer_id is not None:
        fields = {
            "flags": TRANSACTIONAL,
            "producer_id": producer_id,
            "producer_epoch": 1,
            "base_sequence": offset,
        } | fields
    return batch([record(0, value=b"value %d" % offset)], base_offset=offset, **fields)


def abort(offset: int, producer_id: int = 7) -> bytes:
    return control_batch(ABORT, base_offset=offset, producer_id=producer_id, producer_epoch=1)


def commit(offset: int, producer_id: int = 7) -> bytes:
    return control_batch(COMMIT, base_offset=offset, producer_id=producer_id, producer_epoch=1)


def corrupt(batch_bytes: bytes, position: int = 30) -> bytes:
    return batch_bytes[:position] + bytes([batch_bytes[position] ^ 0x10]) + batch_bytes[position + 1 :]


def partition(
    root: Path, *batches: bytes, name: str = "t-0", base: int = 0, index: list[tuple[int, int, int, int]] | None = None
) -> Path:
    """Write a segment and, if given, its transaction index."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    if index is not None:
        (folder / f"{base:020}.txnindex").write_bytes(transaction_index_bytes(index))
    return folder


def salvaged(source: Path, output: Path, **options: Any) -> tuple[Salvaged, dict[str, Any]]:
    """Salvage the only partition of a directory. Return the copy, and the report on the source."""
    output.mkdir()
    (directory,) = discover([source]).partitions
    log = PartitionLog(directory)
    report = verify.verify_partition(log)
    made = salvage_partition(log, report.damaged, output, **options)
    finish_directory(output, [made], [source])
    return made, report.to_dict()


def aborted_entries(folder: Path) -> list[tuple[int, ...]]:
    """Return producer, first offset, marker and last stable offset of all entries in transaction indexes."""
    return [
        tuple(e)[1:] for f in sorted(folder.glob("*.txnindex")) for e in read_transaction_index(f.read_bytes()).tolist()
    ]


def committed(path: Path) -> list[int]:
    """Return the offsets that a read_committed consumer receives."""
    (directory,) = discover([path]).partitions
    log = PartitionLog(directory)
    return [r.offset for r in log.records(COMMITTED.resolve(log), on_damage=lambda _: None)]


def damage_of(row: dict[str, Any]) -> Damage:
    """Convert damage in the JSON form of a report to a `Damage` object."""
    return Damage(**{"code" if name == "error" else name: value for name, value in row.items()})


def findings(path: Path) -> list[str]:
    """Verify the only partition in a directory, and return the codes of its damage and findings."""
    return [x["error"] for x in details(path)]


def details(path: Path) -> list[dict[str, Any]]:
    """Verify the only partition in a directory, and return its damage and findings."""
    (directory,) = discover([path]).partitions
    entry = verify_partition(PartitionLog(directory))
    found: list[dict[str, Any]] = entry["damaged"] + entry["findings"]
    return found


def salvage_all(source: Path, output: Path, stop_at_first: bool = False) -> list[dict[str, Any]]:
    """Salvage a log directory or a partition directory, and return the verify reports of its partitions."""
    output.mkdir()
    reports, made = [], []
    found = discover([source]).partitions
    for directory in (d for d in found if d.readable):
        log = PartitionLog(directory)
        reports.append(verify_partition(log))
        made.append(salvage_partition(log, [damage_of(row) for row in reports[-1]["damaged"]], output, stop_at_first))
    finish_directory(output, made, dict.fromkeys(d.path.parent for d in found))
    return reports


def rows_in(path: Path) -> Rows:
    """Return the records of all live partitions by topic, partition and offset."""
    found = {}
    for directory in discover([path]).partitions:
        if directory.state == "live":
            log = PartitionLog(directory)
            for r in log.records(interval(log, control=True), on_damage=lambda _: None):
                found[directory.topic, directory.partition, r.offset] = (r.timestamp, r.key, r.value, r.headers)
    return found
