"""Test `kafkafmt groups`, and `kafkafmt cat --group`, which starts at the committed offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from building import batch, record
from command import kafkafmt, records
from golden_cases import GOLDEN

INTERNAL = GOLDEN / "kafka-4.3.1" / "internal" / "log"
OLD = GOLDEN / "legacy" / "0.10.2.2-groups" / "log"


def test_groups_prints_a_table_or_json() -> None:
    lines = kafkafmt("groups", OLD).stdout.splitlines()
    assert lines[0].split("  ")[0] == "group"
    assert lines[1].split() == ["group-a", "read-0", "4", "2026-11-21T07:24:49", "2026-11-22T07:24:49", "after", "3"]
    found = json.loads(kafkafmt("groups", OLD, "--format", "json").stdout)
    assert found["offsets"][1] == {
        "group": "group-a",
        "topic": "read",
        "partition": 1,
        "offset": 4,
        "leader_epoch": None,
        "metadata": "after 3",
        "commit_timestamp": 1795245889587,
        "expire_timestamp": 1795332289587,
    }
    assert [(g["group"], g["type"], g["epoch"]) for g in found["groups"]] == [("group-a", "classic", 2)]
    assert "no members" in kafkafmt("groups", "--members", OLD).stdout


def test_group_pattern_selects_or_is_reported() -> None:
    done = kafkafmt("groups", INTERNAL, "-g", "share*", "--format", "json")
    assert json.loads(done.stdout)["offsets"] == []
    assert [g["group"] for g in json.loads(done.stdout)["groups"]] == ["share-a"]
    done = kafkafmt("groups", INTERNAL, "-g", "clasic-static", "--format", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kafkafmt: no group matches 'clasic-static': the nearest is classic-static\n"
    done = kafkafmt("groups", INTERNAL, "-g", "nobody", "-g", "classic*")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert {line.split()[0] for line in done.stdout.splitlines()[1:]} == {"classic-static"}
    done = kafkafmt("groups", GOLDEN / "kafka-4.3.1" / "epochs" / "log")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_cat_of_a_group_starts_at_its_committed_offset() -> None:
    found = records(INTERNAL, "--group", "classic-static")
    assert [(r["topic"], r["partition"], r["offset"]) for r in found] == [
        ("source", p, o) for p in range(3) for o in range(20, 30)
    ]
    found = records(INTERNAL, "-g", "classic-static", "-p", "1", "-o", ":22")
    assert [(r["partition"], r["offset"]) for r in found] == [(1, 20), (1, 21)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-g", "nobody"), "has not committed any offset"),
        (("-g", "classic-static", "-t", "sink"), "any offsets for the selected topics, only for source"),
        (("-g", "classic-static", "-o", "3:"), "-o must have the form :TO"),
    ],
)
def test_wrong_usage_of_group_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = kafkafmt("cat", INTERNAL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_cat_of_a_group_without_offset_starts_at_the_log_start(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    key = b"\0\1\0\1g\0\1t\0\0\0"
    value = b"\0\2" + (3).to_bytes(8, "big") + b"\0\0" + bytes(8)
    commits = batch([(0, 0, key + b"\0", value, ())])
    (tmp_path / "__consumer_offsets-0" / f"{0:020}.log").write_bytes(commits)
    for partition, base in ((0, 5), (1, 0)):
        path = tmp_path / f"t-{partition}"
        path.mkdir()
        (path / f"{base:020}.log").write_bytes(batch([record(i) for i in range(2)], base_offset=base))
    done = kafkafmt("cat", tmp_path, "-g", "g", "--format", "json")
    assert [(r["partition"], r["offset"]) for r in map(json.loads, done.stdout.splitlines())] == [
        (0, 5),
        (0, 6),
        (1, 0),
        (1, 1),
    ]
    assert "t-0: the committed offset 3 of group g is below the log start offset; reading starts at 5" in done.stderr
    assert "t-1: group g has not committed an offset; reading starts at the log start offset" in done.stderr


def test_damaged_commits_are_reported_and_exit_with_1(tmp_path: Path) -> None:
    path = tmp_path / "__consumer_offsets-0"
    path.mkdir()
    corrupted_batch = bytearray(batch([(0, 0, b"\0\2\0\1g", None, ())]))
    corrupted_batch[-1] ^= 1
    (path / f"{0:020}.log").write_bytes(bytes(corrupted_batch) + batch([record(0)], base_offset=1))
    done = kafkafmt("groups", tmp_path)
    assert done.returncode == 1
    assert "newer committed offsets may be missing" in done.stderr
