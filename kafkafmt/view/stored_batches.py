"""Define the methods of a partition that read the headers of its stored batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Unpack

import numpy as np

from ..log import PartitionLog
from ..log.reading import OffsetInterval, OnDamage, Part
from ..records.batches import Batch
from ..support.sharing import SharedIterator
from ..types import BatchTable, RecordColumns, last_offsets
from .selection_arguments import SelectionArguments, parse_selection

COUNTED_ROWS = 16384


class StoredBatches:
    """Base class of partitions."""

    log: PartitionLog

    def _on_damage(self, skip: bool) -> OnDamage | None:
        """Return what is called with damage; None if `skip` is False, so that damage is raised."""
        raise NotImplementedError

    def batches(self, **selection: Unpack[SelectionArguments]) -> Iterator[Batch]:
        """Return an iterator of the stored batches, without decompressing them.

        These are Kafka's record batches, with their codec, producer and transaction. `to_batches`
        returns Arrow record batches.

        Parameters
        ----------
        **selection
            Keyword arguments that select records, as for `records`. Batches that can contain selected
            records are returned. Control batches are returned if `control` is True. With
            "read_committed", the batches of aborted transactions are omitted.

        Returns
        -------
        iterator of Batch
            The batches in offset order. `Batch.segment` and `Batch.position` are the place of a batch.
            In formats 0 and 1, a wrapper message is one batch, and so is each plain message. Batches
            that are kept in a list keep about 4 MiB of the segment in memory.

        Raises
        ------
        DamagedLogError
            The selected range contains damage, and `on_error` is "fail".
        TypeError, ValueError
            An argument is unknown or wrong.
        """
        parsed, skip = parse_selection(selection)
        return SharedIterator(self._batches(parsed.resolve(self.log), self._on_damage(skip)))

    def _batches(self, interval: OffsetInterval, on_damage: OnDamage | None) -> Iterator[Batch]:
        parts = self.log.selected_parts(interval, on_damage, lambda size: np.empty(size, np.uint8))
        for part, table in parts:
            last, part = last_offsets(table), replace(part, table=table)
            for i in np.flatnonzero(last >= interval.low).tolist():
                if last[i] >= interval.high and part.first_offset(i) >= interval.high:
                    return
                yield Batch(part.buffer, table[i : i + 1].copy(), part.plan.segment.name, part.position)

    def count(self, **selection: Unpack[SelectionArguments]) -> int:
        """Return the number of selected records, mostly from the batch headers.

        Parameters
        ----------
        **selection
            Keyword arguments that select records, as for `records`. By default, all records from the
            log start offset are counted, without control records.

        Returns
        -------
        int
            The number of records. Batches that are partly selected and wrapper messages (formats 0 and
            1) are decompressed, because their headers do not contain the number. The records of other
            batches are not decoded, so that damage inside a batch with a valid CRC is not found.

        Raises
        ------
        DamagedLogError
            The selected range contains damage, and `on_error` is "fail".
        TypeError, ValueError
            An argument is unknown or wrong.
        """
        parsed, skip = parse_selection(selection)
        interval, counted = parsed.resolve(self.log), 0

        def select(_: Part, table: BatchTable) -> BatchTable:
            nonlocal counted
            whole = (table["count"] >= 0) & (table["base_offset"] >= interval.low)
            whole &= last_offsets(table) < interval.high
            counted += int(table["count"][whole].sum(dtype=np.int64))
            return table[~whole]

        columns = RecordColumns(COUNTED_ROWS, ("offset",))
        chunks = self.log.chunks(columns, interval, on_damage=self._on_damage(skip), select=select)
        return sum(chunk.columns.rows for chunk in chunks) + counted
