"""Define the options and limits of a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..constants import DEFAULT_MAX_BATCH_BYTES, READ_UNCOMMITTED
from ..log.reading import OffsetBound

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
    """The options of a server; `kafkafmt.serve` describes them."""

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
