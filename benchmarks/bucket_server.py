"""Serve a directory as a read-only S3 bucket, with a delay before each response.

The server needs little CPU time, because the kernel copies the content of files to the connection
(sendfile). So a benchmark on the same machine measures the reader, and not the server.
"""

from __future__ import annotations

import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


class Server(ThreadingHTTPServer):
    """An HTTP server with a thread for each connection."""

    daemon_threads = True
    root = Path()
    delay = 0.0


class Handler(BaseHTTPRequestHandler):
    """Answers requests of S3 clients for objects and lists, without checking signatures."""

    protocol_version = "HTTP/1.1"
    # Nagle's algorithm would delay the content of an answer by 40 ms, until the client acknowledges the headers.
    disable_nagle_algorithm = True
    server: Server

    def do_HEAD(self) -> None:
        """Answer with the headers of an object."""
        self._answer(with_content=False)

    def do_GET(self) -> None:
        """Answer with an object, a range of an object, or a list of objects."""
        self._answer(with_content=True)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _answer(self, with_content: bool) -> None:
        time.sleep(self.server.delay)
        url = urlsplit(self.path)
        if "list-type" in url.query:
            self._list(parse_qs(url.query, keep_blank_values=True))
            return
        path = self.server.root / unquote(url.path).split("/", 2)[2]
        if not path.is_file():
            self._headers(404, 0)
            return
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, end = (int(found[1]), min(int(found[2]) + 1, size)) if found else (0, size)
            if start >= end and found:
                self._headers(416, 0)
                return
            self._headers(206 if found else 200, end - start, f"bytes {start}-{end - 1}/{size}" if found else "")
            while with_content and start < end:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

    def _headers(self, code: int, length: int, content_range: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        self.send_header("Last-Modified", DATE)
        self.send_header("ETag", '"1"')
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        self.wfile.flush()

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        folder = self.server.root / prefix
        keys = []
        if folder.is_dir():
            for entry in sorted(os.scandir(folder), key=lambda e: e.name):
                key = f"{prefix}{entry.name}"
                if entry.is_dir():
                    keys.append(f"<CommonPrefixes><Prefix>{key}/</Prefix></CommonPrefixes>")
                else:
                    keys.append(
                        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                        f"<ETag>&quot;1&quot;</ETag><Size>{entry.stat().st_size}</Size></Contents>"
                    )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(keys)}</ListBucketResult>".encode()
        self._headers(200, len(body))
        self.wfile.write(body)


def main() -> None:
    """Serve a directory until the process is killed, and print the port."""
    with Server(("127.0.0.1", 0), Handler) as server:
        server.root, server.delay = Path(sys.argv[1]), float(sys.argv[2])
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
