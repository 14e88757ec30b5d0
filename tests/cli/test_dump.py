"""Compare the output of `kafkafmt dump` with that of kafka-dump-log 4.3.1 for the golden logs.

If kafka-dump-log failed with an exception, `kafkafmt dump` may print more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import batch, record
from command import inside, kafkafmt
from golden_cases import CASES, GOLDEN, Case, decoded, dumped

KAFKA_4_3 = [c for c in CASES if c.version == "kafka-4.3.1"]
INTERNAL = GOLDEN / "kafka-4.3.1" / "internal" / "log"
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
    assert actual == {path: without_trailing_newlines(lines) for path, lines in expected.items()}


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
        done = kafkafmt("dump", "--files", index, *flags)
        assert done.returncode == code
        assert ("index_mismatch" in done.stderr) == (flags != ("--index-sanity-check",))
    index.write_bytes(bytes(range(1, 30)))
    assert kafkafmt("dump", "--files", index, "--index-sanity-check").returncode == 1
    (damaged_partition / f"{0:020}.log").unlink()
    assert "is missing, so the index cannot be checked" in kafkafmt("dump", "--files", index).stderr


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
