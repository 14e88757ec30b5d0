"""Test reads of offset and time ranges.

With a valid offset index, only a part of the segment is read. A wrong index does not change the
result.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import batch, record
from golden_cases import CASES, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from selecting import interval
from sparse_logs import BATCH_BYTES, SparseLog

import kafkafmt
from kafkafmt.constants import NO_END
from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.reading import OffsetInterval
from kafkafmt.log.reading.lookups import find_batch_start, find_offset, find_timestamp
from kafkafmt.log.reading.segment_reader import OnDamage
from kafkafmt.types import last_offsets

N = 2000


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """Return a log with 2000 batches of five records, and an index entry for every tenth batch."""
    path = tmp_path / "t-0"
    path.mkdir()
    data, entries = bytearray(), []
    for i in range(N):
        if i % 10 == 9:
            entries += [i * 5 + 4, len(data)]
        data += batch([record(j, j, value=b"x" * 200) for j in range(5)], base_offset=i * 5, base_timestamp=1000 * i)
    (path / f"{0:020}.log").write_bytes(data)
    (path / f"{0:020}.index").write_bytes(np.array(entries, ">i4").tobytes() + bytes(800))
    return path


def read(path: Path, on_damage: OnDamage | None = None, **arguments: Any) -> tuple[list[int], PartitionLog]:
    log = PartitionLog(discover([path]).partitions[0])
    return [r.offset for r in log.records(interval(log, **arguments), on_damage=on_damage)], log


def test_valid_index_limits_the_read_to_the_range(long_log: Path) -> None:
    found, log = read(long_log, start=7003, end=7011)
    assert found == list(range(7003, 7011))
    assert log._plans == {}  # the whole segment was not planned


@pytest.mark.parametrize("defect", ["position", "garbage", "short", "missing", "wrong batch"])
def test_wrong_index_entry_is_ignored(long_log: Path, defect: str) -> None:
    path = long_log / f"{0:020}.index"
    index = np.frombuffer(path.read_bytes(), ">i4").copy()
    if defect == "position":
        index[1:400:2] += 7
    elif defect == "wrong batch":
        index[0:360:2] -= 900  # the position of a batch far after the offset
    if defect == "missing":
        path.unlink()
    else:
        path.write_bytes({"garbage": bytes(range(250)) * 8, "short": index.tobytes()[:-3]}.get(defect, index.tobytes()))
    for start in (0, 1, 44, 45, 7003, 9999):
        assert read(long_log, start=start, end=start + 8)[0] == list(range(start, min(start + 8, N * 5)))


def test_damage_in_the_range_is_reported_as_for_the_whole_segment(long_log: Path) -> None:
    path = long_log / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    at = data.index(
        batch([record(j, j, value=b"x" * 200) for j in range(5)], base_offset=7005, base_timestamp=1000 * 1401)
    )
    data[at + 100] ^= 1
    path.write_bytes(data)
    damage: list[Any] = []
    found, _ = read(long_log, start=7000, end=7020, on_damage=damage.append)
    assert found == [*range(7000, 7005), *range(7010, 7020)]
    assert [(d.first_offset, d.last_offset) for d in damage] == [(7005, 7009)]


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn and c.name != "tiered"], ids=str)
def test_time_lookup_equals_the_brokers(case: Case) -> None:
    """Lookups for which the broker returned no offset are not compared. The README of the golden data explains why."""
    logs = {p.key: PartitionLog(p) for p in discover(case.roots).partitions if p.state == "live"}
    for at, offsets in case.offsets().items():
        for question in offsets.get("offsetsForTimes") or []:
            if at in logs and question.get("offset") is not None:
                hit = find_timestamp(logs[at], question["asked"])
                assert hit is not None, (at, question)
                assert (hit.offset, hit.timestamp) == (question["offset"], question["timestamp"]), (at, question)


@pytest.mark.parametrize("case", [c for c in CASES if not c.torn and c.name != "tiered"], ids=str)
def test_largest_timestamp_equals_the_brokers(case: Case) -> None:
    """Below the log start offset, the broker returns a record, but kafkafmt returns None."""
    found = {(p.topic, p.partition): p.max_timestamp for p in kafkafmt.open(*case.roots)}
    for at, answers in case.offsets().items():
        want = answers.get("maxTimestamp")
        if want and at in found and want["offset"] >= answers["logStartOffset"]:
            assert found[at] == (want["offset"], want["timestamp"]), at
        elif want and at in found:
            assert found[at] is None


def test_end_offset_for_epoch_is_the_start_of_the_next_epoch() -> None:
    (epochs,) = (c for c in CASES if str(c) == "kafka-4.3.1/epochs")
    # Epochs 0, 2, 4, 6 and 8 start at 0, 24, 48, 72 and 96; the log ends at 120.
    partition = kafkafmt.open(*epochs.roots)["epochs", 0]
    assert [partition.end_offset_for_epoch(e) for e in (0, 1, 2, 7, 8, 9)] == [
        (0, 24),
        (0, 24),
        (2, 48),
        (6, 96),
        (8, 120),
        None,
    ]


@pytest.mark.parametrize("find", [find_offset, find_timestamp])
def test_lookup_costs_the_same_in_a_log_of_any_size(find: Any, tmp_path: Path) -> None:
    costs = []
    for segments in (1, 48):
        sparse = SparseLog(tmp_path / f"{segments}-0", segments, [0.01, 0.4, 0.99])
        log = PartitionLog(discover([sparse.directory]).partitions[0])
        questions = [(offset, time if find is find_timestamp else offset) for offset, time in sparse.questions]
        assert [find(log, asked).offset for _, asked in questions] == [offset for offset, _ in questions]
        cost = []
        for _, asked in questions:  # the second time, the largest timestamps of the segments are cached
            log.bytes_read = log.reads = 0
            find(log, asked)
            cost.append((log.bytes_read, log.reads))
        costs.append(cost)
    assert costs[0] == costs[1]
    assert max(costs[0]) < (11 * BATCH_BYTES, 40)


@pytest.mark.parametrize("preallocated", [False, True])
@pytest.mark.parametrize("damage", ["none", "checksum", "base offset", "missing batch", "repeated batch", "index"])
@pytest.mark.slow
def test_batch_start_is_that_of_the_batch_that_is_read(long_log: Path, damage: str, preallocated: bool) -> None:
    path, index = long_log / f"{0:020}.log", long_log / f"{0:020}.index"
    data, size = bytearray(path.read_bytes()), path.stat().st_size // N
    (part,) = PartitionLog(discover([long_log]).partitions[0]).parts(7005, 7006, None)
    begin = part.position + int(part.table["position"][part.table["base_offset"] == 7005][0])
    if damage == "checksum":
        data[begin + 100] ^= 1
    elif damage == "base offset":
        data[begin : begin + 8] = (7003).to_bytes(8, "big")
    elif damage == "missing batch":
        del data[begin : begin + size]
    elif damage == "repeated batch":
        data[begin:begin] = data[begin : begin + size]
    elif damage == "index":
        index.write_bytes(index.read_bytes()[4:])
    path.write_bytes(data)
    if preallocated:
        os.truncate(path, 1 << 30)
        os.truncate(index, 10 << 20)
    log = PartitionLog(discover([long_log]).partitions[0])
    start_of: dict[int, int] = {}
    for part in log.parts(0, NO_END, lambda _: None):
        for first, last in zip(part.table["base_offset"].tolist(), last_offsets(part.table).tolist(), strict=True):
            start_of |= dict.fromkeys(range(first, last + 1), first)
    for offset in [0, 1, 5, 9999, 10_000, 50_000, *range(6940, 7020)]:
        log = PartitionLog(log.directory)
        assert find_batch_start(log, offset) == start_of.get(offset, offset), offset
        if damage == "none":
            assert log.reads < 10
            assert log.bytes_read < 100_000


def test_batch_start_ignores_a_batch_with_offsets_of_the_next_segment(tmp_path: Path) -> None:
    """The CRC of a batch does not cover its base offset."""
    path = tmp_path / "t-0"
    path.mkdir()
    data = [batch([record(j, j) for j in range(4)], base_offset=4 * i) for i in range(3)]
    data[1] = (6).to_bytes(8, "big") + data[1][8:]  # offsets 6 to 9, but the next segment begins at 8
    (path / f"{0:020}.log").write_bytes(data[0] + data[1])
    (path / f"{0:020}.index").write_bytes(np.array([7, len(data[0])], ">i4").tobytes())
    (path / f"{8:020}.log").write_bytes(data[2])
    log = PartitionLog(discover([path]).partitions[0])
    assert [find_batch_start(log, offset) for offset in (3, 6, 7, 9)] == [0, 6, 7, 8]


def test_lookups_in_a_preallocated_index_read_few_bytes(long_log: Path) -> None:
    path, counts = long_log / f"{0:020}.index", []
    for size in (path.stat().st_size, 10 << 20):
        os.truncate(path, size)
        log = PartitionLog(discover([long_log]).partitions[0])
        assert next(log.records(OffsetInterval(7003))).offset == 7003
        assert log.next_offset == 5 * N
        counts.append((log.reads, log.bytes_read))
    assert counts[1][0] <= counts[0][0] + 4
    assert counts[1][1] <= counts[0][1] + (16 << 10)


def test_time_lookup_covers_records_below_the_log_start_on_request(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(
        b"".join(batch([record(0)], base_offset=i, base_timestamp=1000 * i) for i in range(20))
    )
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    (partition,) = kafkafmt.open(tmp_path)
    assert [r.offset for r in partition.records(start_time=5000, end_time=12000)] == [10, 11]
    assert [r.offset for r in partition.records(start_time=5000, end_time=12000, below_log_start=True)] == list(
        range(5, 12)
    )


def test_time_lookup_reads_batches_after_the_last_index_entry(long_log: Path) -> None:
    """Batches after the last index entry are read, even if there is a later segment."""
    times = np.array([(1000 * i + 4, i * 5 + 4) for i in range(N // 2)], [("t", ">i8"), ("o", ">i4")])
    (long_log / f"{0:020}.timeindex").write_bytes(times.tobytes())
    (long_log / f"{N * 5:020}.log").write_bytes(batch([record(0)], base_offset=N * 5, base_timestamp=10**7))
    log = PartitionLog(discover([long_log]).partitions[0])
    for asked, offset in ((1000 * (N - 1) + 3, N * 5 - 2), (1000 * (N - 1) + 5, N * 5), (10, 5), (0, 0)):
        hit = find_timestamp(log, asked)
        assert hit is not None
        assert hit.offset == offset


TIMES_OF_BATCH = st.lists(st.integers(0, 60), min_size=1, max_size=4)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.lists(TIMES_OF_BATCH, max_size=12), min_size=1, max_size=4), st.integers(1, 4), st.data())
def test_time_lookup_finds_the_first_record_for_times_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, segments: list[list[list[int]]], every: int, data: st.DataObject
) -> None:
    """The result is the first record in offset order, for any timestamps and truncated time indexes."""
    path = tmp_path_factory.mktemp("log") / "t-0"
    path.mkdir()
    base = 0
    all_times: list[int] = []
    for batches in segments:
        name, first, largest, log = f"{base:020}", base, (-1, 0), b""
        offsets: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        for i, stamps in enumerate(batches):
            made = batch([record(j, t, value=b"v") for j, t in enumerate(stamps)], base_offset=base, base_timestamp=0)
            last = base + len(stamps) - 1 - first
            largest = max(largest, (max(stamps), last), key=lambda entry: entry[0])
            if i % every == every - 1:
                offsets.append((last, len(log)))
                if not times or largest[0] > times[-1][0]:
                    times.append(largest)
            log, base, all_times = log + made, base + len(stamps), all_times + stamps
        if batches and (not times or largest[0] > times[-1][0]):
            times.append(largest)  # a broker adds this entry when it rolls the segment
        kept = data.draw(st.integers(0, len(times)) | st.just(len(times)))
        (path / f"{name}.log").write_bytes(log)
        (path / f"{name}.index").write_bytes(np.array(offsets, ">i4").tobytes())
        tail = bytes(data.draw(st.sampled_from([0, 24])))
        (path / f"{name}.timeindex").write_bytes(np.array(times[:kept], [("t", ">i8"), ("o", ">i4")]).tobytes() + tail)
        if not batches:
            break
    partition = PartitionLog(discover([path]).partitions[0])
    for asked in data.draw(st.lists(st.integers(0, 61), min_size=3, max_size=3)):
        hit = find_timestamp(partition, asked)
        assert (None if hit is None else hit.offset) == next((o for o, t in enumerate(all_times) if t >= asked), None)


# ---------------------------------------------------------------- without an index, and in compacted logs


def batches_of(
    path: Path, sizes: list[list[int]], gaps: list[int], value: int = 50, cleaned: bool = False
) -> tuple[bytearray, list[int]]:
    """Write a partition directory with one segment. Return its data and the positions of the batches.

    `sizes` contains the offset deltas of the records in each batch. `gaps` contains the number of
    offsets that are missing after each batch.
    """
    path.mkdir(parents=True)
    data, at, base = bytearray(), [], 0
    for deltas, gap in zip(sizes, gaps, strict=True):
        at.append(len(data))
        span = max([4, *deltas])
        data += batch([record(d, d, value=b"x" * value) for d in deltas], base_offset=base, last_offset_delta=span)
        base += span + 1 + gap
    (path / f"{0:020}.log").write_bytes(data)
    if cleaned:
        (path.parent / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {base}\n")
    return data, at


def cost(path: Path, start: int, end: int) -> tuple[int, int]:
    """Return the number of bytes read, and the number of segments that were planned completely."""
    _, log = read(path, start=start, end=end)
    return log.bytes_read, log.planned


def test_range_without_an_index_is_found_by_headers(tmp_path: Path) -> None:
    """Bytes before the range are read only once. Only the headers of long batches are read."""
    small, _ = batches_of(tmp_path / "small" / "t-0", [list(range(5))] * 2000, [0] * 2000, 200)
    read_bytes, planned = cost(tmp_path / "small" / "t-0", 7000, 7010)
    assert planned == 0
    # A read can have up to one MiB, so some bytes after the range are read too.
    assert read_bytes < 0.7 * len(small) + (1 << 20) + (64 << 10)
    long, at = batches_of(tmp_path / "long" / "t-0", [list(range(5))] * 100, [0] * 100, 40_000)
    read_bytes, planned = cost(tmp_path / "long" / "t-0", 350, 360)
    assert planned == 0
    assert read_bytes < 70 * ((64 << 10) + 61) + 12 * at[1] < len(long) // 2


def test_range_of_a_compacted_log_needs_no_plan_of_the_segment(tmp_path: Path) -> None:
    """According to the cleaner's checkpoint, the log was compacted. Therefore, gaps are expected."""
    path = tmp_path / "t-0"
    data, at = batches_of(path, [[0, 2]] * 1000, [3] * 1000, 300, cleaned=True)
    entries = [n for i in range(9, 1000, 10) for n in (i * 8 + 4, at[i])]
    (path / f"{0:020}.index").write_bytes(np.array(entries, ">i4").tobytes())
    assert read(path, start=4003, end=4020)[0] == [4008, 4010, 4016, 4018]
    read_bytes, planned = cost(path, 4003, 4020)
    assert (planned, read_bytes < len(data) // 4) == (0, True)
    (path / f"{0:020}.index").unlink()
    assert read(path, start=4003, end=4020)[0] == [4008, 4010, 4016, 4018]
    assert cost(path, 4003, 4020)[1] == 0
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert read(path, start=4003, end=4020)[0] == [4008, 4010, 4016, 4018]
    assert cost(path, 4003, 4020) == (len(data), 0)  # reading the whole segment shows that no batch is out of place


DELTAS = st.lists(st.integers(0, 4), unique=True, max_size=5).map(sorted)


@settings(max_examples=250, deadline=None)
@given(st.booleans(), st.booleans(), st.data())
def test_range_equals_that_part_of_the_whole_segment(
    tmp_path_factory: pytest.TempPathFactory, cleaned: bool, indexed: bool, data: st.DataObject
) -> None:
    """Batch bodies, lengths and base offsets are corrupted. Base offsets only increase."""
    path = tmp_path_factory.mktemp("log") / "t-0"
    n = data.draw(st.integers(4, 30))
    sizes = data.draw(st.lists(DELTAS if cleaned else st.just(list(range(5))), min_size=n, max_size=n))
    gaps = data.draw(st.lists(st.sampled_from([0, 0, 1, 9]) if cleaned else st.just(0), min_size=n, max_size=n))
    log, at = batches_of(path, sizes, gaps, data.draw(st.sampled_from([10, 9000])), cleaned)
    end = int.from_bytes(log[at[-1] : at[-1] + 8], "big") + 5
    if indexed:
        entries = [x for i in range(0, n, 3) for x in (int.from_bytes(log[at[i] : at[i] + 8], "big") + 4, at[i])]
        (path / f"{0:020}.index").write_bytes(np.array(entries, ">i4").tobytes())
    # If the same bit is added to two offsets, the offsets agree with each other.
    flips = st.sampled_from([(2, 4), (8, 64), (9, 1), (30, 1), (60, 2)])
    for i, (where, bit) in data.draw(
        st.lists(st.tuples(st.integers(1, n - 2), flips), max_size=2, unique_by=lambda flip: flip[1])
    ):
        log[at[i] + where] ^= bit
    (path / f"{0:020}.log").write_bytes(log)
    start = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(start + 1, end + 1))

    def outcome(whole: bool) -> Any:
        partition = PartitionLog(discover([path]).partitions[0])
        if whole:
            partition.plan(partition.segments[0])
        damage: list[Any] = []
        found = [(r.offset, r.value) for r in partition.records(OffsetInterval(start, stop), on_damage=damage.append)]
        return found, damage

    assert outcome(whole=False) == outcome(whole=True)
