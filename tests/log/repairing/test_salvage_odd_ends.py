"""Check that `salvage` rebuilds the batches that Kafka's Java code does not read, and copies all others unchanged."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from odd_batches import batch_with_two_oddities, batches_that_java_refuses, batches_with_odd_ends, write_log

import kafkafmt
from kafkafmt import build_batch, iter_batches

NORMAL = bytes(build_batch([(None, b"normal")] * 3, codec="lz4", producer_id=7, producer_epoch=1, base_sequence=0))
HEADER = [*range(8), *range(12, 16), 16, *range(21, 61)]
"""Positions of the fields that a rebuilt batch keeps: all except the length and the CRC."""


def salvaged(source: Path, output: Path) -> bytes:
    kafkafmt.salvage(source, output)
    report = kafkafmt.verify(output)
    assert report.ok
    assert [f.code for f in report.partitions[0].findings if f.code == "refused_by_kafka"] == []
    return (output / "t-0" / f"{0:020}.log").read_bytes()


@pytest.mark.parametrize("damaged", [False, True])
def test_batches_with_odd_ends_are_rebuilt_if_java_does_not_read_them(
    package: ModuleType, tmp_path: Path, damaged: bool
) -> None:
    cases = {**batches_with_odd_ends(), **{k: (v, False) for k, v in batches_that_java_refuses().items()}}
    for name, (batch, java_reads) in cases.items():
        after = [NORMAL[:70] + b"!" + NORMAL[71:], NORMAL] if damaged else []
        source = write_log(tmp_path / name, NORMAL, batch, NORMAL, *after)
        original = (source / f"{0:020}.log").read_bytes()
        data = salvaged(source, tmp_path / f"{name}-copy")
        before, odd, *_ = iter_batches(data)
        assert data[: before.size] == original[: before.size]
        end = before.size + len(batch)
        valid = original[end : end + len(NORMAL)] + (original[-len(NORMAL) :] if damaged else b"")
        assert data[odd.position + odd.size :] == valid, name
        rebuilt = data[odd.position : odd.position + odd.size]
        copied = original[before.size : end]
        assert (rebuilt == copied) == java_reads, name
        assert bytes(rebuilt[i] for i in HEADER) == bytes(copied[i] for i in HEADER), name
        assert kafkafmt.check_batches(rebuilt).ok
        if batch[60]:
            assert list(kafkafmt.read_records(rebuilt)) == list(kafkafmt.read_records(copied)), name


def test_batch_with_two_oddities_is_rebuilt_once(package: ModuleType, tmp_path: Path) -> None:
    source = write_log(tmp_path / "in", NORMAL, batch_with_two_oddities(), NORMAL)
    data = salvaged(source, tmp_path / "out")
    assert [r.offset for r in kafkafmt.read_records(data)] == list(range(46))


def test_merge_rebuilds_batches(package: ModuleType, tmp_path: Path) -> None:
    batch, _ = batches_with_odd_ends()["gzip-crc"]
    sources = [write_log(tmp_path / name, NORMAL, batch, NORMAL).parent for name in "ab"]
    kafkafmt.salvage(sources, tmp_path / "out", replicas="merge")
    data = (tmp_path / "out" / "t-0" / f"{0:020}.log").read_bytes()
    assert kafkafmt.check_batches(data, sequences=False).ok
    assert len(list(kafkafmt.read_records(data))) == 46
