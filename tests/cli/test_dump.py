"""Compare the output of `kafkafmt dump` with that of kafka-dump-log 4.3.1 for the golden logs.

If kafka-dump-log failed with an exception, `kafkafmt dump` may print more. kafka-dump-log 4.3.1 prints the
numbers of transaction states, and 4.4.0 prints their names (KAFKA-20712).
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import batch, record
from command import inside, kafkafmt, process
from golden_cases import CASES, GOLDEN, Case, decoded, dumped

KAFKA_4_3 = [c for c in CASES if c.version == "kafka-4.3.1"]
INTERNAL = GOLDEN / "kafka-4.3.1" / "internal" / "log"
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
REMOTE = (
    (
        "01000002740102030405060708090a0b0c0d0e0f1000000003000102030405060708090a0b0c0d0e0f100000000000000000"
        "050000000000000009000000070000018bcfe568010000018bcfe56800030000000000000000000000000000000003000000"
        "000000000700000004d20401ff030101000101",
        "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AQIDBAUGBwgJCgsMDQ4P"
        "EA:t-3, id=AQIDBAUGBwgJCgsMDQ4PEA}, startOffset=5, endOffset=9, brokerId=7, maxTimestampMs=170000000"
        "0001, eventTimestampMs=1700000000000, segmentLeaderEpochs={0=0, 3=7}, segmentSizeInBytes=1234, custo"
        "mMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_FINISHED, txnIdxEmpty=true}",
    ),
    (
        "01000002740102030405060708090a0b0c0d0e0f1000000003000102030405060708090a0b0c0d0e0f100000000000000000"
        "050000000000000009000000070000018bcfe568010000018bcfe568000200000002000000000000000500000004d2000000",
        "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AQIDBAUGBwgJCgsMDQ4P"
        "EA:t-3, id=AQIDBAUGBwgJCgsMDQ4PEA}, startOffset=5, endOffset=9, brokerId=7, maxTimestampMs=170000000"
        "0001, eventTimestampMs=1700000000000, segmentLeaderEpochs={2=5}, segmentSizeInBytes=1234, customMeta"
        "data=Optional.empty, state=COPY_SEGMENT_STARTED, txnIdxEmpty=false}",
    ),
    (
        "01010002740102030405060708090a0b0c0d0e0f1000000003000102030405060708090a0b0c0d0e0f100000000002000001"
        "8bcfe56800010100",
        "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AQIDBAUGBwgJCg"
        "sMDQ4PEA:t-3, id=AQIDBAUGBwgJCgsMDQ4PEA}, customMetadata=Optional[CustomMetadata{0 bytes}], state=CO"
        "PY_SEGMENT_FINISHED, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "01010002740102030405060708090a0b0c0d0e0f1000000003000102030405060708090a0b0c0d0e0f100000000002000001"
        "8bcfe56800010200",
        "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AQIDBAUGBwgJCg"
        "sMDQ4PEA:t-3, id=AQIDBAUGBwgJCgsMDQ4PEA}, customMetadata=Optional[CustomMetadata{0 bytes}], state=DE"
        "LETE_SEGMENT_STARTED, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "01010002740102030405060708090a0b0c0d0e0f1000000003000102030405060708090a0b0c0d0e0f100000000002000001"
        "8bcfe56800010300",
        "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AQIDBAUGBwgJCg"
        "sMDQ4PEA:t-3, id=AQIDBAUGBwgJCgsMDQ4PEA}, customMetadata=Optional[CustomMetadata{0 bytes}], state=DE"
        "LETE_SEGMENT_FINISHED, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "01010002740102030405060708090a0b0c0d0e0f1000000003000102030405060708090a0b0c0d0e0f100000000002000001"
        "8bcfe56800000200",
        "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition=AQIDBAUGBwgJCg"
        "sMDQ4PEA:t-3, id=AQIDBAUGBwgJCgsMDQ4PEA}, customMetadata=Optional.empty, state=DELETE_SEGMENT_STARTE"
        "D, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "01020002740102030405060708090a0b0c0d0e0f100000000300000000020000018bcfe568000000",
        "RemotePartitionDeleteMetadata{topicPartition=AQIDBAUGBwgJCgsMDQ4PEA:t-3, state=DELETE_PARTITION_MARK"
        "ED, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "01020002740102030405060708090a0b0c0d0e0f100000000300000000020000018bcfe568000100",
        "RemotePartitionDeleteMetadata{topicPartition=AQIDBAUGBwgJCgsMDQ4PEA:t-3, state=DELETE_PARTITION_STAR"
        "TED, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "01020002740102030405060708090a0b0c0d0e0f100000000300000000020000018bcfe568000200",
        "RemotePartitionDeleteMetadata{topicPartition=AQIDBAUGBwgJCgsMDQ4PEA:t-3, state=DELETE_PARTITION_FINI"
        "SHED, eventTimestampMs=1700000000000, brokerId=2}",
    ),
    (
        "0103000102030405060708090a0b0c0d0e0f1000000000000000050000000000000009000000070000018bcfe56801000001"
        "8bcfe568000200000000000000000000000000000004d2000101000101",
        "RemoteLogSegmentMetadataSnapshot{segmentId=AQIDBAUGBwgJCgsMDQ4PEA, startOffset=5, endOffset=9, maxTi"
        "mestampMs=1700000000001, segmentLeaderEpochs={0=0}, segmentSizeInBytes=1234, customMetadata=Optional"
        ".empty, state=COPY_SEGMENT_FINISHED, txnIdxEmpty=true}",
    ),
)
"""Values of `__remote_log_metadata`, and the texts that kafka-dump-log prints for them."""
FAILED_AT = {
    "torn": ["torn-hole-0/00000000000000000192", "torn-index-garbage-0", "torn-zeros-0/00000000000000000192"],
    "unclean": ["unclean-idle-0", "unclean-preallocated-0"],
    "tiered": ["remote-log-index-cache"],
}
"""Files for which kafka-dump-log failed with an exception. The golden output ends there."""


def lines_of(text: str, folder: Path) -> dict[str, list[str]]:
    """Return the lines of a dump by file. Long lines are shortened as in the golden files."""
    found: dict[str, list[str]] = {}
    for line in text.replace(f"{folder}/", "").replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        else:
            lines.append(line if len(line) <= 4000 else f"{line[:2000]}... ({len(line)} characters)")
    return {path: without_trailing_newlines(lines) for path, lines in found.items()}


def without_trailing_newlines(lines: list[str]) -> list[str]:
    return "\n".join(lines).rstrip("\n").split("\n")


@pytest.mark.parametrize("case", KAFKA_4_3, ids=str)
def test_lines_equal_those_of_kafkas_tool(case: Case) -> None:
    done = kafkafmt("dump", "--files", ",".join(map(str, case.roots)), "--deep-iteration", "--print-data-log")
    actual = lines_of(done.stdout, case.folder)
    expected = {
        path: without_trailing_newlines(lines)
        for path, lines in dumped(case.folder / "dump.txt.xz").items()
        if path != "stderr"
    }
    assert expected.keys() == actual.keys()
    for path, lines in expected.items():
        if any(part in path for part in FAILED_AT.get(case.name, [])):
            assert actual[path][: len(lines)] == lines or lines == [""], path
        else:
            assert actual[path] == lines, path
    assert done.returncode == (1 if case.torn else 0)


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("__consumer_offsets", "offsets"),
        ("__transaction_state", "transaction-log"),
        ("__cluster_metadata", "cluster-metadata"),
        ("__share_group_state", "share-group-state"),
    ],
)
def test_decoders_print_the_lines_of_kafkas_tool(topic: str, name: str) -> None:
    files = sorted(p for d in INTERNAL.glob(f"{topic}-*") for p in d.iterdir() if p.suffix in (".log", ".checkpoint"))
    actual = lines_of(
        kafkafmt("dump", "--files", ",".join(map(str, files)), f"--{name}-decoder").stdout, INTERNAL.parent
    )
    expected = decoded("kafka-4.3.1", topic.strip("_").replace("_", "-"))
    for lines in expected.values():
        lines[:] = [
            re.sub(r'(?<="transactionStatus":)(\d)', lambda m: f'"{STATES[int(m[1])]}"', line) for line in lines
        ]
    assert actual == {path: without_trailing_newlines(lines) for path, lines in expected.items()}


def segment(folder: Path, *records: tuple[bytes | None, bytes | None]) -> Path:
    """Write a segment with one batch."""
    path = folder / f"{0:020}.log"
    path.write_bytes(batch([record(n, key=key, value=value) for n, (key, value) in enumerate(records)]))
    return path


def contents(*arguments: Any) -> list[str]:
    """Return the keys and values that `dump` prints."""
    done = kafkafmt("dump", *arguments, "--skip-record-metadata")
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if line.startswith("|")]


def test_transaction_states_are_names(tmp_path: Path) -> None:
    records = [
        (b"\0\0\0\1t", struct.pack(">hqhibiqq", 0, 1, 2, 3, state, -1, 4, 5)) for state in (*range(len(STATES)), 99)
    ]
    lines = contents(segment(tmp_path, *records), "--transaction-log-decoder")
    shown = [json.loads(line.partition(" payload: ")[2])["data"]["transactionStatus"] for line in lines]
    assert shown == [*STATES, 99]


def test_remote_log_metadata_is_printed_as_by_kafka(tmp_path: Path) -> None:
    """Kafka's ``RemoteLogMetadataSerde`` of 4.3.1 wrote these bytes and texts."""
    path = segment(tmp_path, *((None, bytes.fromhex(data)) for data, _ in REMOTE), (None, b"\1\x09\0"))
    lines = contents(path, "--remote-log-metadata-decoder")
    assert lines[:-1] == [f"| payload: {text}" for _, text in REMOTE]
    assert lines[-1].startswith(f"| payload: Error at offset {len(REMOTE)}, skipping. ")
    golden = GOLDEN / "kafka-4.3.1" / "tiered" / "log" / "__remote_log_metadata-0"
    assert (
        sum("payload: RemoteLogSegmentMetadata" in line for line in contents(golden, "--remote-log-metadata-decoder"))
        == 8
    )


@pytest.mark.parametrize("package", ["", "org.apache.kafka.tools.api.", "kafka.serializer."])
def test_decoder_classes_print_numbers_and_text(tmp_path: Path, package: str) -> None:
    number, long = (-5).to_bytes(4, "big", signed=True), (2**40).to_bytes(8, "big")
    path = segment(tmp_path, (number, long), (None, long), (long, None), (b"abc", b""))
    classes = f"--key-decoder-class={package}IntegerDecoder", f"--value-decoder-class={package}LongDecoder"
    assert contents(path, *classes) == [
        f"| key: -5 payload: {2**40}",
        f"| payload: {2**40}",
        "| key: 256",
        "| key: Error at offset 3, skipping. IntegerDecoder needs 4 bytes, but there are 3"
        " payload: Error at offset 3, skipping. LongDecoder needs 8 bytes, but there are 0",
    ]
    text = segment(tmp_path, (b"k", "é".encode()))
    assert contents(text, "--key-decoder-class", f"--value-decoder-class={package}StringDecoder") == [
        "| key: k payload: é"
    ]
    assert contents(text, f"--value-decoder-class={package}DefaultDecoder") == ["| key: k payload: é"]


def test_wrong_decoder_classes_are_usage_errors(tmp_path: Path) -> None:
    path = segment(tmp_path, (b"k", b"v"))
    done = kafkafmt("dump", path, "--key-decoder-class=com.example.Mine")
    assert done.returncode == 2
    assert "is not one of StringDecoder, DefaultDecoder, IntegerDecoder, LongDecoder" in done.stderr
    done = kafkafmt("dump", path, "--key-decoder-class=LongDecoder", "--offsets-decoder")
    assert done.returncode == 2


def test_paths_are_dumped_without_the_option_files(tmp_path: Path) -> None:
    path = segment(tmp_path, (b"k", b"v"))
    expected = kafkafmt("dump", "--files", path, "--print-data-log").stdout
    assert "key: k payload: v" in expected
    assert kafkafmt("dump", path, "--print-data-log", "--max-message-size", "5").stdout == expected
    assert kafkafmt("dump", tmp_path, "--print-data-log").stdout == expected
    assert kafkafmt("dump", path, "--files", path, "--print-data-log").stdout == 2 * expected
    done = kafkafmt("dump")
    assert (done.returncode, done.stdout) == (2, "")
    assert "specify at least one file, as PATH or with --files" in done.stderr


def items(*arguments: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kafkafmt("dump", *arguments, "--format", "json").stdout.splitlines()]


def test_json_has_items_of_all_types() -> None:
    found = items(
        "--files", GOLDEN / "kafka-4.3.1" / "transactions" / "log" / "tx-0", "--deep-iteration", "--bytes", "base64"
    )
    kinds = {
        kind: [i for i in found if i["type"] == kind]
        for kind in ("batch", "record", "index", "timeindex", "txnindex", "snapshot")
    }
    assert all(kinds.values())
    assert all(i["file"].endswith(".log") for i in kinds["batch"])
    marker = next(i for i in kinds["record"] if "control" in i)
    assert marker["control"]["value"] == {"version": 0, "coordinatorEpoch": 0}
    assert {"offset", "timestamp", "key", "value", "headers", "sequence"} <= kinds["record"][0].keys()
    assert kinds["txnindex"][0]["lastStableOffset"] == 0
    (commit,) = [
        i
        for i in items("--files", INTERNAL / "__consumer_offsets-1", "--offsets-decoder")
        if i.get("offset") == 1 and "key" in i
    ]
    assert commit["key"]["data"]["group"] == "classic-b"


@pytest.fixture
def damaged_partition(tmp_path: Path) -> Path:
    """Return a partition with four batches and an offset index.

    The second batch has a wrong CRC. The third has a valid CRC, but its records cannot be decoded.
    """
    path = tmp_path / "t-0"
    path.mkdir()
    batches = [batch([record(0, value=b"value %d" % i)], base_offset=i) for i in range(4)]
    batches[1] = batches[1][:-3] + b"?" + batches[1][-2:]
    batches[2] = batch(base_offset=2, count=1, last_offset_delta=0, payload=b"\x7f\x7f")
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    ends = np.cumsum([len(b) for b in batches])
    (path / f"{0:020}.index").write_bytes(np.array([[1, ends[0]], [3, ends[2]]], ">i4").tobytes() + bytes(16))
    return path


def test_dump_reports_damage_skips_it_and_exits_with_1(damaged_partition: Path) -> None:
    done = kafkafmt("dump", "--files", damaged_partition / f"{0:020}.log", "--print-data-log")
    assert done.returncode == 1
    batches = [line for line in done.stdout.splitlines() if line.startswith("baseOffset")]
    assert [line.endswith("isvalid: true") for line in batches] == [True, False, True, True]
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("|")] == ["0", "1", "3"]
    # two additional lines report the damage, and the gap between offsets 1 and 3
    assert len(done.stderr.splitlines()) == 2 + 2
    assert "CRC" in done.stderr
    found = items("--files", damaged_partition / f"{0:020}.log", "--deep-iteration")
    assert [i["error"] for i in found if i["type"] == "damage"] == ["corrupt_structure", "corrupt_checksum"]
    assert kafkafmt("dump", "--files", damaged_partition / f"{0:020}.log").returncode == 1


def test_dump_prints_valid_batches_with_contradicting_offsets(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    batches = [batch([record(0, value=b"value %d" % i)], base_offset=i) for i in range(5)]
    path.write_bytes(b"".join([*batches[:3], batch([record(0, value=b"?")], base_offset=1), *batches[3:]]))
    done = kafkafmt("dump", "--files", path)
    assert (done.returncode, done.stdout.count("isvalid: true")) == (1, 6)
    assert "the batches before and after this batch contradict its offset" in done.stderr
    path.write_bytes(b"".join([*batches, batches[4]]))
    done = kafkafmt("dump", "--files", path)
    assert (done.returncode, done.stdout.count("isvalid: true")) == (0, 6)
    assert "[duplicate_batch]" in done.stderr


def test_index_is_compared_with_its_log(damaged_partition: Path) -> None:
    index = damaged_partition / f"{0:020}.index"
    done = kafkafmt("dump", "--files", index)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["offset: 1 position: 75", "offset: 3 position: 213"])
    assert kafkafmt("dump", "--files", index, "--index-sanity-check").stdout.endswith(f"{index} passed sanity check.\n")
    done = kafkafmt("dump", "--files", index, "--verify-index-only")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    index.write_bytes(np.array([[1, 5], [3, 9]], ">i4").tobytes())
    for flags, code in (((), 0), (("--verify-index-only",), 1), (("--index-sanity-check",), 0)):
        done = process("dump", "--files", index, *flags)  # a process keeps the result for a segment
        assert done.returncode == code
        assert ("index_mismatch" in done.stderr) == (flags != ("--index-sanity-check",))
    index.write_bytes(bytes(range(1, 30)))
    assert process("dump", "--files", index, "--index-sanity-check").returncode == 1
    (damaged_partition / f"{0:020}.log").unlink()
    assert "is missing, so the index cannot be checked" in process("dump", "--files", index).stderr


def test_missing_or_unreadable_file_is_reported(tmp_path: Path) -> None:
    assert kafkafmt("dump", "--files", tmp_path / "none.log").returncode == 3
    done = kafkafmt("dump", "--files", tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    (tmp_path / f"{7:020}.snapshot").write_bytes(b"\0\1nonsense")
    done = kafkafmt("dump", "--files", tmp_path)
    assert (done.returncode, done.stdout) == (0, f"Dumping {tmp_path / f'{7:020}.snapshot'}\n")
    assert "unreadable_snapshot" in done.stderr


def test_max_bytes_limits_the_dump(damaged_partition: Path) -> None:
    log = damaged_partition / f"{0:020}.log"
    for size, batches in ((0, 0), (74, 0), (75, 1), (100, 1)):
        done = kafkafmt("dump", "--files", log, "--max-bytes", size)
        assert (done.returncode, done.stdout.count("baseOffset"), done.stderr) == (0, batches, "")


def test_unknown_file_is_ignored_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("text")
    (tmp_path / f"{0:020}.log").write_bytes(batch([record(0)]))
    done = inside("dump", "--files", tmp_path / "README.md")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert "README.md: this kind of file cannot be dumped (supported suffixes: .checkpoint, " in done.stderr
    done = inside("dump", "--files", f"{tmp_path / 'README.md'},{tmp_path / f'{0:020}.log'}")
    assert (done.returncode, done.stderr) == (0, f"kafkafmt: Ignoring unknown file {tmp_path / 'README.md'}\n")
    assert "baseOffset: 0" in done.stdout
    for wrong in ((",",), (tmp_path, "--offsets-decoder", "--share-group-state-decoder")):
        assert inside("dump", "--files", *wrong).returncode == 2
