"""Let 1,000 consumers wait for records at the same time, and check that the server uses little memory."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from serving import Client, fetch_request

from kafkafmt import LogDirectory

CONSUMERS, PARTITIONS = 1000, 10
LARGEST_MEMORY = 150 << 20
ROUNDS = 3


def memory(pid: int) -> int:
    """Return the largest memory that a process has used, in bytes."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) << 10


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_many_live_consumers_need_little_memory(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writers = [directory.writer("t", number) for number in range(PARTITIONS)]
        for writer in writers:
            writer.append([(None, os.urandom(1000), 0)] * 1000)
            writer.flush()
        command = [sys.executable, "-m", "kafkafmt", "serve", str(tmp_path), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        clients: list[Client] = []
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            clients = [Client(port, timeout=60) for _ in range(CONSUMERS)]
            for client in clients:
                client.send(fetch_request({("t", n): 0 for n in range(PARTITIONS)}, 12, partition_max_bytes=1), 12)
            for client in clients:
                assert len(client.receive(1, 12).responses[0].partitions) == PARTITIONS
            for number in range(ROUNDS):
                for client in clients:
                    wanted: Any = {("t", n): 1000 + number for n in range(PARTITIONS)}
                    client.send(fetch_request(wanted, 12, max_wait_ms=60_000), 12)
                for writer in writers:
                    writer.append([(None, b"new", 0)])
                    writer.flush()
                waiting = selectors.DefaultSelector()
                for client in clients:
                    waiting.register(client.socket, selectors.EVENT_READ, client)
                deadline = time.monotonic() + 60
                while waiting.get_map() and time.monotonic() < deadline:
                    for key, _ in waiting.select(1):
                        found = key.data.receive(1, 12).responses[0].partitions
                        assert any(partition.records for partition in found)
                        waiting.unregister(key.fileobj)
                assert not waiting.get_map()
            assert memory(process.pid) < LARGEST_MEMORY
        finally:
            for client in clients:
                client.socket.close()
            process.kill()
            process.communicate()
