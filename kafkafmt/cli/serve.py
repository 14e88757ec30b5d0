"""Implement the command `kafkafmt serve`, which serves log directories to Kafka clients."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import click

from .._interrupt import IN_COMMAND
from ..log.catalog import PartitionNotFoundError
from ..log.reading import OffsetBound
from ..server.groups.offsets_file import GroupsFileError
from ..server.service import Server, ServerAddressError
from ..server.settings import DEFAULT_HOST, DEFAULT_PORT, ServerSettings
from ..server.users import UsersFileError
from ..support.text import counted, encode_json, shown
from .choosing import not_there, tell_nothing_to_read
from .offset_range import parse_bound
from .options import (
    LocalPath,
    ParamType,
    isolation_option,
    paths_argument,
    reading_options,
    selection_options,
)
from .output import EXIT_UNREADABLE, show, tell

LARGEST_PORT = 65535
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
FORCE_SECONDS = 2.0
"""If a signal arrives this number of seconds after the first one, and the server is still stopping, the process ends."""


class Address(ParamType[tuple[str, int]]):
    """Click parameter type for a network address such as `127.0.0.1:9092`, `[::1]:9092` or `:0`."""

    name = "HOST:PORT"

    def __init__(self, lowest_port: int = 0) -> None:
        self._lowest_port = lowest_port

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            self.fail(
                f"{shown(value)} is not a valid address: write an IPv6 address in brackets, as in [::1]:9092",
                param,
                ctx,
            )
        if not colon or not port.isascii() or not port.isdigit():
            self.fail(f"{shown(value)} is not a valid address: write HOST:PORT, such as 127.0.0.1:9092", param, ctx)
        if len(port) > 5 or int(port) > LARGEST_PORT:
            self.fail(f"{shown(value)} is not a valid address: the largest port is {LARGEST_PORT}", param, ctx)
        if int(port) < self._lowest_port:
            self.fail(
                f"{shown(value)} is not a valid address: clients cannot connect to port {int(port)}; specify the port "
                "that they connect to",
                param,
                ctx,
            )
        try:
            host.encode("idna")
        except UnicodeError as error:
            self.fail(f"{shown(host)} is not a valid host name: {error.__cause__ or error}", param, ctx)
        return host or DEFAULT_HOST, int(port)


class Bound(ParamType[OffsetBound]):
    """Click parameter type for an offset such as `100`, or a time such as `@2024-01-31`."""

    name = "OFFSET|@TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OffsetBound:
        if isinstance(value, OffsetBound):
            return value
        try:
            return parse_bound(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Signals:
    """Stops the server on SIGINT or SIGTERM, and reloads its files on SIGHUP."""

    # The kernel also sends SIGHUP when the terminal of the command is closed. Then SIGHUP stops the
    # server, unless the command was started with nohup. asyncio removes its own handlers when the
    # event loop ends: a repeated signal would then end the process with the exit code of a crash.

    def __init__(self, reload: Callable[[], None]) -> None:
        self._reload = reload
        self._has_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _terminal_is_open()
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the server, or None before it runs."""
        self._early_reload = False
        """Whether SIGHUP arrived before the event loop ran."""
        self._first: float | None = None
        """Time of the first signal, on the monotonic clock, or None."""
        self.stopped: bool = False
        """Whether the server has stopped. Later signals have no effect."""

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals during the block. After it, the command ignores them until the process ends."""
        # A second signal must not kill the process while Python exits. Programs that call the
        # command as a function get their own handlers back.
        before = {number: signal.signal(number, self._handle) for number in (*STOP_SIGNALS, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if IN_COMMAND else handler)

    def begin(self) -> None:
        """Use the running event loop. If SIGHUP has already arrived, reload the files of the server."""
        self._loop = asyncio.get_running_loop()
        if self._early_reload:
            self._start_reload(self._loop)

    async def wait(self) -> None:
        if self._first is None:
            await self._event.wait()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP and not (self._has_terminal and not _terminal_is_open()):
            if self._loop is None:
                self._early_reload = True
            else:
                with suppress(RuntimeError):  # the event loop has ended
                    self._loop.call_soon_threadsafe(self._start_reload, self._loop)
            return
        now = time.monotonic()
        if self._first is None:
            self._first = now
        elif not self.stopped and now - self._first > FORCE_SECONDS:
            os._exit(128 + number)
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._event.set)

    def _start_reload(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reload the files of the server in a thread, unless the server is stopping."""
        if self._first is None:
            with suppress(RuntimeError):  # the server is stopping, and asyncio starts no more threads
                loop.run_in_executor(None, self._reload)


@click.command(
    epilog="\b\nExample: kafkafmt serve /mnt/disk/kafka-data --listen 127.0.0.1:9092\n"
    "         kcat -b 127.0.0.1:9092 -C -t orders -o beginning -e"
)
@paths_argument
@click.option(
    "--listen",
    type=Address(),
    default=f"{DEFAULT_HOST}:{DEFAULT_PORT}",
    show_default=True,
    help="Address that the server listens on. Port 0 selects a free port. An address that other hosts can reach "
    "requires TLS or --insecure.",
)
@click.option(
    "--advertise", type=Address(lowest_port=1), help="Address that clients connect to, if it differs from --listen."
)
@selection_options
@isolation_option
@click.option(
    "--at",
    type=Bound(),
    help="Serve only the records before this offset, or before the first record at or after this time.",
)
@click.option(
    "--on-error",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    show_default=True,
    help='How to handle damaged data. "skip" omits damaged spans. "fail" responds with CORRUPT_MESSAGE to a client '
    "that reads a damaged span.",
)
@click.option(
    "--tls-cert",
    type=LocalPath(),
    help="PEM file with the server certificate chain. If specified, clients must use TLS.",
)
@click.option("--tls-key", type=LocalPath(), help="PEM file with the private key of the certificate.")
@click.option("--insecure", is_flag=True, help="Allow clients on other hosts to connect without TLS.")
@click.option(
    "--users",
    type=LocalPath(),
    help="File with names and passwords of users. If specified, clients must authenticate with SASL.",
)
@click.option(
    "--groups",
    "groups_file",
    type=LocalPath(),
    help="File that keeps the committed offsets of consumer groups across restarts.",
)
@reading_options
def serve(
    paths: tuple[str, ...],
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    topics: tuple[str, ...],
    numbers: list[int],
    internal: bool,
    isolation: str,
    at: OffsetBound | None,
    on_error: str,
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
    users: str | None,
    groups_file: str | None,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Serve log directories to Kafka clients, without a broker.

    Kafka clients and tools such as kcat, kafka-console-consumer, Spark and MirrorMaker 2 can read
    the topics. The server never writes to PATH, and refuses requests that would write to a topic.
    Clients also get records that are appended to the logs while the server runs. The topic
    __cluster_metadata contains secrets, so it is served only with -t __cluster_metadata.

    SIGINT (Ctrl-C) or SIGTERM stops the server with exit code 0. If the server does not stop within 2
    seconds, a second signal ends the process. On SIGHUP, the server reads the users file and the
    certificate again.
    """
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key requires --tls-cert")
    _raise_open_file_limit()
    settings = ServerSettings(
        paths=paths,
        topics=topics,
        partitions=tuple(numbers),
        internal=internal,
        replicas=replicas,
        isolation=isolation,
        at=at,
        on_error=on_error,
        max_batch_bytes=max_batch_bytes,
        host=listen[0],
        port=listen[1],
        advertise=advertise,
        tls_cert=None if tls_cert is None else Path(tls_cert),
        tls_key=None if tls_key is None else Path(tls_key),
        insecure=insecure,
        users=None if users is None else Path(users),
        groups_file=None if groups_file is None else Path(groups_file),
        on_message=tell,
    )
    try:
        server = Server(settings)
    except PartitionNotFoundError as error:
        raise not_there(error) from None
    except UsersFileError as error:
        tell(str(error))
        return EXIT_UNREADABLE
    except ServerAddressError:
        raise click.UsageError(
            f"{listen[0]} is not a loopback address, so other hosts could read the logs; specify --tls-cert and "
            "--tls-key, or --insecure"
        ) from None
    if not server.partition_count:
        tell_nothing_to_read()
        return EXIT_UNREADABLE
    signals = Signals(server.reload)
    try:
        with signals.handled():
            asyncio.run(_serve(server, output_format, signals))
    except GroupsFileError as error:
        tell(str(error))
        return EXIT_UNREADABLE
    return 0


def _terminal_is_open() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _raise_open_file_limit() -> None:
    """Raise the soft limit of open files, which include connections and open segments, to the hard limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(server: Server, output_format: str, signals: Signals) -> None:
    """Serve until SIGINT or SIGTERM arrives."""
    signals.begin()
    async with server:
        if output_format == "json":
            click.echo(encode_json({"ready": True, "host": server.host, "port": server.port}))
        else:
            partitions, topics = counted(server.partition_count, "partition"), counted(len(server.topics), "topic")
            show(f"serving {partitions} of {topics} on {server.address}")
        await signals.wait()
    signals.stopped = True
    tell("stopped")
