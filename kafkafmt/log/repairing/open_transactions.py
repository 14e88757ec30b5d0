"""Find open transactions at the end of a salvaged copy.

On a broker, an open transaction blocks the last stable offset, and therefore every read_committed
consumer. If the transaction coordinator has forgotten or already ended it, it stays open forever:
Kafka calls this a hanging transaction.

A transaction in the copy was open in the source, or lost its marker. If the user requests it,
`salvage_partition` appends an abort marker, as a broker does for ``kafka-transactions.sh abort``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..damage import DamageColumns
from ..findings import Damage, Rows, field_setters, objects_of
from ..formats import ProducerEntry
from ..reading import PartitionLog
from .salvaged import Salvaged


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has no marker in the copied batches.

    Attributes
    ----------
    topic, partition : str, int
        The topic and the partition number.
    producer_id, producer_epoch : int
        The producer.
    first_offset : int
        First offset of the transaction.
    cause : {"damage", "dropped", "open"}
        Why the transaction is open:

        - "damage": damage may have destroyed the marker of the transaction.
        - "dropped": the copy ends at the first damage, and the marker may be after that damage.
        - "open": the transaction is also open in the source, and the marker cannot have been lost.
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
        """The Kafka command that aborts the transaction on a broker. None if the transaction is already aborted."""
        if self.aborted_at is not None:
            return None
        words = ["--topic", self.topic, "--partition", str(self.partition), "--start-offset", str(self.first_offset)]
        return f"kafka-transactions.sh --bootstrap-server HOST:PORT abort {shlex.join(words)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the transaction, without its topic and partition.

        The topic and the partition are in the report that contains this object.
        """
        return {
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "first_offset": self.first_offset,
            "cause": self.cause,
            "aborted_at": self.aborted_at,
            "remedy": self.remedy,
        }


_SETTERS = field_setters(OpenTransaction)


class OpenTransactions(Rows[OpenTransaction]):
    """The open transactions in the copy of a partition, the oldest first, created when they are accessed."""

    # `opened` is the first offset of each producer's open transaction in the source. `hidden` is the cause of a
    # transaction that is not in `opened` and began at or below `highest`, the last offset that damage may hide.

    def __init__(
        self,
        copy: Salvaged,
        opened: Mapping[int, int],
        highest: int,
        hidden: str,
        entries: Sequence[ProducerEntry] | None = None,
    ) -> None:
        self._copy, self._opened, self._highest, self._hidden = copy, opened, highest, hidden
        self._entries = copy.open if entries is None else entries

    def __len__(self) -> int:
        return len(self._entries)

    def _build(self, start: int, stop: int) -> list[OpenTransaction]:
        copy, entries = self._copy, self._entries[start:stop]
        producer_ids = [p.producer_id for p in entries]
        firsts = [p.txn_first_offset for p in entries]
        causes = [
            self._hidden if first <= self._highest and self._opened.get(producer_id) != first else "open"
            for producer_id, first in zip(producer_ids, firsts, strict=True)
        ]
        n, epochs, aborted_at = len(entries), [p.epoch for p in entries], map(copy.aborted.get, producer_ids)
        columns = [copy.topic] * n, [copy.partition] * n, producer_ids, epochs, firsts, causes, list(aborted_at)
        return objects_of(OpenTransaction, _SETTERS, *columns)

    def _sliced(self, start: int, stop: int) -> OpenTransactions:
        return OpenTransactions(self._copy, self._opened, self._highest, self._hidden, self._entries[start:stop])


def find_open_transactions(log: PartitionLog, damaged: Sequence[Damage], copy: Salvaged) -> Sequence[OpenTransaction]:
    """Return the open transactions in the copy of a partition, the oldest first."""
    if not copy.open:
        return ()
    lost = DamageColumns.of(damaged)
    highest = int(lost.last[~lost.empty].max(initial=-1))
    hidden = "dropped" if copy.copied_end < log.next_offset else "damage"
    return OpenTransactions(copy, log.transactions.open, highest, hidden)
