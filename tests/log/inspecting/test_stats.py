"""Compare `kafkafmt.stats` with numbers that are computed from the records one by one."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from building import NONE, ZSTD, batch, control_batch, message, record
from golden_cases import GOLDEN

import kafkafmt
from kafkafmt.log.inspecting import key_counts
from kafkafmt.log.inspecting.stats_counts import MOST_BUCKETS, RateCounts, SizeCounts
from kafkafmt.log.scanning.header_reader import HeaderReader, UnclearHeadersError, header_tables
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.records.reader import iter_tables
from kafkafmt.types import BATCH_DTYPE

LOGS = [
    *(GOLDEN / version / case / "log" for version in ("kafka-4.3.1", "kafka-3.9.2") for case in ("codecs", "compacted", "transactions")),
    *(GOLDEN / "kafka-4.3.1" / case / "log" for case in ("delete-records", "internal", "log-append-time")),
    *(GOLDEN / "legacy" / case / "log" for case in ("0.8.2.2-codecs", "0.10.2.2-codecs", "1.1.1-mixed")),
]  # fmt: skip


def size_of(r: Any) -> int:
    headers = sum(len(name.encode()) + len(value or b"") for name, value in r.headers)
    return len(r.key or b"") + len(r.value or b"") + headers


def segment(path: Path, *batches: bytes, base: int = 0, topic: str = "t-0") -> Path:
    (path / topic).mkdir(parents=True, exist_ok=True)
    (path / topic / f"{base:020}.log").write_bytes(b"".join(batches))
    return path


def only(report: kafkafmt.reports.StatsReport) -> Any:
    (topic,) = report.topics
    return topic.content


@pytest.mark.parametrize("path", LOGS, ids=lambda p: "-".join(p.parts[-3:-1]))
def test_deep_statistics_equal_those_of_the_records(path: Path) -> None:
    log = kafkafmt.open(path)
    report = kafkafmt.stats(path, deep=True, top=3)
    assert [t.topic for t in report.topics] == log.topics
    for topic in report.topics:
        records = [r for p in log if p.topic == topic.topic for r in p.records()]
        c = topic.content
        keys = Counter(r.key for r in records if r.key is not None)
        assert c.records == len(records) == sum(x.records or 0 for x in c.codecs.values())
        assert c.null_keys == sum(r.key is None for r in records)
        assert c.null_values == sum(r.value is None for r in records)
        assert c.tombstones == sum(r.value is None and r.key is not None for r in records)
        assert c.keys is not None
        assert (c.keys.distinct, c.keys.exact) == (len(keys), True)
        assert [k.records for k in c.keys.top] == [n for _, n in keys.most_common(3)]
        assert all(keys[k.key] == k.records for k in c.keys.top)
        assert c.headers is not None
        assert c.headers.headers == sum(len(r.headers) for r in records)
        assert c.headers.records == sum(bool(r.headers) for r in records)
        times = [r.timestamp for r in records if r.timestamp >= 0]
        assert (c.first_timestamp, c.last_timestamp) == (min(times, default=None), max(times, default=None))
        assert sum(b.records for b in c.rate.buckets) == len(times)
        if records:
            assert c.record_bytes is not None
            if all(name.isascii() for r in records for name, _ in r.headers):
                assert c.record_bytes.mean == pytest.approx(np.mean([size_of(r) for r in records]))
                assert c.record_bytes.max == max(size_of(r) for r in records)
        assert sum(p.content.records or 0 for p in topic.partitions) == len(records)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: "-".join(p.parts[-3:-1]))
def test_shallow_statistics_agree_with_deep_ones(path: Path) -> None:
    shallow, deep = kafkafmt.stats(path), kafkafmt.stats(path, deep=True)
    for few, all_ in zip(shallow.topics, deep.topics, strict=True):
        a, b = few.content, all_.content
        assert (a.batches, a.bytes, a.damaged, a.producers) == (b.batches, b.bytes, b.damaged, b.producers)
        assert a.records in (b.records, None)
        assert a.bytes_uncompressed in (b.bytes_uncompressed, None)
        assert a.last_timestamp is None or b.last_timestamp is None or a.last_timestamp >= b.last_timestamp
        assert {n: (x.batches, x.bytes) for n, x in a.codecs.items()} == {
            n: (x.batches, x.bytes) for n, x in b.codecs.items()
        }
        assert (a.keys, a.headers, a.record_bytes, a.null_keys, a.null_values, a.tombstones) == (None,) * 6


def test_codecs_of_golden_logs_have_the_same_uncompressed_size() -> None:
    report = kafkafmt.stats(GOLDEN / "kafka-4.3.1" / "codecs" / "log", deep=True)
    sizes = {t.topic: t.content.bytes_uncompressed for t in report.topics}
    names = ("gzip", "lz4", "snappy", "zstd")
    assert {sizes[f"codec-{name}"] for name in names} == {sizes["codec-none"]}
    none = next(t.content for t in report.topics if t.topic == "codec-none")
    assert (none.ratio, none.bytes_uncompressed) == (1.0, none.bytes)


def test_headers_of_large_batches_are_read_without_their_records(tmp_path: Path) -> None:
    batches = [batch([record(i, i, b"k", bytes(50_000)) for i in range(4)], base_offset=4 * n) for n in range(100)]
    report = kafkafmt.stats(segment(tmp_path, *batches))
    assert (only(report).records, only(report).batches, only(report).damaged) == (400, 100, 0)
    assert only(report).bytes == only(report).bytes_uncompressed == sum(map(len, batches))
    assert report.bytes_read < 1_200_000 < only(report).bytes // 10


@pytest.mark.parametrize("seed", range(12))
def test_header_tables_equal_a_scan_of_the_whole_file(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    batches: list[bytes] = []
    offset = 0
    while sum(map(len, batches)) < 3 << 20:
        size = chance.choice((10, 10, 9_000, 40_000))
        for _ in range(chance.randrange(1, 30)):
            if chance.random() < 0.1:
                batches.append(message(chance.randrange(2), b"k", bytes(size), offset=offset))
                offset += 1
                continue
            n = chance.randrange(1, 4)
            records = [record(i, i, b"k", chance.randbytes(size)) for i in range(n)]
            codec = chance.choice((NONE, ZSTD))
            batches.append(
                batch(records, base_offset=offset, codec=codec, leader_epoch=seed, producer_id=chance.randrange(9))
            )
            offset += n + chance.choice((0, 0, 5))
    path = segment(tmp_path, *batches) / "t-0" / f"{0:020}.log"
    expected = np.concatenate([t.copy() for t in iter_tables(path.read_bytes())])
    with FileView(path) as view:
        found = np.concatenate([t.copy() for t in header_tables(HeaderReader(), view, 0, None)])
    assert found.dtype == expected.dtype
    for name in BATCH_DTYPE.names or ():
        assert found[name].tolist() == expected[name].tolist()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("change", ["length", "offset", "cut"])
def test_unclear_headers_are_planned(tmp_path: Path, large: bool, change: str) -> None:
    size = 30_000 if large else 10
    batches = [bytearray(batch([record(0, 0, b"%d" % n, bytes(size))], base_offset=n)) for n in range(60)]
    if change == "length":
        batches[50][8] ^= 0x40
    elif change == "offset":
        batches[50][:8] = bytes(8)
    else:
        del batches[-1][-5:]
    path = segment(tmp_path, *map(bytes, batches))
    with FileView(path / "t-0" / f"{0:020}.log") as view, pytest.raises(UnclearHeadersError):
        list(header_tables(HeaderReader(), view, 0, None))
    found = only(kafkafmt.stats(path))
    assert (found.records, found.damaged) == (59, 0 if change == "cut" else 1)
    assert only(kafkafmt.stats(path, deep=True)).records == 59


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_records_below_the_log_start_offset_are_not_counted(tmp_path: Path, gaps: bool, deep: bool) -> None:
    kept = [i for i in range(10) if not gaps or i % 3 == 0]
    batches = [batch([record(i) for i in kept], base_offset=10 * n, last_offset_delta=9) for n in range(3)]
    segment(tmp_path, *batches)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 14\n")
    found = only(kafkafmt.stats(tmp_path, deep=deep))
    assert (found.records, found.batches) == (sum(10 + i >= 14 for i in kept) + len(kept), 2)


def test_damage_is_counted_and_sets_the_exit_code(tmp_path: Path) -> None:
    batches = [bytearray(batch([record(0, 0, b"k", b"v")], base_offset=n)) for n in range(3)]
    batches[1][-1] ^= 1
    report = kafkafmt.stats(segment(tmp_path, *map(bytes, batches)))
    assert (only(report).records, only(report).damaged, report.exit_code) == (2, 1, 1)
    assert kafkafmt.stats(tmp_path, deep=True).exit_code == 1


def test_damage_inside_compressed_records_is_counted_by_deep(tmp_path: Path) -> None:
    broken = batch([record(0)], base_offset=1, codec=ZSTD, compressed=b"not zstd")
    segment(tmp_path, batch([record(0)]), broken, batch([record(0)], base_offset=2))
    assert only(kafkafmt.stats(tmp_path)).damaged == 0
    found = only(kafkafmt.stats(tmp_path, deep=True))
    assert (found.records, found.damaged) == (2, 1)


def test_unreadable_partition_is_reported_and_others_are_read(tmp_path: Path) -> None:
    segment(tmp_path, batch([record(0)]))
    segment(tmp_path, batch([record(0)]), topic="u-0")
    (tmp_path / "u-0" / f"{0:020}.log").unlink()
    (tmp_path / "u-0" / f"{0:020}.log").symlink_to("missing")
    report = kafkafmt.stats(tmp_path)
    assert (report.exit_code, [t.topic for t in report.topics]) == (3, ["t"])
    assert [(u.topic, u.partition) for u in report.unreadable] == [("u", 0)]


def test_producers_and_control_batches_are_counted(tmp_path: Path) -> None:
    batches = [
        batch([record(0), record(1)], producer_id=7, producer_epoch=0, base_sequence=0, flags=0x10),
        control_batch(1, base_offset=2, producer_id=7),
        batch([record(0)], base_offset=3, producer_id=8, producer_epoch=0, base_sequence=0),
        batch([record(0)], base_offset=4),
    ]
    found = only(kafkafmt.stats(segment(tmp_path, *batches)))
    assert found.records == 4
    assert found.producers.to_dict() == {
        "ids": 2,
        "transactional_batches": 2,
        "control_batches": 1,
        "top": [{"producer_id": 7, "records": 2}, {"producer_id": 8, "records": 1}],
    }


def many_keys(path: Path, partitions: int = 2, keys: int = 3000) -> Path:
    """Write records with `keys` different keys, and with the key `often` in half of the records."""
    for p in range(partitions):
        records = [record(2 * i, 0, b"often", b"") + record(2 * i + 1, 0, b"%d-%d" % (p, i), b"") for i in range(keys)]
        made = batch(payload=b"".join(records), count=2 * keys, last_offset_delta=2 * keys - 1)
        segment(path, made, topic=f"t-{p}")
    return path


def test_many_keys_are_estimated_with_sketches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 14):
        pytest.importorskip("datasketches")  # see the extra `dev` in pyproject.toml
    exact = only(kafkafmt.stats(many_keys(tmp_path), deep=True)).keys
    assert (exact.distinct, exact.exact) == (6001, True)
    for most in (4000, 100):  # the number of keys exceeds the limit in the topic, and then also in each partition
        monkeypatch.setattr(key_counts, "MOST_KEYS", most)
        found = only(kafkafmt.stats(tmp_path, deep=True)).keys
        assert not found.exact
        assert found.distinct == pytest.approx(6001, rel=0.03)
        assert found.top[0].to_dict() == {"key": "often", "records": 6000}


def test_many_keys_without_the_package_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_counts, "MOST_KEYS", 100)
    monkeypatch.setitem(sys.modules, "datasketches", None)
    report = kafkafmt.stats(many_keys(tmp_path), deep=True)
    assert only(report).keys is None
    assert "install the package datasketches" in report.messages[-1]


def test_quantiles_are_accurate() -> None:
    chance = np.random.default_rng(1)
    for sizes in (chance.integers(0, 500, 9999), chance.integers(0, 1 << 30, 9999), np.array([0]), np.array([3, 7])):
        counts, half = SizeCounts(), SizeCounts()
        counts.add(sizes[: len(sizes) // 2])
        half.add(sizes[len(sizes) // 2 :])
        counts.merge(half)
        found = counts.result()
        assert found is not None
        assert found.mean == pytest.approx(sizes.mean())
        assert found.max == sizes.max()
        for percent, value in ((50, found.p50), (99, found.p99)):
            exact = int(np.percentile(sizes, percent, method="inverted_cdf"))
            assert value == (exact if exact < 510 else pytest.approx(exact, rel=0.004))
    assert SizeCounts().result() is None


@pytest.mark.parametrize("spread", [1_000, 10**9, 2**62])
def test_rate_keeps_all_records_in_few_buckets(spread: int) -> None:
    chance = np.random.default_rng(spread % 1000)
    rate, other = RateCounts(), RateCounts()
    times = chance.integers(0, spread, 5000)
    rate.add(times)
    other.add(times[:10] // 1000)
    rate.merge(other)
    found = rate.result()
    assert sum(b.records for b in found.buckets) == 5010
    assert len(found.buckets) <= MOST_BUCKETS
    width = found.bucket_ms
    expected = Counter((np.concatenate((times, times[:10] // 1000)) // width * width).tolist())
    assert {b.timestamp: b.records for b in found.buckets} == expected


def test_records_of_a_batch_are_spread_between_its_times() -> None:
    rate = RateCounts()
    rate.add_spans(np.array([0, 5000]), np.array([9_999, 5000]), np.array([100, 7]))
    assert [b.records for b in rate.result().buckets] == [10, 10, 10, 10, 10, 17, 10, 10, 10, 10]


def test_statistics_do_not_change_the_input(tmp_path: Path) -> None:
    copy = tmp_path / "log"
    shutil.copytree(GOLDEN / "kafka-4.3.1" / "codecs" / "log", copy)
    before = {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in copy.rglob("*") if f.is_file()}
    kafkafmt.stats(copy, deep=True)
    assert {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in copy.rglob("*") if f.is_file()} == before
