"""Check `Partition.batches` and `Partition.count`, which read the headers of stored batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_cases import CASES, Case

import kafkafmt

NAMES = ("base_offset", "last_offset", "count", "codec", "producer_id", "base_sequence", "size", "max_timestamp", "crc")


def write(directory: Path, *batches: bytes) -> kafkafmt.Partition:
    directory.mkdir(exist_ok=True)
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    return kafkafmt.open(directory).partitions[0]


def batch(base: int, count: int = 10, **options: object) -> bytes:
    records = [(b"k", b"%d" % n, 1000 + n) for n in range(base, base + count)]
    return kafkafmt.build_batch(records, base_offset=base, **options)  # type: ignore[arg-type]


def test_batches_have_the_fields_and_the_bytes_of_their_file(tmp_path: Path) -> None:
    stored = [batch(0, codec="zstd"), batch(10, producer_id=7, producer_epoch=1, base_sequence=3), batch(20, magic=1)]
    partition = write(tmp_path / "t-0", *stored)
    assert [(b.base_offset, b.last_offset, b.count, b.codec, b.producer_id) for b in partition.batches()][:2] == [
        (0, 9, 10, "zstd", -1),
        (10, 19, 10, "none", 7),
    ]
    content = b"".join(stored)
    for found in partition.batches():
        assert found.segment == f"{0:020}.log"
        assert bytes(found.data) == content[found.position : found.position + found.size]
        assert found.is_valid
        assert [r.offset for r in found.records()] == list(range(found.base_offset, found.last_offset + 1))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_batches_and_counts_equal_those_of_the_files(case: Case) -> None:
    for partition in kafkafmt.open(*case.roots, replicas="longest"):
        skipped = {"on_error": "skip", "control": True, "below_log_start": True}
        stored = list(partition.batches(**skipped))  # type: ignore[arg-type]
        if not partition.damaged and case.name not in ("torn", "unclean"):  # their files have unfinished tails
            files = sorted(partition.path.glob("*.log"))
            expected = [b for file in files for b in kafkafmt.iter_batches(file.read_bytes())]
            assert [[getattr(b, n) for n in NAMES] for b in stored] == [
                [getattr(b, n) for n in NAMES] for b in expected
            ]
        for selection in ({}, {"start": -7, "end": -2}, {"isolation": "read_committed"}, {"control": True}):
            given = {"on_error": "skip", **selection}
            assert partition.count(**given) == len(list(partition.records(**given)))  # type: ignore[arg-type,call-overload]


@pytest.mark.parametrize("magic", [1, 2])
def test_batches_of_a_range_are_those_with_its_offsets(tmp_path: Path, magic: int) -> None:
    partition = write(tmp_path / "t-0", *(batch(base, magic=magic, codec="gzip") for base in range(0, 50, 10)))
    assert [b.base_offset for b in partition.batches(start=15, end=31)] == [10, 20, 30]
    assert [b.base_offset for b in partition.batches(start=20, end=30)] == [20]
    assert list(partition.batches(end=0)) == []
    assert partition.count(start=15, end=31) == 16
    assert partition.count() == 50


def test_damage_is_raised_or_skipped(tmp_path: Path) -> None:
    broken = bytearray(batch(10))
    broken[-1] ^= 1
    partition = write(tmp_path / "t-0", batch(0), bytes(broken), batch(20))
    for read in (partition.count, lambda: list(partition.batches())):
        with pytest.raises(kafkafmt.DamagedLogError, match="offsets 10 to 19"):
            read()
    assert partition.count(on_error="skip") == 20
    assert [b.base_offset for b in partition.batches(on_error="skip")] == [0, 20]
    assert len(partition.damaged) == 1
    with pytest.raises(TypeError, match="unknown argument 'limit'"):
        partition.batches(limit=1)  # type: ignore[call-arg]


def test_batches_stay_valid_after_the_iteration(tmp_path: Path) -> None:
    value = bytes(100_000)
    stored = [kafkafmt.build_batch([(None, value + b"%d" % n)], base_offset=n) for n in range(150)]
    found = list(write(tmp_path / "t-0", *stored).batches())
    assert [bytes(b.data) for b in found] == stored


def test_topic_has_the_counts_of_its_partitions(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"t-{number}", batch(0, 4))
    topic = kafkafmt.open(tmp_path)["t"]
    assert (len(topic), topic.count(), topic.count(end=1)) == (3, 12, 3)
    assert [r.offset for r in topic.head()] == [0, 1, 2, 3, 0]
    assert [r.offset for r in topic[2].head(2)] == [0, 1]
    assert topic[2].path == tmp_path / "t-2"
