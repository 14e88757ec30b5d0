"""Define the class `PartitionOffsets`, which finds offsets in a partition."""

from __future__ import annotations

from ..log import PartitionLog
from ..log.formats import end_offset_for
from ..log.reading import OffsetBound, Position, Time, find_max_timestamp, seek
from ..support import arguments
from ..support.hints import keywords_only
from ..support.paths import Location


class PartitionOffsets:
    """Base class of `Partition` that provides the name, number and offsets of a partition."""

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
    def path(self) -> Location:
        """Directory of the partition, or its `.log` file if this file was opened."""
        return self.log.directory.path

    @property
    def state(self) -> str:
        """State of the partition according to its directory name: "live", "delete", "stray" or "future"."""
        return self.log.directory.state

    @property
    def log_start_offset(self) -> int:
        """Log start offset: the first offset that a broker makes available to consumers.

        This is the higher of two offsets: the one in the file ``log-start-offset-checkpoint``, and
        the base offset of the first segment. Kafka's counterpart is ``UnifiedLog.logStartOffset``.
        """
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Last stable offset: the first offset of the oldest open transaction.

        If no transaction is open, the last stable offset is equal to `next_offset`.

        The first access to this property reads the batch headers after the latest producer
        snapshot. If there is no valid snapshot, the whole log is read. Kafka's counterpart is
        ``UnifiedLog.lastStableOffset``.
        """
        return self.log.open_transactions.last_stable_offset

    @property
    def next_offset(self) -> int:
        """Log end offset: the offset after the last valid batch.

        The first access to this property reads the batches of the last segment.
        """
        return self.log.next_offset

    def offset_at(self, time: Time, below_log_start: bool = False) -> int:
        """Return the offset of the first record with a given timestamp or a later timestamp.

        Parameters
        ----------
        time : int, timezone-aware datetime or str
            Milliseconds since 1970-01-01 UTC, a datetime, an ISO time, or a time before now, such
            as "-7d" for 7 days ago.
        below_log_start : bool, default False
            Also consider records below the log start offset.

        Returns
        -------
        int
            The offset of the record, or `next_offset` if there is no such record.

        Raises
        ------
        TypeError, ValueError
            `time` has an unsupported type, is a datetime without a time zone, or is a str that is
            not a valid time.

        Notes
        -----
        Kafka's counterpart is ``UnifiedLog.fetchOffsetByTimestamp``, which serves the request
        ListOffsets.
        """
        return OffsetBound("time", arguments.millis("time", time)).resolve(self.log, below_log_start)

    @keywords_only("it finds a record and moves nothing; pass offset=N, or use records(start=N) to read from there")
    def seek(self, *, offset: int | None = None, timestamp: Time | str | None = None) -> Position:
        """Find a record by offset or by timestamp, as a broker does for a ListOffsets request.

        Parameters
        ----------
        offset : int, optional
            Find the first record at or after this offset. Control records are skipped.
        timestamp : int, timezone-aware datetime, or str, optional
            Find the first record, in offset order, with this timestamp or a later timestamp. An int
            is a number of milliseconds since 1970-01-01 UTC. A str is an ISO time, a time before
            now, such as "-7d" for 7 days ago, or one of the words "earliest" (the log start
            offset), "latest" (the log end offset) and "max-timestamp" (the first record with the
            largest timestamp).

        Returns
        -------
        Position
            The offset and timestamp of the record, its segment, and its position in the segment.
            If no record was found, these fields are None.

        Raises
        ------
        TypeError, ValueError
            Neither or both of `offset` and `timestamp` are given, or the value is wrong.
        OSError
            The partition cannot be read.

        Notes
        -----
        As in a broker, a lookup by timestamp uses the maximum timestamp in each batch header, and
        can find control batches and aborted records.
        """
        return seek(self.log, offset=offset, timestamp=timestamp)

    @property
    def max_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the first record with the largest timestamp.

        None if no record has a timestamp. The timestamp is in milliseconds since 1970-01-01 UTC.
        Kafka's counterpart is ListOffsets with ``MAX_TIMESTAMP`` (KIP-734).
        """
        hit = find_max_timestamp(self.log)
        return None if hit is None else (hit.offset, hit.timestamp)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Return the largest leader epoch that is not above `epoch`, and the end offset of this leader epoch.

        Parameters
        ----------
        epoch : int
            The requested leader epoch.

        Returns
        -------
        tuple of (int, int), or None
            The leader epoch and its end offset (exclusive). None if the checkpoint and the batches
            contain no such epoch.

        Notes
        -----
        The leader epochs are read from the file ``leader-epoch-checkpoint``. If this file is
        missing or damaged, they are read from the headers of all batches. Kafka's counterparts are
        ``LeaderEpochFileCache.endOffsetFor`` and the request OffsetsForLeaderEpoch.
        """
        return end_offset_for(self.log.leader_epochs, arguments.integer("epoch", epoch), self.next_offset)
