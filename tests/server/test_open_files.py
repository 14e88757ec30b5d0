"""Delete files that a server has open, let system calls fail, and check that the server continues."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving import Client

import kafkafmt
from kafkafmt import LogDirectory, protocol
from kafkafmt.log.formats.checkpoints import read_offset_checkpoint
from kafkafmt.protocol import ErrorCode

Start = Callable[..., kafkafmt.server.Server]
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def open_names(pid: int | str = "self") -> list[str]:
    """Return the names of the regular files that a process has open. Deleted files end with " (deleted)"."""
    names = []
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.append(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        except FileNotFoundError:
            continue
    return names


@contextmanager
def command(
    directory: Path | str, limits: tuple[int, int] | None = None
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run `kafkafmt serve` with a soft and a hard limit of open files, and yield its port and its process."""

    def set_limits() -> None:
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    process = subprocess.Popen(
        [sys.executable, "-m", "kafkafmt", "serve", str(directory), "--listen", "127.0.0.1:0", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=set_limits,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["port"], process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """Return a log directory with a partition of many segments."""
    with LogDirectory(tmp_path, segment_bytes=2000) as directory:
        writer = directory.writer("t")
        for i in range(40):
            writer.append([(None, b"%d" % i + bytes(700), 1_700_000_000_000)])
    return tmp_path


def test_deleted_segments_are_closed(started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.service.CLEANING_INTERVAL", 0.1)
    monkeypatch.setattr("kafkafmt.server.resources.IDLE_READER", 0.1)
    server = started(segments)
    with Client(server.port) as client:
        assert len(client.read_all("t", 0)) == 40
        logs = sorted((segments / "t-0").glob("*.log"))
        before = [name for name in open_names() if str(segments) in name]
        assert len(before) >= len(logs) - 1
        for number, log in enumerate(logs[:-1]):
            if number % 2:
                log.unlink()
            else:  # a broker first renames a segment, and deletes it later
                log.rename(log.with_name(log.name + ".deleted"))
        assert until(lambda: not [n for n in open_names() if str(segments) in n and not n.endswith(logs[-1].name)])
        assert client.fetch("t", 0, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert client.fetch("t", 0, client.offset("t", 0, -2).offset).records


def test_command_raises_the_limit_of_open_files(segments: Path) -> None:
    with command(segments, (64, 512)) as (_, process):
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (512, 512)


def test_library_does_not_change_the_limit_of_open_files(started: Start, segments: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    started(segments)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_server_with_few_file_descriptors_answers_its_clients(segments: Path) -> None:
    with command(segments, (64, 64)) as (port, process):
        clients = [Client(port) for _ in range(100)]
        try:
            answered = 0
            for client in clients:
                try:
                    answered += len(client.read_all("t", 0)) == 40
                except ConnectionError:
                    continue
            assert 16 <= answered < 64
        finally:
            for client in clients:
                client.socket.close()
        with Client(port) as client:
            assert until(lambda: bool(client.ask(protocol.MetadataRequest(topics=None), 12).topics))
        process.terminate()
        _, messages = process.communicate(timeout=20)
    lines = messages.splitlines()
    assert len([line for line in lines if "new connections are closed" in line]) == 1
    assert "Traceback" not in messages
    assert len(lines) <= 3, messages


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES], ids=errno.errorcode.get)
def test_segment_that_cannot_be_opened_is_a_storage_error(
    started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    server = started(segments)

    def fail(path: Any) -> Any:
        raise OSError(number, os.strerror(number), str(path))

    with Client(server.port) as client:
        assert client.fetch("t", 0, 0).records
        with monkeypatch.context() as patched:
            server.catalog.resources.files.close()
            patched.setattr("kafkafmt.server.open_files.OpenSegment", fail)
            for _ in range(5):
                assert client.fetch("t", 0, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.fetch("t", 0, 0).records
    lines = [line for line in server.messages if "cannot be read" in line]
    assert len(lines) == 1, server.messages
    assert os.strerror(number) in lines[0]


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_partition_that_cannot_be_read_is_a_storage_error(
    started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    server = started(segments)
    real = os.open

    def fail(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).startswith(str(segments)):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *arguments, **options)

    with Client(server.port) as client:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", fail)
            assert client.fetch("t", 0, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.fetch("t", 0, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.offset("t", 0, -1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert len(client.read_all("t", 0)) == 40
    assert len([line for line in server.messages if "offset 0 cannot be read" in line]) == 1


def test_long_poll_ends_with_an_error_if_the_partition_cannot_be_read(
    started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started(segments)

    def fail(_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Client(server.port) as client:
        client.read_all("t", 0)
        monkeypatch.setattr("kafkafmt.server.growing_partition.GrowingPartition._check", fail)
        data = client.fetch("t", 0, 40, max_wait_ms=10_000)
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("number", [errno.EIO, errno.EHOSTUNREACH], ids=errno.errorcode.get)
def test_error_while_a_segment_is_sent_closes_the_connection(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("t").append([(None, bytes(100_000), 0)] * 2)
    server = started(tmp_path)

    def fail(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    with Client(server.port) as client, monkeypatch.context() as patched:
        patched.setattr(os, "sendfile", fail)
        with pytest.raises(ConnectionError):
            client.fetch("t", 0, 0)
    assert until(lambda: bool(server.messages))
    (line,) = [line for line in server.messages if "connection closed" in line]
    assert os.strerror(number) in line
    with Client(server.port) as client:
        assert client.fetch("t", 0, 0).records


def test_server_closes_promptly_while_clients_wait(segments: Path) -> None:
    clients = []
    with kafkafmt.serve(segments) as server:
        for _ in range(20):
            client = Client(server.port)
            client.read_all("t", 0)
            body = protocol.FetchRequest(
                topics=[
                    protocol.FetchRequest.FetchTopic(
                        topic="t", partitions=[protocol.FetchRequest.FetchPartition(partition=0, fetch_offset=40)]
                    )
                ],
                max_wait_ms=60_000,
                min_bytes=1,
            )
            client.send(body, 4)
            clients.append(client)
        time.sleep(0.3)
        began = time.monotonic()
    assert time.monotonic() - began < 3
    for client in clients:
        assert client.closed()
        client.socket.close()


def test_server_waits_for_running_reads_when_it_closes(segments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ended = threading.Event(), threading.Event()

    def slow(_: Any) -> int:
        reading.set()
        time.sleep(0.5)
        ended.set()
        return 0

    with kafkafmt.serve(segments) as server, Client(server.port) as client:
        monkeypatch.setattr("kafkafmt.server.served_partition.ServedPartition.high_watermark", slow)
        client.send(_latest("t"), 7)
        assert reading.wait(10)
    assert ended.is_set()


def _latest(topic: str) -> Any:
    make = protocol.ListOffsetsRequest
    wanted = make.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return make(replica_id=-1, topics=[make.ListOffsetsTopic(name=topic, partitions=[wanted])])


def raise_log_start(directory: Path, offset: int) -> None:
    """Write the checkpoint as a broker does after DeleteRecords."""
    (directory / "new").write_text(f"0\n1\nt 0 {offset}\n")
    (directory / "new").rename(directory / "log-start-offset-checkpoint")


def test_raised_log_start_is_noticed_without_metadata_requests(
    started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkafmt.server.log_starts.CHECK_SECONDS", 0.1)
    with Client(started(segments).port) as client:
        assert client.offset("t", 0, -2).offset == 0
        raise_log_start(segments, 3)
        time.sleep(0.2)
        assert client.offset("t", 0, -2).offset == 3
        assert client.fetch("t", 0, 5).records
        raise_log_start(segments, 7)
        time.sleep(0.2)
        data = client.fetch("t", 0, 5)
        assert (data.error_code, data.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 7)
        (segments / "log-start-offset-checkpoint").write_text("damaged")
        time.sleep(0.2)
        assert client.offset("t", 0, -2).offset == 7


def test_lowered_log_start_is_noticed(started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker lowers the log start offset if it truncates the log, and writes the checkpoint up to a minute later."""
    monkeypatch.setattr("kafkafmt.server.log_starts.CHECK_SECONDS", 0.0)
    monkeypatch.setattr("kafkafmt.server.growing_partition.FULL_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr("kafkafmt.server.growing_partition.CHECK_INTERVAL", 0.0)
    raise_log_start(segments, 7)
    with Client(started(segments).port) as client:
        assert client.fetch("t", 0, 7).log_start_offset == 7
        for offset in (3, 5, 4):
            raise_log_start(segments, offset)
            assert client.offset("t", 0, -2).offset == offset
            assert client.fetch("t", 0, offset).log_start_offset == offset
        (segments / "log-start-offset-checkpoint").unlink()
        assert client.offset("t", 0, -2).offset == 4


def test_checkpoint_of_log_starts_is_rarely_read(
    started: Start, segments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = list[str]()
    monkeypatch.setattr("kafkafmt.server.log_starts.CHECK_SECONDS", 0.0)

    def read(text: str, name: str) -> dict[tuple[str, int], int]:
        reads.append(text)
        return read_offset_checkpoint(text, name)

    monkeypatch.setattr("kafkafmt.server.log_starts.read_offset_checkpoint", read)
    raise_log_start(segments, 3)
    os.utime(segments / "log-start-offset-checkpoint", ns=(0, 10**18))  # a recent time is not trusted
    with Client(started(segments).port) as client:
        for _ in range(20):
            assert client.offset("t", 0, -2).offset == 3
    assert len(reads) == 1


def test_deleted_segments_of_an_unread_log_are_noticed(started: Start, segments: Path) -> None:
    with Client(started(segments).port) as client:
        assert client.offset("t", 0, -2).offset == 0
        first, second, *_ = sorted((segments / "t-0").glob("*.log"))
        time.sleep(0.05)
        first.unlink()
        assert client.offset("t", 0, -2).offset == int(second.stem)


def test_segment_created_before_the_first_request_is_read(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=2000) as directory:
        writer = directory.writer("t")
        writer.append([(None, bytes(1500), 0)])
        writer.flush()
        server = started(tmp_path)
        for _ in range(5):
            writer.append([(None, bytes(1500), 0)])
        writer.flush()
        with Client(server.port) as client:
            assert client.offset("t", 0, -1).offset == 6
            assert len(client.read_all("t", 0)) == 6


def test_damaged_meta_properties_are_reported(started: Start, segments: Path) -> None:
    (segments / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=x\n")
    server = started(segments)
    with Client(server.port) as client:
        assert [b.node_id for b in client.ask(protocol.MetadataRequest(topics=None), 12).brokers] == [0]
    assert any("meta.properties: ignored: " in line for line in server.messages)


@pytest.mark.parametrize("node", ["-1", "2147483648"])
def test_invalid_broker_id_is_replaced_by_0(started: Start, segments: Path, node: str) -> None:
    (segments / "meta.properties").write_text(f"version=1\ncluster.id=abcdefghijklmnopqrstuv\nnode.id={node}\n")
    server = started(segments)
    with Client(server.port) as client:
        found = client.ask(protocol.MetadataRequest(topics=None), 12)
    assert (found.cluster_id, [b.node_id for b in found.brokers]) == ("abcdefghijklmnopqrstuv", [0])
    assert found.topics[0].partitions[0].leader_id == 0
    assert any(f"{node} is not a valid broker id" in line for line in server.messages)


def test_segment_that_is_named_alone_is_served_alone(started: Start, segments: Path) -> None:
    _, second, third, *_ = sorted((segments / "t-0").glob("*.log"))
    with Client(started(second).port) as client:
        assert client.offset("t", 0, -2).offset == int(second.stem)
        assert client.offset("t", 0, -1).offset == int(third.stem)


def test_broker_id_is_used_without_a_cluster_id(started: Start, segments: Path) -> None:
    (segments / "meta.properties").write_text("version=0\nbroker.id=7\n")
    server = started(segments)
    with Client(server.port) as client:
        found = client.ask(protocol.MetadataRequest(topics=None), 12)
    assert (len(found.cluster_id), [b.node_id for b in found.brokers]) == (22, [7])
