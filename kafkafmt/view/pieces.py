"""Build the Arrow record batches of partitions in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ..log import PartitionLog
from ..log.reading import OffsetInterval, OnDamage, PartitionPieces
from ..types import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from ..arrow.builder import ArrowBuilder
    from ..log.reading import Convert
    from ..records import Chunk
    from .value_arguments import ArrowPlan


class PartitionBatches(PartitionPieces["pa.RecordBatch"]):
    """The selected records of a partition as Arrow record batches. For the parameters, see `PartitionPieces`."""

    def __init__(
        self,
        log: PartitionLog,
        plan: ArrowPlan,
        interval: Callable[[], OffsetInterval | None],
        on_damage: OnDamage | None,
    ) -> None:
        super().__init__(log, interval, on_damage)
        self._plan = plan
        self._growth = 1.0
        """Size of the Arrow record batches of the latest piece, divided by the size of its stored batches."""

    def _decoder(self) -> tuple[RecordColumns, Convert[pa.RecordBatch]]:
        builder = self._new_builder()
        return builder.columns, partial(self._built, builder)

    def _new_builder(self) -> ArrowBuilder:
        return self._plan.builder(self._log.topic, self._log.partition)

    def _is_full(self, stored: int) -> bool:
        from ..arrow.columns import TARGET_BYTES

        # Two ranges of a segment are a little smaller than TARGET_BYTES.
        return stored * self._growth >= 0.9 * TARGET_BYTES

    def _built(self, builder: ArrowBuilder, chunks: Iterable[Chunk], stored: int) -> Iterator[pa.RecordBatch]:
        from ..arrow.builder import record_batches

        if stored:
            builder.target_bytes = _even_size(stored * self._growth)
        before = builder.built_bytes
        yield from self._plan.arranged(record_batches(chunks, builder))
        if stored:
            self._growth = (builder.built_bytes - before) / stored


def _even_size(expected: float) -> int:
    """Return the target size of the Arrow record batches of a piece, so that the last one is not small."""
    from ..arrow.columns import TARGET_BYTES

    number = max(round(expected / TARGET_BYTES), 1)
    return max(int(1.1 * expected / number), TARGET_BYTES // number)
