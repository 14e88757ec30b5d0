"""Define how the server calls the code that answers an API, and the table of all answered APIs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..protocol import message_class
from ..protocol.apis import API_VERSIONS

CLOSE_AFTER_RESPONSE = "close_after_response"
"""Key in the attributes of a connection. If a handler sets it, the connection is closed after the
response. The value is the reason, which is logged.
"""


class Connection(Protocol):
    """A client's connection, as handlers see it.

    Attributes
    ----------
    principal : str or None
        Name of the authenticated user. None before authentication, and if the server does not
        require it. The handlers of SASL set it.
    peer : tuple of str and int
        Host and port of the client.
    listener_secure : bool
        Whether the connection is encrypted.
    gone : bool
        Whether the client has closed the connection.
    """

    principal: str | None

    @property
    def peer(self) -> tuple[str, int]:
        """Host and port of the client."""

    @property
    def listener_secure(self) -> bool:
        """Whether the connection is encrypted."""

    @property
    def gone(self) -> bool:
        """Whether the client has closed the connection. A handler that waits then returns early."""

    @property
    def attributes(self) -> dict[str, Any]:
        """State that handlers keep for this connection, such as an unfinished SASL exchange."""


@dataclass(frozen=True)
class RequestContext:
    """Facts about one request.

    Attributes
    ----------
    api_key, api_version : int
        The API and its version, from the request's header.
    client_id : str or None
        The client id in the request's header.
    connection : Connection
        The connection on which the request arrived.
    """

    api_key: int
    api_version: int
    client_id: str | None
    connection: Connection


Handler = Callable[[Any, RequestContext], Awaitable[Any | None]]
"""Answers one request: takes the body of the request, and returns the body of the response.

If the result is None, no response is sent.
"""
Handlers = Mapping[int, tuple[int, int, Handler]]
"""Lowest version, highest version and handler of each API, by API key."""


class HandlerSet:
    """All APIs that a server answers.

    Parameters
    ----------
    *parts : mapping
        Tables of handlers. They must not have an API in common.

    Raises
    ------
    ValueError
        Two tables contain the same API, or a version is not supported by `kafkafmt.protocol`.
    """

    def __init__(self, *parts: Handlers) -> None:
        self._handlers: dict[int, tuple[int, int, Handler]] = {}
        for part in parts:
            for key, (low, high, handler) in part.items():
                known = message_class(key, "request").API.versions
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
        """Return the handler of an API, or None if the API or the version is not answered.

        The handler of ApiVersions is returned for every version. It answers unsupported versions
        itself, as KIP-511 requires.
        """
        found = self._handlers.get(api_key)
        if found is None or not (found[0] <= api_version <= found[1] or api_key == API_VERSIONS):
            return None
        return found[2]
