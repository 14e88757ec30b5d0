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
    times = ["2026-11-21T07:24:49", "2026-11-22T07:24:49"]
    assert lines[1].split() == ["group-a", "read-0", "4", "4", "0", *times, "after", "3"]
    assert lines[3].split() == ["group-a", "total", "0"]
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
        "log_end_offset": 4,
        "lag": 0,
    }
    assert [(g["group"], g["type"], g["epoch"]) for g in found["groups"]] == [("group-a", "classic", 2)]
    assert "no members" in kafkafmt("groups", "--members", OLD).stdout


def test_group_pattern_selects_or_is_reported() -> None:
    done = kafkafmt("groups", INTERNAL, "-g", "share*", "--format", "json")
    assert json.loads(done.stdout)["offsets"] == []
    assert [g["group"] for g in json.loads(done.stdout)["groups"]] == ["share-a"]
    done = kafkafmt("groups", INTERNAL, "-g", "clasic-static", "--format", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kafkafmt: no group matches 'clasic-static': the nearest group is classic-static\n"
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


def group_directory(path: Path) -> Path:
    """Write a partition with ten records, and commits of the group g for it and for a missing partition."""
    key = b"\0\1\0\1g\0\1t\0\0\0"
    commits = []
    for n, (partition, offset, time) in enumerate([(0, 3, 1000), (1, 7, 1500), (0, 6, 2000), (0, None, 3000)]):
        value = None if offset is None else b"\0\2" + offset.to_bytes(8, "big") + b"\0\0" + time.to_bytes(8, "big")
        fields = [(0, 0, key + bytes([partition]), value, ())]
        commits.append(batch(fields, base_offset=n, base_timestamp=time))
    for name, content in (
        ("__consumer_offsets-0", b"".join(commits)),
        ("t-0", batch([record(i, 250 * i) for i in range(10)], base_timestamp=0)),
    ):
        (path / name).mkdir()
        (path / name / f"{0:020}.log").write_bytes(content)
    return path


def lags(*arguments: object) -> list[tuple[int, int, int | None, int | None]]:
    done = kafkafmt("groups", *arguments, "--format", "json")
    assert done.returncode == 0
    found = json.loads(done.stdout)["offsets"]
    return [(c["partition"], c["offset"], c["log_end_offset"], c["lag"]) for c in found]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("999", []),
        ("1000", [(0, 3, 4, 1)]),
        ("@1500", [(0, 3, 6, 3), (1, 7, None, None)]),
        ("1970-01-01T00:00:02", [(0, 6, 8, 2), (1, 7, None, None)]),
        ("2999", [(0, 6, 10, 4), (1, 7, None, None)]),
        ("3000", [(1, 7, None, None)]),
    ],
)
def test_groups_at_a_time_counts_earlier_commits(
    tmp_path: Path, time: str, expected: list[tuple[int, int, int | None, int | None]]
) -> None:
    assert lags(group_directory(tmp_path), "--at", time) == expected


def test_groups_prints_the_total_of_known_lags(tmp_path: Path) -> None:
    path = group_directory(tmp_path)
    lines = kafkafmt("groups", path, "--at", "2000").stdout.splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["g", "t-0", "6", "8", "2"],
        ["g", "t-1", "7", "-", "-"],
        ["g", "total", "2+"],
    ]
    lines = kafkafmt("groups", path).stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [["g", "t-1", "7", "1970-01-01T00:00:01"]]


def test_unreadable_log_end_is_reported_and_exits_with_3(tmp_path: Path) -> None:
    path = group_directory(tmp_path)
    (path / "t-0" / f"{0:020}.log").unlink()
    (path / "t-0" / f"{0:020}.log").symlink_to("missing")
    done = kafkafmt("groups", path, "--at", "2000", "--format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert [(u["topic"], u["partition"]) for u in found["unreadable"]] == [("t", 0)]
    assert [(c["offset"], c["lag"]) for c in found["offsets"]] == [(6, None), (7, None)]
    assert "t-0 cannot be read" in done.stderr


def test_wrong_time_of_groups_is_wrong_usage(tmp_path: Path) -> None:
    done = kafkafmt("groups", group_directory(tmp_path), "--at", "yesterday")
    assert done.returncode == 2
    assert "'yesterday' is not a time" in done.stderr
