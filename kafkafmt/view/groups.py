"""`Groups`: the consumer groups of an open log and the offsets that they have committed."""

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

    `Log.groups` creates this object.

    Attributes
    ----------
    offsets : list of CommittedOffset
        Committed offsets, ordered by group, topic and partition.
    groups : list of Group
        Groups with their members, ordered by name.
    damaged : list of Damage
        Damaged spans of the topic that were skipped. If there are any, a committed offset may not
        be the latest one.
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
        """Return the JSON object that ``kafkafmt groups --format json`` prints."""
        return groups_dict(self.offsets, self.groups)

    def to_arrow(self) -> pa.Table:
        """Return the committed offsets as a pyarrow Table.

        Returns
        -------
        pyarrow.Table
            One row per committed offset, ordered by group, topic and partition:

            - group, topic: string; partition: int32; offset: int64
            - leader_epoch: int32; null if the commit has none
            - metadata: string
            - commit_timestamp: timestamp[ms, tz=UTC]
            - expire_timestamp: timestamp[ms, tz=UTC]; null if the commit does not contain it; only
              commits up to Kafka 2.0 do
        """
        from .. import arrow

        return arrow.committed_offsets(self.offsets)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table that `to_arrow` returns as an Arrow C stream, which pandas, Polars and DuckDB can read."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)
