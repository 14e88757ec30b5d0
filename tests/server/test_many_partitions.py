"""Serve 10,000 partitions with sparse segments, and check that the server uses little memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Client

from kafkafmt import protocol

TOPICS, PARTITIONS = 100, 100
SEGMENT_BYTES, INDEX_BYTES = 1 << 30, 10 << 20
LARGEST_MEMORY = 150 << 20
MOST_OPEN_FILES = 50


def write_sparse(root: Path) -> None:
    """Write partitions with three leader epochs and two sparse segments each. The segments occupy no disk space."""
    for topic in range(TOPICS):
        for partition in range(PARTITIONS):
            folder = root / f"topic-{topic}-{partition}"
            folder.mkdir()
            (folder / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 400000\n2 1000000\n")
            for base in (0, 1_000_000):
                for suffix, size in ((".log", SEGMENT_BYTES), (".index", INDEX_BYTES), (".timeindex", INDEX_BYTES)):
                    path = folder / f"{base:020}{suffix}"
                    path.touch()
                    os.truncate(path, size)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "end", "epoch"),
    [
        ((), 1_000_000, 2),
        (("--at", "500000"), 500_000, 1),
        (("--at=-1",), 999_999, 1),
        (("--at", "@2024"), 1_000_000, 1),
    ],
)
def test_many_sparse_partitions_need_little_memory(
    tmp_path: Path, options: tuple[str, ...], end: int, epoch: int
) -> None:
    write_sparse(tmp_path)
    command = [sys.executable, "-m", "kafkafmt", "serve", str(tmp_path), "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(f"serving {TOPICS * PARTITIONS:,} partitions of {TOPICS} topics on ")
        read = Path(f"/proc/{process.pid}/io").read_text()
        assert int(read.split("read_bytes: ")[1].split()[0]) < SEGMENT_BYTES
        with Client(int(line.rpartition(":")[2]), timeout=300) as client:
            found = client.ask(protocol.MetadataRequest(topics=None), 12).topics
            assert sum(len(topic.partitions) for topic in found) == TOPICS * PARTITIONS
            assert {p.leader_epoch for topic in found for p in topic.partitions} == {epoch}
            for number in range(PARTITIONS):
                assert client.offset("topic-7", number, -1).offset == end
        assert resident(process.pid) < LARGEST_MEMORY
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < MOST_OPEN_FILES
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
