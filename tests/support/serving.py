"""Talk to a server over a socket, with the messages of `kafkafmt.protocol`."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

import kafkafmt
from kafkafmt import protocol

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 1, 2, 3, 18


class Client:
    """A connection to a server. It sends one request after another."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout: float = 20.0) -> None:
        self.socket = socket.create_connection((host, port), timeout)
        self._correlation = 0

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, body: Any, version: int) -> None:
        self._correlation += 1
        request = protocol.make_request(body, version, self._correlation, "test")
        self.socket.sendall(b"".join(map(bytes, protocol.write_request(request))))

    def receive(self, api_key: int, version: int) -> Any:
        """Read the next response, and return its body."""
        size = int.from_bytes(self.read(4), "big")
        frame = size.to_bytes(4, "big") + self.read(size)
        response = protocol.read_response(frame, api_key=api_key, api_version=version)
        assert response.header.correlation_id == self._correlation
        assert not response.trailing
        return response.body

    def ask(self, body: Any, version: int) -> Any:
        self.send(body, version)
        return self.receive(body.API.key, version)

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError(f"the server closed the connection after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    def closed(self) -> bool:
        """Return whether the server closes the connection without sending more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def fetch(
        self,
        topic: str | UUID,
        partition: int,
        offset: int,
        version: int = 12,
        *,
        partition_max_bytes: int = 1 << 20,
        isolation_level: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        current_leader_epoch: int = -1,
    ) -> Any:
        """Fetch from one partition without a session, and return the partition's part of the response."""
        body = fetch_request(
            {(topic, partition): offset},
            version,
            partition_max_bytes=partition_max_bytes,
            isolation_level=isolation_level,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        response = self.ask(body, version)
        assert not response.error_code
        (found,) = response.responses
        (data,) = found.partitions
        return data

    def offset(self, topic: str, partition: int, timestamp: int, version: int = 7, isolation_level: int = 0) -> Any:
        """Look up an offset, and return the partition's part of the response."""
        make = protocol.ListOffsetsRequest
        wanted = make.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        body = make(replica_id=-1, topics=[make.ListOffsetsTopic(name=topic, partitions=[wanted])])
        if version >= 2:
            body.isolation_level = isolation_level
        return self.ask(body, version).topics[0].partitions[0]

    def read_all(self, topic: str, partition: int, isolation_level: int = 0, **fetch: Any) -> list[Any]:
        """Fetch all records of a partition, as a consumer does, and return them."""
        offset = self.offset(topic, partition, -2).offset
        end = self.offset(topic, partition, -1, isolation_level=isolation_level).offset
        records: list[Any] = []
        while offset < end:
            data = self.fetch(topic, partition, offset, isolation_level=isolation_level, **fetch)
            assert data.error_code == 0, data.error_code
            buffer = b"".join(map(bytes, data.records)) if isinstance(data.records, list) else bytes(data.records)
            aborted = [(a.producer_id, a.first_offset) for a in data.aborted_transactions or []]
            batches = list(kafkafmt.iter_batches(buffer))
            assert batches, offset
            assert sum(batch.size for batch in batches) == len(buffer)
            options: dict[str, Any] = {"aborted": aborted} if isolation_level else {}
            records += kafkafmt.read_records(buffer, start=offset, **options)
            following = batches[-1].last_offset + 1
            assert following > offset
            offset = following
        return records


def fetch_request(
    offsets: dict[tuple[str | UUID, int], int],
    version: int,
    *,
    partition_max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    current_leader_epoch: int = -1,
    **fields: Any,
) -> Any:
    """Return a Fetch request for partitions. Fields that `version` does not have are omitted."""
    make = protocol.FetchRequest
    topics: dict[str | UUID, list[Any]] = {}
    for (topic, partition), offset in offsets.items():
        wanted = make.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        if version >= 9:
            wanted.current_leader_epoch = current_leader_epoch
        topics.setdefault(topic, []).append(wanted)
    named = [
        make.FetchTopic(**({"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic}), partitions=wanted)
        for topic, wanted in topics.items()
    ]
    body = make(
        topics=named,
        max_wait_ms=fields.get("max_wait_ms", 0),
        min_bytes=fields.get("min_bytes", 1),
        max_bytes=fields.get("max_bytes", 50 << 20),
        isolation_level=fields.get("isolation_level", 0),
        session_id=session_id,
        session_epoch=session_epoch,
    )
    body.forgotten_topics_data = fields.get("forgotten", [])
    return body


def certificate(folder: Path) -> tuple[Path, Path]:
    """Create a certificate for localhost with openssl."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        + ["-out", str(cert), "-keyout", str(key)],
        check=True,
        capture_output=True,
    )
    return cert, key
