"""Read the certificate and the users file of a server, and read them again while the server runs."""

from __future__ import annotations

import errno
import os
import ssl
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock

from .settings import ServerSettings
from .users import Users, UsersFileError

OTHER_KEY = ("KEY_TYPE_MISMATCH", "KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""Reasons of OpenSSL if a private key does not belong to a certificate. The last one concerns RSA and EC keys."""


class Credentials:
    """The certificate of a server, and the users who may connect. Each is None if the server has none."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self.tls: ssl.SSLContext | None = _tls_context(settings)
        self.users: Users | None = None if settings.users is None else Users.read(settings.users)

    def reload(self) -> Iterator[str]:
        """Read the files again, and yield a log line for each of them. An invalid file changes nothing."""
        settings = self._settings
        if settings.tls_cert is None and settings.users is None:
            yield "the server uses no certificate and no users file, so it has nothing to reload"
        with self._lock:
            if settings.tls_cert is not None:
                try:
                    key = settings.tls_key or settings.tls_cert
                    _refuse_pipes(settings.tls_cert, key)
                    self.tls = _tls_context(settings, partial(_refuse_passphrase, key))
                    yield f"reloaded the certificate {settings.tls_cert}"
                except OSError as error:
                    yield f"the previous certificate stays in use: {_text(error)}"
            if self.users is not None and settings.users is not None:
                try:
                    _refuse_pipes(settings.users)
                    self.users = Users.read(settings.users, self.users)
                    yield f"reloaded the users file {settings.users}"
                except OSError as error:
                    yield f"the previous users stay in use: {_text(error)}"
                except UsersFileError as error:
                    yield f"the previous users stay in use: {error}"


def _text(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}"


def _refuse_pipes(*paths: Path) -> None:
    """Raise OSError if a file is a pipe, such as `<(command)` in a shell. Opening it again would block the server."""
    for path in paths:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "a pipe can be read only once; restart the server to change it", str(path))


def _refuse_passphrase(key: Path) -> str:
    problem = "the private key is encrypted; restart the server to enter the passphrase"
    raise OSError(errno.EINVAL, problem, str(key))


def _tls_context(settings: ServerSettings, passphrase: Callable[[], str] | None = None) -> ssl.SSLContext | None:
    """Return the context for the certificate in `settings`, or None. By default, OpenSSL asks for the passphrase."""
    if settings.tls_cert is None and settings.tls_key is None:
        return None
    if settings.tls_cert is None:
        raise ValueError("tls_key is given without tls_cert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The errors of load_cert_chain() do not contain the path.
    for path in (settings.tls_cert, settings.tls_key):
        if path is not None:
            open(path, "rb").close()
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, passphrase)
    except OSError as error:  # ssl.SSLError is an OSError
        if error.filename is not None:
            raise
        key = "" if settings.tls_key is None else f" and the private key in {settings.tls_key}"
        problem = f"the certificate in this file{key} cannot be loaded: {_reason(error)}"
        raise OSError(errno.EINVAL, problem, str(settings.tls_cert)) from None
    return context


def _reason(error: OSError) -> str:
    """Describe the error of ``load_cert_chain``. It has a reason only if OpenSSL was able to read both files."""
    if isinstance(error, ssl.SSLError):
        if error.reason in OTHER_KEY:
            return "the private key does not belong to the certificate"
        return error.reason or "a file does not contain a certificate or a private key in PEM format"
    # Python reports EINVAL if OpenSSL cannot ask for the passphrase.
    return "the private key is encrypted, and the passphrase cannot be read, because there is no terminal"
