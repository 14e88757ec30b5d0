"""Define `kafkafmt.serve`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..constants import DEFAULT_MAX_BATCH_BYTES, ISOLATION_LEVELS, READ_UNCOMMITTED, Isolation, OnError
from ..log.catalog import Sources, resolve
from ..log.reading import Time, offset_bound
from ..support import arguments
from ..support.paths import local_path
from .service import Server
from .settings import DEFAULT_HOST, ServerLimits, ServerSettings

LARGEST_PORT = 65535


def serve(
    paths: Sources,
    host: str = DEFAULT_HOST,
    port: int = 0,
    *,
    topics: str | Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    internal: bool = False,
    replicas: str | None = None,
    isolation: Isolation = READ_UNCOMMITTED,
    at: int | None = None,
    at_time: Time | None = None,
    on_error: OnError = "skip",
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    advertise: tuple[str, int] | None = None,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    users: str | os.PathLike[str] | None = None,
    groups_file: str | os.PathLike[str] | None = None,
    limits: ServerLimits | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Server:
    """Create a server that makes log directories readable for Kafka clients. No broker is necessary.

    The server writes nothing to the log directories, and refuses requests that would write. If a
    broker appends records to a log, clients also receive these records.

    Parameters
    ----------
    paths : str, os.PathLike, Log, Topic, Partition, or an iterable of these
        Log directories, partition directories or `.log` files. An open log, topic or partition
        is read from its paths.
    host : str, default "127.0.0.1"
        Address to listen on. Clients on other hosts can connect only if it is not a loopback
        address.
    port : int, default 0
        Port to listen on. 0 chooses a free port, which `Server.port` contains.
    topics : str or iterable of str, optional
        Glob patterns of the topics to serve. By default, all topics except Kafka's internal topics.
    partitions : int or iterable of int, optional
        Numbers of the partitions to serve. By default, all partitions.
    internal : bool, default False
        Also serve Kafka's internal topics (``__…``), except `__cluster_metadata`, which contains
        secrets. It is served only if `topics` contains its name.
    replicas : "longest", optional
        If two paths contain the same partition, serve the copy with the higher end offset. By
        default, such a partition is an error.
    isolation : {"read_uncommitted", "read_committed"}
        "read_committed" hides aborted and open transactions from all clients. By default, each
        client chooses its isolation level.
    at : int, optional
        Serve each partition as it was before this offset. A batch that contains this offset is not
        served. A negative value counts back from the end.
    at_time : int, timezone-aware datetime or str, optional
        Serve each partition as it was before the first record with this timestamp or a later one.
        An int is a number of milliseconds since 1970-01-01 UTC.
    on_error : {"skip", "fail"}, default "skip"
        "skip" omits damaged data, so that offsets are missing as in a compacted topic. "fail"
        returns the error CORRUPT_MESSAGE to a client that reads damaged data.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression.
    advertise : tuple of (str, int), optional
        Host and port that the server reports to clients. By default, the address of the listener.
    tls_cert, tls_key : str or os.PathLike, optional
        Files with the certificate chain and the private key, in PEM format. With them, clients must
        use TLS.
    insecure : bool, default False
        Allow unencrypted connections to a host that is not a loopback address.
    users : str or os.PathLike, optional
        File with the users who can authenticate with SASL. By default, clients need not
        authenticate.
    groups_file : str or os.PathLike, optional
        File in which the server stores committed offsets. By default, committed offsets are lost
        when the server ends.
    limits : ServerLimits, optional
        Limits that protect the server against its clients.
    on_message : callable, optional
        Function that is called with each log line, in any thread. `Server.messages` also contains
        the latest log lines.

    Returns
    -------
    Server
        A server that is not started yet. ``with serve(…) as server`` runs it in a thread, ``async
        with`` runs it in the current event loop, and ``await serve(…).run()`` runs it until it is
        cancelled.

    Raises
    ------
    OSError
        A path cannot be read. The subclass `NoLogError` is raised if a path contains no Kafka log.
    PartitionNotFoundError
        No partition matches `topics` and `partitions`.
    TypeError, ValueError
        An argument is wrong. `DuplicatePartitionError`, a ValueError, is raised if two paths
        contain the same partition and `replicas` is not given.

    Notes
    -----
    The server checks the CRC of each batch once, and sends the batch unchanged. Batches of record formats 0 and 1 are
    converted to format 2 for clients whose Fetch version is 4 or higher.
    """
    given, replicas = resolve(paths, replicas)
    globs = () if topics is None else (topics,) if isinstance(topics, str) else tuple(topics)
    numbers = () if partitions is None else (partitions,) if isinstance(partitions, int) else tuple(partitions)
    port = _checked_port("port", port, 0)
    if advertise is not None:
        advertised_host, advertised_port = advertise
        advertise = advertised_host, _checked_port("the port in advertise", advertised_port, 1)
    settings = ServerSettings(
        paths=tuple(given),
        topics=globs,
        partitions=tuple(arguments.integer("partitions", number, 0) for number in numbers),
        internal=bool(internal),
        replicas=replicas,
        isolation=arguments.one_of("isolation", isolation, ISOLATION_LEVELS),
        at=offset_bound("at", at, at_time),
        on_error=arguments.one_of("on_error", on_error, ("skip", "fail")),
        max_batch_bytes=arguments.integer("max_batch_bytes", max_batch_bytes, 1),
        host=host,
        port=port,
        advertise=advertise,
        tls_cert=None if tls_cert is None else Path(local_path(tls_cert)),
        tls_key=None if tls_key is None else Path(local_path(tls_key)),
        insecure=bool(insecure),
        users=None if users is None else Path(local_path(users)),
        groups_file=None if groups_file is None else Path(local_path(groups_file)),
        limits=limits or ServerLimits(),
        on_message=on_message or (lambda _: None),
    )
    return Server(settings)


def _checked_port(name: str, port: int, lowest: int) -> int:
    port = arguments.integer(name, port, lowest)
    if port > LARGEST_PORT:
        raise ValueError(f"{name} is {port}; it must be at most {LARGEST_PORT}")
    return port
