"""Represent the consumer groups of an open log, and the offsets that they have committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import arguments
from ..log import Damage, PartitionLog
from ..log.reading.groups import CommittedOffset, Group, groups_dict, read_group_state
from .selection_arguments import ON_ERROR

if TYPE_CHECKING:
    import pyarrow as pa


class Groups:
    """Consumer groups and their committed offsets, decoded from ``__consumer_offsets``.

    `Log.groups` returns this object.

    Attributes
    ----------
    offsets : list of CommittedOffset
        Committed offsets, ordered by group, topic and partition.
    groups : list of Group
        Groups with their members, ordered by name.
    damaged : list of Damage
        Damaged spans of ``__consumer_offsets`` that were skipped. If there are any, newer committed
        offsets may be missing.
    unreadable : int
        Number of records whose key or value cannot be decoded.
    """

    def __init__(self, logs: Iterable[PartitionLog], on_error: str = "fail") -> None:
        arguments.one_of("on_error", on_error, ON_ERROR)
        self.damaged: list[Damage] = []
        state = read_group_state(logs, (lambda _, damage: self.damaged.append(damage)) if on_error == "skip" else None)
        self.offsets: list[CommittedOffset] = state.offsets
        self.groups: list[Group] = state.groups
        self.unreadable: int = state.unreadable

    def __repr__(self) -> str:
        return f"<kafkafmt.Groups: {len(self.groups)} with {len(self.offsets)} committed offsets>"

    def to_dict(self) -> dict[str, Any]:
        """Return the groups as the dict that ``kafkafmt groups --format json`` prints."""
        return groups_dict(self.offsets, self.groups)

    def to_arrow(self) -> pa.Table:
        """Return the committed offsets as a pyarrow Table.

        Returns
        -------
        pyarrow.Table
            One row per committed offset, ordered by group, topic and partition:

            - group, topic: string; partition: int32; offset: int64
            - leader_epoch: int32; null if the commit contains no leader epoch
            - metadata: string
            - commit_timestamp: timestamp[ms, tz=UTC]
            - expire_timestamp: timestamp[ms, tz=UTC]; null in commits of Kafka 2.1 and later, which
              do not contain it
        """
        from .. import arrow

        return arrow.committed_offsets(self.offsets)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table of `to_arrow` as an Arrow C stream.

        pandas, Polars and DuckDB can read this stream.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)
