"""Test that verify reports offsets that are missing between adjacent batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import mutate, simple_batch

import kafkafmt


def findings(folder: Path) -> list[tuple[str, str]]:
    report = kafkafmt.verify(folder)
    return [(f.code, f.message) for p in report.partitions for f in p.findings]


def write(folder: Path, offsets: list[int], damaged: int = -1) -> None:
    parts = [simple_batch([b"value"], o) for o in offsets]
    if damaged >= 0:
        parts[damaged] = mutate(parts[damaged], 61, b"\xff")
    (folder / "t-0").mkdir()
    (folder / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))


@pytest.mark.parametrize("damaged", [-1, 1])
def test_each_gap_is_a_finding(tmp_path: Path, damaged: int) -> None:
    write(tmp_path, [0, 1, 2, 5, 6, 8], damaged)
    size = len(simple_batch([b"value"], 0))
    assert findings(tmp_path) == [
        ("offset_gap", f"offsets 3 to 4 before position {3 * size}: no batch contains them"),
        ("offset_gap", f"offset 7 before position {5 * size}: no batch contains them"),
    ]


def test_compacted_log_has_no_finding(tmp_path: Path) -> None:
    write(tmp_path, [0, 2, 5])
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    assert findings(tmp_path) == []


def test_very_many_gaps_are_counted(tmp_path: Path) -> None:
    write(tmp_path, list(range(0, 2000, 2)))
    found = findings(tmp_path)
    assert {code for code, _ in found} == {"offset_gap"}
    assert len(found) == 257
    assert found[-1][1] == "743 more gaps like this: the log seems to be compacted"
