"""Test SASL: the users file, SCRAM with the example of RFC 7677, and the two APIs in all versions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handler_calls import Caller, run
from serving import Client

import kafkafmt
from kafkafmt import protocol
from kafkafmt.protocol import ErrorCode
from kafkafmt.server.handlers import CLOSE_AFTER_RESPONSE
from kafkafmt.server.sasl import OPEN_APIS, SaslApis
from kafkafmt.server.scram import ScramError, ScramServer
from kafkafmt.server.users import ScramCredential, Users, UsersFileError

Start = Callable[..., kafkafmt.server.Server]
SECRET = "open sesame:}{,="
SALTED = ScramCredential.from_password("SCRAM-SHA-256", SECRET, b"salt" * 4)
LONG_SALTED = ScramCredential.from_password("SCRAM-SHA-512", SECRET, b"salt" * 4, 8192)


@pytest.fixture
def users(tmp_path: Path) -> Users:
    path = tmp_path / "users"
    path.write_text(
        f"# users\n\nalice:{{PLAIN}}{SECRET}\nmüller,=:{{PLAIN}}{SECRET}\n{SALTED.line('bob')}\n{LONG_SALTED.line('carol')}\n"
    )
    return Users.read(path)


# SCRAM


def test_scram_follows_the_example_of_rfc_7677() -> None:
    salt, nonce = "W22ZaJ0SNY7soEsUEjb6gQ==", "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    signature = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    credential = ScramCredential.from_password("SCRAM-SHA-256", "pencil", base64.b64decode(salt))
    server = ScramServer("SCRAM-SHA-256", Users(credentials={("user", "SCRAM-SHA-256"): credential}), nonce[20:])
    assert server.first(f"n,,n=user,r={nonce[:20]}".encode()) == f"r={nonce},s={salt},i=4096".encode()
    assert server.final(f"c=biws,r={nonce},p={proof}".encode()) == f"v={signature}".encode()


class ScramClient:
    """A SCRAM client that is implemented from RFC 5802, independently of the server.

    The client inserts `repeated` before the nonce in its final message.
    """

    repeated = ""

    def __init__(self, mechanism: str, user: str, password: str, header: str = "n,,", extension: str = "") -> None:
        self.hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self.password = password
        self.header = header
        self.bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r=abcdef{extension}"

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, challenge: bytes, client_nonce: str = "abcdef") -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self.hash, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        key = hmac.digest(salted, b"Client Key", self.hash)
        nonce = self.repeated + client_nonce + fields["r"].removeprefix("abcdef")
        without_proof = f"c={base64.b64encode(self.header.encode()).decode()},r={nonce}"
        self.auth = f"{self.bare},{challenge.decode()},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self.hash, key).digest(), self.auth, self.hash)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        self.expected = b"v=" + base64.b64encode(
            hmac.digest(hmac.digest(salted, b"Server Key", self.hash), self.auth, self.hash)
        )
        return f"{without_proof},p={proof}".encode()


@pytest.mark.parametrize(
    ("mechanism", "user"),
    [
        ("SCRAM-SHA-256", "alice"),
        ("SCRAM-SHA-512", "alice"),
        ("SCRAM-SHA-256", "müller,="),
        ("SCRAM-SHA-256", "bob"),
        ("SCRAM-SHA-512", "carol"),
    ],
)
@pytest.mark.parametrize("header", ["n,,", "y,,", "authzid"])
def test_scram_accepts_the_password(users: Users, mechanism: str, user: str, header: str) -> None:
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    client = ScramClient(mechanism, user, SECRET, f"n,a={escaped}," if header == "authzid" else header)
    server = ScramServer(mechanism, users)
    assert server.final(client.final(server.first(client.first()))) == client.expected
    assert server.user == user


def test_scram_accepts_a_client_that_repeats_its_nonce(users: Users) -> None:
    """Librdkafka 2.0.2, and therefore kcat, sends its part of the nonce twice. Kafka accepts such a message."""
    client, server = ScramClient("SCRAM-SHA-256", "alice", SECRET), ScramServer("SCRAM-SHA-256", users)
    client.repeated = "abcdef"
    assert server.final(client.final(server.first(client.first()))) == client.expected


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("SCRAM-SHA-256", "alice", "wrong"),
        ("SCRAM-SHA-256", "bob", ""),
        ("SCRAM-SHA-512", "bob", SECRET),
        ("SCRAM-SHA-256", "mallory", SECRET),
    ],
)
def test_scram_refuses_wrong_users_and_passwords(users: Users, mechanism: str, user: str, password: str) -> None:
    client, server = ScramClient(mechanism, user, password), ScramServer(mechanism, users)
    challenge = server.first(client.first())
    with pytest.raises(ScramError, match="the user or the password is wrong"):
        server.final(client.final(challenge))


def test_scram_does_not_reveal_which_users_exist(users: Users) -> None:
    def salt(user: str) -> bytes:
        return ScramServer("SCRAM-SHA-256", users).first(f"n,,n={user},r=x".encode()).split(b",")[1]

    assert salt("mallory") == salt("mallory") != salt("trudy")
    assert len(salt("mallory")) == len(salt("alice"))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=user",
        b"n,,n=,r=x",
        b"n,,r=x,n=user",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=future,n=user,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=\x01",
        b"n,a=other,n=user,r=x",
        b"n,,n=\xff,r=x",
        b"n,,n=user,r=" + b"x" * 5000,
        b"n,,n=user,r=x,",
    ],
)
def test_scram_refuses_malformed_first_messages(users: Users, message: bytes) -> None:
    with pytest.raises(ScramError):
        ScramServer("SCRAM-SHA-256", users).first(message)


@pytest.mark.parametrize("client_nonce", ["", "abcdeg", "bcdef", "ABCDEF"])
def test_scram_refuses_another_nonce_of_the_client(users: Users, client_nonce: str) -> None:
    """RFC 5802 requires that the server compares the whole nonce, although the proof is valid."""
    client, server = ScramClient("SCRAM-SHA-256", "alice", SECRET), ScramServer("SCRAM-SHA-256", users)
    with pytest.raises(ScramError, match="does not match its first message"):
        server.final(client.final(server.first(client.first()), client_nonce))


def test_scram_refuses_changed_final_messages(users: Users) -> None:
    client, server = ScramClient("SCRAM-SHA-256", "bob", SECRET), ScramServer("SCRAM-SHA-256", users)
    valid = client.final(server.first(client.first())).decode()
    nonce = valid.split(",")[1]
    for changed in (
        "",
        valid.replace("c=biws", "c=eSws"),
        valid.replace(nonce, nonce + "x"),
        valid.replace(",p=", ",p=AAAA"),
        valid.replace(",p=", ",p=="),
        valid.split(",p=")[0],
        valid.replace(",p=", ",x=1,p="),
    ):
        with pytest.raises(ScramError):
            server.final(changed.encode())
    assert server.final(valid.encode()) == client.expected


def test_scram_accepts_the_extensions_of_kafka_clients(users: Users) -> None:
    client = ScramClient("SCRAM-SHA-256", "bob", SECRET, extension=",e=abc")
    server = ScramServer("SCRAM-SHA-256", users)
    assert server.final(client.final(server.first(client.first()))) == client.expected


# Users file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "contains no user"),
        ("# nobody\n", "contains no user"),
        ("alice\n", "line 1 is not"),
        (f"\nalice:{SECRET}\n", "line 2 is not"),
        (f"alice:{{PLAIN{SECRET.replace('}', '')}\n", "line 1 is not"),
        (f":{{PLAIN}}{SECRET}\n", "line 1 is not"),
        (f"alice:{{MD5}}{SECRET}\n", "line 1: the mechanism of user 'alice' is not one of PLAIN, SCRAM-SHA-256"),
        ("alice:{PLAIN}\n", "line 1: the password of user 'alice' is empty"),
        (f"alice:{{PLAIN}}{SECRET}\nalice:{{PLAIN}}{SECRET}\n", "line 2: user 'alice' already has"),
        (SALTED.line("bob") + "\n" + SALTED.line("bob"), "line 2: user 'bob' already has"),
        (SALTED.line("bob").replace("256", "512"), "line 1: the credential of user 'bob' is not valid"),
        (SALTED.line("bob").replace("4096", "4095"), "line 1: the credential of user 'bob' is not valid"),
        (SALTED.line("bob").replace("4096", "10000000"), "line 1: the credential of user 'bob' is not valid"),
        (SALTED.line("bob").replace("salt=", "salt=!"), "line 1: the credential of user 'bob' is not valid"),
        (SALTED.line("bob").replace("salt=", "slat="), "line 1: the credential of user 'bob' is not valid"),
        ("bob:{SCRAM-SHA-256}" + SECRET, "line 1: the credential of user 'bob' is not valid"),
    ],
)
def test_invalid_users_file_is_refused_without_showing_secrets(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "users"
    path.write_text(content)
    with pytest.raises(UsersFileError, match=message) as caught:
        Users.read(path)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0c", "\x1c"])
def test_passwords_may_contain_unicode_line_separators(tmp_path: Path, separator: str) -> None:
    (tmp_path / "users").write_text(f"alice:{{PLAIN}}a{separator}b\r\nbob:{{PLAIN}}c\n", encoding="utf-8", newline="")
    users = Users.read(tmp_path / "users")
    assert users.check_password("alice", f"a{separator}b")
    assert users.check_password("bob", "c")


def test_users_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_bytes(b"\x80\x81")
    with pytest.raises(UsersFileError, match="not UTF-8"):
        Users.read(path)


def test_repr_of_users_contains_no_credentials(users: Users) -> None:
    assert SECRET not in repr(users)
    assert repr(SALTED.stored_key) not in repr(SALTED)


def test_users_may_have_one_credential_of_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("\n".join([SALTED.line("bob"), LONG_SALTED.line("bob"), "bob:{PLAIN}other"]))
    users = Users.read(path)
    assert users.credential("SCRAM-SHA-256", "bob") == (SALTED, True)
    assert users.credential("SCRAM-SHA-512", "bob") == (LONG_SALTED, True)
    assert users.check_password("bob", "other")


# APIs


async def login(call: Caller, mechanism: str, user: str, password: str, version: int) -> Any:
    """Authenticate as a user, and return the last response."""
    handshake = await call(protocol.SaslHandshakeRequest(mechanism=mechanism))
    assert handshake.error_code == ErrorCode.NONE
    if mechanism == "PLAIN":
        token = f"\0{user}\0{password}".encode()
        return await call(protocol.SaslAuthenticateRequest(auth_bytes=token), version)
    client = ScramClient(mechanism, user, password)
    challenge = await call(protocol.SaslAuthenticateRequest(auth_bytes=client.first()), version)
    assert call.connection.principal is None
    final = await call(protocol.SaslAuthenticateRequest(auth_bytes=client.final(challenge.auth_bytes)), version)
    if final.error_code == ErrorCode.NONE:
        assert final.auth_bytes == client.expected
    return final


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_authentication_sets_the_principal(users: Users, mechanism: str, version: int) -> None:
    call = Caller(SaslApis(users).handlers())
    final = run(login(call, mechanism, "alice", SECRET, version))
    assert (final.error_code, final.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert call.connection.principal == "alice"
    assert call.connection.attributes == {}


@pytest.mark.parametrize("user", ["bob", "carol"])
def test_plain_accepts_users_with_salted_passwords(users: Users, user: str) -> None:
    call = Caller(SaslApis(users).handlers())
    assert run(login(call, "PLAIN", user, SECRET, 2)).error_code == ErrorCode.NONE
    assert call.connection.principal == user


def test_plain_accepts_each_salted_password_of_a_user(tmp_path: Path) -> None:
    path = tmp_path / "users"
    first = ScramCredential.from_password("SCRAM-SHA-256", "first")
    second = ScramCredential.from_password("SCRAM-SHA-512", "second")
    path.write_text(f"{second.line('dave')}\n{first.line('dave')}\n")
    users = Users.read(path)
    assert [users.check_password("dave", password) for password in ("first", "second", "third")] == [True, True, False]


COSTLY = ScramCredential.from_password("SCRAM-SHA-256", SECRET, b"longer salt" * 3, 20_000)
MIXED = Users({"plain": SECRET}, {("few", "SCRAM-SHA-256"): SALTED, ("many", "SCRAM-SHA-256"): COSTLY})
ALL_USERS = ("plain", "few", "many", "nobody", "somebody", "")


@pytest.fixture
def iterations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list to which each computation of a salted password adds its number of iterations."""
    found: list[int] = []
    original = hashlib.pbkdf2_hmac

    def compute(name: str, password: bytes, salt: bytes, count: int) -> bytes:
        found.append(count)
        return original(name, password, salt, count)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", compute)
    return found


def test_check_of_a_password_computes_as_much_for_every_user(iterations: list[int]) -> None:
    spent = set()
    for user in ALL_USERS:
        for password in (SECRET, "wrong"):
            iterations.clear()
            assert MIXED.check_password(user, password) == (password == SECRET and user in ALL_USERS[:3])
            spent.add(sum(iterations))
    assert spent == {20_000}


def test_users_without_salted_passwords_need_no_iterations(iterations: list[int]) -> None:
    users = Users({"alice": SECRET})
    assert users.check_password("alice", SECRET)
    assert not users.check_password("bob", SECRET)
    assert iterations == []


def test_first_scram_message_computes_what_it_announces(iterations: list[int]) -> None:
    for user in ALL_USERS:
        for _ in range(2):
            iterations.clear()
            credential, known = MIXED.credential("SCRAM-SHA-256", user)
            assert iterations == [credential.iterations]
            assert known == (user in ALL_USERS[:3])


def test_dummy_credentials_look_like_salted_passwords() -> None:
    names = [f"unknown {i}" for i in range(100)]
    dummies = [MIXED.credential("SCRAM-SHA-256", name)[0] for name in names]
    shapes = {(len(c.salt), c.iterations) for c in dummies}
    assert shapes == {(len(c.salt), c.iterations) for c in (SALTED, COSTLY)}
    assert len({c.salt for c in dummies}) == 100
    assert dummies[0] == MIXED.credential("SCRAM-SHA-256", names[0])[0]
    other = MIXED.credential("SCRAM-SHA-512", names[0])[0]
    assert (len(other.salt), other.iterations) == (16, 4096)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "wrong"), ("mal\nlory", SECRET)])
def test_wrong_password_closes_the_connection(
    users: Users, mechanism: str, version: int, user: str, password: str
) -> None:
    call = Caller(SaslApis(users).handlers())
    final = run(login(call, mechanism, user, password, version))
    assert final.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert final.error_message == f"Authentication failed with SASL mechanism {mechanism}"
    assert call.connection.principal is None
    reason = call.connection.attributes[CLOSE_AFTER_RESPONSE]
    assert user.partition("\n")[0] in reason
    assert "\n" not in reason
    assert SECRET not in reason


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice",
        b"\0alice\0",
        b"\0\0" + SECRET.encode(),
        b"\0alice\0" + b"x" * 5000,
        b"\0alice\0\xff",
        b"\0a\0b\0c",
    ],
)
def test_malformed_plain_message_is_refused(users: Users, token: bytes) -> None:
    async def main() -> None:
        call = Caller(SaslApis(users).handlers())
        await call(protocol.SaslHandshakeRequest(mechanism="PLAIN"))
        final = await call(protocol.SaslAuthenticateRequest(auth_bytes=token))
        assert final.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert CLOSE_AFTER_RESPONSE in call.connection.attributes

    run(main())


def test_other_authorization_id_is_refused(users: Users) -> None:
    async def main() -> None:
        call = Caller(SaslApis(users).handlers())
        await call(protocol.SaslHandshakeRequest(mechanism="PLAIN"))
        token = f"bob\0alice\0{SECRET}".encode()
        final = await call(protocol.SaslAuthenticateRequest(auth_bytes=token))
        assert final.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run(main())


def test_unknown_mechanism_is_refused_with_the_list_of_mechanisms(users: Users) -> None:
    async def main() -> None:
        call = Caller(SaslApis(users).handlers())
        response = await call(protocol.SaslHandshakeRequest(mechanism="GSSAPI"))
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert CLOSE_AFTER_RESPONSE in call.connection.attributes

    run(main())


def test_requests_out_of_order_are_refused(users: Users) -> None:
    async def main() -> None:
        call = Caller(SaslApis(users).handlers())
        early = await call(protocol.SaslAuthenticateRequest(auth_bytes=b"x"))
        assert early.error_code == ErrorCode.ILLEGAL_SASL_STATE
        call = Caller(SaslApis(users).handlers())
        await login(call, "PLAIN", "alice", SECRET, 2)
        again = await call(protocol.SaslHandshakeRequest(mechanism="PLAIN"))
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
        late = await call(protocol.SaslAuthenticateRequest(auth_bytes=b"x"))
        assert (late.error_code, late.error_message) == (
            ErrorCode.ILLEGAL_SASL_STATE,
            "the client is already authenticated",
        )
        assert CLOSE_AFTER_RESPONSE not in call.connection.attributes
        assert call.connection.principal == "alice"

    run(main())


# SaslHandshake version 0: tokens without request headers


@pytest.fixture
def server(started: Start, tmp_path: Path, users: Users) -> kafkafmt.server.Server:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    return started(tmp_path, users=tmp_path / "users")


def send_token(client: Client, token: bytes) -> bytes:
    """Send a token, and return the token in the response."""
    client.socket.sendall(len(token).to_bytes(4, "big") + token)
    return client.read(int.from_bytes(client.read(4), "big"))


def login_with_tokens(client: Client, mechanism: str, user: str, password: str) -> None:
    assert client.ask(protocol.SaslHandshakeRequest(mechanism=mechanism), 0).error_code == ErrorCode.NONE
    if mechanism == "PLAIN":
        assert send_token(client, f"\0{user}\0{password}".encode()) == b""
        return
    scram = ScramClient(mechanism, user, password)
    assert send_token(client, scram.final(send_token(client, scram.first()))) == scram.expected


def test_version_0_of_the_handshake_is_announced(server: kafkafmt.server.Server) -> None:
    """The program kcat with librdkafka 2.0.2 refuses to authenticate if the server does not announce version 0."""
    with Client(server.port) as client:
        versions = {
            v.api_key: (v.min_version, v.max_version) for v in client.ask(protocol.ApiVersionsRequest(), 3).api_keys
        }
    assert versions[17] == (0, 1)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_tokens_without_headers_are_accepted(server: kafkafmt.server.Server, mechanism: str) -> None:
    with Client(server.port) as client:
        login_with_tokens(client, mechanism, "alice", SECRET)
        assert client.offset("t", 0, -1).offset == 0


def test_long_token_without_a_header_is_accepted(
    started: Start, tmp_path: Path, server: kafkafmt.server.Server
) -> None:
    (tmp_path / "long").write_text(f"alice:{{PLAIN}}{'x' * 1024}\n")
    with Client(started(tmp_path, users=tmp_path / "long").port) as client:
        login_with_tokens(client, "PLAIN", "alice", "x" * 1024)
        assert client.offset("t", 0, -1).offset == 0


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"", b"n,,n=alice", b"\0" * 5000, b"\0alice\0" + b"x" * 20_000])
def test_wrong_token_without_a_header_closes_the_connection(server: kafkafmt.server.Server, token: bytes) -> None:
    with Client(server.port) as client:
        assert client.ask(protocol.SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == ErrorCode.NONE
        client.socket.sendall(len(token).to_bytes(4, "big") + token)
        assert client.closed()
    assert len(server.messages) == 1
    assert "wrong" not in server.messages[0].replace("the user or the password is wrong", "")


def test_client_that_does_not_use_sasl_is_reported(server: kafkafmt.server.Server) -> None:
    with Client(server.port) as client:
        client.send(protocol.MetadataRequest(topics=None), 12)
        assert client.closed()
    assert server.messages[0].endswith("Metadata was requested before authentication; the client must use SASL")


def ask_for_ten_seconds(client: Client) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        client.ask(protocol.ApiVersionsRequest(), 0)
        time.sleep(0.05)


def test_client_that_does_not_authenticate_is_disconnected(started: Start, tmp_path: Path, users: Users) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    limits = kafkafmt.server.ServerLimits(authentication_timeout=0.5)
    server = started(tmp_path, users=tmp_path / "users", limits=limits)
    with Client(server.port) as idle, Client(server.port) as busy, Client(server.port) as client:
        login_with_tokens(client, "PLAIN", "alice", SECRET)
        with pytest.raises(ConnectionError):
            ask_for_ten_seconds(busy)
        assert idle.closed()
        assert client.ask(protocol.MetadataRequest(topics=[]), 12).brokers
    closed = [m for m in server.messages if m.endswith("the client did not authenticate within 0.5 seconds")]
    assert len(closed) == 2


@pytest.mark.parametrize(("version", "mechanism"), [(0, "PLAIN"), (1, "SCRAM-SHA-256")])
def test_sasl_client_of_a_server_without_users_is_reported(
    started: Start, tmp_path: Path, version: int, mechanism: str
) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    server = started(tmp_path)
    with Client(server.port) as client:
        client.send(protocol.SaslHandshakeRequest(mechanism=mechanism), version)
        assert client.closed()
    assert server.messages[-1].endswith("the client uses SASL, but the server has no users file")


def test_only_three_apis_require_no_authentication() -> None:
    assert sorted(OPEN_APIS) == [17, 18, 36]
