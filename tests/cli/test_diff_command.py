"""Test `kafkafmt diff`: its text, its JSON and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from building import batch, record
from command import inside as kafkafmt


def written(path: Path, *batches: bytes, name: str = "t-0") -> Path:
    (path / name).mkdir(parents=True)
    (path / name / f"{0:020}.log").write_bytes(b"".join(batches))
    return path


def two_copies(path: Path) -> tuple[Path, Path]:
    batches = [batch([record(0, 0, b"%d" % n)], base_offset=n) for n in range(5)]
    changed = batch([record(0, 0, b"x")], base_offset=2)
    return written(path / "a", *batches), written(path / "b", *batches[:2], changed, *batches[3:4])


def test_diff_prints_a_table_and_exits_with_1(tmp_path: Path) -> None:
    a, b = two_copies(tmp_path)
    done = kafkafmt("diff", a, b)
    assert done.returncode == 1
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines == [
        ["partition", "difference", "first", "last", "in"],
        ["t-0", "records_differ", "2", "2", f"{a},", f"{b}"],
        ["t-0", "missing", "4", "4", f"{a}"],
        ["1", "of", "1", "partition", "differ"],
    ]


def test_json_of_diff_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    a, b = two_copies(tmp_path)
    done = kafkafmt("diff", a, b, "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "equal": False,
        "partitions": [
            {
                "topic": "t",
                "partition": 0,
                "equal": False,
                "first_difference": 2,
                "differences": [
                    {"kind": "records_differ", "first_offset": 2, "last_offset": 2, "in": [str(a), str(b)]},
                    {"kind": "missing", "first_offset": 4, "last_offset": 4, "in": [str(a)]},
                ],
            }
        ],
    }


def test_equal_copies_exit_with_0(tmp_path: Path) -> None:
    a, _ = two_copies(tmp_path)
    done = kafkafmt("diff", a, a)
    assert (done.returncode, done.stdout) == (0, "1 partition: equal\n")
    found = json.loads(kafkafmt("diff", a, a, "--format", "json").stdout)
    assert found == {
        "equal": True,
        "partitions": [{"topic": "t", "partition": 0, "equal": True, "first_difference": None, "differences": []}],
    }


def test_wrong_usage_of_diff(tmp_path: Path) -> None:
    a, b = two_copies(tmp_path)
    done = kafkafmt("diff", a)
    assert (done.returncode, "at least two copies" in done.stderr) == (2, True)
    done = kafkafmt("diff", a, b, "-t", "other")
    assert (done.returncode, done.stdout) == (2, "")
    assert kafkafmt("diff", a, tmp_path / "missing").returncode == 3


def test_diff_shows_few_differences_and_escapes_names(tmp_path: Path) -> None:
    whole = [batch([record(0)], base_offset=n) for n in range(80)]
    a = written(tmp_path / "a", *whole, name="esc\x1b-0")
    b = written(tmp_path / "b", *whole[::2], name="esc\x1b-0")
    done = kafkafmt("diff", a, b)
    assert "\x1b" not in done.stdout
    assert "… 20 more" in done.stdout
    assert len(done.stdout.splitlines()) == 23
