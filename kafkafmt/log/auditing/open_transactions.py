"""Find the transactions that are open at the end of a salvaged copy, and end them (Kafka: hanging transactions).

On a broker, an open transaction blocks the last stable offset, and with it every consumer at
read_committed. If the coordinator has forgotten the transaction, or has ended it already, nothing ever
ends it. A transaction of the copy can be open because it was open in the source, or because its marker
was lost. `abort_transactions` appends an abort marker to the copy, as a broker does for
``kafka-transactions.sh abort``. Existing batches are not changed.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..format.names import is_topic_name
from ..reading.models import Damage
from ..reading.partition import PartitionLog
from ..writing.log_directory import LogDirectory
from ..writing.mounting import StrayPartitionWarning
from .salvage_copy import Salvaged


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that no marker in the copied batches ends.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    producer_id, producer_epoch, first_offset : int
        The producer, and the first offset of the transaction.
    cause : {"damage", "dropped", "open"}
        "damage" if damage may have destroyed its marker. "dropped" if the marker may be after the
        first damage, and the copy ends there. "open" if it is open in the source too, and nothing
        was lost that could have ended it.
    aborted_at : int or None
        Offset of the abort marker that salvage has appended. None if the transaction is still open.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    cause: str
    aborted_at: int | None = None

    @property
    def remedy(self) -> str | None:
        """The command of Kafka's that ends the transaction on a broker. None if it is aborted already."""
        if self.aborted_at is not None:
            return None
        words = ["--topic", self.topic, "--partition", str(self.partition), "--start-offset", str(self.first_offset)]
        return f"kafka-transactions.sh --bootstrap-server HOST:PORT abort {shlex.join(words)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, which has no topic and partition: those are in the partition's report."""
        return {
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "first_offset": self.first_offset,
            "cause": self.cause,
            "aborted_at": self.aborted_at,
            "remedy": self.remedy,
        }


def find_open_transactions(log: PartitionLog, damaged: Iterable[Damage], copy: Salvaged) -> list[OpenTransaction]:
    """Return the open transactions of a partition's copy, the oldest first.

    log, damaged: the source, and the damage found in it.
    """
    lost = [d for d in damaged if not d.empty]
    found = []
    for p in copy.open:
        first = p.txn_first_offset
        cause = "open"
        if log.transactions.open.get(p.producer_id) != first and any(
            d.last_offset is None or d.last_offset >= first for d in lost
        ):
            cause = "dropped" if copy.next_offset < log.next_offset else "damage"
        found.append(OpenTransaction(log.topic, log.partition, p.producer_id, p.epoch, first, cause))
    return found


def abort_transactions(output: Path, transactions: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Append an abort marker for each transaction to a finished log directory; return them with its offset.

    Partitions of a topic whose name no broker accepts are left unchanged.
    """
    given = {(t.topic, t.partition, t.producer_id): t for t in transactions}
    partitions = dict.fromkeys(key[:2] for key in given if is_topic_name(key[0]))
    if not partitions:
        return list(given.values())
    with warnings.catch_warnings(), LogDirectory(output) as directory:
        warnings.simplefilter("ignore", StrayPartitionWarning)  # salvage itself reports strays of all partitions
        for topic, partition in partitions:
            for producer, offset in directory.writer(topic, partition).abort_open_transactions():
                at = topic, partition, producer.producer_id
                given[at] = replace(given[at], aborted_at=offset)
    return list(given.values())
