"""Authenticate clients that use the SASL mechanisms PLAIN and SCRAM.

The module follows Kafka's ``SaslServerAuthenticator``, with one difference: authenticated sessions do not
expire. After SaslHandshake version 0, clients send tokens without a request header. Clients before Kafka
1.0 use version 0. librdkafka 2.0.2 uses version 1, but requires that the server also supports version 0.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from ..protocol import (
    ErrorCode,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ..support.text import plain
from .handlers import ANSWER_TOKEN, CLOSE_AFTER_RESPONSE, Connection, Handlers, RequestContext
from .scram import ScramError, ScramServer
from .users import MECHANISMS, PLAIN, Users

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
OPEN_APIS = frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})
"""API keys that a client may use before it is authenticated."""
EXCHANGE = "sasl"
"""Key of the unfinished SASL exchange in `Connection.attributes`."""
MAX_PLAIN_BYTES = 4096
FAILURE_DELAY = 0.1
"""Seconds before the response to a failed authentication: ``connection.failed.authentication.delay.ms``."""
SHOWN_NAME = 100
"""Largest number of characters of a user or mechanism name in a log line."""


class LoginError(Exception):
    """Raised if authentication fails. The error message contains no secret."""


@dataclass
class Exchange:
    mechanism: str
    user: str = ""
    """User name that the client sent. It is not verified until the exchange is finished."""
    scram: ScramServer | None = None


class SaslApis:
    """Answers SaslHandshake and SaslAuthenticate requests. A failed authentication closes the connection."""

    # If `users` is replaced, an exchange that has begun continues with the previous users.

    def __init__(self, users: Users) -> None:
        self.users: Users = users

    def handlers(self) -> Handlers:
        """Return the lowest version, the highest version and the handler of each API, by API key."""
        return {SASL_HANDSHAKE: (0, 1, self._handshake), SASL_AUTHENTICATE: (0, 2, self._authenticate)}

    async def _handshake(self, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
        connection, error = context.connection, ErrorCode.NONE
        if connection.principal is not None or EXCHANGE in connection.attributes:
            error = ErrorCode.ILLEGAL_SASL_STATE
        elif request.mechanism not in MECHANISMS:
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            reason = f"the client requested the SASL mechanism {_shown(request.mechanism)}"
            connection.attributes[CLOSE_AFTER_RESPONSE] = f"{reason}; supported: {', '.join(MECHANISMS)}"
        else:
            exchange = connection.attributes[EXCHANGE] = Exchange(request.mechanism)
            if context.api_version == 0:
                connection.attributes[ANSWER_TOKEN] = partial(self._answer_token, connection, exchange)
        return SaslHandshakeResponse(error_code=error, mechanisms=list(MECHANISMS))

    async def _authenticate(
        self, request: SaslAuthenticateRequest, context: RequestContext
    ) -> SaslAuthenticateResponse:
        connection = context.connection
        exchange: Exchange | None = connection.attributes.get(EXCHANGE)
        if exchange is None and connection.principal is not None:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="the client is already authenticated"
            )
        if exchange is None:
            connection.attributes[CLOSE_AFTER_RESPONSE] = "SaslAuthenticate was sent without SaslHandshake"
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslHandshake must be sent first"
            )
        token = await self._answer_token(connection, exchange, bytes(request.auth_bytes))
        if token is None:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=f"Authentication failed with SASL mechanism {exchange.mechanism}",
            )
        return SaslAuthenticateResponse(auth_bytes=token)

    async def _answer_token(self, connection: Connection, exchange: Exchange, token: bytes) -> bytes | None:
        """Return the token for the client, or None if authentication failed. After the last token, set `principal`."""
        try:
            user, answer = await self._next_step(exchange, token)
        except (LoginError, ScramError) as error:
            connection.attributes.pop(EXCHANGE)
            connection.attributes.pop(ANSWER_TOKEN, None)
            name = f" of user {_shown(exchange.user)}" if exchange.user else ""
            reason = f"authentication{name} with {exchange.mechanism} failed: {error}"
            connection.attributes[CLOSE_AFTER_RESPONSE] = reason
            await asyncio.sleep(FAILURE_DELAY)
            return None
        if user is not None:
            connection.principal = user
            connection.attributes.pop(EXCHANGE)
            connection.attributes.pop(ANSWER_TOKEN, None)
        return answer

    async def _next_step(self, exchange: Exchange, token: bytes) -> tuple[str | None, bytes]:
        """Return the user and the token for the client. The user is None if the exchange is not finished."""
        if exchange.mechanism == PLAIN:
            await self._check_plain(exchange, token)
            return exchange.user, b""
        if exchange.scram is None:
            exchange.scram = ScramServer(exchange.mechanism, self.users)
            challenge = await asyncio.to_thread(exchange.scram.first, token)
            exchange.user = exchange.scram.user
            return None, challenge
        final = exchange.scram.final(token)
        return exchange.user, final

    async def _check_plain(self, exchange: Exchange, token: bytes) -> None:
        """Check the user and password in a PLAIN message (RFC 4616). Raise LoginError if they are wrong."""
        if len(token) > MAX_PLAIN_BYTES:
            raise LoginError(f"the client's message has {len(token)} bytes; the limit is {MAX_PLAIN_BYTES}")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise LoginError("the client's message is not a valid PLAIN message")
        authzid, exchange.user, password = parts
        if authzid not in ("", exchange.user):
            raise LoginError("the client requested an authorization id that differs from the user name")
        if not await asyncio.to_thread(self.users.check_password, exchange.user, password):
            raise LoginError("the user or the password is wrong")


def _shown(name: str) -> str:
    return repr(plain(name[:SHOWN_NAME]))
