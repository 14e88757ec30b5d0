"""Call the handlers of the server without a network. Requests and responses pass through their wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from golden_cases import GOLDEN

from kafkafmt import protocol
from kafkafmt.server.catalog import Catalog
from kafkafmt.server.handlers import Handlers, RequestContext
from kafkafmt.server.settings import ServerSettings

INTERNAL = GOLDEN / "kafka-4.3.1" / "internal" / "log"
"""A log directory with the topics "source" (3 partitions) and "sink", and with Kafka's internal topics."""

T = TypeVar("T")


@dataclass
class FakeConnection:
    """A client's connection, without a socket."""

    principal: str | None = None
    peer: tuple[str, int] = ("192.0.2.7", 4711)
    listener_secure: bool = False
    gone: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)


class Caller:
    """Calls handlers as one connection does.

    Attributes
    ----------
    version : int or None
        Version of all requests. If it is None, each request has the highest version of its handler.
    """

    def __init__(self, handlers: Handlers, version: int | None = None, client_id: str = "client") -> None:
        self.handlers = handlers
        self.version = version
        self.client_id = client_id
        self.connection = FakeConnection()

    async def __call__(self, body: Any, version: int | None = None) -> Any:
        """Send a request, and return the body of the response."""
        low, high, handler = self.handlers[body.API.key]
        version = next(v for v in (version, self.version, high) if v is not None)
        assert low <= version <= high
        request = protocol.make_request(body, version, 7, self.client_id)
        read = protocol.read_request(b"".join(protocol.write_request(request)))
        context = RequestContext(read.api_key, version, read.client_id, self.connection)
        answer = await handler(read.body, context)
        if answer is None:
            return None
        response = protocol.write_response(protocol.make_response(answer, version, 7))
        return protocol.read_response(b"".join(response), api_key=body.API.key, api_version=version).body


def internal_catalog(messages: list[str] | None = None, paths: Iterable[Path] = (INTERNAL,)) -> Catalog:
    """Return a catalog over a golden log directory."""
    catalog = Catalog(ServerSettings(tuple(paths), on_message=([] if messages is None else messages).append))
    catalog.cluster.host, catalog.cluster.port = "127.0.0.1", 9092
    return catalog


def run(coroutine: Any) -> Any:
    """Run a test's coroutine. Fail if it takes more than 30 seconds."""
    return asyncio.run(asyncio.wait_for(coroutine, 30))
