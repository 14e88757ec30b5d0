"""Check that control records are decoded, and that transaction markers are built."""

from __future__ import annotations

import base64
import struct
from random import Random
from types import ModuleType
from typing import Any

import building
import numpy as np
import pytest
from decoding import required
from golden_cases import GOLDEN
from hypothesis import given
from hypothesis import strategies as st

import kafkafmt
from kafkafmt import Record
from kafkafmt.errors import KafkaFormatError, StructureError
from kafkafmt.records import build_marker, decode_control_record
from kafkafmt.records.control import ABORT, COMMIT, KRAFT_VERSION, KRAFT_VOTERS, LEADER_CHANGE, build_markers

CLUSTER_METADATA = GOLDEN / "kafka-4.3.1/internal/log/__cluster_metadata-0"


def key(type_: int, version: int = 0) -> bytes:
    return struct.pack(">hh", version, type_)


def control_records(data: bytes) -> list[Record[Any]]:
    every = {r.offset for r in kafkafmt.read_records(data)}
    return [r for r in kafkafmt.read_records(data, control=True) if r.offset not in every]


def test_control_records_of_a_quorum_are_decoded(package: ModuleType) -> None:
    """kafka-dump-log prints the expected names for these records."""
    (record,) = control_records(next(CLUSTER_METADATA.glob("*.log")).read_bytes())
    assert decode_control_record(record.key, record.value) == (
        LEADER_CHANGE, "LEADER_CHANGE", 0, {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": [{"voterId": 1}]},
    )  # fmt: skip
    header, footer = control_records(min(CLUSTER_METADATA.glob("*.checkpoint")).read_bytes())
    assert decode_control_record(header.key, header.value)[1:] == (
        "SNAPSHOT_HEADER", 0, {"version": 0, "lastContainedLogTimestamp": struct.unpack(">q", required(header.value)[2:10])[0]},
    )  # fmt: skip
    assert decode_control_record(footer.key, footer.value)[1:] == ("SNAPSHOT_FOOTER", 0, {"version": 0})


def test_markers_of_brokers_are_decoded(package: ModuleType) -> None:
    kinds = set()
    for segment in (GOLDEN / "kafka-4.3.1/transactions/log/tx-0").glob("*.log"):
        for record in control_records(segment.read_bytes()):
            decoded = decode_control_record(record.key, memoryview(required(record.value)))
            kinds.add((decoded.type, decoded.name))
            assert decoded.value == {"version": 0, "coordinatorEpoch": 0}
    assert kinds == {(ABORT, "ABORT"), (COMMIT, "COMMIT")}


def test_voters_record_is_decoded(package: ModuleType) -> None:
    tags, uuid = b"\x01\x07\x03abc", bytes(range(16))
    endpoint = b"\x05SASL" + b"\x0alocalhost" + struct.pack(">H", 9093) + b"\x00"
    voter = struct.pack(">i", 3) + uuid + b"\x02" + endpoint + struct.pack(">hh", 0, 1) + b"\x00" + tags
    decoded = decode_control_record(key(KRAFT_VOTERS, 1), struct.pack(">h", 0) + b"\x02" + voter + tags)
    assert decoded.version == 1
    assert decoded.value == {
        "version": 0,
        "voters": [
            {
                "voterId": 3,
                "voterDirectoryId": base64.urlsafe_b64encode(uuid).decode().rstrip("="),
                "endpoints": [{"name": "SASL", "host": "localhost", "port": 9093}],
                "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
            }
        ],
    }
    assert decode_control_record(key(KRAFT_VERSION), b"\x00\x00\x00\x01\x00").value == {"version": 0, "kRaftVersion": 1}


@pytest.mark.parametrize("version", [1, 2])
def test_leader_change_of_a_dynamic_quorum_has_directory_ids(package: ModuleType, version: int) -> None:
    """Kafka 4 writes version 1. A higher version is read as version 1, the highest known version."""
    voter = struct.pack(">i", 3) + bytes(range(16)) + b"\x00"
    value = struct.pack(">hi", version, 3) + b"\x02" + voter + b"\x02" + voter + b"\x00"
    decoded = {"voterId": 3, "voterDirectoryId": "AAECAwQFBgcICQoLDA0ODw"}
    assert decode_control_record(key(LEADER_CHANGE), value).value == {
        "version": version,
        "leaderId": 3,
        "voters": [decoded],
        "grantingVoters": [decoded],
    }


@pytest.mark.parametrize("type_", [7, 99, -1])
def test_unknown_control_types_are_kept(type_: int) -> None:
    assert decode_control_record(key(type_), b"whatever") == (type_, "UNKNOWN", 0, None)
    assert decode_control_record(key(type_), None).value is None


BROKEN = [
    (None, b""), (b"\0\0\0", b""), (key(COMMIT, -1), bytes(6)), (key(COMMIT), None), (key(COMMIT), bytes(5)),
    (key(LEADER_CHANGE), bytes(6) + b"\xff\xff\xff\xff\x0f"), (key(LEADER_CHANGE), bytes(6) + b"\x00\x01\x00"),
    (key(KRAFT_VERSION), b"\0\0\0\1\xff\xff\xff\xff\x0f"), (key(KRAFT_VERSION), b"\0\0\0\1"),
]  # fmt: skip


@pytest.mark.parametrize(("bad_key", "value"), BROKEN)
def test_corrupted_control_record_is_an_error(package: ModuleType, bad_key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(StructureError):
        decode_control_record(bad_key, value)


@given(st.integers(-1, 8), st.binary(max_size=60))
def test_random_control_record_raises_only_kafka_format_errors(type_: int, value: bytes) -> None:
    failure = None
    try:
        decode_control_record(key(type_), value)
    except KafkaFormatError as error:
        failure = error
    assert failure is None or 0 <= failure.position <= len(value)


def test_built_marker_is_decoded(package: ModuleType) -> None:
    for type_ in (ABORT, COMMIT):
        built = build_marker(
            5, 2, commit=type_ == 1, coordinator_epoch=9, base_offset=100, timestamp=1_700_000_000_000, leader_epoch=0
        )
        assert built == building.control_batch(
            type_, base_offset=100, producer_id=5, producer_epoch=2, coordinator_epoch=9
        )


@pytest.mark.parametrize(("bad_key", "value"), [(5, b""), (b"\0\0\0\1", 6), ("key", b"")])
def test_keys_and_values_are_bytes(bad_key: Any, value: Any) -> None:
    with pytest.raises(TypeError):
        decode_control_record(bad_key, value)


def test_coordinator_epoch_must_fit_32_bits() -> None:
    with pytest.raises(OverflowError):
        build_marker(1, 0, commit=True, coordinator_epoch=2**31)


def test_many_markers_equal_single_markers() -> None:
    chance = Random(5)
    rows = [
        (
            chance.choice((0, 7, 2**62)), chance.choice((0, 3, 2**15 - 1)), chance.randrange(2),
            chance.choice((0, 9, 2**62)), chance.choice((-1, 0, 5, 2**60)), chance.choice((-1, 0, 2**31 - 1)),
        )
        for _ in range(60)
    ]  # fmt: skip
    expected = [
        build_marker(producer, epoch, commit=bool(commit), base_offset=offset, timestamp=time, leader_epoch=leader)
        for producer, epoch, commit, offset, time, leader in rows
    ]
    assert build_markers(*np.array(rows, np.int64).T) == expected
    assert build_markers(*np.empty((6, 0), np.int64)) == []
