"""Check how the server selects batches, checks them ahead of the next fetch, and writes responses."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from golden_cases import BY_NAME
from serving import Client, fetch_request

import kafkafmt
from kafkafmt import LogDirectory, protocol
from kafkafmt.log import PartitionLog
from kafkafmt.protocol import ErrorCode
from kafkafmt.server import ServerLimits, connection, growing_partition
from kafkafmt.server.checked_batches import BatchLists, CheckedBatches, Span
from kafkafmt.server.fetch import FetchApi
from kafkafmt.server.fetch_answer import Answer
from kafkafmt.server.fetch_request import PartitionRequest
from kafkafmt.server.sessions import FetchedPartition, FetchSession
from kafkafmt.server.tail import TICK
from kafkafmt.types import BATCH_DTYPE

Start = Callable[..., kafkafmt.server.Server]
CODECS = BY_NAME["kafka-4.3.1/codecs"]
MIB = 1 << 20
pytestmark = pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a log directory with one partition of 24 MiB, in batches of 64 KiB."""
    with LogDirectory(tmp_path) as directory:
        writer = directory.writer("t")
        for i in range(24 * 16):
            writer.append([(None, os.urandom(1 << 16), i)])
    return tmp_path


def checked(server: kafkafmt.server.Server, offset: int) -> bool:
    """Return whether the batch with this offset is checked."""
    served = server.catalog.partition("t", 0)
    assert served is not None
    return served._lists.find(offset) is not None


def wait_for(condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within a few seconds."""
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def next_offset(data: Any) -> int:
    last: int = list(kafkafmt.iter_batches(bytes(data.records)))[-1].last_offset
    return last + 1


def unchecked_end(server: kafkafmt.server.Server) -> int:
    """Return the first offset that is not checked."""
    return next(offset for offset in range(24 * 16 + 1) if not checked(server, offset))


def test_batches_are_checked_before_the_client_asks_for_them(started: Start, large: Path) -> None:
    server = started(large)
    with Client(server.port) as client:
        offset, ahead = 0, 0
        while offset < 24 * 16:
            offset = next_offset(client.fetch("t", 0, offset))
            if 24 <= offset < 24 * 14:
                assert wait_for(lambda after=offset: checked(server, after + 15))  # type: ignore[misc]
                ahead += 1
    assert ahead > 10


def test_single_fetches_check_no_batches_ahead(started: Start, large: Path) -> None:
    server = started(large)
    with Client(server.port) as client:
        client.fetch("t", 0, 0, partition_max_bytes=1)
        end = unchecked_end(server)
        client.fetch("t", 0, end - 1, partition_max_bytes=1)
        time.sleep(0.2)
        assert unchecked_end(server) == end


def test_damage_ahead_is_reported_by_the_fetch_that_reaches_it(started: Start, large: Path) -> None:
    (path,) = (large / "t-0").glob("*.log")
    position = list(kafkafmt.iter_batches(path.read_bytes()))[200].position
    with path.open("r+b") as file:
        file.seek(position + 1000)
        file.write(bytes(64))
    for on_error in ("fail", "skip"):
        server = started(large, on_error=on_error)
        offsets: list[int] = []
        with Client(server.port) as client:
            offset = 0
            while offset < 24 * 16:
                data = client.fetch("t", 0, offset)
                if data.error_code:
                    assert (data.error_code, offset) == (ErrorCode.CORRUPT_MESSAGE, 200)
                    break
                offsets += [batch.base_offset for batch in kafkafmt.iter_batches(bytes(data.records))]
                offset = next_offset(data)
        assert offsets == [o for o in range(24 * 16 if on_error == "skip" else 200) if o != 200]


def test_transactions_are_not_read_for_a_log_without_them(
    started: Start, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("transactions were read")

    monkeypatch.setattr(PartitionLog, "transactions_in", fail)
    with Client(started(large).port) as client:
        data = client.fetch("t", 0, 0, isolation_level=1)
        assert len(data.records) > MIB // 2
        assert data.aborted_transactions == []


def test_slow_client_gets_every_byte(started: Start, large: Path) -> None:
    server = started(large)
    with Client(server.port) as fast:
        expected = bytes(fast.fetch("t", 0, 0, partition_max_bytes=20 * MIB).records)
    assert len(expected) > 19 * MIB
    with Client(server.port) as client:
        client.socket.close()
        client.socket = socket.socket()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.socket.connect(("127.0.0.1", server.port))
        client.socket.settimeout(20)
        client.send(fetch_request({("t", 0): 0}, 12, partition_max_bytes=20 * MIB), 12)
        size = int.from_bytes(client.read(4), "big")
        time.sleep(0.3)
        body = client.read(size)
        assert expected in body
        assert client.fetch("t", 0, 5).error_code == 0


def test_client_that_leaves_inside_a_response_disturbs_nobody(started: Start, large: Path) -> None:
    server = started(large)
    for _ in range(5):
        with Client(server.port) as client:
            client.send(fetch_request({("t", 0): 0}, 12, partition_max_bytes=20 * MIB), 12)
            client.read(1000)
    with Client(server.port) as client:
        assert client.fetch("t", 0, 0).error_code == 0
        assert wait_for(lambda: server.connection_count == 1)


def test_requests_sent_together_are_answered_in_order(started: Start, large: Path) -> None:
    server = started(large)
    offsets = [0, 100, 50, 200, 1, 383]
    with Client(server.port) as client:
        frames = [
            protocol.write_request(protocol.make_request(fetch_request({("t", 0): offset}, 12), 12, i, "test"))
            for i, offset in enumerate(offsets)
        ]
        data = b"".join(bytes(part) for frame in frames for part in frame)
        for step in (len(data), 1, 100):
            for start in range(0, len(data), step):
                client.socket.sendall(data[start : start + step])
            for i, offset in enumerate(offsets):
                size = client.read(4)
                response = protocol.read_response(
                    size + client.read(int.from_bytes(size, "big")), api_key=1, api_version=12
                )
                assert response.correlation_id == i
                first = next(iter(kafkafmt.iter_batches(bytes(response.responses[0].partitions[0].records))))
                assert first.base_offset == offset


def test_client_that_sends_no_more_gets_its_response(started: Start, large: Path) -> None:
    server = started(large)
    with Client(server.port) as client:
        client.send(fetch_request({("t", 0): 0}, 12, partition_max_bytes=20 * MIB), 12)
        client.send(fetch_request({("t", 0): 9}, 12), 12)
        client.socket.shutdown(socket.SHUT_WR)
        sizes = [len(client.read(int.from_bytes(client.read(4), "big"))) for _ in range(2)]
        assert sizes[0] > 19 * MIB > sizes[1] > MIB // 2
        assert client.closed()
    assert not server.messages


def test_incomplete_request_is_closed(started: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PARTIAL_TIMEOUT", 0.2)
    server = started([str(root) for root in CODECS.roots])
    with Client(server.port) as client:
        client.socket.sendall(bytes.fromhex("00000064 0003"))
        assert client.closed()
    assert "a request of 100 bytes was still incomplete after 0.2 seconds" in server.messages[-1]


def test_active_connection_stays_open_after_the_idle_timeout(started: Start) -> None:
    server = started([str(root) for root in CODECS.roots], limits=ServerLimits(idle_timeout=0.4))
    with Client(server.port) as client:
        for _ in range(8):
            time.sleep(0.1)
            client.fetch("codec-none", 0, 0)
        assert client.closed()
    assert "no request for 0.4 seconds" in server.messages[-1]


def random_batches(seed: int) -> tuple[CheckedBatches, list[tuple[int, int, int, int, int]]]:
    """Return checked batches, and their first and last offsets, positions, sizes and producer ids."""
    choose = random.Random(seed)
    table = np.zeros(choose.randint(0, 12), BATCH_DTYPE)
    offset, position, gaps = 10, 0, choose.random() < 0.5
    rows = []
    for row in table:
        offset += choose.choice([0, 0, 3]) if gaps else 0
        position += choose.choice([0, 0, 50]) if gaps else 0
        count, size, producer = choose.randint(1, 4), choose.randint(70, 90), choose.choice([-1, 5])
        row["magic"], row["base_offset"], row["last_offset_delta"] = 2, offset, count - 1
        row["count"], row["position"], row["size"] = count, position, size
        row["attributes"], row["producer_id"] = (16 if producer > 0 else 0), producer
        rows.append((offset, offset + count - 1, 1000 + position, size, producer))
        offset, position = offset + count, position + size
    return CheckedBatches(Path("x"), 1, 10, offset + 2, 1000, table), rows


@pytest.mark.parametrize("seed", range(10))
def test_selected_batches_are_those_of_a_simple_loop(seed: int) -> None:
    batches, rows = random_batches(seed)
    omissions: list[list[tuple[int, int, int]]] = [[], [(5, 12, 20)]]
    for offset, length, room, one, omitted in itertools.product(
        range(10, batches.end, 3), range(2, 40, 4), (0, 80, 200, 10_000), (False, True), omissions
    ):
        end, left, chosen, following, full = offset + length, room, [], None, False
        for first, last, position, size, producer in rows:
            if last < offset:
                continue
            if first >= end or (size > left and not (one and following is None)):
                full = True
                break
            left, following = left - size, last + 1
            if not any(p == producer and low <= first <= high for p, low, high in omitted):
                chosen.append((position, size))
        spans: list[Span] = []
        for position, size in chosen:
            if spans and spans[-1].position + spans[-1].size == position:
                spans[-1] = spans[-1]._replace(size=spans[-1].size + size)
            else:
                spans.append(Span(Path("x"), 1, position, size, False))
        found, total, continue_at, was_full = batches.select(offset, end, room, one, omitted)
        assert (found, total, was_full) == (spans, sum(size for _, size in chosen), full)
        if following is not None and full:
            assert continue_at == following
        elif not full:
            assert continue_at == batches.end
        assert batches.bytes_after(offset) == sum(size for first, _, _, size, _ in rows if first >= offset)


def batches_of(start: int, end: int) -> CheckedBatches:
    return CheckedBatches(Path("x"), 1, start, end, 0, np.zeros(0, BATCH_DTYPE))


@pytest.mark.parametrize("seed", range(10))
def test_lists_contain_the_latest_batches_of_each_offset(seed: int) -> None:
    choose, lists, known = random.Random(seed), BatchLists(), list[CheckedBatches]()
    for _ in range(300):
        if known and choose.random() < 0.3:
            removed = choose.choice([*known, batches_of(0, 5)])
            lists.remove(removed)
            known = [item for item in known if item is not removed]
        else:
            start = choose.randrange(100)
            added = batches_of(start, start + choose.randint(1, 20))
            lists.add(added)
            known = [item for item in known if item.end <= added.start or item.start >= added.end] + [added]
        known.sort(key=lambda item: item.start)
        assert list(lists) == known
        for offset in range(0, 125, 5):
            assert lists.find(offset) is next((item for item in known if item.start <= offset < item.end), None)
            assert lists.limit(offset) == next((item.start for item in known if item.start > offset), None)


def test_adding_batches_reads_few_offsets() -> None:
    reads = 0

    class Counted:
        def __init__(self, start: int) -> None:
            self.start, self._end = start, start + 10

        @property
        def end(self) -> int:
            nonlocal reads
            reads += 1
            return self._end

    lists = BatchLists()
    for start in range(0, 20_000, 10):
        added: Any = Counted(start)
        lists.add(added)
    assert reads < 3 * 2000  # if each call scanned all batches, there would be 2 million reads


def test_unchanged_partition_is_checked_without_a_thread(
    started: Start, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread takes longer than the rest of a response. If requests are infrequent, each response would need a thread."""
    monkeypatch.setattr(growing_partition, "FULL_CHECK_INTERVAL", 60)
    time.sleep(2 * TICK / 10**9)  # the server checks a file again if it changed less than TICK ago
    server = started(large)
    served = server.catalog.partition("t", 0)
    assert served is not None
    with Client(server.port) as client:
        for _ in range(2):
            client.fetch("t", 0, 0)
        monkeypatch.setattr(type(server.catalog), "run", None)
        for _ in range(3):
            time.sleep(growing_partition.CHECK_INTERVAL * 1.5)
            assert client.fetch("t", 0, 0).high_watermark == 24 * 16


def test_changes_are_noticed_between_two_full_checks(
    started: Start, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_partition, "FULL_CHECK_INTERVAL", 60)
    server = started(large)
    with Client(server.port) as client:
        for _ in range(2):
            assert client.fetch("t", 0, 0).high_watermark == 24 * 16
        with LogDirectory(large) as directory:
            directory.writer("t").append([(None, b"new", 1)])
        time.sleep(2 * growing_partition.CHECK_INTERVAL)
        assert client.fetch("t", 0, 0).high_watermark == 24 * 16 + 1
        (path,) = (large / "t-0").glob("*.log")
        os.truncate(path, 0)
        time.sleep(2 * growing_partition.CHECK_INTERVAL)
        assert client.fetch("t", 0, 0).high_watermark == 0


class CountedPartition:
    """A partition that never changes. `compared` counts how often waiting clients read `changes`."""

    def __init__(self) -> None:
        self.compared = 0

    @property
    def changes(self) -> int:
        self.compared += 1
        return 0

    def seconds_since_check(self) -> float:
        return 0.0


def test_many_waiting_clients_check_less_often() -> None:
    served, clients, seconds = CountedPartition(), 500, 1.4
    api = FetchApi(SimpleNamespace(settings=SimpleNamespace(limits=ServerLimits())))  # type: ignore[arg-type]
    answer = Answer(FetchedPartition("t", PartitionRequest(0, -1, 0, 1)), served)  # type: ignore[arg-type]

    async def wait() -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        gone: Any = SimpleNamespace(gone=False)
        changed = await asyncio.gather(*(api.changed(FetchSession(), [answer], deadline, gone) for _ in range(clients)))
        assert changed == [False] * clients

    asyncio.run(wait())
    # If each client checked the partition every 0.1 s, there would be 7,000 checks.
    assert clients <= served.compared <= clients * 4
