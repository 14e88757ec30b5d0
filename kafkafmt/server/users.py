"""Read the users file, which contains the SASL users and their credentials.

Each line contains a user name, a colon and a credential, as in these examples:

- ``alice:{PLAIN}open sesame`` contains a password, which is valid for all mechanisms.
- ``bob:{SCRAM-SHA-256}salt=…,stored_key=…,server_key=…,iterations=4096`` contains a salted password,
  which is valid for SCRAM-SHA-256 and PLAIN. The format is that of Kafka's ``ScramCredentialUtils``.
- ``bob:{SCRAM-SHA-512}…`` contains a salted password for SCRAM-SHA-512 and PLAIN.

A user may have one line for each mechanism. Empty lines and lines that start with ``#`` are ignored. Error
messages contain line numbers and user names, but no credentials.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..support.text import shown

PLAIN = "PLAIN"
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *SCRAM_HASHES)
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 1_000_000
"""Limits on PBKDF2 iterations. RFC 7677 and Kafka require the minimum. The maximum limits CPU time."""
MIN_SALT_BYTES = 8
MAX_PASSWORD_BYTES = 1024
MAX_FILE_BYTES = 16 << 20


class UsersFileError(ValueError):
    """Raised if a users file is not valid."""


@dataclass(frozen=True, repr=False)
class ScramCredential:
    """A salted password for SCRAM, with the names of RFC 5802."""

    mechanism: str
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def from_password(
        cls, mechanism: str, password: str, salt: bytes | None = None, iterations: int = MIN_ITERATIONS
    ) -> ScramCredential:
        """Return the SCRAM credential for a password. By default, the salt is random."""
        salt = os.urandom(16) if salt is None else salt
        name = SCRAM_HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", name)
        stored_key = hashlib.new(name, client_key).digest()
        return cls(mechanism, salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)

    def matches(self, password: str) -> bool:
        """Return whether `password` matches the credential. The keys are compared in constant time."""
        derived = self.from_password(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(derived.stored_key, self.stored_key)

    def line(self, user: str) -> str:
        """Return this credential of `user` as a line for the users file."""
        salt, stored_key, server_key = (
            base64.b64encode(value).decode() for value in (self.salt, self.stored_key, self.server_key)
        )
        values = f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"
        return f"{user}:{{{self.mechanism}}}{values}"


@dataclass(frozen=True, repr=False)
class Users:
    passwords: dict[str, str] = field(default_factory=dict)  # by user name
    credentials: dict[tuple[str, str], ScramCredential] = field(default_factory=dict)  # by user name and mechanism
    _secret: bytes = field(default_factory=lambda: os.urandom(32))

    @classmethod
    def read(cls, path: Path, before: Users | None = None) -> Users:
        """Read a users file. `before` keeps the salts: a changed one would reveal which users have salted passwords."""
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsersFileError(f"{path} is larger than {MAX_FILE_BYTES} bytes, so it is not a users file")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise UsersFileError(f"{path} is not UTF-8 text, so it is not a users file") from None
        users = cls() if before is None else cls(_secret=before._secret)
        # Do not call splitlines(), because passwords can contain other line separators, such as U+2028.
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip() and not line.startswith("#"):
                users._add(f"{path}: line {number}", line)
        if not users.passwords and not users.credentials:
            raise UsersFileError(f"{path} contains no user; add a line such as 'alice:{{PLAIN}}password'")
        return users

    def credential(self, mechanism: str, user: str) -> tuple[ScramCredential, bool]:
        """Return the user's credential for a SCRAM mechanism, and whether the user has one."""
        # A user that has none gets a dummy credential. The length of its salt, its number of
        # iterations and the time of this call do not reveal whether the user exists.
        stored, password = self.credentials.get((user, mechanism)), self.passwords.get(user)
        salt, iterations = self._salt(mechanism, user)
        if stored is not None:
            iterations = stored.iterations
        derived = ScramCredential.from_password(mechanism, password or "", salt, iterations)
        return stored or derived, stored is not None or password is not None

    def check_password(self, user: str, password: str) -> bool:
        """Return whether `password` is the user's password."""
        # The time of this call does not reveal whether the user exists: for each mechanism, it
        # computes as many iterations as the largest number in a salted password.
        if len(password.encode()) > MAX_PASSWORD_BYTES:
            return False
        known = self.passwords.get(user)
        matches = [hmac.compare_digest(password.encode(), (known or "").encode()) and known is not None]
        for mechanism, stored in self._stored.items():
            credential = self.credentials.get((user, mechanism))
            left = max(c.iterations for c in stored)
            if credential is not None:
                matches.append(credential.matches(password) and known is None)
                left -= credential.iterations
            if left:
                ScramCredential.from_password(mechanism, password, b"", left)
        return any(matches)

    @cached_property
    def _stored(self) -> dict[str, list[ScramCredential]]:
        """The salted passwords by mechanism, in the order of the user names."""
        stored: dict[str, list[ScramCredential]] = {}
        for (_, mechanism), credential in sorted(self.credentials.items(), key=lambda item: item[0]):
            stored.setdefault(mechanism, []).append(credential)
        return stored

    def _salt(self, mechanism: str, user: str) -> tuple[bytes, int]:
        """Return a salt and a number of iterations for a user without a salted password."""
        # Both are constant for a mechanism and user, and differ between servers. The length of the
        # salt and the number of iterations are those of one of the salted passwords.
        keyed = hashlib.shake_256(self._secret + f"{mechanism}:{user}".encode())
        stored = self._stored.get(mechanism)
        if not stored:
            return keyed.digest(16), MIN_ITERATIONS
        like = stored[int.from_bytes(keyed.digest(8), "big") % len(stored)]
        return keyed.digest(8 + len(like.salt))[8:], like.iterations

    def _add(self, where: str, line: str) -> None:
        user, _, rest = line.partition(":")
        kind, brace, value = rest.removeprefix("{").partition("}")
        if not user or not rest.startswith("{") or not brace:
            raise UsersFileError(f"{where} is not 'NAME:{{MECHANISM}}CREDENTIAL'")
        if kind not in MECHANISMS:
            raise UsersFileError(f"{where}: the mechanism of user {shown(user)} is not one of {', '.join(MECHANISMS)}")
        if user in self.passwords if kind == PLAIN else (user, kind) in self.credentials:
            raise UsersFileError(f"{where}: user {shown(user)} already has a credential for {kind}")
        if kind == PLAIN:
            if not value or len(value.encode()) > MAX_PASSWORD_BYTES:
                raise UsersFileError(
                    f"{where}: the password of user {shown(user)} is empty or longer than {MAX_PASSWORD_BYTES} bytes"
                )
            self.passwords[user] = value
        else:
            credential = _parse_scram(kind, value)
            if credential is None:
                raise UsersFileError(
                    f"{where}: the credential of user {shown(user)} is not valid; it must be "
                    f"'salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=NUMBER', with "
                    f"{MIN_ITERATIONS} to {MAX_ITERATIONS} iterations"
                )
            self.credentials[user, kind] = credential


def _parse_scram(mechanism: str, text: str) -> ScramCredential | None:
    fields = dict(part.partition("=")[::2] for part in text.strip().split(","))
    if set(fields) != {"salt", "stored_key", "server_key", "iterations"}:
        return None
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        iterations = int(fields["iterations"])
    except ValueError:
        return None
    size = hashlib.new(SCRAM_HASHES[mechanism]).digest_size
    if len(stored_key) != size or len(server_key) != size or len(salt) < MIN_SALT_BYTES:
        return None
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        return None
    return ScramCredential(mechanism, salt, stored_key, server_key, iterations)
