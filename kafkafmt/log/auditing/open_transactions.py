"""Transactions that are open where a salvaged copy ends, and how they are ended (Kafka calls them hanging).

On a broker such a transaction holds the last stable offset, and with it every consumer at read_committed, for ever: the
coordinator that would end it has forgotten it, or has ended it already. What the copy's batches leave open may have been
open in the source, or its marker lies in what was lost. An abort marker at the copy's end is what
`kafka-transactions.sh abort` has a broker write; batches that are there are never changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..format.names import is_topic_name
from ..reading.partition import PartitionLog
from ..reading.plan import Damage
from ..writing.log_directory import LogDirectory
from ..writing.mounting import StrayPartitionWarning
from .salvage import Salvaged


@dataclass
class OpenTransaction:
    """One of a copy. cause: `damage` may have taken its marker, or that was `dropped` behind the first damage; or the
    source has it `open` too, with nothing lost that could have ended it. aborted_at: its new marker's offset, None while it is open.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    cause: str
    aborted_at: int | None = None


def open_transactions(log: PartitionLog, damaged: Iterable[Damage], copy: Salvaged) -> list[OpenTransaction]:
    """Those of a partition's copy, the oldest first. log, damaged: what was salvaged."""
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


def abort_open_transactions(output: Path, hanging: Iterable[OpenTransaction]) -> None:
    """Append an abort marker each to their partitions in a finished log directory, and note its offset.

    Not where the topic has a name that no broker takes.
    """
    wanted = {(t.topic, t.partition, t.producer_id): t for t in hanging if is_topic_name(t.topic)}
    if not wanted:
        return
    with warnings.catch_warnings(), LogDirectory(output) as directory:
        warnings.simplefilter("ignore", StrayPartitionWarning)  # the caller looks at all partitions
        for topic, partition in dict.fromkeys(key[:2] for key in wanted):
            for producer, offset in directory.writer(topic, partition).abort_open_transactions():
                wanted[topic, partition, producer.producer_id].aborted_at = offset
