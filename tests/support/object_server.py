"""Run a real S3 server on loopback, with a proxy in front of it that delays, counts and fails requests."""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import obstore
from obstore.store import ObjectStore

BUCKET = "logs"
HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "date", "server")


class Proxy:
    """An HTTP proxy before a server.

    Parameters
    ----------
    port : int
        Port of the server on loopback.

    Attributes
    ----------
    delay : float
        Time in seconds before a request is forwarded.
    failing : float
        Share of the requests that fail, half of them with 500, and half with 503 SlowDown.
    most : int or None
        Largest number of requests at the same time. Further requests fail with 503 SlowDown, as a
        bucket answers too many requests.
    failed : int
        Number of requests that failed for one of these reasons.
    requests : list of (str, str, str)
        Method, path and range of each request, in the order of their arrival.
    """

    def __init__(self, port: int) -> None:
        self.delay: float = 0.0
        self.failing: float = 0.0
        self.most: int | None = None
        self.failed: int = 0
        self.requests: list[tuple[str, str, str]] = []
        self._open = 0
        self._lock = Lock()
        self.forget()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                with proxy._lock:
                    proxy._open += 1
                try:
                    self.forward()
                finally:
                    with proxy._lock:
                        proxy._open -= 1

            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with proxy._lock:
                    proxy.requests.append((self.command, self.path, self.headers.get("Range", "")))
                    fails = proxy._random.random() < proxy.failing
                    code = proxy._random.choice([500, 503])
                    if proxy.most is not None and proxy._open > proxy.most:
                        fails, code = True, 503
                    proxy.failed += fails
                time.sleep(proxy.delay)
                if fails:
                    name = "SlowDown" if code == 503 else "InternalError"
                    self.answer(code, [], f"<Error><Code>{name}</Code><Message>injected</Message></Error>".encode())
                    return
                server = http.client.HTTPConnection("127.0.0.1", port)
                server.request(self.command, self.path, body, dict(self.headers))
                answer = server.getresponse()
                data = answer.read()
                headers = [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP]
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                server.close()
                self.answer(answer.status, headers, data, length)

            def answer(self, code: int, headers: list[tuple[str, str]], data: bytes, length: str | None = None) -> None:
                self.send_response(code)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignore connections that a killed client has closed."""

        self._server = Server(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def forget(self) -> None:
        """Forget all requests, so that earlier tests do not affect which requests fail."""
        self.requests.clear()
        self.failed = 0
        self._random = random.Random(7)

    @property
    def url(self) -> str:
        """URL of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()


def environment(endpoint: str) -> dict[str, str]:
    """Return the environment variables with which obstore and boto use a server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


def upload(store: ObjectStore, folder: Path, prefix: str) -> None:
    """Copy all files of a directory into a bucket."""
    for path in folder.rglob("*"):
        if path.is_file():
            obstore.put(store, f"{prefix}/{path.relative_to(folder)}", path.read_bytes())


@contextmanager
def s3_server(bucket: str = BUCKET) -> Iterator[int]:
    """Run moto's S3 server with an empty bucket. Yield its port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("PUT", f"/{bucket}")
        assert connection.getresponse().status == 200
        connection.close()
        yield port
    finally:
        server.stop()
