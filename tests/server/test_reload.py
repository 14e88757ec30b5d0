"""Change the users file and the certificate of a running server."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Client, certificate

import kafkafmt
from kafkafmt import protocol
from kafkafmt.cli.serve import Signals
from kafkafmt.protocol import ErrorCode

Start = Callable[..., kafkafmt.server.Server]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log" / "t-0").mkdir(parents=True)
    (tmp_path / "log" / "t-0" / f"{0:020}.log").touch()
    return tmp_path / "log"


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def login(server: kafkafmt.server.Server, password: str, client: Client | None = None) -> int:
    """Authenticate as alice with PLAIN, and return the error code."""
    opened = client or Client(server.port)
    opened.ask(protocol.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = opened.ask(protocol.SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2)
    if client is None:
        opened.socket.close()
    return int(answer.error_code)


def test_reload_replaces_the_users_of_new_connections(started: Start, log: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:{PLAIN}old\n")
    server = started(log, users=users)
    with Client(server.port) as client:
        assert login(server, "old", client) == ErrorCode.NONE
        users.write_text("alice:{PLAIN}new\n")
        server.reload()
        assert server.messages[-1] == f"reloaded the users file {users}"
        assert login(server, "old") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert login(server, "new") == ErrorCode.NONE
        assert client.offset("t", 0, -1).offset == 0  # the open connection stays authenticated


@pytest.mark.parametrize(("content", "reason"), [("alice", "line 1 is not"), (None, "No such file or directory")])
def test_invalid_users_file_changes_nothing(
    started: Start, log: Path, tmp_path: Path, content: str | None, reason: str
) -> None:
    users = tmp_path / "users"
    users.write_text("alice:{PLAIN}old\n")
    server = started(log, users=users)
    users.unlink()
    if content is not None:
        users.write_text(content)
    for _ in range(2):  # a repeated message is logged again
        server.messages.clear()
        server.reload()
        (message,) = server.messages
        assert message.startswith(f"the previous users stay in use: {users}: ")
        assert reason in message
    assert login(server, "old") == ErrorCode.NONE


@pytest.mark.parametrize("option", ["users", "tls_cert", "tls_key"])
def test_reload_does_not_wait_for_a_pipe(started: Start, log: Path, tmp_path: Path, option: str) -> None:
    cert, key = certificate(tmp_path)
    users = tmp_path / "users"
    users.write_text("alice:{PLAIN}old\n")
    files = {"users": users, "tls_cert": cert, "tls_key": key}
    server = started(log, **files)
    files[option].unlink()
    os.mkfifo(files[option])
    server.reload()
    kind = "users stay" if option == "users" else "certificate stays"
    assert any(m.startswith(f"the previous {kind} in use: {files[option]}: a pipe") for m in server.messages)


def test_reload_keeps_the_salts_of_dummy_credentials(started: Start, log: Path, tmp_path: Path) -> None:
    """A salt that changes would reveal that the user has no salted password."""
    users = tmp_path / "users"
    users.write_text("alice:{PLAIN}old\n")
    server = started(log, users=users)
    salts = []
    for _ in range(2):
        with Client(server.port) as client:
            client.ask(protocol.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            first = protocol.SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=abc")
            salts.append(bytes(client.ask(first, 2).auth_bytes).split(b",")[1])
        server.reload()
    assert salts[0] == salts[1]


def served_certificate(server: kafkafmt.server.Server) -> str:
    return ssl.get_server_certificate((server.host, server.port)).strip()


def test_reload_replaces_the_certificate(started: Start, log: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    cert, key = certificate(tmp_path / "a")
    other_cert, other_key = certificate(tmp_path / "b")
    server = started(log, tls_cert=cert, tls_key=key)
    before = cert.read_text().strip()
    assert served_certificate(server) == before
    cert.write_bytes(other_cert.read_bytes())
    server.reload()  # the key does not belong to the new certificate
    assert server.messages[-1].startswith(
        f"the previous certificate stays in use: {cert}: the certificate in this file"
    )
    assert served_certificate(server) == before
    key.write_bytes(other_key.read_bytes())
    server.reload()
    assert server.messages[-1] == f"reloaded the certificate {cert}"
    assert served_certificate(server) == other_cert.read_text().strip()


def test_reload_names_the_file_of_an_encrypted_key(started: Start, log: Path, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = started(log, tls_cert=cert, tls_key=key)
    encrypt = ["openssl", "pkey", "-aes128", "-passout", "pass:secret", "-in", str(key), "-out", str(tmp_path / "new")]
    subprocess.run(encrypt, check=True, capture_output=True)
    (tmp_path / "new").replace(key)
    server.reload()
    assert server.messages[-1].startswith(f"the previous certificate stays in use: {key}: the private key is encrypted")


def test_sighup_before_the_event_loop_runs_is_not_lost() -> None:
    reloads: list[None] = []
    signals = Signals(lambda: reloads.append(None))

    async def run() -> None:
        signals.begin()

    with signals.handled():
        os.kill(os.getpid(), signal.SIGHUP)
        assert not reloads
        asyncio.run(run())
    assert len(reloads) == 1


@pytest.mark.parametrize("stopped", [True, False])
def test_sighup_while_the_server_stops_is_ignored(stopped: bool) -> None:
    """At the end, the event loop no longer starts threads. asyncio would print a traceback."""
    problems: list[object] = []
    reloads: list[None] = []
    signals = Signals(lambda: reloads.append(None))

    async def run() -> None:
        signals.begin()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, problem: problems.append(problem))
        if stopped:
            os.kill(os.getpid(), signal.SIGTERM)
            await signals.wait()
        else:
            await loop.shutdown_default_executor()
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)

    with signals.handled():
        asyncio.run(run())
    assert (problems, reloads) == ([], [])


def test_command_reloads_on_sighup(log: Path, tmp_path: Path) -> None:
    users, output = tmp_path / "users", tmp_path / "output"
    users.write_text("alice:{PLAIN}old\n")
    arguments = [sys.executable, "-m", "kafkafmt", "serve", str(log), "--listen", ":0", "--users", str(users)]
    with (
        output.open("wb") as file,
        subprocess.Popen(arguments, stdout=file, stderr=subprocess.STDOUT, start_new_session=True) as process,
    ):
        try:
            assert until(lambda: "serving" in output.read_text())
            process.send_signal(signal.SIGHUP)
            assert until(lambda: f"kafkafmt: reloaded the users file {users}\n" in output.read_text())
            users.write_text("")
            process.send_signal(signal.SIGHUP)
            expected = f"kafkafmt: the previous users stay in use: {users} contains no user"
            assert until(lambda: expected in output.read_text())
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_command_stops_when_its_terminal_is_closed(log: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # undo nohup: with it, the server ignores a closed terminal
        os.execv(sys.executable, [sys.executable, "-m", "kafkafmt", "serve", str(log), "--listen", ":0"])
    output = bytearray()

    def contains(text: bytes) -> bool:
        if select.select([terminal], [], [], 0.1)[0]:
            output.extend(os.read(terminal, 1000))
        return text in output

    try:
        assert until(lambda: contains(b"serving"))
        os.kill(child, signal.SIGHUP)  # the terminal is still open
        assert until(lambda: contains(b"nothing to"))
    finally:
        os.close(terminal)
        status: list[int] = []

        def ended() -> bool:
            status[:] = os.waitpid(child, os.WNOHANG)
            return status[0] == child

        if not until(ended):
            os.kill(child, signal.SIGKILL)
    assert status[0] == child
    assert os.WIFEXITED(status[1])
