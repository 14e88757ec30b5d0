"""Test which offsets `kafkafmt.verify` reports as lost, the times around them, and the groups that had not read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from building import batch, record
from command import inside
from example_data import make_example_data

import kafkafmt
from kafkafmt.log.damage import DamageColumns
from kafkafmt.log.findings import Damage
from kafkafmt.log.verifying.lost_ranges import OffsetJumps, lost_ranges
from kafkafmt.reports import LostRange

SIZE = 10
"""Number of records of each batch."""


def stored(i: int, **fields: Any) -> bytes:
    """Return batch `i`, with the offsets 10 i to 10 i + 9 and the timestamps 1000 i to 1000 i + 9."""
    records = [record(n, n, value=b"%d" % n) for n in range(SIZE)]
    times = {"base_timestamp": 1000 * i, "max_timestamp": 1000 * i + SIZE - 1}
    return batch(records, base_offset=SIZE * i, **(times | fields))


def write(folder: Path, *segments: list[bytes]) -> Path:
    """Write segments of batches into a partition directory."""
    folder.mkdir(parents=True)
    for batches in segments:
        base = int.from_bytes(batches[0][:8], "big")
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    return folder


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def lost(path: Path, **options: Any) -> list[tuple[int | None, ...]]:
    (report,) = kafkafmt.verify(path, **options).partitions
    return [tuple(r) for r in report.lost]


def test_times_are_those_of_the_batches_around_damage(tmp_path: Path, package: object) -> None:
    batches = [flipped(stored(i)) if i in (2, 3, 6) else stored(i) for i in range(8)]
    path = write(tmp_path / "t-0", batches)
    assert lost(path) == [(20, 39, 1009, 4000), (60, 69, 5009, 7000)]
    (report,) = kafkafmt.verify(path).partitions
    assert report.records_lost is None
    assert report.most_records_lost == 30
    assert "at most 30" in report._repr_html_()


def test_range_at_the_start_and_at_the_end(tmp_path: Path, package: object) -> None:
    batches = [flipped(stored(i)) if i in (0, 3) else stored(i) for i in range(4)]
    found = lost(write(tmp_path / "t-0", batches))
    assert found[0] == (0, 9, None, 1000)
    assert found[1][0::2] == (30, 2009)
    assert found[1][3] is None


def test_times_of_the_previous_and_the_next_segment(tmp_path: Path, package: object) -> None:
    segments = [[stored(0), stored(1)], [flipped(stored(2)), flipped(stored(3))], [stored(4)]]
    assert lost(write(tmp_path / "t-0", *segments)) == [(20, 39, 1009, 4000)]


def test_missing_segment(tmp_path: Path, package: object) -> None:
    path = write(tmp_path / "t-0", [stored(0), stored(1)], [stored(4)])
    assert lost(path) == [(20, 39, 1009, 4000)]
    (report,) = kafkafmt.verify(path).partitions
    assert report.most_records_lost == 20


def test_compacted_log_with_damage(tmp_path: Path, package: object) -> None:
    """Other jumps between the offsets do not count."""
    path = write(tmp_path / "t-0", [stored(0), stored(2), flipped(stored(4)), stored(7), stored(9)])
    (found,) = lost(path)
    assert found[2:] == (2009, 7000)
    assert found[0] == 30
    assert found[1] == 69


def test_log_append_time_is_the_time_of_all_records(tmp_path: Path, package: object) -> None:
    batches = [stored(i, attributes=8) for i in range(3)]
    path = write(tmp_path / "t-0", [batches[0], flipped(batches[1]), batches[2]])
    assert lost(path) == [(10, 19, 9, 2009)]


def test_shallow_check_tells_no_times(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", [stored(0), flipped(stored(1)), stored(2)])
    assert lost(path, shallow=True) == [(10, 19, None, None)]


def test_intact_partition_has_no_lost_ranges(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", [stored(0), stored(1)])
    assert lost(path) == []
    (report,) = kafkafmt.verify(path).partitions
    assert report.most_records_lost == 0
    assert not {"lost", "most_records_lost", "unread_by"} & report.to_dict().keys()


@pytest.mark.parametrize(
    ("ranges", "low", "expected"),
    [
        ([(5, 9), (0, 3)], 0, [(0, 3), (5, 9)]),
        ([(5, 9), (3, 4)], 0, [(3, 9)]),
        ([(0, 9), (2, 3), (8, 12)], 0, [(0, 12)]),
        ([(0, 9)], 5, [(5, 9)]),
        ([(0, 4)], 5, []),
        ([(7, 6), (8, 8)], 0, [(8, 8)]),
        ([(7, None), (3, 4)], 0, [(3, 4), (7, None)]),
        ([(3, None), (7, 8)], 0, [(3, None)]),
        ([], 0, []),
    ],
)
def test_ranges_are_joined(
    ranges: list[tuple[int, int | None]], low: int, expected: list[tuple[int, int | None]]
) -> None:
    damaged = [Damage("f", i, 1, *offsets, "code", "message") for i, offsets in enumerate(ranges)]
    found = lost_ranges(DamageColumns.of(damaged), low, OffsetJumps())
    assert found == tuple(LostRange(*offsets, None, None) for offsets in expected)


@pytest.fixture
def with_groups(tmp_path: Path) -> Path:
    """Return an example log in which offsets of orders-1 are destroyed that one of two groups has read partly."""
    root = make_example_data(tmp_path)["/var/lib/kafka/data"]
    (found,) = (b for b in kafkafmt.open(root)["orders", 1].batches(start=1500, end=1501))
    path = root / "orders-1" / str(found.segment)
    data = bytearray(path.read_bytes())
    data[found.position + 70] ^= 1
    path.write_bytes(data)
    return root


def test_groups_that_had_not_read_the_lost_offsets(with_groups: Path) -> None:
    (report,) = [p for p in kafkafmt.verify(with_groups).partitions if p.damaged]
    assert [(c.group, c.offset) for c in report.unread_by] == [("billing", 1500)]
    assert report.to_dict()["unread_by"] == [{"group": "billing", "offset": 1500}]
    lines = inside("verify", with_groups).stdout.splitlines()
    assert "groups   orders-1: had not read all of these offsets: billing (committed offset 1500)" in lines


def test_groups_are_unknown_without_their_topic(with_groups: Path) -> None:
    (report,) = kafkafmt.verify(with_groups / "orders-1").partitions
    assert report.lost
    assert report.unread_by == ()


def test_many_ranges_and_groups_are_shortened(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", [flipped(stored(i)) if i % 2 else stored(i) for i in range(31)])
    (line,) = [x for x in inside("verify", path).stdout.splitlines() if x.startswith("lost")]
    assert line.count("between") == 10
    assert "; and 5 more ranges (at most 150 records)" in line


def test_merged_report_names_the_times_around_what_no_replica_has(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name / "t-0", [stored(0), flipped(stored(1)), stored(2)])
    report = kafkafmt.salvage([tmp_path / "a", tmp_path / "b"], tmp_path / "out", replicas="merge")
    source = report.partitions[0].source
    assert [tuple(r) for r in source.lost] == [(10, 19, 9, 2000)]
