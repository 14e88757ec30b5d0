"""Serve logs that are growing, truncated or damaged, and check the options of the server."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import BY_NAME, Case
from handler_calls import INTERNAL
from serving import Client, certificate, fetch_request

import kafkafmt
from kafkafmt import LogDirectory, protocol
from kafkafmt.protocol import ErrorCode

Start = Callable[..., kafkafmt.server.Server]
CODECS, TORN, TRANSACTIONS = (BY_NAME[f"kafka-4.3.1/{name}"] for name in ("codecs", "torn", "transactions"))
TOPIC = "codec-none"
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


def paths(case: Case) -> list[str]:
    return [str(root) for root in case.roots]


def values(data: Any) -> list[bytes | None]:
    return [record.value for record in kafkafmt.read_records(bytes(data.records))]


def append(writer: Any, *texts: bytes, **options: Any) -> None:
    writer.append([(None, text, 1_700_000_000_000) for text in texts], **options)
    writer.flush()


def test_long_poll_ends_when_data_arrives(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        append(writer, b"old")
        with Client(started(tmp_path).port) as client:
            assert values(client.fetch("t", 0, 0)) == [b"old"]
            timer = threading.Timer(0.3, append, (writer, b"new"))
            timer.start()
            begin = time.monotonic()
            data = client.fetch("t", 0, 1, max_wait_ms=10_000)
            assert values(data) == [b"new"]
            assert 0.25 < time.monotonic() - begin < 5
            timer.join()


def test_long_poll_ends_when_the_client_leaves(started: Start) -> None:
    server = started(paths(CODECS))
    with Client(server.port) as client:
        end = client.offset(TOPIC, 0, -1).offset
        client.send(fetch_request({(TOPIC, 0): end}, 12, max_wait_ms=1_000_000), 12)
        time.sleep(0.2)
        assert server.connection_count == 1
    deadline = time.monotonic() + 10
    while server.connection_count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not server.connection_count


def test_growing_log_is_followed_across_segments(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=2000) as directory:
        writer = directory.writer("t")
        append(writer, b"0")
        with Client(started(tmp_path).port) as client:
            read: list[Any] = []
            for i in range(1, 30):
                append(writer, b"%d" % i, bytes(i * 10))
                while True:
                    data = client.fetch("t", 0, len(read), max_wait_ms=2000)
                    read += values(data)
                    if len(read) == 2 * i + 1:
                        break
            assert read == [b"0", *(v for i in range(1, 30) for v in (b"%d" % i, bytes(i * 10)))]
            assert len(list((tmp_path / "t-0").glob("*.log"))) > 3
            assert [r.value for r in client.read_all("t", 0)] == read


def test_transaction_can_end_while_it_is_served(started: Start, tmp_path: Path) -> None:
    transactional = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        append(writer, b"a")
        append(writer, b"x", base_sequence=0, **transactional)
        with Client(started(tmp_path).port) as client:
            assert client.offset("t", 0, -1, isolation_level=1).offset == 1
            assert [r.value for r in client.read_all("t", 0, 1)] == [b"a"]
            writer.end_transaction(7, 0, commit=False)
            append(writer, b"b")
            append(writer, b"y", base_sequence=1, **transactional)
            data = client.fetch("t", 0, 1, isolation_level=1, max_wait_ms=3000)
            assert data.last_stable_offset == 4
            assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions] == [(7, 1)]
            writer.end_transaction(7, 0, commit=True)
            writer.flush()
            time.sleep(0.1)
            assert [r.value for r in client.read_all("t", 0, 1)] == [b"a", b"b", b"y"]


def test_retention_and_truncation_are_noticed(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path, segment_bytes=2000) as directory:
        writer = directory.writer("t")
        for i in range(20):
            append(writer, bytes(500), b"%d" % i)
    first, *_, last = sorted((tmp_path / "t-0").glob("*.log"))
    server = started(tmp_path)
    with Client(server.port) as client:
        assert len(client.read_all("t", 0)) == 40
        first.unlink()
        time.sleep(0.1)
        assert client.fetch("t", 0, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        start = client.offset("t", 0, -2).offset
        assert start == int(sorted((tmp_path / "t-0").glob("*.log"))[0].stem)
        last.with_suffix(".index").write_bytes(b"")
        with open(last, "r+b") as file:
            file.truncate(next(iter(kafkafmt.iter_batches(last.read_bytes()))).size)
        time.sleep(0.1)
        end = client.offset("t", 0, -1).offset
        assert end < 40
        assert client.read_all("t", 0)[-1].offset == end - 1
    assert any("truncated" in line for line in server.messages)


def test_new_topic_is_noticed(started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    with LogDirectory(tmp_path) as directory:
        append(directory.writer("a"), b"1")
        with Client(started(tmp_path).port) as client:
            append(directory.writer("b"), b"2")
            found = client.ask(protocol.MetadataRequest(topics=None), 12).topics
            assert [t.name for t in found] == ["a", "b"]
            assert values(client.fetch("b", 0, 0)) == [b"2"]


def test_raised_log_start_is_noticed(started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    with LogDirectory(tmp_path) as directory:
        append(directory.writer("t"), b"1", b"2", b"3")
    with Client(started(tmp_path).port) as client:
        assert client.offset("t", 0, -2).offset == 0
        (tmp_path / "new").write_text("0\n1\nt 0 2\n")
        (tmp_path / "new").rename(tmp_path / "log-start-offset-checkpoint")
        client.ask(protocol.MetadataRequest(topics=None), 12)
        assert client.offset("t", 0, -2).offset == 2
        assert client.fetch("t", 0, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_topic_is_noticed(started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    with LogDirectory(tmp_path) as directory:
        append(directory.writer("a"), b"1")
        append(directory.writer("b"), b"2")
    with Client(started(tmp_path).port) as client:
        assert values(client.fetch("b", 0, 0)) == [b"2"]
        shutil.rmtree(tmp_path / "b-0")
        assert [t.name for t in client.ask(protocol.MetadataRequest(topics=None), 12).topics] == ["a"]
        assert client.fetch("b", 0, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_damage_is_an_error_with_on_error_fail(started: Start) -> None:
    log = kafkafmt.open(paths(TORN))
    server = started(log, on_error="fail")
    failed = 0
    with Client(server.port) as client:
        for partition in log.partitions:
            offset, end = partition.log_start_offset, partition.next_offset
            while offset < end:
                data = client.fetch(partition.topic, partition.partition, offset)
                if data.error_code:
                    assert data.error_code == ErrorCode.CORRUPT_MESSAGE
                    failed += 1
                    break
                offset = list(kafkafmt.iter_batches(bytes(data.records)))[-1].last_offset + 1
    assert failed


def test_damaged_spans_are_reported_once(started: Start) -> None:
    log = kafkafmt.open(paths(TORN))
    server = started(log)
    with Client(server.port) as client:
        for _ in range(2):
            for partition in log.partitions:
                client.read_all(partition.topic, partition.partition)
    lines = [line for line in server.messages if line.startswith("damaged: ")]
    assert lines
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("at", [0, 1, 100, 273, -1, 10_000])
def test_log_is_served_as_it_was_at_an_offset(started: Start, at: int) -> None:
    log = kafkafmt.open(paths(CODECS))
    partition = log[TOPIC, 0]
    records = list(partition)
    end = at if at >= 0 else partition.next_offset + at
    server = started(log, at=at)
    with Client(server.port) as client:
        got = client.read_all(TOPIC, 0)
        cap = client.offset(TOPIC, 0, -1).offset
        batch = next((b for b in batches_of(CODECS) if b.base_offset <= end <= b.last_offset), None)
        assert cap == min(end if batch is None else batch.base_offset, partition.next_offset)
        assert [r.offset for r in got] == [r.offset for r in records if r.offset < cap]


def batches_of(case: Case) -> list[Any]:
    return list(kafkafmt.iter_batches((case.partition_dir(TOPIC, 0) / "00000000000000000000.log").read_bytes()))


def test_transactions_are_open_if_they_were_open_at_the_offset(started: Start) -> None:
    log = kafkafmt.open(paths(TRANSACTIONS))
    for partition in log.partitions:
        spans = [span for found in partition.log.transactions.aborted.values() for span in found]
        for first, last in spans[:3]:
            server = started(log, at=last)
            with Client(server.port) as client:
                name, number = partition.topic, partition.partition
                assert client.offset(name, number, -1).offset == last
                assert client.offset(name, number, -1, isolation_level=1).offset <= first


def test_missing_partitions_are_served_as_empty(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        for number in (1, 3):
            append(directory.writer("t", number), b"x")
    server = started(tmp_path)
    with Client(server.port) as client:
        (topic,) = client.ask(protocol.MetadataRequest(topics=None), 12).topics
        assert [p.partition_index for p in topic.partitions] == [0, 1, 2, 3]
        assert [client.offset("t", n, -1).offset for n in range(4)] == [0, 1, 0, 1]
        assert not client.fetch("t", 0, 0).records
    assert "t: partitions 0, 2 are missing in the directories, so clients see no records" in server.messages


@pytest.mark.parametrize("later", [False, True])
def test_topic_whose_name_is_not_utf8_is_omitted(
    started: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    """Clients could not be sent this name, and all other topics would be unreadable, too."""
    monkeypatch.setattr("kafkafmt.server.catalog.RESCAN", 0.0)
    folder = tmp_path / os.fsdecode(b"log\xff")
    with LogDirectory(folder) as directory:
        for topic in ("a", "b"):
            append(directory.writer(topic, 0), b"x")
    server = started(folder) if later else None
    (folder / "b-0").rename(folder / os.fsdecode(b"b\xff\x1b-0"))
    server = server or started(folder)
    with Client(server.port) as client:
        assert [t.name for t in client.ask(protocol.MetadataRequest(topics=None), 12).topics] == ["a"]
        assert [t.name for t in client.ask(protocol.DescribeTopicPartitionsRequest(), 0).topics] == ["a"]
        [result] = client.ask(protocol.DescribeLogDirsRequest(topics=None), 4).results
        assert result.log_dir == f"{tmp_path}/log\\udcff"
        assert [r.value for r in client.read_all("a", 0)] == [b"x"]
    omitted = f"{tmp_path}/log\\udcff/b\\udcff\\x1b-0: the partition is not served, because its name is not valid UTF-8"
    assert omitted in server.messages


def test_topics_and_partitions_are_selected(started: Start) -> None:
    assert started(paths(CODECS), topics="codec-*z*").topics == ["codec-gzip", "codec-lz4", "codec-zstd"]
    with pytest.raises(kafkafmt.PartitionNotFoundError):
        kafkafmt.serve(paths(CODECS), topics="missing")


def test_large_batch_is_sent_alone(started: Start, tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        writer.append([(None, bytes(3 << 20), 1)])
        append(writer, b"small")
    with Client(started(tmp_path).port) as client:
        data = client.fetch("t", 0, 0, partition_max_bytes=1000)
        assert [len(value or b"") for value in values(data)] == [3 << 20]
        assert values(client.fetch("t", 0, 1)) == [b"small"]


def test_tls_clients_read_the_same_records(started: Start, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    log = kafkafmt.open(paths(CODECS))
    server = started(log, tls_cert=cert, tls_key=key)
    context = ssl.create_default_context(cafile=str(cert))
    with Client(server.port) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        assert [r.value for r in client.read_all(TOPIC, 0)] == [r.value for r in log[TOPIC, 0]]
    with Client(server.port) as plain:
        plain.send(protocol.MetadataRequest(topics=None), 12)
        assert plain.closed()


def test_address_that_other_hosts_can_reach_requires_tls() -> None:
    with pytest.raises(kafkafmt.server.ServerAddressError, match=r"0\.0\.0\.0"):
        kafkafmt.serve(paths(CODECS), "0.0.0.0")
    assert kafkafmt.serve(paths(CODECS), "0.0.0.0", insecure=True).host == "0.0.0.0"


def test_server_runs_in_an_event_loop() -> None:
    async def ask() -> list[str]:
        async with kafkafmt.serve(paths(CODECS)) as server:
            return await asyncio.to_thread(topics, server.port)

    def topics(port: int) -> list[str]:
        with Client(port) as client:
            return [t.name for t in client.ask(protocol.MetadataRequest(topics=None), 12).topics]

    assert TOPIC in asyncio.run(ask())


def test_used_port_is_an_error(started: Start) -> None:
    server = started(paths(CODECS))
    with pytest.raises(OSError, match="in use"), kafkafmt.serve(paths(CODECS), port=server.port):
        pass


@pytest.mark.parametrize("end", [0, 1, 30, 41, 55, 60])
def test_max_timestamp_ignores_records_after_the_selected_end(started: Start, tmp_path: Path, end: int) -> None:
    """With `at`, the log has the maximum timestamp that it had when its end offset was `at`."""
    with LogDirectory(tmp_path, segment_bytes=3000) as directory:
        writer = directory.writer("t")
        for i in range(60):
            writer.append([(b"key", bytes(200), 1000 + i * 7 % 100 + (500 if i > 40 else 0))])
    records = list(kafkafmt.open(tmp_path)["t", 0].records(end=end))
    found = max(records, key=lambda record: (record.timestamp, -record.offset), default=None)
    with Client(started(tmp_path, at=end).port) as client:
        answer = client.offset("t", 0, -3)
    assert (answer.offset, answer.timestamp) == ((found.offset, found.timestamp) if found else (-1, -1))


@pytest.mark.parametrize("bound", [{"at": 5}, {"at_time": 1005}, {"at": -1}])
def test_growing_log_is_served_up_to_the_selected_end(started: Start, tmp_path: Path, bound: dict[str, int]) -> None:
    """If the selected end is above the log end offset, records that are appended later are served up to this end."""
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        for i in range(2):
            writer.append([(b"key", b"value", 1000 + i)])
        writer.flush()
        end = 1 if bound == {"at": -1} else 5
        with Client(started(tmp_path, **bound).port) as client:
            assert client.offset("t", 0, -1).offset == min(end, 2)
            for i in range(2, 8):
                writer.append([(b"key", b"value", 1000 + i)])
                writer.flush()
                time.sleep(0.1)
                assert client.offset("t", 0, -1).offset == min(end, i + 1)
            assert [r.offset for r in client.read_all("t", 0)] == list(range(end))


@pytest.mark.parametrize("at", [2, 3])
def test_marker_after_the_selected_end_does_not_end_a_transaction(started: Start, tmp_path: Path, at: int) -> None:
    transactional = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        append(writer, b"a")
        append(writer, b"x", **transactional)
        with Client(started(tmp_path, at=at).port) as client:
            assert client.offset("t", 0, -1, isolation_level=1).offset == 1
            append(writer, b"b")
            time.sleep(0.1)
            assert client.offset("t", 0, -1, isolation_level=1).offset == 1
            writer.end_transaction(7, 0, commit=True)
            writer.flush()
            append(writer, b"c")
            time.sleep(0.1)
            assert client.offset("t", 0, -1).offset == at
            assert client.offset("t", 0, -1, isolation_level=1).offset == 1
            assert [r.value for r in client.read_all("t", 0, 1)] == [b"a"]


@pytest.mark.parametrize(
    ("options", "served"),
    [
        ({}, False),
        ({"internal": True}, False),
        ({"topics": "__*"}, False),
        ({"topics": ["__cluster_*", "__consumer_offsets"]}, False),
        ({"topics": "__cluster_metadata"}, True),
        ({"internal": True, "topics": ["*", "__cluster_metadata"]}, True),
    ],
)
def test_metadata_log_is_served_only_if_it_is_named(started: Start, options: dict[str, Any], served: bool) -> None:
    server = started(INTERNAL, **options)
    assert ("__cluster_metadata" in server.topics) == served
    with Client(server.port) as client:
        found = {topic.name for topic in client.ask(protocol.MetadataRequest(topics=None), 12).topics}
        assert ("__cluster_metadata" in found) == served
        make = protocol.MetadataRequest
        body = make(topics=[make.MetadataRequestTopic(name="__cluster_metadata")])
        (topic,) = client.ask(body, 12).topics
    assert bool(topic.error_code) != served
    assert any("it contains secrets" in message for message in server.messages) == (bool(options) and not served)


def test_metadata_log_is_not_served_if_a_path_is_its_directory(started: Start) -> None:
    server = started([INTERNAL / "__cluster_metadata-0", INTERNAL / "__consumer_offsets-0"])
    assert server.topics == ["__consumer_offsets"]
