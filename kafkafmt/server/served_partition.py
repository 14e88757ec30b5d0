"""Serve one partition: its offsets, its leader epochs, and its batches."""

from __future__ import annotations

from ..log import PartitionDir, PartitionLog
from ..log.format.leader_epochs import Epochs
from ..log.reading.read_limits import ReadLimits
from .settings import ServerSettings


class ServedPartition:
    """One partition that is served. All methods are blocking; the properties access no file.

    Parameters
    ----------
    directory : PartitionDir
        The partition directory.
    settings : ServerSettings
        The options of the server.

    Attributes
    ----------
    directory : PartitionDir
        The partition directory, as it was last listed.
    """

    def __init__(self, directory: PartitionDir, settings: ServerSettings) -> None:
        self.directory = directory
        self._settings = settings

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.directory.topic

    @property
    def number(self) -> int:
        """Number of the partition."""
        return self.directory.partition

    @property
    def log(self) -> PartitionLog:
        """The log as it was last listed."""
        return PartitionLog(self.directory, ReadLimits(self._settings.max_batch_bytes))

    @property
    def log_start_offset(self) -> int:
        """First offset that clients can read."""
        return self.directory.log_start_offset

    def size(self) -> int:
        """Return the total size of the segments, in bytes."""
        return sum(segment.size for segment in self.directory.segments)

    def high_watermark(self) -> int:
        """Return the offset after the last record that clients can read."""
        return self.log.next_offset

    def last_stable_offset(self) -> int:
        """Return the first offset of the oldest open transaction, or the high watermark if none is open."""
        return self.log.open_transactions.last_stable_offset

    def leader_epoch(self) -> int:
        """Return the latest leader epoch, or -1 if the checkpoint of leader epochs is missing or damaged."""
        epochs = self.log.leader_epoch_checkpoint
        return epochs[-1][0] if epochs else -1

    def leader_epochs(self) -> Epochs:
        """Return all leader epochs as pairs (epoch, first offset). If the checkpoint is missing, all batches are read."""
        return self.log.leader_epochs

    def close(self) -> None:
        """Close all files of the partition."""
