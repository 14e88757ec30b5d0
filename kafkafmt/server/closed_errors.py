"""Describe why the server closes a connection. Each description becomes one log line."""

from __future__ import annotations

from ..protocol.apis import api
from ..support.text import plain, shown
from .response_writer import ClosedError

PARTIAL_REQUEST = "the client sent only a part of a request"
TLS_HELLO = 0x1603
"""The first two bytes of a TLS connection."""
SASL_APIS = frozenset({17, 36})
"""Keys of SaslHandshake and SaslAuthenticate."""
REJECTED_CERTIFICATE = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
)
"""Parts of the TLS errors that OpenSSL reports if a client does not accept the server's certificate."""
NO_TLS = ("HTTP_REQUEST", "WRONG_VERSION_NUMBER")
"""Parts of the TLS errors that OpenSSL reports if the first bytes of a client are not a TLS message."""


def undecodable(error: Exception) -> ClosedError:
    return ClosedError(f"a request cannot be read: {error}")


def incomplete(size: int, seconds: float | None) -> ClosedError:
    """Return the error for a request of `size` bytes that took too long; or for full memory, if `seconds` is None."""
    if seconds is None:
        return ClosedError(f"a request of {size} bytes was incomplete, and the memory for requests is full")
    return ClosedError(f"a request of {size} bytes was still incomplete after {seconds:g} seconds")


def failed(error: Exception, key: int, version: int, client_id: str | None) -> ClosedError:
    """Return the error for a request that the server cannot answer because of an unexpected exception."""
    return ClosedError(f"{plain(client_id or '')}: the API with key {key}, version {version} failed: {shown(error)}")


def not_authenticated(key: int) -> ClosedError:
    known = api(key)
    name = f"the API with key {key}" if known is None else known.name
    return ClosedError(f"{name} was requested before authentication; the client must use SASL")


def unsupported(key: int, version: int, has_users: bool) -> ClosedError:
    """Return the error for a request with an API or a version that the server does not support."""
    if key in SASL_APIS and not has_users:
        return ClosedError("the client uses SASL, but the server has no users file")
    return ClosedError(f"the server does not support version {version} of the API with key {key}")


def wrong_size(size: int, limit: int, authenticated: bool, encrypted: bool) -> ClosedError:
    """Return the error for a request whose size field is not from 1 to `limit`."""
    if size >> 16 == TLS_HELLO and not encrypted:
        return ClosedError("the client uses TLS, but the server has no certificate")
    when = "" if authenticated else " before authentication"
    return ClosedError(f"the size field of a request is {size}; it must be from 1 to {limit}{when}")


def failed_handshake(error: OSError) -> ClosedError:
    """Return the error for a TLS handshake that failed. `error` is the exception of asyncio."""
    text = str(error)
    if any(part in text for part in REJECTED_CERTIFICATE):
        return ClosedError(f"the client does not accept the server's certificate: {text}")
    if any(part in text for part in NO_TLS):
        return ClosedError(f"the client does not use TLS: {text}")
    return ClosedError(f"the TLS handshake failed: {text}")
