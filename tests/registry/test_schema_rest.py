"""Test schemas of running registries, with a stub of Confluent's REST API on loopback."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from command import inside
from schema_records import ORDER, config, deletion, schema, write_schemas

import kafkafmt as k
from kafkafmt.registry import rest

RECORDS = [
    schema("orders/value", 1, 1, '"int"'),
    schema("orders/value", 2, 2, ORDER, metadata={"properties": {"a": "b"}}),
    schema("payments", 1, 3, '"x"', references=[{"name": "Order", "subject": "orders/value", "version": 2}]),
    schema("payments", 2, 3, '"x"'),
    schema(":.lab:orders", 1, 1, '"string"'),
    deletion("payments", 1),
    config(None, "FULL"),
    config("payments", "NONE"),
]


class Stub:
    """A registry with the versions of `registry`. `pages` is False if it has no resource /schemas."""

    def __init__(self, registry: k.SchemaRegistry, pages: bool = True, limit: int = 1000) -> None:
        self.versions = list(registry)
        self.pages, self.limit = pages, limit
        self.answer: tuple[int, bytes] | None = None
        self.requests: list[tuple[str, str | None]] = []

    def get(self, url: str) -> Any:
        """Return the JSON of an answer, or None if there is no such resource."""
        parts = urlsplit(url)
        path, query = [unquote(p) for p in parts.path.strip("/").split("/")], parse_qs(parts.query)
        deleted = query.get("deleted") == ["true"]
        shown = [v for v in self.versions if deleted or not v.deleted]
        match path:
            case ["schemas"] if self.pages:
                start, limit = int(query["offset"][0]), int(query["limit"][0])
                return [self.entity(v) for v in shown[start : start + min(limit, self.limit)]]
            case ["subjects"]:
                return sorted({v.subject for v in shown})
            case ["subjects", subject, "versions"]:
                return [v.version for v in shown if v.subject == subject] or None
            case ["subjects", subject, "versions", number]:
                return next((self.entity(v) for v in shown if (v.subject, str(v.version)) == (subject, number)), None)
            case ["config", subject]:
                return {"compatibilityLevel": next(v.compatibility for v in self.versions if v.subject == subject)}
        return None

    def entity(self, v: Any) -> dict[str, Any]:
        references = [vars(r) for r in v.references]
        made = {"subject": v.subject, "version": v.version, "id": v.schema_id, "schema": v.schema}
        return made | {"guid": v.guid, "references": references, "metadata": v.metadata}


@contextmanager
def served(stub: Stub) -> Iterator[str]:
    """Serve a stub. Yield the host with the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.requests.append((self.path, self.headers["Authorization"]))
            found = None if stub.answer else stub.get(self.path)
            code, body = stub.answer or ((200, json.dumps(found).encode()) if found is not None else (404, b"{}"))
            self.send_response(code)
            if code == 302:
                self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def registry(tmp_path: Path) -> k.SchemaRegistry:
    return k.schemas(write_schemas(tmp_path, RECORDS))


@pytest.mark.parametrize(("pages", "limit"), [(True, 1000), (True, 2), (False, 1000)])
def test_running_registry_has_the_schemas_of_its_topic(registry: k.SchemaRegistry, pages: bool, limit: int) -> None:
    with served(Stub(registry, pages, limit)) as host:
        found = k.schemas(f"http://{host}/")
    assert list(found) == list(registry)
    assert found.to_dict() == registry.to_dict()


def test_registry_without_versions_is_empty() -> None:
    with served(Stub(k.SchemaRegistry([]))) as host:
        assert len(k.schemas(f"http://{host}")) == 0


def test_user_and_password_are_sent_and_not_shown(registry: k.SchemaRegistry) -> None:
    stub = Stub(registry)
    with served(stub) as host:
        assert inside("schemas", f"http://me:s%40cret@{host}", "payments/latest").stdout == '"x"\n'
        assert {authorization for _, authorization in stub.requests} == {"Basic bWU6c0BjcmV0"}
        stub.answer = (401, b"{}")
        done = inside("schemas", f"http://me:s%40cret@{host}")
    assert done.returncode == 3
    assert done.stderr.startswith(f"kafkafmt: http://{host}: the registry answers GET /schemas")
    assert done.stderr.endswith("with status 401\n")
    assert "cret" not in done.stderr


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"{}"), "with status 500"),
        ((302, b""), "with status 302"),  # following it would send the password elsewhere
        ((404, b"{}"), "this is not the URL of a schema registry"),
        ((200, b"<html>"), "is not JSON"),
        ((200, b"\xff"), "is not JSON"),
        ((200, b"[" * 100_000), "is not JSON"),
        ((200, b'"x"'), "is 'x'"),
    ],
)
def test_wrong_answer_is_an_error(registry: k.SchemaRegistry, answer: tuple[int, bytes], message: str) -> None:
    stub = Stub(registry)
    stub.answer = answer
    with served(stub) as host, pytest.raises(OSError, match=message):
        k.schemas(f"http://{host}")


@pytest.mark.parametrize("answer", [b"[1]", b"[{}]", b'[{"subject":"a","version":1,"id":"x","schema":"1"}]'])
def test_version_of_an_unexpected_form_is_a_finding(answer: bytes) -> None:
    stub = Stub(k.SchemaRegistry([]))
    stub.answer = (200, answer)
    with served(stub) as host:
        assert [f.error for f in k.schemas(f"http://{host}").findings] == ["invalid_record"]


def test_unreachable_registry_is_an_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        done = inside("schemas", f"http://127.0.0.1:{closed.getsockname()[1]}")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Connection refused" in done.stderr


def test_interrupted_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(OSError, match="timed out"):
        k.schemas(f"http://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.parametrize("url", ["http://", "http://[::1", "http://host:port/", "https://:8081"])
def test_wrong_url_is_a_usage_error(url: str) -> None:
    done = inside("schemas", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not the URL of a registry" in done.stderr
