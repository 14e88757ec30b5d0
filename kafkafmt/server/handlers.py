"""Define the interface of request handlers and the table of all handlers of a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..protocol import message_class
from ..protocol.apis import API_VERSIONS

CLOSE_AFTER_RESPONSE = "close_after_response"
"""Key in `Connection.attributes` for the reason to close the connection after the response."""
ANSWER_TOKEN = "answer_token"
"""Key in `Connection.attributes` under which a handler can store a function that answers the next frames.

These frames contain a token instead of a request. The function is a coroutine function. It receives the token of
the client, and returns the token of the server, or None if no response is sent.
"""


T = TypeVar("T")


def distinct(parts: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    """Return items with distinct keys; the last one wins."""
    # A small request with repeated topics could else have a huge response.
    return list({key(part): part for part in parts}.values())


class Connection(Protocol):
    """Interface through which request handlers access a client connection."""

    principal: str | None

    @property
    def peer(self) -> tuple[str, int]:
        """Host and port of the client."""

    @property
    def listener_secure(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def gone(self) -> bool:
        """Whether the client has closed the connection. If so, a waiting handler returns early."""

    @property
    def attributes(self) -> dict[str, Any]:
        """State that handlers keep for this connection, such as an unfinished SASL exchange."""


def nothing_reserved() -> None:
    """Release nothing, because no memory is reserved for small requests."""


@dataclass(frozen=True)
class RequestContext:
    """Header fields and connection of a request."""

    # A handler that waits for other clients or for new batches deletes the request and calls
    # `release` first, which releases the memory that is reserved for it.

    api_key: int
    api_version: int
    client_id: str | None
    connection: Connection
    release: Callable[[], None] = nothing_reserved


Handler = Callable[[Any, RequestContext], Awaitable[Any | None]]
"""Coroutine function of a request's body and context. If it returns None, no response is sent."""
Handlers = Mapping[int, tuple[int, int, Handler]]
"""Lowest version, highest version and handler of each API, by API key."""


class HandlerSet:
    """The request handlers of a server, by API key. Each API may be in only one of the tables."""

    def __init__(self, *parts: Handlers) -> None:
        self._handlers: dict[int, tuple[int, int, Handler]] = {}
        for part in parts:
            for key, (low, high, handler) in part.items():
                known = message_class(key, "request").API.versions
                message_class(key, "response")  # creates the class now, so that the first client does not wait
                if key in self._handlers:
                    raise ValueError(f"two handlers answer the API with key {key}")
                if low not in known or high not in known or low > high:
                    raise ValueError(f"versions {low} to {high} of the API with key {key} are not in {known}")
                self._handlers[key] = low, high, handler

    def __contains__(self, api_key: int) -> bool:
        return api_key in self._handlers

    def versions(self) -> Iterator[tuple[int, int, int]]:
        """Yield the API key, the lowest version and the highest version of each API, in key order."""
        for key in sorted(self._handlers):
            yield key, *self._handlers[key][:2]

    def find(self, api_key: int, api_version: int) -> Handler | None:
        """Return the handler of an API, or None if it is not supported."""
        # ApiVersions has one for every version (KIP-511).
        found = self._handlers.get(api_key)
        if found is None or not (found[0] <= api_version <= found[1] or api_key == API_VERSIONS):
            return None
        return found[2]
