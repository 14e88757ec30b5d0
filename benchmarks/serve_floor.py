"""Serve one topic with as little code as possible, to measure the least CPU time that Python needs.

    python benchmarks/serve_floor.py DIRECTORY TOPIC [--check]

The program answers Fetch requests of the versions 16 to 18 for one partition with one segment. At
the start, it reads the positions of all batches. It sends each response with one write, one sendfile
and another write, as `kafkafmt serve` does. With --check, it also reads the bytes and checks their
CRCs before it sends them. It has no fetch sessions and no long polls, and checks no limits and no
changes of the directory. All other requests are forwarded to `kafkafmt serve`, whose CPU time is not
counted. The program prints its port.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import socket
import struct
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kafkafmt._backend import core  # noqa: E402
from kafkafmt.types import BATCH_DTYPE  # noqa: E402

FETCH = b"\0\1"
SENT_AT_ONCE = 1 << 20
Part = bytes | tuple[int, int]
"""Bytes of a response, or position and size of bytes of the segment."""


class Segment:
    """The segment of the topic, with the end position and the last offset of each batch in memory."""

    def __init__(self, path: Path, check: bool) -> None:
        self.descriptor = os.open(path, os.O_RDONLY)
        self._check = check
        self._buffer, self._table = np.empty(4 << 20, np.uint8), np.empty(4096, BATCH_DTYPE)
        self._ends: list[int] = []
        self._lasts: list[int] = []
        position, size = 0, path.stat().st_size
        while position < size:
            header = os.pread(self.descriptor, 61, position)
            base, length = struct.unpack_from(">qi", header)
            position += 12 + length
            self._ends.append(position)
            self._lasts.append(base + struct.unpack_from(">i", header, 23)[0])
        self.end: int = self._lasts[-1] + 1

    def batches(self, offset: int) -> tuple[int, int]:
        """Return the position and the total size of the batches from `offset` onwards, at most SENT_AT_ONCE bytes."""
        first = bisect_left(self._lasts, offset)
        start = self._ends[first - 1] if first else 0
        end = self._ends[bisect_right(self._ends, start + SENT_AT_ONCE) - 1]
        if self._check:
            core.scan_file(self.descriptor, self._buffer, self._table, start, end)
        return start, end - start


def answer(segment: Segment, frame: bytes) -> list[Part]:
    """Return the parts of the response to a Fetch request. If the client is at the end of the log, return nothing."""
    at = 14 + int.from_bytes(frame[12:14], "big") + 1 + 21
    topic_id, (offset,) = frame[at + 1 : at + 17], struct.unpack_from(">q", frame, at + 26) if frame[at] > 1 else (-1,)
    if not 0 <= offset < segment.end:
        return []
    position, size = segment.batches(offset)
    head = frame[8:12] + b"\0" + struct.pack(">ihi", 0, 0, 0) + b"\2" + topic_id + b"\2"
    head += struct.pack(">ihqqq", 0, 0, segment.end, segment.end, 0) + b"\1\xff\xff\xff\xff"
    left = size + 1
    while left > 0x7F:
        head += bytes((left & 0x7F | 0x80,))
        left >>= 7
    head += bytes((left,))
    return [struct.pack(">i", len(head) + size + 3) + head, (position, size), b"\0\0\0"]


def send(descriptor: int, segment: Segment, parts: list[Part]) -> bool:
    """Send `parts` until the socket accepts no more, and remove what was sent. Return whether everything was sent."""
    try:
        while parts:
            part = parts[0]
            if isinstance(part, bytes):
                sent = os.write(descriptor, part)
                rest: Part = part[sent:]
                done = not rest
            else:
                sent = os.sendfile(descriptor, segment.descriptor, *part)
                rest = part[0] + sent, part[1] - sent
                done = not rest[1]
            if done:
                del parts[0]
            else:
                parts[0] = rest
    except BlockingIOError:
        return False
    return True


def exactly(source: socket.socket, count: int) -> bytes:
    """Receive `count` bytes."""
    data = source.recv(count, socket.MSG_WAITALL)
    if len(data) < count:
        raise ConnectionError("the server has closed the connection")
    return data


def forward(client: socket.socket, server: socket.socket, data: bytes) -> None:
    """Send requests to the real server, and its responses to the client."""
    server.sendall(data)
    while data:
        data = data[4 + int.from_bytes(data[:4], "big") :]
        size = exactly(server, 4)
        client.setblocking(True)
        client.sendall(size + exactly(server, int.from_bytes(size, "big")))
        client.setblocking(False)


def serve(listener: socket.socket, port: int, segment: Segment) -> None:
    """Answer requests until the process is killed. `port` is the port of the real server."""
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    clients: dict[int, tuple[socket.socket, socket.socket]] = {}
    unsent: dict[int, list[Part]] = {}
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                client = listener.accept()[0]
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client, socket.create_connection(("127.0.0.1", port))
                poll.register(client, select.EPOLLIN)
                continue
            client, server = clients[descriptor]
            parts = unsent.pop(descriptor, None)
            if parts is None:
                try:
                    data = client.recv(1 << 16)
                except ConnectionError:
                    data = b""
                if not data:
                    poll.unregister(descriptor)
                    del clients[descriptor]
                    client.close()
                    server.close()
                    continue
                if data[4:6] != FETCH:
                    forward(client, server, data)
                    continue
                parts = answer(segment, data)
                if send(descriptor, segment, parts):
                    continue
            done = send(descriptor, segment, parts)
            poll.modify(descriptor, select.EPOLLIN if done else select.EPOLLOUT)
            if not done:
                unsent[descriptor] = parts


def main(argv: Sequence[str] | None = None) -> None:
    """Start the real server, print the port, and serve the topic."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("topic")
    parser.add_argument("--check", action="store_true", help="read the bytes and check their CRCs before they are sent")
    options: Any = parser.parse_args(argv)
    (path,) = (options.directory / f"{options.topic}-0").glob("*.log")
    segment = Segment(path, options.check)
    listener = socket.create_server(("127.0.0.1", 0))
    own = f"127.0.0.1:{listener.getsockname()[1]}"
    command = [sys.executable, "-m", "kafkafmt", "serve", str(options.directory), "-t", options.topic]
    command += ["--listen", "127.0.0.1:0", "--advertise", own, "--format", "json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as real:
        assert real.stdout is not None
        try:
            port = json.loads(real.stdout.readline())["port"]
            print(json.dumps({"host": "127.0.0.1", "port": int(own.rpartition(":")[2])}), flush=True)
            serve(listener, port, segment)
        except KeyboardInterrupt:
            pass
        finally:
            real.terminate()


if __name__ == "__main__":
    main()
