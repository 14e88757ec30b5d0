"""Check that `rewrite` keeps timestamps that only stored batches contain."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from building import batch, message, record
from odd_batches import batches_with_odd_ends, write_log

import kafkafmt

TIMES = [-4_852_116_231_934, 5, -2, -1, -(2**62)]
"""Timestamps of records. A broker accepts them from clients that do not check them."""
CHANGES: list[dict[str, Any]] = [
    {"drop_keys": "k1"},
    {"compact": True},
    {"before_time": -(2**61)},
    {"codec": "zstd"},
    {"codec": "none"},
]


def batches() -> dict[str, bytes]:
    """Return the same records in batches of all formats and some codecs."""
    base = TIMES[0]
    records = [record(i, time - base, b"k%d" % i, b"v") for i, time in enumerate(TIMES)]
    inner = [message(1, b"k%d" % i, b"v", offset=i, timestamp=time) for i, time in enumerate(TIMES)]
    last = len(TIMES) - 1
    return {
        **{
            f"v2-{codec}": batch(
                records, codec=codec, base_timestamp=base, max_timestamp=max(TIMES), last_offset_delta=last
            )
            for codec in range(5)
        },
        "v1-wrapper": message(1, None, gzip.compress(b"".join(inner)), offset=last, timestamp=max(TIMES), attributes=1),
        "v1-plain": b"".join(inner),
    }


def rows(path: Path) -> list[tuple[int, int, bytes | None]]:
    return [(r.offset, r.timestamp, r.key) for r in kafkafmt.open(path)["t", 0].records()]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: "-".join(map(str, next(iter(change.items())))))
@pytest.mark.parametrize("name", batches())
def test_timestamps_are_kept(package: ModuleType, tmp_path: Path, name: str, change: dict[str, Any]) -> None:
    partition = write_log(tmp_path / "in", b"")
    (partition / f"{0:020}.log").write_bytes(batches()[name])
    expected = rows(tmp_path / "in")
    assert [time for _, time, _ in expected] == TIMES
    if "drop_keys" in change:
        expected = [row for row in expected if row[2] != b"k1"]
    elif "before_time" in change:
        expected = [row for row in expected if row[1] >= -(2**61)]
    kafkafmt.rewrite(tmp_path / "in", tmp_path / "out", **change)
    assert rows(tmp_path / "out") == expected
    assert kafkafmt.verify(tmp_path / "out").ok


def test_records_are_dropped_from_batches_with_odd_ends(package: ModuleType, tmp_path: Path) -> None:
    for name, (data, _) in batches_with_odd_ends().items():
        write_log(tmp_path / name, data)
        kafkafmt.rewrite(tmp_path / name, tmp_path / f"{name}-out", drop_keys="key 3")
        assert [r[0] for r in rows(tmp_path / f"{name}-out")] == [i for i in range(40) if i != 3]
