"""Read the records of a partition: ranges of offsets, lookups, following."""

from .follow import Follower
from .following import POLL, Followers, paths_to_follow
from .index_lookup import batch_at
from .lookups import Place, find_batch_start, find_max_timestamp, find_timestamp
from .loss import MISSING_END, MISSING_START, is_loss, without_losses
from .part import Part, PartBuffers
from .partition import OffsetInterval, PartitionLog, ignore
from .pieces import Convert, PartitionPieces, read_pieces
from .record_selection import EVERYTHING, OffsetBound, OffsetRange, Selection, Time, offset_bound
from .replicas import DuplicatePartitionError, discover
from .seeking import EARLIEST, LATEST, MAX_TIMESTAMP, Position, seek
from .segment_reader import BatchDamage, OnDamage
from .sendfile import HasFileno, Sent, send

__all__ = [
    "EARLIEST", "EVERYTHING", "LATEST", "MAX_TIMESTAMP", "MISSING_END", "MISSING_START", "POLL", "BatchDamage",
    "Convert", "DuplicatePartitionError", "Follower", "Followers", "HasFileno", "OffsetBound",
    "OffsetInterval", "OffsetRange", "OnDamage", "Part", "PartBuffers", "PartitionLog", "PartitionPieces", "Place", "Position", "Selection", "Sent",
    "Time", "batch_at", "discover", "find_batch_start", "find_max_timestamp", "find_timestamp",
    "ignore", "is_loss", "offset_bound", "paths_to_follow", "read_pieces", "seek", "send", "without_losses",
]  # fmt: skip
