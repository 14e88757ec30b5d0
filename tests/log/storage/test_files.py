"""Test the checkpoints, snapshots and indexes of a log directory.

Files that brokers wrote are read and written again. The bytes must not change.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_cases import CASES, GOLDEN

from kafkafmt.errors import ChecksumError, KafkaFormatError, StructureError, TruncatedError, UnsupportedError
from kafkafmt.log.formats import checkpoints, index_entries, snapshots
from kafkafmt.log.formats.snapshots import ProducerEntry


def golden(pattern: str) -> list[Path]:
    found = sorted(GOLDEN.glob(f"*/*/log/**/{pattern}"))
    assert found
    return found


@pytest.mark.parametrize("name", checkpoints.OFFSET_CHECKPOINTS)
def test_offset_checkpoints_are_written_as_brokers_write_them(name: str) -> None:
    for file in golden(name):
        if text := file.read_text():
            assert checkpoints.offset_checkpoint_text(checkpoints.read_offset_checkpoint(text, name)) == text


def test_leader_epochs_are_written_as_brokers_write_them() -> None:
    for file in golden(checkpoints.LEADER_EPOCHS):
        if text := file.read_text():
            assert checkpoints.leader_epochs_text(checkpoints.read_leader_epochs(text)) == text


def test_partition_metadata_is_written_as_brokers_write_it() -> None:
    for file in golden(checkpoints.PARTITION_METADATA):
        values = checkpoints.read_partition_metadata(file.read_text())
        assert checkpoints.partition_metadata_text(values["topic_id"]) == file.read_text()
        assert len(checkpoints.uuid_bytes(values["topic_id"])) == 16


def test_meta_properties_of_both_versions_are_read_and_written() -> None:
    versions = set()
    for file in golden(checkpoints.META_PROPERTIES):
        text = file.read_text()
        values = checkpoints.read_meta_properties(text)
        assert values == dict(line.split("=") for line in text.splitlines() if not line.startswith("#"))
        assert checkpoints.read_meta_properties(checkpoints.meta_properties_text(values)) == values
        versions.add(values["version"])
    assert versions == {"0", "1"}


def test_properties_are_parsed_as_java_does() -> None:
    text = "! a comment\r\n  node.id : 7\\\n   3\ncluster.id a\\u0062\\=c\\\\\n#version=9\nversion=1\nodd\\ key\\:=\\tx \nlone"
    values = checkpoints.read_meta_properties(text)
    assert values == {"node.id": "73", "cluster.id": "ab=c\\", "version": "1", "odd key:": "\tx ", "lone": ""}
    assert checkpoints.read_meta_properties(checkpoints.meta_properties_text(values)) == values


@pytest.mark.parametrize("space", ["\x0b", "\x85", "\xa0", "\u2003"])
def test_only_ascii_whitespace_ends_the_key_of_a_property(space: str) -> None:
    text = f"version=1\nnode.id=1\ncluster.id=c\na{space}b=x\n"
    assert checkpoints.read_meta_properties(text)[f"a{space}b"] == "x"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("version=2", "version"),
        ("version=1\nnode.id=1", "cluster.id"),
        ("broker.id=x", "broker.id"),
        ("directory.id=AAAA", "id"),
    ],
)
def test_wrong_meta_properties_raise_an_error_that_names_the_key(text: str, key: str) -> None:
    with pytest.raises(StructureError, match=key):
        checkpoints.read_meta_properties(text)


def test_clean_shutdown_files_of_all_releases_are_read() -> None:
    for file in golden(checkpoints.CLEAN_SHUTDOWN):
        text = file.read_text()
        epoch = checkpoints.read_clean_shutdown(text)
        assert checkpoints.clean_shutdown_text(epoch) == text or text == ""
    assert checkpoints.read_clean_shutdown("") == -1
    for text in ("{", "[]", "{}", '{"brokerEpoch": "x"}'):
        with pytest.raises(StructureError):
            checkpoints.read_clean_shutdown(text)


def test_snapshots_are_written_as_brokers_write_them() -> None:
    found = []
    for file in golden("*.snapshot"):
        producers = snapshots.read_snapshot(file.read_bytes())
        assert snapshots.snapshot_bytes(producers) == file.read_bytes()
        found += producers
    assert any(p.txn_first_offset >= 0 for p in found)
    assert any(p.coordinator_epoch >= 0 for p in found)


def test_first_sequence_wraps_at_the_maximum() -> None:
    assert ProducerEntry(1, 0, 2, 100, 5).first_sequence == 2**31 - 3
    assert ProducerEntry(1).first_sequence == -1


def test_truncated_or_corrupted_snapshot_raises() -> None:
    whole = snapshots.snapshot_bytes([ProducerEntry(1, 2, 3, 4, 0, 5, 6, 7), ProducerEntry(8)])
    for n in range(len(whole)):
        with pytest.raises(TruncatedError if n < 10 else ChecksumError):
            snapshots.read_snapshot(whole[:n])
        with pytest.raises(KafkaFormatError):
            snapshots.read_snapshot(whole[:n] + bytes([whole[n] ^ 16]) + whole[n + 1 :])
    with pytest.raises(UnsupportedError):
        snapshots.read_snapshot(b"\0\2" + whole[2:])


def test_indexes_are_written_as_brokers_write_them() -> None:
    for file in golden("[0-9]" * 20 + ".*index"):
        data, base = file.read_bytes(), int(file.name[:20])
        if file.suffix == ".index":
            made = index_entries.offset_index_bytes(*index_entries.read_offset_index(data, base), base)
        elif file.suffix == ".timeindex":
            made = index_entries.time_index_bytes(*index_entries.read_time_index(data, base), base)
        else:
            made = index_entries.transaction_index_bytes(
                tuple(e)[1:] for e in index_entries.read_transaction_index(data).tolist()
            )
        if "torn-index" not in str(file):
            # a file that the broker has not trimmed ends with zeros
            assert made + bytes(len(data) - len(made)) == data, file


def test_index_values_that_do_not_fit_raise() -> None:
    for offsets, base in (([5], 6), ([2**31 + 7], 7)):
        with pytest.raises(ValueError, match="relative"):
            index_entries.offset_index_bytes(offsets, [0], base)
        with pytest.raises(ValueError, match="relative"):
            index_entries.time_index_bytes([0], offsets, base)
    assert index_entries.offset_index_bytes([2**31 + 6], [8], 7) == b"\x7f\xff\xff\xff\0\0\0\x08"


def test_high_watermark_checkpoints_equal_the_golden_offsets() -> None:
    """After a clean shutdown, the high watermarks equal the end offsets that the Admin client returned."""
    compared = 0
    for case in CASES:
        file = case.folder / "log" / checkpoints.HIGH_WATERMARKS
        if file.exists() and (case.folder / "log" / checkpoints.CLEAN_SHUTDOWN).exists():
            marks = checkpoints.read_offset_checkpoint(file.read_text(), file.name)
            for key, answer in case.offsets().items():
                if not key[0].startswith("__"):
                    assert marks[key] == answer["highWatermark"], json.dumps(answer)
                    compared += 1
    assert compared > 50
