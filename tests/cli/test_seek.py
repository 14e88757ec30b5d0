"""Test that `kafkafmt seek` returns what a broker returns for ListOffsets, with few bytes read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from building import batch, control_batch, record
from command import inside, kafkafmt
from golden_cases import CASES, Case


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn and c.name != "tiered"], ids=str)
def test_seek_results_equal_the_brokers(case: Case) -> None:
    for (topic, partition), offsets in case.offsets().items():
        asked = [q for q in offsets.get("offsetsForTimes") or [] if q.get("offset") is not None]
        if not asked or not any((r / f"{topic}-{partition}").exists() for r in case.roots):
            continue
        times = [f"--timestamp={q['asked']}" for q in asked]
        done = kafkafmt("seek", *case.roots, "-t", topic, "-p", partition, "--format", "json", *times)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert [(a["offset"], a["timestamp"]) for a in answers] == [(q["offset"], q["timestamp"]) for q in asked]
        assert list(answers[0]) == ["topic", "partition", "offset", "timestamp", "segment", "position", "bytes_read"]


def test_seek_results_have_the_order_of_the_options(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    parts = [batch([record(i, i) for i in range(10)], base_offset=o, base_timestamp=o * 100) for o in (0, 10)]
    data = b"".join([*parts, control_batch(1, base_offset=20), batch([record(0)], base_offset=30, base_timestamp=9000)])
    (path / f"{0:020}.log").write_bytes(data)

    def ask(*questions: str) -> list[tuple[int | None, int | None, int | None]]:
        done = kafkafmt("seek", tmp_path, "-t", "t", "-p", "0", "--format", "json", *questions)
        assert done.returncode == 0, done.stderr
        return [(a["offset"], a["timestamp"], a["position"]) for a in map(json.loads, done.stdout.splitlines())]

    second_position = len(parts[0])
    assert ask("--offset", "13", "--offset=3") == [(13, 1003, second_position), (3, 3, 0)]
    assert ask("--timestamp=1005", "--offset", "3", "--timestamp", "0") == [
        (15, 1005, second_position),
        (3, 3, 0),
        (0, 0, 0),
    ]
    # A marker has the largest timestamp, and a broker returns the marker too.
    assert ask("--timestamp", "max-timestamp") == [(20, 1_700_000_000_000, 2 * second_position)]
    assert ask("--offset", "20") == [
        (30, 9000, len(data) - len(batch([record(0)], base_offset=30, base_timestamp=9000)))
    ]
    assert ask("--offset", "31", "--timestamp=99999999999999") == [(None, None, None)] * 2
    assert ask("--timestamp", "1005", "--timestamp=1970-01-01T00:00:01") == [
        (15, 1005, second_position),
        (10, 1000, second_position),
    ]


def test_seek_text_names_the_index_that_was_used(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(
        b"".join(batch([record(0)], base_offset=o, base_timestamp=o) for o in (0, 1, 5))
    )
    ask = ["seek", tmp_path, "-t", "t", "-p", "0"]
    found = kafkafmt(*ask, "--offset", 1).stdout
    assert (
        "offset 1, timestamp 1 (1970-01-01T00:00:00.001Z), in 00000000000000000000.log at 68 (by the indexes, " in found
    )
    # Damage before the record can only be found by reading the whole segment.
    data = bytearray((path / f"{0:020}.log").read_bytes())
    data[67] ^= 1
    (path / f"{0:020}.log").write_bytes(data)
    assert "(1 segment read completely, " in kafkafmt(*ask, "--offset", 2).stdout


def test_special_times_of_kafkas_tools_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    batches = [batch([record(0)], base_offset=o, base_timestamp=time) for o, time in ((3, 5), (4, 9), (5, -1), (6, 9))]
    (path / f"{3:020}.log").write_bytes(b"".join(batches))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    asked = [
        "-1",
        "latest",
        "-2",
        "earliest",
        "-3",
        "max-timestamp",
        "@-1",
        "1969-12-31T23:59:59.999",
        "@1970-01-01T00:00:00.006Z",
    ]
    ask = ["seek", tmp_path, "-t", "t", "-p", "0", *(f"--timestamp={time}" for time in asked)]
    answers = [json.loads(line) for line in inside(*ask, "--format", "json").stdout.splitlines()]
    assert [(a["offset"], a["timestamp"]) for a in answers] == [(7, None)] * 2 + [(4, None)] * 2 + [(4, 9)] * 5
    assert [(a["segment"], a["position"]) for a in answers[:4:2]] == [(None, None), (f"{3:020}.log", len(batches[0]))]
    lines = inside(*ask).stdout.splitlines()
    assert lines[0].startswith("latest: offset 7, the log end offset (")
    assert lines[2].startswith("earliest: offset 4, the log start offset, in 00000000000000000003.log at 68 (")
    assert lines[8].startswith("1970-01-01T00:00:00.006Z: offset 4, timestamp 9 (1970-01-01T00:00:00.009Z), in ")
    done = inside(*ask[:-9], "--timestamp", "-4")
    assert (done.returncode, "-2 is earliest" in done.stderr) == (2, True)


def test_seek_in_an_empty_log_returns_its_start_and_end(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{8:020}.log").write_bytes(b"")
    ask = [
        "seek",
        tmp_path,
        "-t",
        "t",
        "-p",
        "0",
        "--timestamp=latest",
        "--timestamp=earliest",
        "--timestamp=-3",
        "--format",
        "json",
    ]
    answers = [json.loads(line) for line in inside(*ask).stdout.splitlines()]
    assert [(a["offset"], a["segment"]) for a in answers] == [(8, None), (8, None), (None, None)]


def test_wrong_usage_exits_with_2_and_a_missing_path_with_3(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(batch([record(0)]))
    for arguments in ((), ("--offset", "x"), ("--timestamp", "someday")):
        assert kafkafmt("seek", tmp_path, "-t", "t", "-p", "0", *arguments).returncode == 2
    assert kafkafmt("seek", tmp_path, "-t", "u", "-p", "0", "--offset", "0").returncode == 2
    assert kafkafmt("seek", tmp_path / "none", "-t", "u", "-p", "0", "--offset", "0").returncode == 3


def test_lookup_reads_less_than_the_segment(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    one_batch = batch([record(0, value=b"x" * 900_000)])
    offsets, times = [], []
    with (path / f"{0:020}.log").open("wb") as file:
        for i in range(40):
            offsets += [i, file.tell()]
            times.append((1_000_000 + i, i))
            file.write(
                i.to_bytes(8, "big") + batch([record(0, value=b"x" * 900_000)], base_timestamp=1_000_000 + i)[8:]
            )
    (path / f"{0:020}.index").write_bytes(np.array(offsets, ">i4").tobytes())
    (path / f"{0:020}.timeindex").write_bytes(np.array(times, [("t", ">i8"), ("o", ">i4")]).tobytes())
    for question in ("--offset=35", "--timestamp=1000035"):
        answer = json.loads(kafkafmt("seek", tmp_path, "-t", "t", "-p", "0", question, "--format", "json").stdout)
        assert answer["offset"] == 35
        assert answer["bytes_read"] < 15 * len(one_batch)
