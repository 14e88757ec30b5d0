"""Connect to a server that requires TLS, with and without completing the handshake."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_cases import BY_NAME
from serving import Client, certificate

import kafkafmt
from kafkafmt.server import ServerLimits

Start = Callable[..., kafkafmt.server.Server]
CODECS = BY_NAME["kafka-4.3.1/codecs"]
TOPIC = "codec-none"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return certificate(tmp_path)


def serve(started: Start, files: tuple[Path, Path], **limits: float) -> kafkafmt.server.Server:
    paths = [str(root) for root in CODECS.roots]
    return started(paths, tls_cert=files[0], tls_key=files[1], limits=ServerLimits(**limits))  # type: ignore[arg-type]


def encrypted(client: Client, files: tuple[Path, Path]) -> Client:
    context = ssl.create_default_context(cafile=str(files[0]))
    client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
    return client


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("sent", [b"", bytes.fromhex("16030100c8")], ids=["nothing", "part of a hello"])
def test_client_that_does_not_complete_the_handshake_is_disconnected(
    started: Start, files: tuple[Path, Path], sent: bytes
) -> None:
    server = serve(started, files, handshake_timeout=0.5)
    with Client(server.port) as client:
        client.socket.sendall(sent)
        assert until(lambda: server.connection_count == 1)
        assert client.closed()
    assert until(lambda: server.connection_count == 0)
    assert "the TLS handshake was still incomplete after 0.5 seconds" in server.messages[-1]
    with Client(server.port) as client:
        assert encrypted(client, files).offset(TOPIC, 0, -2).offset == 0


def test_handshake_timeout_is_ten_seconds_by_default() -> None:
    assert ServerLimits().handshake_timeout == 10


def test_connections_in_the_handshake_count_towards_the_limit(started: Start, files: tuple[Path, Path]) -> None:
    server = serve(started, files, max_connections=3)
    waiting = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
    try:
        assert until(lambda: server.connection_count == 3)
        with Client(server.port) as refused:
            assert refused.closed()
        waiting.pop().close()
        assert until(lambda: server.connection_count == 2)
        with Client(server.port) as client:
            assert encrypted(client, files).fetch(TOPIC, 0, 0).records
    finally:
        for client_socket in waiting:
            client_socket.close()
    assert until(lambda: server.connection_count == 0)
    assert list(server.messages) == ["3 connections are open, so new connections are closed"]


def test_failed_handshake_is_reported_once(started: Start, files: tuple[Path, Path]) -> None:
    server = serve(started, files)
    with Client(server.port) as client:
        client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.closed()
    assert until(lambda: len(server.messages) == 1)
    assert "the client does not use TLS: " in server.messages[0]


def test_client_that_rejects_the_certificate_is_reported(started: Start, files: tuple[Path, Path]) -> None:
    server = serve(started, files)
    with Client(server.port) as client, pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(client.socket, server_hostname="localhost")
    assert until(lambda: len(server.messages) == 1)
    assert "the client does not accept the server's certificate: " in server.messages[0]


def test_tls_client_of_a_server_without_tls_is_reported(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots])
    with Client(server.port) as client, pytest.raises((ssl.SSLError, ConnectionError)):
        ssl.create_default_context().wrap_socket(client.socket, server_hostname="localhost")
    assert until(lambda: len(server.messages) == 1)
    assert server.messages[0].endswith("connection closed: the client uses TLS, but the server has no certificate")


def test_client_that_closes_directly_after_the_handshake_causes_no_warning(
    started: Start, files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(started, files)
    for _ in range(20):
        with Client(server.port) as client:
            with contextlib.suppress(OSError):
                encrypted(client, files).socket.unwrap()  # type: ignore[attr-defined]
    assert until(lambda: server.connection_count == 0)
    assert not caplog.records
    assert not server.messages


def test_server_with_open_handshakes_closes_promptly(files: tuple[Path, Path]) -> None:
    paths = [str(root) for root in CODECS.roots]
    with kafkafmt.serve(paths, tls_cert=files[0], tls_key=files[1]) as server:
        client = socket.create_connection(("127.0.0.1", server.port))
        assert until(lambda: server.connection_count == 1)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    client.close()


def test_many_tls_clients_connect_and_send_at_once(started: Start, files: tuple[Path, Path]) -> None:
    server = serve(started, files)
    clients = [Client(server.port) for _ in range(100)]
    try:
        for client in clients:
            assert encrypted(client, files).offset(TOPIC, 0, -2).offset == 0
    finally:
        for client in clients:
            client.socket.close()


def openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True)


@pytest.mark.slow
def test_files_that_cannot_be_loaded_are_explained(files: tuple[Path, Path], tmp_path: Path) -> None:
    """The command has no terminal here, so OpenSSL cannot ask for a passphrase."""
    cert, key = files
    other, encrypted_key, empty = tmp_path / "other", tmp_path / "encrypted", tmp_path / "empty"
    openssl("genrsa", "-out", str(other), "2048")
    openssl("pkey", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(encrypted_key))
    empty.touch()
    for given, reason in (
        ((cert, other), "the private key does not belong to the certificate"),
        ((cert, cert), "a file does not contain a certificate or a private key in PEM format"),
        ((key, key), "a file does not contain a certificate or a private key in PEM format"),
        ((cert, empty), "a file does not contain a certificate or a private key in PEM format"),
        ((cert, encrypted_key), "the private key is encrypted, and the passphrase cannot be read"),
    ):
        options = ["--listen", ":0", "--tls-cert", str(given[0]), "--tls-key", str(given[1])]
        done = subprocess.run(
            [sys.executable, "-m", "kafkafmt", "serve", str(CODECS.roots[0]), *options],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            timeout=30,
        )
        assert done.returncode == 3
        message = done.stderr.splitlines()[-1]
        assert message.startswith(
            f"kafkafmt: {given[0]}: the certificate in this file and the private key in {given[1]}"
        )
        assert reason in message
