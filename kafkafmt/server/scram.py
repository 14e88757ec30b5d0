"""Implement the server side of SCRAM (RFC 5802 and RFC 7677) without channel binding.

The client and the server exchange these messages::

    client: n,,n=alice,r=<client nonce>
    server: r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client: c=biws,r=<client nonce><server nonce>,p=<proof>
    server: v=<signature>
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from .users import SCRAM_HASHES, Users

_CLIENT_FIRST: Final = re.compile(
    r"(?P<gs2>[ny],(?:a=(?P<authzid>(?:[^,=]|=2C|=3D)+))?,)"
    r"(?P<bare>n=(?P<user>(?:[^,=]|=2C|=3D)+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]+)*)"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<signed>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
MAX_MESSAGE_BYTES = 4096
"""Largest size in bytes of a message from a client."""


class ScramError(Exception):
    """Raised if authentication fails. The error message contains no secret."""


class ScramServer:
    """Server side of one SCRAM exchange. `user` is not verified until `final` returns."""

    # Tests pass the nonce of the RFC.

    def __init__(self, mechanism: str, users: Users, nonce: str | None = None) -> None:
        self.user: str = ""
        self._mechanism = mechanism
        self._hash = SCRAM_HASHES[mechanism]
        self._users = users
        self._server_nonce = secrets.token_urlsafe(24) if nonce is None else nonce

    def first(self, message: bytes) -> bytes:
        """Return the server's first message. Raise ScramError if the client's message is malformed."""
        found = _CLIENT_FIRST.fullmatch(_text(message))
        if found is None:
            raise ScramError("the client's first message is not a valid SCRAM message, or requires channel binding")
        self.user = _unescape(found["user"])
        if found["authzid"] is not None and _unescape(found["authzid"]) != self.user:
            raise ScramError("the client requested an authorization id that differs from the user name")
        self._credential, self._known = self._users.credential(self._mechanism, self.user)
        salt = base64.b64encode(self._credential.salt).decode()
        self._nonce = found["nonce"] + self._server_nonce
        response = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._binding = base64.b64encode(found["gs2"].encode()).decode()
        self._signed = f"{found['bare']},{response},"
        return response.encode()

    def final(self, message: bytes) -> bytes:
        """Return the server's final message. Raise ScramError if the client's proof or message is wrong."""
        found = _CLIENT_FINAL.fullmatch(_text(message))
        if found is None:
            raise ScramError("the client's final message is not a valid SCRAM message")
        # Kafka also compares only the end, because librdkafka 2.0.2 sends the client's part of the nonce twice.
        if found["binding"] != self._binding or not found["nonce"].endswith(self._nonce):
            raise ScramError("the client's final message does not match its first message")
        signed = (self._signed + found["signed"]).encode()
        signature = hmac.digest(self._credential.stored_key, signed, self._hash)
        try:
            proof = base64.b64decode(found["proof"], validate=True)
        except binascii.Error:
            raise ScramError("the client's proof is not base64") from None
        if len(proof) != len(signature):
            raise ScramError("the client's proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        derived = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(derived, self._credential.stored_key) or not self._known:
            raise ScramError("the user or the password is wrong")
        server_signature = hmac.digest(self._credential.server_key, signed, self._hash)
        return b"v=" + base64.b64encode(server_signature)


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise ScramError(f"the client's message has {len(message)} bytes; the limit is {MAX_MESSAGE_BYTES}")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("the client's message is not UTF-8") from None


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
