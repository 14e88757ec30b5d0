"""`PartitionOffsets`: the identity and the offsets of a partition."""

from __future__ import annotations

from .. import arguments
from ..log import PartitionLog
from ..log.format.leader_epochs import end_offset_for
from ..log.reading.lookups import find_max_timestamp
from ..log.reading.record_selection import OffsetBound, Time
from ..log.reading.seek import Position, seek


class PartitionOffsets:
    """The identity of a partition, its offsets, and lookups of offsets. `Partition` inherits them."""

    def __init__(self, log: PartitionLog) -> None:
        self.log: PartitionLog = log

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.log.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.log.partition

    @property
    def state(self) -> str:
        """State of the partition, from the directory's name: "live", "delete", "stray" or "future"."""
        return self.log.directory.state

    @property
    def log_start_offset(self) -> int:
        """First offset that a broker shows to consumers.

        This is the offset in the checkpoint ``log-start-offset-checkpoint`` or the base offset of
        the first segment, whichever is higher. Kafka's counterpart is
        ``UnifiedLog.logStartOffset``.
        """
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction.

        If no transaction is open, this is `next_offset`.

        The first use reads the whole log. Kafka's counterpart is ``UnifiedLog.lastStableOffset``.
        """
        return self.log.transactions.last_stable_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last valid batch, which Kafka calls the log end offset.

        The first use reads the batches of the last segment.
        """
        return self.log.next_offset

    def offset_at(self, time: Time, below_log_start: bool = False) -> int:
        """Return the first offset whose record has a given timestamp or a later one.

        Parameters
        ----------
        time : int or datetime
            Milliseconds since 1970-01-01 UTC, or a timezone-aware datetime.
        below_log_start : bool, default False
            Also consider records below the log start offset.

        Returns
        -------
        int
            The offset. If no record has such a timestamp, this is `next_offset`.

        Raises
        ------
        TypeError, ValueError
            `time` is not a time, or a datetime has no time zone.

        Notes
        -----
        Kafka: ``UnifiedLog.fetchOffsetByTimestamp``, the request ListOffsets.
        """
        return OffsetBound("time", arguments.millis("time", time)).resolve(self.log, below_log_start)

    def seek(self, *, offset: int | None = None, timestamp: Time | str | None = None) -> Position:
        """Find a record by offset or by timestamp, as a broker does for a ListOffsets request.

        Parameters
        ----------
        offset : int, optional
            Find the first record at or after this offset. Control records are not considered.
        timestamp : int, timezone-aware datetime, or str, optional
            Milliseconds since 1970-01-01 UTC, or a datetime. Find the first record, in offset
            order, with this timestamp or a later one. Three words are also accepted: "latest" (the
            log end offset), "earliest" (the log start offset) and "max-timestamp" (the first record
            with the largest timestamp).

        Returns
        -------
        Position
            The offset and timestamp of the record, its segment, and the position in the segment.
            These are None if there is no such record.

        Raises
        ------
        TypeError, ValueError
            Neither or both of the arguments are given, or an argument is wrong.
        OSError
            The partition cannot be read.

        Notes
        -----
        As in a broker, a lookup by timestamp trusts the maximum timestamp in a batch header, and
        also finds control batches and aborted records.
        """
        return seek(self.log, offset=offset, timestamp=timestamp)

    @property
    def max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with the largest timestamp.

        The timestamp is in milliseconds since 1970-01-01 UTC. None if no record has a timestamp.
        Kafka's counterpart is ListOffsets with ``MAX_TIMESTAMP`` (KIP-734).
        """
        hit = find_max_timestamp(self.log)
        return None if hit is None else (hit.offset, hit.timestamp)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest leader epoch up to `epoch`, and the offset at which it ended.

        Parameters
        ----------
        epoch : int
            The requested leader epoch.

        Returns
        -------
        tuple of (int, int), or None
            The epoch and its end offset (exclusive). None if neither the checkpoint nor the batches
            name such an epoch.

        Notes
        -----
        The epochs are read from the checkpoint ``leader-epoch-checkpoint``. If it is missing or
        damaged, the headers of all batches are read. Kafka's counterparts are
        ``LeaderEpochFileCache.endOffsetFor`` and the request OffsetsForLeaderEpoch.
        """
        return end_offset_for(self.log.leader_epochs, arguments.integer("epoch", epoch), self.next_offset)
