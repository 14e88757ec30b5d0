"""Write the log directories that the examples in README and docs read.

python tests/support/example_data.py FOLDER      creates FOLDER, and prints where the data is
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

from metadata_logs import MetadataLog, leader_change, record, uuid
from schema_records import config, deletion, schema

import kafkafmt
from kafkafmt import protocol
from kafkafmt._backend import core
from kafkafmt.internal_topics.decode import _metadata
from kafkafmt.messages import layout_of

START = 1_767_225_600_000
"""Timestamp of 2026-01-01T00:00 UTC, in milliseconds."""
STEP = 600_000
"""Time between two records of a partition: ten minutes, in milliseconds."""
RECORDS = 2016
"""Number of records in each partition, for two weeks."""
PER_BATCH = 96


def make_example_data(folder: Path) -> dict[str, Path]:
    """Write the example data to `folder`. Return the real paths by the paths in the documents."""
    data, broken = folder / "kafka" / "data", folder / "broken-disk"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
        with kafkafmt.LogDirectory(data) as directory:
            for partition in range(3):
                writer = directory.writer("orders", partition, segment_bytes=200_000)
                for first in range(0, RECORDS, PER_BATCH):
                    writer.append([order(partition, n) for n in range(first, first + PER_BATCH)])
            writer = directory.writer("payments", 0)
            writer.append([(b"invoice-%d" % n, b'{"paid": true}', START + n * STEP) for n in range(500)])
            directory.writer("__consumer_offsets", 0).append(commits())
        with kafkafmt.LogDirectory(folder / "disk") as directory:
            directory.writer("_schemas", 0).append([(*pair, START) for pair in registrations()])
            directory.writer("orders", 0).append(avro_orders())
    shutil.copytree(data, broken)
    for name in ("new-broker", "as-of-broker"):
        new_broker(folder / name)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    damage(broken / "orders-1" / f"{0:020}.log")
    requests, responses = conversation()
    make_metadata(folder / "metadata", folder / "metadata-backup")
    (folder / "client.bin").write_bytes(requests)
    (folder / "broker.bin").write_bytes(responses)
    if find_spec("dpkt") is not None:  # some tests create the data with few packages
        (folder / "kafka.pcap").write_bytes(capture())
    return {
        "/var/lib/kafka/data": data,
        "/mnt/broken-disk": broken,
        "/mnt/disk/kafka-data": folder / "disk",
        "/var/lib/kafka/metadata": folder / "metadata",
        "/mnt/backup/metadata": folder / "metadata-backup",
        "/exports/": folder,
        "/srv/": folder,
    }


def order(partition: int, n: int) -> tuple[bytes, bytes, int, list[tuple[str, bytes]]]:
    """Return record number `n` of a partition of the topic `orders`."""
    value = {
        "order": n * 3 + partition,
        "amount": round(5 + (n * 37 % 400) / 4, 2),
        "country": ("DE", "FR", "IT", "PL")[n % 4],
    }
    return b"customer-%d" % (n % 50), json.dumps(value).encode(), START + n * STEP, [("source", b"shop")]


def rows() -> Iterable[dict[str, Any]]:
    """Yield rows for `kafkafmt make`."""
    for n in range(1000):
        yield {"key": f"customer-{n % 50}", "value": f"order {n}", "timestamp": START + n * STEP}


def new_broker(root: Path) -> None:
    """Write the log directory of a stopped broker that has created the topic `orders` with three partitions."""
    topic_id = UUID("1f7a9c52-3f0e-4a55-9d0c-2f9f0e6c8a11")
    topic: Any = _metadata()[2]
    partition: Any = _metadata()[3]
    messages = [(2, topic(name="orders", topic_id=topic_id))]
    for number in range(3):
        fields = {"partition_id": number, "topic_id": topic_id, "leader": 1, "leader_epoch": 2, "partition_epoch": 2}
        messages.append((3, partition(replicas=[1], isr=[1], **fields)))
    with kafkafmt.LogDirectory(root) as directory:
        writer = directory.writer("__cluster_metadata", 0)
        for kind, message in messages:
            body = b"".join(core.write_messages((layout_of(type(message), 0),), (message,), False))
            writer.append([(None, bytes([1, kind, 0]) + body, START)])
        for number in range(3):
            directory.writer("orders", number)
    (root / "meta.properties").write_text("version=1\ncluster.id=ThisIsTheNewClusterId0\nnode.id=1\n")


def commits() -> Iterable[tuple[bytes, bytes, int]]:
    """Yield records of `__consumer_offsets`: two groups, and their committed offsets for `orders`."""
    for n, (group, partition, offset) in enumerate(
        [
            ("billing", 0, 1500),
            ("billing", 1, 1500),
            ("billing", 2, 1200),
            ("reports", 0, 2016),
            ("reports", 1, 2010),
            ("billing", 0, 1980),
        ]
    ):
        time = START + (RECORDS + n) * STEP
        key = struct.pack(">h", 1) + text(group) + text("orders") + struct.pack(">i", partition)
        value = struct.pack(">hqi", 3, offset, -1) + text("") + struct.pack(">q", time)
        yield key, value, time


def registrations() -> Iterable[tuple[bytes | None, bytes | None]]:
    """Yield records of `_schemas`: two contexts, a reference, a soft-deleted version and a configuration."""

    def avro(name: str, **fields: str) -> str:
        members = [{"name": field, "type": type_} for field, type_ in fields.items()]
        return json.dumps({"type": "record", "name": name, "fields": members}, separators=(",", ":"))

    customer = [{"name": "Customer", "subject": "customer", "version": 1}]
    yield config(None, "BACKWARD")
    yield schema("customer", 1, 1, avro("Customer", id="string", country="string"))
    yield schema("orders-value", 1, 2, avro("Order", id="long"))
    yield schema("orders-value", 2, 3, avro("Order", id="long", customer="Customer"), references=customer)
    yield schema("payments-value", 1, 4, '{"type":"object"}', schemaType="JSON")
    yield schema(":.lab:orders-value", 1, 1, avro("Order", id="string"))
    yield deletion("payments-value", 1)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def damage(log: Path) -> None:
    """Flip a bit in the third batch of a `.log` file."""
    content = bytearray(log.read_bytes())
    position = 0
    for _ in range(2):
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    content[position + 100] ^= 1
    log.write_bytes(content)


def avro_orders() -> Iterable[tuple[bytes, bytes, int]]:
    """Yield Avro values of both versions of `orders-value`, and one that is cut off."""
    for n in range(6):
        if n < 2:
            value = b"\0" + struct.pack(">i", 2) + varint(n)
        else:
            customer, country = b"customer-%d" % n, (b"DE", b"FR")[n % 2]
            texts = b"".join(varint(len(raw)) + raw for raw in (customer, country))
            value = b"\0" + struct.pack(">i", 3) + varint(n) + texts
        yield b"order-%d" % n, value[:-1] if n == 4 else value, START + n * STEP


def varint(number: int) -> bytes:
    """Return a small number as a zigzag varint."""
    return bytes([number << 1])


def conversation() -> tuple[bytes, bytes]:
    """Return a Fetch request and its response, as frames."""
    cls: Any = protocol.FetchRequest
    topic = cls.FetchTopic(topic="orders", partitions=[cls.FetchPartition(partition=0, fetch_offset=7)])
    request = cls(max_wait_ms=500, min_bytes=1, topics=[topic])
    answer: Any = protocol.FetchResponse
    batch = bytearray(
        kafkafmt.build_batch(
            [(b"customer-7", b'{"order": 21}', START), (b"customer-8", b'{"order": 24}', START + STEP)]
        )
    )
    kafkafmt.records.assign_offsets(batch, 7)
    part = answer.PartitionData(partition_index=0, high_watermark=9, last_stable_offset=9, records=bytes(batch))
    body = answer(responses=[answer.FetchableTopicResponse(topic="orders", partitions=[part])])
    asked = b"".join(protocol.write_request(protocol.make_request(request, 12, 1, client_id="shop")))
    return asked, b"".join(protocol.write_response(protocol.make_response(body, 12, 1)))


def capture() -> bytes:
    """Return a packet capture of a consumer that reads the topic `orders`, by its id."""
    from capture_files import Packet, Tcp, pcap

    topic_id = uuid(10)
    asked: Any = protocol.MetadataRequest
    told: Any = protocol.MetadataResponse
    topic = told.MetadataResponseTopic(name="orders", topic_id=topic_id, partitions=[told.MetadataResponsePartition()])
    request, response = (next(iter(protocol.FrameSplitter().feed(frame))) for frame in conversation())
    fetch: Any = protocol.read_request(request).body
    fetched: Any = protocol.read_response(response, api_key=1, api_version=12).body
    fetch.topics[0].topic_id = fetched.responses[0].topic_id = topic_id
    fetch.topics[0].topic = fetched.responses[0].topic = ""
    packets: list[Packet] = []
    consumer = Tcp(packets)
    consumer.open()
    bodies = [
        (asked(topics=[asked.MetadataRequestTopic(name="orders")]), told(topics=[topic]), 12),
        (fetch, fetched, 13),
    ]
    for number, (body, answer, version) in enumerate(bodies, 1):
        made = protocol.make_request(body, version, number, client_id="shop")
        consumer.client(b"".join(map(bytes, protocol.write_request(made))))
        consumer.broker(b"".join(map(bytes, protocol.write_response(protocol.make_response(answer, version, number)))))
    return pcap(packets)


def make_metadata(folder: Path, backup: Path) -> None:
    """Write the metadata log of a KRaft broker to `folder`, and an older copy of it to `backup`."""
    log = MetadataLog(folder, first_timestamp=START)
    node = {"broker_id": 1, "broker_epoch": 3}
    listeners = [{"name": "CLIENT", "host": "broker-1.example.com", "port": 9092, "security_protocol": 3}]
    log.append_control(leader_change(1, [1]))
    log.append(
        record("FeatureLevelRecord", name="metadata.version", feature_level=30),
        record("RegisterControllerRecord", controller_id=1),
        record("RegisterBrokerRecord", **node, end_points=listeners, log_dirs=[uuid(1)], rack="eu-1", fenced=False),
    )
    for number, (name, count) in enumerate((("orders", 3), ("payments", 1)), 10):
        log.append(record("TopicRecord", name=name, topic_id=uuid(number)))
        at = {
            "topic_id": uuid(number),
            "replicas": [1],
            "isr": [1],
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
        }
        log.append(*(record("PartitionRecord", **at, partition_id=n, directories=[uuid(1)]) for n in range(count)))
    log.append(
        topic_config("orders", "retention.ms", "604800000"), topic_config("payments", "cleanup.policy", "compact")
    )
    acl = {"resource_type": 2, "resource_name": "orders", "pattern_type": 3, "host": "*", "permission_type": 3}
    for number, operation in enumerate((3, 8), 20):
        log.append(
            record("AccessControlEntryRecord", id=uuid(number), principal="User:billing", operation=operation, **acl)
        )
    log.append(
        record("UserScramCredentialRecord", name="billing", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=8192),
        record(
            "ClientQuotaRecord", entity=[{"entity_type": "user", "entity_name": "billing"}], key="consumer_byte_rate", value=1048576.0
        ),
        record("ConfigRecord", resource_type=4, resource_name="1", name="ssl.keystore.password", value="example"),
    )  # fmt: skip
    (folder / "meta.properties").write_text("version=1\ncluster.id=p0TfOQYfTN6FLBMV24HFKQ\nnode.id=1\n")
    shutil.copytree(folder, backup)
    log.append(
        topic_config("orders", "retention.ms", "86400000"),
        record("TopicRecord", name="refunds", topic_id=uuid(12)),
        record("PartitionRecord", topic_id=uuid(12), partition_id=0, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0, directories=[uuid(1)]),
    )  # fmt: skip


def topic_config(topic: str, name: str, value: str) -> bytes:
    return record("ConfigRecord", resource_type=2, resource_name=topic, name=name, value=value)


def main(folder: Path) -> None:
    """Write the example data to a new folder. Print the path of each directory, after its path in the documents."""
    folder.mkdir(parents=True)
    warnings.simplefilter("ignore", kafkafmt.StrayPartitionWarning)
    for documented, path in make_example_data(folder.resolve()).items():
        print(f"{documented:26} {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
