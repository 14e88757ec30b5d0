"""Run a server that listens on a port and serves log directories."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections import deque
from dataclasses import replace
from functools import partial
from types import TracebackType

from ..support.text import counted, shown
from .catalog import Catalog
from .cluster_apis import ClusterApis
from .connection import ClientConnection, Shared
from .credentials import Credentials
from .describe import DescribeApis
from .fetch import FetchApi
from .groups import GroupApis
from .handlers import HandlerSet
from .internal_topics import read_groups, read_topic_configs
from .messages import MOST_MESSAGES, Messages
from .offsets import OffsetApis
from .open_files import descriptor_limit
from .refusals import Refusals
from .sasl import OPEN_APIS, SaslApis
from .settings import ServerLimits, ServerSettings

BACKLOG = 1024
"""Largest number of connections that the kernel keeps until they are accepted."""
ACCEPTED_AT_ONCE = 4
"""Number of connections that are accepted before the limit of connections is checked.

asyncio uses its parameter `backlog` also for this number. With 1024, a burst of connections would
use all file descriptors.
"""
CLEANING_INTERVAL = 10.0
"""Seconds between two searches for open files that were deleted."""
OTHER_FILES = 64
"""Number of file descriptors that are reserved for directories, readers and libraries."""
FEWEST_CONNECTIONS = 16


class ServerAddressError(ValueError):
    """Raised if other hosts could connect to the server without TLS and `insecure` is not set."""


class Server:
    """Server that serves log directories to Kafka clients.

    There are three ways to run a server:

    - ``with kafkafmt.serve(path) as server`` runs the server in a thread.
    - ``async with kafkafmt.serve(path) as server`` runs the server in the current event loop.
    - ``await server.run()`` runs the server until the task is cancelled.

    Parameters
    ----------
    settings : ServerSettings
        The options of the server.

    Attributes
    ----------
    host, port : str and int
        The address of the listener. If `settings.port` is 0, `port` is the chosen port after the start.
    messages : deque of str
        The latest log lines, for example about damage and refused requests.
    """

    def __init__(self, settings: ServerSettings) -> None:
        _check_address(settings)
        self.messages: deque[str] = deque(maxlen=MOST_MESSAGES)
        self._log = Messages(self.messages, settings.on_message)
        settings = replace(settings, on_message=self._log.add)
        self.settings: ServerSettings = settings
        self.host: str = settings.host
        self.port: int = settings.port
        self._credentials = Credentials(settings)
        users = self._credentials.users
        self._sasl: SaslApis | None = None if users is None else SaslApis(users)
        self._groups: GroupApis | None = None
        self.catalog: Catalog = Catalog(settings)
        for message in self.catalog.messages:
            settings.on_message(message)
        self._listener: asyncio.Server | None = None
        self._cleaning: asyncio.Task[None] | None = None
        self._shared: Shared | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None

    @property
    def address(self) -> str:
        """Address of the listener as ``host:port``, for the client option ``bootstrap.servers``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def topics(self) -> list[str]:
        """Names of the topics that are served."""
        return [topic.name for topic in self.catalog.topics]

    @property
    def partition_count(self) -> int:
        """Number of partitions that are served."""
        return len(self.catalog.partitions)

    @property
    def connection_count(self) -> int:
        """Number of open connections, including those in the TLS handshake."""
        return 0 if self._shared is None else len(self._shared.connections)

    async def start(self) -> None:
        """Start to listen.

        Raises
        ------
        OSError
            The address is in use or does not exist.
        """
        settings, catalog = self.settings, self.catalog
        cluster = ClusterApis(catalog)
        self._groups = GroupApis(catalog, partial(read_groups, settings), settings.groups_file)
        fetch = FetchApi(catalog)
        parts = [
            cluster.handlers(),
            fetch.handlers(),
            OffsetApis(catalog).handlers(),
            Refusals(settings).handlers(),
            self._groups.handlers(),
            DescribeApis(catalog, settings, partial(read_topic_configs, settings)).handlers(),
        ]
        if self._sasl is not None:
            parts.append(self._sasl.handlers())
        handlers = HandlerSet(*parts)
        cluster.announce(handlers)
        self._shared = shared = Shared(
            catalog=catalog,
            handlers=handlers,
            fetch=fetch,
            open_apis=None if self._sasl is None else OPEN_APIS,
            credentials=self._credentials,
            most_connections=min(settings.limits.max_connections, _possible_connections(settings.limits)),
            report_closed=self._log.add_closed,
        )
        self._listener = await asyncio.get_running_loop().create_server(
            partial(ClientConnection, shared), settings.host, settings.port, backlog=ACCEPTED_AT_ONCE
        )
        for listening in self._listener.sockets:
            with socket.fromfd(listening.fileno(), listening.family, listening.type) as same:
                same.listen(BACKLOG)
        self.host, self.port = self._listener.sockets[0].getsockname()[:2]
        advertised = self.settings.advertise or (_reachable(self.host), self.port)
        self.catalog.cluster.host, self.catalog.cluster.port = advertised
        self._groups.start()
        self._cleaning = asyncio.get_running_loop().create_task(self._maintain())

    def reload(self) -> None:
        """Read the certificate, its key and the users file again.

        New connections use the new content. Open connections stay open. If a file is not valid, its
        previous content stays in use. A log line reports the result for each file. The method may be
        called in any thread.
        """
        for message in self._credentials.reload():
            self._log.add(message, repeated=True)
        if self._sasl is not None and self._credentials.users is not None:
            self._sasl.users = self._credentials.users

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(CLEANING_INTERVAL)
            await self.catalog.run(self.catalog.resources.close_unused)
            await self.catalog.run(self.catalog.compare_replicas)

    async def close(self) -> None:
        """Close the listener and all connections."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._shared is not None:
            await asyncio.gather(*(connection.close() for connection in list(self._shared.connections)))
        if self._cleaning is not None:
            self._cleaning.cancel()
        if self._groups is not None:
            self._groups.close()
        await asyncio.to_thread(self.catalog.close)

    async def run(self) -> None:
        """Start the server and serve until the task is cancelled."""
        await self.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self.close()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Server:
        self._thread = threading.Thread(target=self._run_thread, name="kafkafmt-serve", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __repr__(self) -> str:
        return f"<kafkafmt.server.Server: {counted(self.partition_count, 'partition')} of {counted(len(self.topics), 'topic')} on {self.address}>"

    def _run_thread(self) -> None:
        async def serve() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            try:
                await self.start()
            except BaseException as error:
                self._error = error
                await self.close()
                return
            finally:
                self._started.set()
            await self._stop.wait()
            await self.close()

        asyncio.run(serve())


def _check_address(settings: ServerSettings) -> None:
    """Raise ServerAddressError if other hosts could read the logs without TLS and `insecure` is not set."""
    if settings.insecure or settings.tls_cert is not None or _is_loopback(settings.host):
        return
    raise ServerAddressError(
        f"host {shown(settings.host)} is not a loopback address, so other hosts could read the logs; pass tls_cert and "
        "tls_key, or insecure=True"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reachable(host: str) -> str:
    """Return `host`, or this machine's host name if `host` is an unspecified address such as 0.0.0.0."""
    try:
        return socket.gethostname() if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return host


def _possible_connections(limits: ServerLimits) -> int:
    """Return how many connections the process can have without reaching its limit of open files."""
    most = descriptor_limit()
    return max(most - min(limits.max_open_files, most // 4) - OTHER_FILES, FEWEST_CONNECTIONS)
