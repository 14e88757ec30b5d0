"""Define the function `open`, which opens log directories for reading."""

from __future__ import annotations

from collections.abc import Sequence

from ..constants import DEFAULT_MAX_BATCH_BYTES
from ..log.catalog import Source, resolve
from ..support import arguments
from .log import Log


def open(
    *paths: Source | Sequence[Source],
    replicas: str | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Log:
    """Open Kafka log directories, partition directories or `.log` files for reading.

    Parameters
    ----------
    *paths : str, os.PathLike, Log, Topic, Partition, or a sequence of these
        One or more paths. The result contains the partitions of all paths. A path can be a URL,
        such as ``s3://bucket/backup``, and it can contain the wildcards ``*``, ``?`` and ``[...]``.
        An open log, topic or partition is read from its paths, which are listed again.
    replicas : "longest", optional
        If two paths contain the same partition, read the copy with the higher end offset. By
        default, such a partition is an error.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage, with the error "too_large". The argument also limits the number of headers of one
        record to 131,072 or ``max_batch_bytes // 128``, whichever is higher.

    Returns
    -------
    Log
        ``log[topic, partition]`` is a `Partition`. Files are open only while they are read.
        Therefore, a log need not be closed.

    Raises
    ------
    OSError
        A path does not exist or cannot be read. The subclass `NoLogError` is raised if a path
        contains no Kafka log.
    TypeError, ValueError
        An argument is wrong. `DuplicatePartitionError`, a ValueError, is raised if two paths
        contain the same partition and `replicas` is not given.

    Notes
    -----
    This function reads only directories and checkpoints. With `replicas`, it also reads batches to
    compare the copies. Other batches are read when they are needed. Kafka's counterpart is
    ``LogManager.loadLogs``.
    """
    given = []
    for path in paths:
        one = resolve(path, replicas)
        given += one[0]
        replicas = one[1]
    if not given:
        raise TypeError("at least one path is needed")
    return Log(given, replicas, arguments.integer("max_batch_bytes", max_batch_bytes, 1))
