"""Use the public API as users do. Type checkers check this module. It is never run."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

import kafkafmt
from kafkafmt import LogDirectory, Partition, Record, protocol
from kafkafmt.typing import Isolation, Sources, Time


def open_log() -> None:
    log = kafkafmt.open("/var/lib/kafka/data", "/mnt/other", replicas="longest")
    assert_type(log, kafkafmt.Log)
    assert_type(log.partitions, list[Partition])
    assert_type(log.follow("orders"), Iterator[tuple[Partition, Record]])
    orders = log["orders", 3]
    assert_type(orders, Partition)
    assert_type(orders.last_stable_offset, int)
    assert_type(orders.damaged, list[kafkafmt.Damage])


def read_partition(orders: Partition) -> None:
    for record in orders:
        assert_type(record, Record)
        assert_type(record.offset, int)
        assert_type((record.topic, record.partition), tuple[str | None, int | None])
        assert_type(record.datetime, datetime | None)
        assert_type(record.to_dict(), dict[str, Any])
        assert_type(record.key, bytes | None)
        assert_type(record.headers, tuple[tuple[str, bytes | None], ...])
        if record.value is not None:
            assert_type(record.value.decode(), str)
    for view in orders.records(views=True, start=-100, isolation="read_committed"):
        assert_type(view.value, bytes | memoryview | None)
    orders.to_arrow(["offset", "value"], start_time=1_760_000_000_000)
    assert_type(orders.find(key="a", headers=["b", ("c", b"d")], value_json={"e.f": 1}, start=5), Iterator[Record])
    assert_type(orders.follow(idle_timeout=1), Iterator[Record])
    orders.to_arrow(isolation="read_comitted")  # type: ignore[arg-type]  # pyright: ignore
    orders.to_batches(on_error="skp")  # type: ignore[arg-type]  # pyright: ignore
    assert_type(orders.count(start=5, isolation="read_committed"), int)
    assert_type(orders.head(3), list[Record])
    assert_type([batch.codec for batch in orders.batches(start_time=timedelta(days=7))], list[str])
    _ = orders.high_watermark  # type: ignore[attr-defined]  # pyright: ignore
    orders.find(value_regex=5)  # type: ignore[arg-type]  # pyright: ignore
    orders.records(strat=3)  # type: ignore[call-overload]  # pyright: ignore
    orders.to_arrow(beginning=3)  # type: ignore[call-arg]  # pyright: ignore


def read_buffer(data: bytes) -> None:
    assert_type(kafkafmt.read_records(data, start=5), Iterator[Record])
    kafkafmt.to_arrow(data, aborted=[(7, 0)])
    for batch in kafkafmt.iter_batches(data):
        assert_type(batch.records(), Iterator[Record])
        assert_type(batch.position, int)
    kafkafmt.to_arrow(data, begin=5)  # type: ignore[call-arg]  # pyright: ignore


def build(record: Record) -> None:
    batch = kafkafmt.build_batch([(b"k", b"v"), (b"k", None)], codec="zstd", level=3)
    assert_type(batch, bytes)
    kafkafmt.build_batch([(None, bytearray(b"v"), 5, [("name", b"value")], 7)])
    kafkafmt.build_batch([(b"k", b"v", 5, {"name": b"value"})])
    assert_type(kafkafmt.build_batches([record], max_bytes=1 << 20, producer_id=7), Iterator[bytes])
    builder = kafkafmt.records.BatchBuilder(max_bytes=16384)
    assert_type(builder.append(b"k", b"v", 5), bool)
    assert_type(builder.extend([record]), int)
    assert_type(builder.finish(), bytes)
    kafkafmt.build_batch([b"value"])  # type: ignore[list-item]  # pyright: ignore
    kafkafmt.build_batch([], codec="zst")  # type: ignore[arg-type]  # pyright: ignore
    kafkafmt.build_batch([], compression="zstd")  # type: ignore[call-arg]  # pyright: ignore
    kafkafmt.build_batch([kafkafmt.Record(key=b"k", value=b"v")])
    kafkafmt.build_batch([], codex="zstd")  # type: ignore[call-arg]  # pyright: ignore
    validated = kafkafmt.records.validate_and_assign_offsets(batch, 1000, codec="producer", leader_epoch=3)
    assert_type(validated.next_offset, int)
    assert_type(bytes(validated), bytes)


def write_log() -> None:
    with LogDirectory("/var/lib/app/log", flush_messages=1) as directory:
        assert_type(directory, LogDirectory)
        orders = directory.writer("orders", 0, segment_bytes=64 << 20)
        assert_type(orders, kafkafmt.LogWriter)
        assert_type(orders.append([(b"k", b"v", 5)], codec="zstd").first_offset, int)
        directory.writer("orders", 1, segment_byte=5)  # type: ignore[call-arg]  # pyright: ignore


def read_messages(frame: bytes, answer: bytes) -> None:
    request = protocol.read_request(frame)
    if isinstance(request.body, protocol.ProduceRequest):
        assert_type(request.body.acks, int)
        assert_type(request.body.topic_data[0].name, str)
    assert_type(request.header.client_id, str | None)
    response = protocol.read_response(answer, api_key="Fetch", api_version=12)
    for data in protocol.record_data(response.body):
        assert_type(data.topic_id, UUID)
        kafkafmt.to_arrow(data.records, aborted=data.aborted)


def write_messages() -> None:
    topic = protocol.MetadataRequest.MetadataRequestTopic(name="orders")
    assert_type(topic.topic_id, UUID)
    body = protocol.MetadataRequest(topics=[topic])
    assert_type(body.topics, list[protocol.MetadataRequest.MetadataRequestTopic] | None)
    request = protocol.make_request(body, api_version=12, correlation_id=1)
    assert_type(request, protocol.Request[protocol.MetadataRequest])
    assert_type(request.body.allow_auto_topic_creation, bool)
    assert_type(protocol.write_request(request), list[bytes | memoryview])
    assert_type(protocol.ErrorCode(6).retriable, bool)
    protocol.MetadataRequest(topcs=[topic])  # type: ignore[call-arg]  # pyright: ignore
    protocol.MetadataRequest([topic])  # type: ignore[call-arg]  # pyright: ignore
    protocol.MetadataReqest()  # type: ignore[attr-defined]  # pyright: ignore


def read_all(paths: Sources, isolation: Isolation, since: Time) -> None:
    log = kafkafmt.open(paths if isinstance(paths, str) else "/var/lib/kafka/data")
    log.to_arrow(topics="orders", isolation=isolation, start_time=since)
    assert_type(log.groups().to_dict(), dict[str, Any])
    kafkafmt.verfy(paths)  # type: ignore[attr-defined]  # pyright: ignore


def audit() -> None:
    report = kafkafmt.verify("/var/lib/kafka/data", topics=["orders"])
    assert_type(report, kafkafmt.reports.VerifyReport)
    assert_type((report.ok, report.to_json()), tuple[bool, str])
    log = kafkafmt.open("/var/lib/kafka/data")
    assert_type(log.verify(shallow=True), kafkafmt.reports.VerifyReport)
    kafkafmt.verify(log["orders"], log["users", 0], "/mnt/other", strict=True)


def pass_open_logs() -> None:
    log = kafkafmt.open("/var/lib/kafka/data")
    kafkafmt.verify(log)
    kafkafmt.stats([log["orders"], log["users", 0], "/mnt/other"])
    kafkafmt.describe(log["orders"])
    kafkafmt.diff(log["orders"], [kafkafmt.open("/mnt/other"), "/mnt/third"])
    kafkafmt.export(log["orders", 3], "/archive")
    kafkafmt.salvage(log["orders"], "/mnt/salvaged")
    kafkafmt.rewrite([log], "/mnt/rewritten")
    kafkafmt.restore(log["orders"], "/mnt/new")
    kafkafmt.serve([log["orders"], log["users"]])
    kafkafmt.scan_polars(log["orders"])
    kafkafmt.metadata(log)
    kafkafmt.open(log["orders"], [log["users", 0], "/mnt/other"])
    assert_type(list(kafkafmt.dump(log["orders"])), list[kafkafmt.reports.DumpedFile])
    kafkafmt.verify(5)  # type: ignore[arg-type]  # pyright: ignore
    kafkafmt.salvage(log, log)  # type: ignore[arg-type]  # pyright: ignore


def export() -> None:
    report = kafkafmt.export(
        "/var/lib/kafka/data", "/archive", partition_by="day", columns=["value"], join_small=True, file_size=64 << 20
    )
    assert_type(report.written.files, int)
    assert_type([step.bytes_read for step in report.steps], list[int])


def schemas() -> None:
    registry = kafkafmt.schemas("/var/lib/kafka/data", context=".lab")
    assert_type(registry, kafkafmt.SchemaRegistry)
    assert_type(registry.findings, list[kafkafmt.reports.SchemaFinding])
    version = registry.get_schema(1, "orders-value")
    assert_type(version, kafkafmt.reports.RegisteredSchema)
    assert_type(version.schema_id, int | None)
    assert_type(registry.get_references(version), dict[str, kafkafmt.reports.RegisteredSchema])


def cluster_metadata() -> None:
    state = kafkafmt.metadata("/var/lib/kafka/data", at=5)
    assert_type(state, kafkafmt.reports.ClusterMetadata)
    assert_type([p.isr for t in state.topics for p in t.partitions], list[tuple[int, ...]])
    assert_type(state.configs[0].value, str | None)
    found = state.diff(state, views="topics")
    assert_type([d.key for d in found.differences], list[dict[str, Any]])
    assert_type(state.commands(), str)
    assert_type(kafkafmt.doctor().java.release, int | None)
