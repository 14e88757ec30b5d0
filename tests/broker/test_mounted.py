"""Test a broker that starts on salvaged and on written partitions.

The broker must serve exactly the records of these partitions.

A first broker writes transactions, all codecs and many segments, and is killed. Some of its files
are then damaged. The damaged files of the golden log `torn` are copied into its directory too.

`kafkafmt salvage --abort-open-transactions` copies everything, including Kafka's metadata log.
`LogDirectory` writes more partitions into the copy. A second broker runs on the copy: it serves
records, answers lookups by time, appends, and stops. Finally, kafkafmt reads all partitions again.
"""

from __future__ import annotations

import shutil
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import java_tools
import pytest
from building import split
from command import kafkafmt, report
from golden_cases import Rows, case, rows, same_rows
from kafka_broker import Broker

import kafkafmt as k

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

TORN_TOPICS = sorted(p.name.rpartition("-")[0] for p in case("torn").roots[0].iterdir() if p.is_dir())
PLAN = [
    "topic=own partitions=2 count=3000 codec=zstd value=900 batch=4000 content=random topic.segment.bytes=1048576",
    "topic=own count=3000 codec=none value=900 batch=4000",
    "topic=tx count=30 id=first end=abort flush=5",
    "topic=tx count=20 id=second end=commit flush=5",
    "topic=tx count=10 flush=5",
    "topic=tx count=7 id=first end=open flush=5",
    "topic=hanging count=20 id=third end=commit flush=5",
    "topic=hanging count=30 id=fourth end=commit flush=5",
    "topic=hanging count=10 flush=5",
]

FIRST = 1_700_000_000_000


@dataclass
class Mounted:
    """Records that kafkafmt read before the second broker started, and records that the second broker served."""

    expected: Rows
    expected_committed: Rows
    served: Rows
    served_committed: Rows
    written: Rows
    times: dict[tuple[int, int], int]
    """Offsets of the topic `ours`, by partition and requested time."""
    ends: dict[str, tuple[int, int]]
    """The broker's end offset and last stable offset of the topics with open transactions."""
    after: Path


def cat(path: Path, *flags: str) -> Rows:
    done = kafkafmt("cat", path, "--format", "json", "--bytes", "base64", "--on-error", "skip", *flags)
    return rows(done.stdout.splitlines())


def finding_codes(path: Path) -> set[str]:
    found = report(path)
    assert found["ok"]
    return {f["error"] for p in found["partitions"] for f in p["findings"]}


def damage(log_dir: Path) -> None:
    """Flip bits, overwrite pages with zeros, insert garbage, and truncate, in partitions of many segments.

    The marker of a committed transaction is also corrupted.
    """
    first, *_, last = sorted((log_dir / "own-0").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[20_000] ^= 4
    data[60_000:64_096] = bytes(4096)
    first.write_bytes(data[:90_000] + b"not a batch" * 50 + data[90_000:])
    last.write_bytes(last.read_bytes()[:-700])
    second = sorted((log_dir / "own-1").glob("*.log"))[1]
    second.write_bytes(second.read_bytes()[:50_000])
    for index in (log_dir / "own-1").glob("*.index"):
        index.write_bytes(bytes(range(256)) * 4)
    (hanging,) = (log_dir / "hanging-0").glob("*.log")
    batches = split(hanging.read_bytes())
    marker = [i for i, b in enumerate(batches) if next(k.iter_batches(b)).is_control][-1]
    batches[marker] = batches[marker][:40] + bytes(8) + batches[marker][48:]
    hanging.write_bytes(b"".join(batches))


def write(log_dir: Path) -> None:
    """Write the topic `ours`, with all codecs, many segments, transactions and batches of a real broker."""
    topic_id = (log_dir / "ours-0" / "partition.metadata").read_text().split()[-1]
    for partition in range(3):
        shutil.rmtree(log_dir / f"ours-{partition}")
    with k.LogDirectory(log_dir, segment_bytes=10_000, index_interval_bytes=500) as directory:
        plain, tx, golden = (directory.writer("ours", p, topic_id=topic_id) for p in range(3))
        for i in range(200):
            records = [
                (b"key%d" % j, b"value" * (i % 9), FIRST + 1000 * i - 7 * j, [("h", b"%d" % i)]) for j in range(10)
            ]
            plain.append(records, codec=("none", "gzip", "snappy", "lz4", "zstd")[i % 5])
        for i in range(60):
            for producer in (5001, 5002):
                tx.append(
                    [(None, b"t" * 300, FIRST + i)],
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=i,
                    transactional=True,
                )
            tx.append([(None, b"plain", FIRST + i)])
            if i % 7 == 6:
                tx.end_transaction(5001, 0, commit=i % 2 == 0)
            if i % 11 == 10:
                tx.end_transaction(5002, 0, commit=i % 3 == 0)
        assert len(plain.segments) > 3
        assert len(tx.segments) > 1
        for log in sorted(case("kafka-4.3.1/transactions").partition_dir("tx", 1).glob("*.log")):
            for batch in split(log.read_bytes()):
                golden.append_batches(batch, assign_offsets=False)


def list_offsets(port: int, partition: int, timestamp: int, topic: str = "ours", committed: bool = False) -> int:
    """Return the broker's answer to ListOffsets version 2. The time -1 requests the end of the log."""
    name = topic.encode()
    request = struct.pack(">hhihibi", 2, 2, 7, -1, -1, committed, 1) + struct.pack(">h", len(name)) + name
    request += struct.pack(">iiq", 1, partition, timestamp)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.recv(4 + 4 + 4 + 4 + 2 + len(name) + 4 + 22, socket.MSG_WAITALL)
    error, _, offset = struct.unpack(">hqq", answer[-18:])
    assert error == 0
    return int(offset)


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    scratch = tmp_path_factory.mktemp("salvaged")
    broken = Broker(scratch / "broken")
    restored = Broker(scratch / "mended")
    try:
        broken.start()
        broken.produce(*PLAN, "topic=ours partitions=3 count=0", *(f"topic={name} count=0" for name in TORN_TOPICS))
        broken.kill()
        source = broken.log_dirs[0]
        written = cat(source)
        for name in TORN_TOPICS:
            for file in case("torn").partition_dir(name, 0).iterdir():
                if file.name != "partition.metadata":  # the broker has another topic id for this topic
                    shutil.copy(file, source / f"{name}-0")
        damage(source)
        done = kafkafmt("salvage", source, "--output", restored.log_dirs[0], "--abort-open-transactions")
        assert done.returncode == 1, done.stderr
        assert finding_codes(restored.log_dirs[0]) == set()
        write(restored.log_dirs[0])
        assert finding_codes(restored.log_dirs[0]) == set()
        expected, expected_committed = cat(source), cat(source, "--isolation", "read_committed")
        expected |= cat(restored.log_dirs[0], "-t", "ours")
        ended = ("-t", "ours", "-t", "tx", "-t", "hanging")
        expected_committed |= cat(restored.log_dirs[0], *ended, "--isolation", "read_committed")
        restored.start()
        with pytest.raises(BlockingIOError):  # a broker's lock and our lock exclude each other
            k.LogDirectory(restored.log_dirs[0])
        topics = ("own", "tx", "hanging", "ours", *TORN_TOPICS)
        served, committed = rows(restored.consume(*topics)), rows(restored.consume(*topics, committed=True))
        times = {(0, t): list_offsets(restored.port, 0, t) for t in range(FIRST - 100, FIRST + 205_000, 7_333)}
        times |= {(1, FIRST + t): list_offsets(restored.port, 1, FIRST + t) for t in (0, 10, 59, 60)}
        ends = {
            topic: (
                list_offsets(restored.port, partition, -1, topic),
                list_offsets(restored.port, partition, -1, topic, committed=True),
            )
            for topic, partition in (("tx", 0), ("hanging", 0), ("ours", 1))
        }
        restored.produce(
            "topic=own count=100", "topic=ours count=30", *(f"topic={name} count=5" for name in TORN_TOPICS)
        )
        restored.stop()
        yield Mounted(expected, expected_committed, served, committed, written, times, ends, restored.log_dirs[0])
    finally:
        broken.close()
        restored.close()


def test_salvage_loses_only_the_damaged_records(mounted: Mounted) -> None:
    assert (
        4500
        < sum(at[0] == "own" for at in mounted.expected)
        < 4990
        < 6000
        == sum(at[0] == "own" for at in mounted.written)
    )
    for topic, records in (("tx", 67), ("hanging", 60)):
        assert (
            len([at for at in mounted.expected if at[0] == topic])
            == len([at for at in mounted.written if at[0] == topic])
            == records
        )
    assert len(case("torn").expected().keys() - mounted.expected.keys()) == 27


def test_broker_serves_exactly_the_intact_records(mounted: Mounted) -> None:
    same_rows(mounted.served, mounted.expected)


def test_broker_serves_the_committed_records_that_we_read(mounted: Mounted) -> None:
    same_rows(mounted.served_committed, mounted.expected_committed)


def test_broker_reads_past_transactions_aborted_by_salvage(mounted: Mounted) -> None:
    """The damaged log contains three transactions. One was open when the broker was killed.

    The second lost its commit marker. The third was committed, and remains committed.
    """
    committed = {t: [at[2] for at in mounted.served_committed if at[0] == t] for t in ("tx", "hanging")}
    assert len(committed["tx"]) == 20 + 10
    assert sorted(committed["hanging"]) == [*range(20), *range(21 + 30 + 1, 21 + 30 + 1 + 10)]
    assert mounted.ends["hanging"] == (21 + 30 + 1 + 10 + 1,) * 2
    assert mounted.ends["tx"][0] == mounted.ends["tx"][1]
    assert mounted.ends["ours"][0] > mounted.ends["ours"][1]  # the transaction in `ours` is still open


def test_broker_hides_aborted_and_open_transactions_of_ours(mounted: Mounted) -> None:
    """Aborted records, and all records after the start of the first open transaction, are not served."""
    ours = sorted(at[2] for at in mounted.served if at[:2] == ("ours", 1))
    committed = sorted(at[2] for at in mounted.served_committed if at[:2] == ("ours", 1))
    assert len(ours) == 180
    assert 60 < len(committed) < 150
    assert committed[-1] < ours[-1] - 5


def test_broker_and_offset_at_find_the_same_offsets(mounted: Mounted) -> None:
    log = k.open(mounted.after)
    plain = sorted((at[2], row[0]) for at, row in mounted.served.items() if at[:2] == ("ours", 0))
    for (partition, time), offset in mounted.times.items():
        assert log["ours", partition].offset_at(time) == offset or offset == -1, time
        if partition == 0:  # lookups in the other partition also return markers
            assert offset == next((o for o, t in plain if t >= time), -1), time


def test_records_appended_by_the_broker_are_read(mounted: Mounted) -> None:
    after = cat(mounted.after)
    assert mounted.served.items() <= after.items()
    assert len(after) == len(mounted.served) + 100 + 30 + 5 * len(TORN_TOPICS)
    assert finding_codes(mounted.after) == set()


def test_writer_continues_where_the_broker_stopped(mounted: Mounted) -> None:
    end = k.open(mounted.after)["ours", 0].next_offset
    with k.LogDirectory(mounted.after) as directory:
        assert directory.clean
        writer = directory.writer("ours", 0)
        assert writer.cut == []
        assert writer.append([(None, b"more")]) == (end, end)
        assert writer.leader_epochs[-1][0] > 0
    assert finding_codes(mounted.after) == set()
