"""Define the options and limits of a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..constants import DEFAULT_MAX_BATCH_BYTES, READ_UNCOMMITTED
from ..log.reading.record_selection import OffsetBound

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092


@dataclass(frozen=True)
class ServerLimits:
    """Limits on the resources that clients of a server can use.

    Attributes
    ----------
    max_frame_bytes : int, default 2097152 (2 MiB)
        Largest request that is accepted, in bytes. A client that sends a larger request is
        disconnected.
    max_connections : int, default 4096
        Largest number of open connections, including those in the TLS handshake. Further connections
        are closed at once.
    max_fetch_bytes : int, default 57671680 (55 MiB)
        Largest size of the record batches in a fetch response, in bytes. A batch that is larger than
        the limit is sent alone.
    max_sessions : int, default 4096
        Largest number of fetch sessions (KIP-227) in memory.
    handshake_timeout : float, default 10.0
        Seconds after which a connection is closed if the TLS handshake is not complete.
    authentication_timeout : float, default 30.0
        Seconds after which a connection is closed if the client must authenticate and has not done so.
    idle_timeout : float, default 600.0
        Seconds without a request after which a connection is closed.
    write_timeout : float, default 60.0
        Seconds after which a connection is closed if the client does not read a response.
    max_open_files : int, default 256
        Largest number of segments that are kept open between requests.
    """

    max_frame_bytes: int = 2 << 20
    max_connections: int = 4096
    max_fetch_bytes: int = 55 << 20
    max_sessions: int = 4096
    handshake_timeout: float = 10.0
    authentication_timeout: float = 30.0
    idle_timeout: float = 600.0
    write_timeout: float = 60.0
    max_open_files: int = 256


@dataclass(frozen=True)
class ServerSettings:
    """The options of a server.

    Attributes
    ----------
    paths : tuple of str or os.PathLike
        The log directories, partition directories and `.log` files to serve.
    topics, partitions : tuple of str and of int
        Topic globs and partition numbers to serve. An empty tuple selects all.
    internal : bool, default False
        Whether to serve Kafka's internal topics (``__…``). `__cluster_metadata` is served only if
        `topics` contains its name.
    replicas : "longest" or None
        Copy to serve if two paths contain the same partition. None raises an error.
    isolation : {"read_uncommitted", "read_committed"}
        "read_committed" hides aborted and open transactions from all clients, including those that
        request "read_uncommitted".
    at : OffsetBound or None
        Serve each log as it was before this offset or time. By default, the whole log is served.
    on_error : {"skip", "fail"}
        "skip" omits damaged data. "fail" returns the error CORRUPT_MESSAGE at the first damage.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of a batch after decompression, in bytes.
    host, port : str and int
        Address to listen on. If the port is 0, a free port is chosen.
    advertise : tuple of (str, int) or None
        Host and port that the server reports to clients. The default is the address of the listener.
    tls_cert, tls_key : Path or None
        Certificate chain and private key in PEM format. If they are given, clients must use TLS.
    insecure : bool, default False
        Whether to allow unencrypted connections to a host that is not a loopback address.
    users, groups_file : Path or None
        The file of SASL users, and the file in which the server stores committed offsets.
    limits : ServerLimits
        Limits on the resources that clients can use.
    on_message : callable
        Function that is called with each log line.
    """

    paths: tuple[str | os.PathLike[str], ...]
    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    internal: bool = False
    replicas: str | None = None
    isolation: str = READ_UNCOMMITTED
    at: OffsetBound | None = None
    on_error: str = "skip"
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    advertise: tuple[str, int] | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    users: Path | None = None
    groups_file: Path | None = None
    limits: ServerLimits = field(default_factory=ServerLimits)
    on_message: Callable[[str], None] = lambda _: None
