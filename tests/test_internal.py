"""Records of Kafka's internal topics: as Kafka's own tool decodes them, and nothing but our errors for what is none."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest
from golden_cases import GOLDEN, decoded
from hypothesis import given
from hypothesis import strategies as st

import kafkafmt
from kafkafmt import KafkaFormatError
from kafkafmt.internal import metadata, offsets
from kafkafmt.internal.decode import (
    TOPICS,
    coordinator_texts,
    metadata_text,
    read_coordinator_record,
    read_metadata_record,
    to_json,
)
from kafkafmt.internal.schema import Source, Struct, parse

FILES = {"__consumer_offsets": "consumer-offsets", "__transaction_state": "transaction-state", "__share_group_state": "share-group-state"}
LINE = re.compile(r"\| offset: (\d+) .*? headerKeys: \[\](?! (?:endTxn|Leader|control|Snapshot))(.*)")
SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
OLD_STATES = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]


def printed(version: str, topic: str, name: str) -> dict[tuple[int, int], str]:
    """Partition and offset → key and payload as the tool printed them."""
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
def test_coordinators_records(version: str, topic: str) -> None:
    got = {}
    for (partition, offset), (key, value) in records(version, topic).items():
        text, payload = coordinator_texts(topic, offset, key, value)
        got[partition, offset] = f" key: {text} payload: {payload}"
    want = printed(version, topic, FILES[topic])
    assert len(want) > 10
    assert got == want


def test_the_transaction_state_of_an_older_tool() -> None:
    """3.9 printed other words for the same: `producerId:1,producerEpoch:0,state=Ongoing,partitions=[t-0],…`."""
    want = printed("kafka-3.9.2", "__transaction_state", "transaction-state")
    found = records("kafka-3.9.2", "__transaction_state")
    assert found.keys() == want.keys()
    for at, (key, value) in found.items():
        record = read_coordinator_record("__transaction_state", key or b"", value)
        v = record.value or {}
        head, _, rest = want[at].partition(" payload: ")
        assert head == f" key: transaction_metadata::transactionalId={record.key['transactionalId']}"
        start = f"producerId:{v['producerId']},producerEpoch:{v['producerEpoch']},state={OLD_STATES[v['transactionStatus']]},partitions=["
        assert rest.startswith(start)
        times = f",txnLastUpdateTimestamp={v['transactionLastUpdateTimestampMs']},txnTimeoutMs={v['transactionTimeoutMs']}"
        assert rest.endswith(times)
        partitions = {f"{p['topic']}-{i}" for p in v["transactionPartitions"] or [] for i in p["partitionIds"]}
        assert set(filter(None, rest[len(start) : -len(times) - 1].split(","))) == partitions


@pytest.mark.parametrize("version", ["kafka-4.3.1", "kafka-3.9.2"])
def test_metadata_records(version: str) -> None:
    got = {at: f" payload: {metadata_text(at[1], value)}" for at, (_, value) in records(version, "__cluster_metadata").items()}
    want = printed(version, "__cluster_metadata", "cluster-metadata")
    assert len(want) > 200
    assert got == want


def test_what_the_tool_says_of_what_it_cannot_read() -> None:
    topic = "__consumer_offsets"
    assert coordinator_texts(topic, 7, b"\3\xe7", b"") == ("Unknown record type 999 at offset 7, skipping.", None)
    assert coordinator_texts(topic, 7, b"\0\2\0\1g", b"\0\x63")[0].startswith("Error at offset 7, skipping. ")
    assert coordinator_texts(topic, 7, None, b"")[0].startswith("Error at offset 7, skipping. ")
    assert coordinator_texts(topic, 7, b"\0\2\0\1g", None) == ('{"type":"2","data":{"group":"g"}}', "<DELETE>")
    assert metadata_text(7, b"\0\0\0").startswith("Error at 7, skipping. frame version 0")
    assert metadata_text(7, b"\1\x14\0\0?") == "Error at 7, skipping. 1 bytes are left over behind the fields"
    assert to_json({"a": "\x1b\n\"é\u2028", "b": b"\xff"}) == '{"a":"\\u001B\\n\\"é\u2028","b":"/w=="}'


def test_the_forms_of_fields() -> None:
    (message,) = parse(
        """
        M 5 1-3 flexible 2+
          a int16 1-2 = 7
          b string? 2+ tag 1 = null
          c []S
            d bool
            e bytes?
          f S? 3+
        """
    ).values()
    assert (message.name, message.id) == ("M", 5)
    assert message.read(Source(b"\0\1\0\0\0\1\1\xff\xff\xff\xff"), 1) == {"a": 1, "c": [{"d": True, "e": None}]}
    # flexible: compact lengths; tag 0 is not known and passed over
    assert message.read(Source(b"\0\1\2\0\2x\0\2\0\1?\1\2\2y"), 2) == {"a": 1, "b": "y", "c": [{"d": False, "e": b"x"}]}
    assert message.read(Source(b"\1\xff\0"), 3) == {"c": [], "f": None}
    assert message.read(Source(b"\1\1\1\0\0\0"), 3) == {"c": [], "f": {"d": True, "e": None}}
    for bad in (b"\0\1\0\0\0\2\1", b"\0\1\xff\xff\xff\xff", b"\0\1\x7f\xff\xff\xff"):
        with pytest.raises(KafkaFormatError):
            message.read(Source(bad), 1)
    with pytest.raises(KafkaFormatError, match="tag 1 follows tag 1"):
        message.read(Source(b"\0\1\1\2\1\2\2x\1\2\2x"), 2)
    with pytest.raises(KafkaFormatError, match="version 4"):
        message.read(Source(b""), 4)


def sample(struct: Struct, version: int, flexible: bool) -> tuple[bytes, dict[str, Any]]:
    """A message of zeros, empty strings and arrays of one element, and what should be read."""
    data, want = b"", {}
    for f in struct.fields:
        if f.tag is not None or not f.first <= version <= f.last:
            continue
        if isinstance(f.type, Struct):
            part, value = sample(f.type, version, flexible)
            part = b"\1" + part if f.nullable and not f.array else part
        elif f.type in ("string", "bytes"):
            part, value = (b"\1" if flexible else bytes(2 if f.type == "string" else 4)), "" if f.type == "string" else b""
        else:
            part, value = bytes(SIZES[f.type]), {"bool": False, "uuid": "A" * 22}.get(f.type, 0)
        count = (b"\2" if flexible else b"\0\0\0\1") if f.array else b""
        data, want[f.name] = data + count + part, [value] if f.array else value
    return data + (b"\0" if flexible else b""), want


@pytest.mark.parametrize(
    "text", [*TOPICS.values(), metadata.SCHEMAS, offsets.MEMBER_SCHEMAS], ids=lambda text: text.split()[0]
)
def test_every_message_of_every_version(text: str) -> None:
    for message in parse(text).values():
        for version in range(message.first, message.last + 1):
            data, want = sample(message.struct, version, version >= message.flexible)
            source = Source(data)
            assert message.read(source, version) == want
            assert source.at == len(data)
            for cut in range(len(data)):
                with pytest.raises(KafkaFormatError):
                    message.read(Source(data[:cut]), version)


@given(st.sampled_from(sorted(TOPICS)), st.binary(max_size=80), st.binary(max_size=120))
def test_random_bytes_give_our_errors_alone(topic: str, key: bytes, value: bytes) -> None:
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
