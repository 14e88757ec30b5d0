"""Check that records of Kafka's internal topics are decoded as by Kafka's own tool."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

import pytest
from golden_cases import GOLDEN, decoded
from hypothesis import given
from hypothesis import strategies as st
from metadata_logs import record

import kafkafmt
from kafkafmt import KafkaFormatError
from kafkafmt.internal_topics.decode import (
    TOPICS,
    TRANSACTION_STATES,
    _classes,
    coordinator_texts,
    json_text,
    metadata_text,
    read_coordinator_record,
    read_metadata_record,
)
from kafkafmt.messages import SchemaMessage, layout_of, to_json
from kafkafmt.messages.schema import Struct

FILES = {
    "__consumer_offsets": "consumer-offsets",
    "__transaction_state": "transaction-state",
    "__share_group_state": "share-group-state",
}
LINE = re.compile(r"\| offset: (\d+) .*? headerKeys: \[\](?! (?:endTxn|Leader|control|Snapshot))(.*)")
SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
OLD_STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


def printed(version: str, topic: str, name: str) -> dict[tuple[int, int], str]:
    """Return the key and the payload that the tool printed, by partition and offset."""
    return {
        (int(path.split("/")[1].rpartition("-")[2]), int(m[1])): m[2]
        for path, lines in decoded(version, name).items()
        if path.endswith(".log")
        for line in lines
        if (m := LINE.match(line))
    }


def records(version: str, topic: str) -> dict[tuple[int, int], tuple[bytes | None, bytes | None]]:
    log = kafkafmt.open(GOLDEN / version / "internal" / "log")
    return {(p.partition, r.offset): (r.key, r.value) for p in log if p.topic == topic for r in p}


@pytest.mark.parametrize(
    ("version", "topic"), [*(("kafka-4.3.1", topic) for topic in FILES), ("kafka-3.9.2", "__consumer_offsets")], ids=str
)
def test_records_of_coordinators_are_decoded(version: str, topic: str) -> None:
    got = {}
    for (partition, offset), (key, value) in records(version, topic).items():
        text, payload = coordinator_texts(topic, offset, key, value)
        got[partition, offset] = f" key: {text} payload: {payload}"
    # Kafka 4.4 prints the names of transaction states, and 4.3 prints their numbers (KAFKA-20712).
    want = {
        at: re.sub(r'(?<="transactionStatus":)(\d)', lambda m: f'"{TRANSACTION_STATES[int(m[1])]}"', line)
        for at, line in printed(version, topic, FILES[topic]).items()
    }
    assert len(want) > 10
    assert got == want


def test_transaction_state_equals_the_output_of_an_older_tool() -> None:
    """Kafka 3.9 printed a different form: `producerId:1,producerEpoch:0,state=Ongoing,partitions=[t-0],…`."""
    want = printed("kafka-3.9.2", "__transaction_state", "transaction-state")
    found = records("kafka-3.9.2", "__transaction_state")
    assert found.keys() == want.keys()
    for at, (key, value) in found.items():
        record = read_coordinator_record("__transaction_state", key or b"", value)
        v = record.value
        head, _, rest = want[at].partition(" payload: ")
        assert head == f" key: transaction_metadata::transactionalId={record.key.transactional_id}"
        start = f"producerId:{v.producer_id},producerEpoch:{v.producer_epoch},state={OLD_STATES[v.transaction_status]},partitions=["
        assert rest.startswith(start)
        times = (
            f",txnLastUpdateTimestamp={v.transaction_last_update_timestamp_ms},txnTimeoutMs={v.transaction_timeout_ms}"
        )
        assert rest.endswith(times)
        partitions = {f"{p.topic}-{i}" for p in v.transaction_partitions or [] for i in p.partition_ids}
        assert set(filter(None, rest[len(start) : -len(times) - 1].split(","))) == partitions


@pytest.mark.parametrize("version", ["kafka-4.3.1", "kafka-3.9.2"])
def test_metadata_records_are_decoded(version: str) -> None:
    got = {
        at: f" payload: {metadata_text(at[1], value)}"
        for at, (_, value) in records(version, "__cluster_metadata").items()
    }
    want = printed(version, "__cluster_metadata", "cluster-metadata")
    assert len(want) > 200
    assert got == want


def test_undecodable_records_are_printed_as_by_the_kafka_tool() -> None:
    topic = "__consumer_offsets"
    assert coordinator_texts(topic, 7, b"\3\xe7", b"") == ("Unknown record type 999 at offset 7, skipping.", None)
    assert coordinator_texts(topic, 7, b"\0\2\0\1g", b"\0\x63")[0].startswith("Error at offset 7, skipping. ")
    assert coordinator_texts(topic, 7, None, b"")[0].startswith("Error at offset 7, skipping. ")
    assert coordinator_texts(topic, 7, b"\0\2\0\1g", None) == ('{"type":"2","data":{"group":"g"}}', "<DELETE>")
    assert metadata_text(7, b"\0\0\0").startswith("Error at 7, skipping. frame version 0")
    assert metadata_text(7, b"\1\x14\0\0?") == "Error at 7, skipping. the value has 1 byte after the fields"
    assert json_text({"a": '\x1b\n"é\u2028'}) == '{"a":"\\u001B\\n\\"é\u2028"}'


def sample(struct: Struct, version: int, flexible: bool) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes and the fields of a message with zeros, empty strings and arrays of one element."""
    data = b""
    want: dict[str, Any] = {}
    value: Any
    for f in struct.fields:
        if f.tag is not None or version not in f.versions:
            continue
        if f.struct is not None:
            part, value = sample(f.struct, version, flexible)
            part = b"\1" + part if version in f.nullable and not f.array else part
        elif f.type in ("string", "bytes"):
            part, value = (b"\1" if flexible else bytes(2 if f.type == "string" else 4)), ""
        else:
            part, value = bytes(SIZES[f.type]), {"bool": False, "uuid": "A" * 22}.get(f.type, 0)
        count = (b"\2" if flexible else b"\0\0\0\1") if f.array else b""
        data, want[f.json_name] = data + count + part, [value] if f.array else value
    return data + (b"\0" if flexible else b""), want


MESSAGES = [
    made
    for file in (*TOPICS.values(), "cluster_metadata", "remote_log_metadata", "consumer_protocol")
    for _, made in _classes(file).values()
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_version_of_every_message_is_decoded(message: type[SchemaMessage]) -> None:
    for version in range(message.VERSIONS.first, message.VERSIONS.last + 1):
        data, want = sample(message.SCHEMA, version, version in message.FLEXIBLE)
        read, end = layout_of(message, version).read(data)
        assert (to_json(read, version), end) == (want, len(data))
        for cut in range(len(data)):
            with pytest.raises(KafkaFormatError):
                layout_of(message, version).read(data[:cut])


@given(st.sampled_from(sorted(TOPICS)), st.binary(max_size=80), st.binary(max_size=120))
def test_random_bytes_raise_only_our_errors(topic: str, key: bytes, value: bytes) -> None:
    with_known_type = struct.pack(">h", len(key) % 24) + key
    for k in (key, with_known_type):
        try:
            read_coordinator_record(topic, k, b"\0\0" + value)
        except KafkaFormatError:
            pass
    try:
        read_metadata_record(b"\1" + bytes([len(key) % 30]) + b"\0" + value)
    except KafkaFormatError:
        pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-2.5, "-2.5"), (100.0, "100.0"), (0.001, "0.001"), (0.00099, "9.9E-4"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (10485760.0, "1.048576E7"), (123456789.5, "1.234567895E8"), (1e300, "1.0E300"),
    ],
)  # fmt: skip
def test_quota_is_printed_as_java_formats_a_double(value: float, text: str) -> None:
    """The texts are those of ``Double.toString``."""
    entity = [{"entity_type": "user", "entity_name": '"value":null'}]
    shown = metadata_text(0, record("ClientQuotaRecord", entity=entity, key="k", value=value))
    assert shown.endswith(f'"key":"k","value":{text},"remove":false}}}}')
    assert json.loads(shown)["data"]["entity"][0]["entityName"] == '"value":null'
