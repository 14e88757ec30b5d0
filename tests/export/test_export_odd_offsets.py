"""Export batches with odd record offsets: all rows, in stored order, also from a planned segment and after a resume."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from building import simple_batch
from command import inside
from odd_offsets import DELTAS, Expected, mixed_log, odd, offsets

pytestmark = pytest.mark.slow


def exported(out: Path) -> Expected:
    table = ds.dataset(out / "data", partitioning="hive").to_table()
    return list(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", DELTAS)
def test_damage_next_to_odd_batches_costs_no_other_record(tmp_path: Path, kind: str) -> None:
    """A damaged segment is exported with a plan, with which the number of exported records is compared."""
    expected = mixed_log(tmp_path / "log", kind)
    path = next((tmp_path / "log" / "t-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[len(simple_batch([b"100/0"] * 3, 100)) // 2] ^= 1
    path.write_bytes(data)
    done = inside("export", tmp_path / "log", "-O", tmp_path / "out", "--on-error", "quarantine")
    assert done.returncode == 1, done.stderr
    assert exported(tmp_path / "out") == expected[3:]
    done = inside("export", tmp_path / "log", "-O", tmp_path / "cut", "--on-error", "quarantine", "-o", "104:110")
    assert done.returncode == 0, done.stderr
    assert exported(tmp_path / "cut") == [
        (offset, value)
        for offset, value in expected[3:]
        if 104 <= offset < 110 and (value[:3] != b"103" or kind != "last delta 0") and int(value[:3]) < 110
    ]


@pytest.mark.parametrize("kind", DELTAS)
def test_a_resumed_export_adds_the_new_records(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log" / "t-0" / f"{100:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(odd(kind, 100))
    assert inside("export", tmp_path / "log", "-O", tmp_path / "out").returncode == 0
    with path.open("ab") as file:
        file.write(odd(kind, 103) + simple_batch([b"x"], 106))
    assert inside("export", tmp_path / "log", "-O", tmp_path / "out", "--resume").returncode == 0
    assert sorted(exported(tmp_path / "out")) == sorted([*offsets(kind, 100), *offsets(kind, 103), (106, b"x")])
    assert json.loads((tmp_path / "out" / "report.json").read_text())["partitions"][0]["next_offset"] == 107
