"""Define the class `Groups`, which contains consumer groups with their committed offsets and lags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..constants import ON_ERROR, OnError
from ..log import Damage, PartitionLog
from ..log.groups import GROUPS_TOPIC, CommittedOffset, Group, read_group_state
from ..log.inspecting import GroupReport, GroupTotal, report_groups
from ..log.reading import Time
from ..log.verifying import OnMessage, Run, UnreadablePartition
from ..support import arguments
from ..support.notebook import html_table
from ..support.report import Report
from ..support.text import counted

if TYPE_CHECKING:
    import pyarrow as pa


class Groups(Report):
    """The consumer groups in ``__consumer_offsets``, with committed offsets and lags, as returned by `Log.groups`.

    Attributes
    ----------
    offsets : list of CommittedOffset
        Committed offsets with their lags, ordered by group, topic and partition.
    groups : list of Group
        Groups with their members, ordered by group name.
    totals : list of GroupTotal
        Total lag of each group that has committed an offset, ordered by group name.
    damaged : list of Damage
        Damaged ranges of bytes in ``__consumer_offsets`` that were omitted. If the list is not
        empty, the latest committed offsets may be missing.
    unreadable : int
        Number of records of ``__consumer_offsets`` whose key or value cannot be decoded.
    unreadable_partitions : list of UnreadablePartition
        Partitions whose log end offset cannot be read. Their lag is None.
    """

    command = "groups"

    def __init__(
        self,
        logs: Iterable[PartitionLog],
        on_error: OnError = "fail",
        at_time: Time | None = None,
        on_message: OnMessage | None = None,
    ) -> None:
        arguments.one_of("on_error", on_error, ON_ERROR)
        time = None if at_time is None else arguments.millis("at_time", at_time)
        given = list(logs)
        self.damaged: list[Damage] = []
        state = read_group_state(
            [log for log in given if log.topic == GROUPS_TOPIC],
            (lambda _, damage: self.damaged.append(damage)) if on_error == "skip" else None,
            time,
        )
        run = Run(on_message=on_message)
        report = report_groups(state, [log.directory for log in given], run, time, bool(self.damaged))
        self._report: GroupReport = report
        self.offsets: list[CommittedOffset] = list(report.offsets)
        self.groups: list[Group] = list(report.groups)
        self.totals: list[GroupTotal] = list(report.totals)
        self.unreadable: int = state.unreadable
        self.unreadable_partitions: list[UnreadablePartition] = list(report.unreadable)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt groups``: 3 if a partition could not be read, 1 if damage was skipped, else 0."""
        return self._report.exit_code

    def __repr__(self) -> str:
        return f"<kafkafmt.reports.Groups: {self._counts}>"

    def __str__(self) -> str:
        """Return the text that the command prints."""
        return str(self._report)

    @property
    def _counts(self) -> str:
        """Number of groups that have members or have committed offsets, and number of committed offsets."""
        names = {group.group for group in self.groups} | {offset.group for offset in self.offsets}
        return f"{counted(len(names), 'group')} with {counted(len(self.offsets), 'committed offset')}"

    def _repr_html_(self) -> str:
        header = ("group", "partition", "offset", "log end", "lag")
        rows = [
            (
                o.group,
                f"{o.topic}-{o.partition}",
                o.offset,
                *("" if n is None else n for n in (o.log_end_offset, o.lag)),
            )
            for o in self.offsets
        ]
        return html_table(self._counts, header, rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the groups as the dict that ``kafkafmt groups --format json`` prints."""
        return self._report.to_dict()

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
            - expire_timestamp: timestamp[ms, tz=UTC]; null for commits by Kafka 2.1 and later,
              which contain no expiry time
            - log_end_offset, lag: int64; null if the partition was not found or cannot be read
        """
        from ..arrow.builder import committed_offsets

        return committed_offsets(self.offsets)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the committed offsets as an Arrow C stream. The columns are those of `to_arrow`.

        pandas, Polars and DuckDB can read Arrow C streams.
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)
