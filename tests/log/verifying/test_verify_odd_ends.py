"""Check that `verify` reports batches with odd compressed data as findings, and counts their records."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from odd_batches import batches_that_java_refuses, batches_with_odd_ends, write_log

import kafkafmt
from kafkafmt import build_batch

NORMAL = bytes(build_batch([(None, b"normal")] * 3, codec="zstd"))


@pytest.mark.parametrize("damaged", [False, True])
def test_odd_ends_are_findings(package: ModuleType, tmp_path: Path, damaged: bool) -> None:
    for name, (batch, _) in batches_with_odd_ends().items():
        after = [NORMAL[:70] + b"!" + NORMAL[71:], NORMAL] if damaged else []
        report = kafkafmt.verify(write_log(tmp_path / name, NORMAL, batch, batch, NORMAL, *after)).partitions[0]
        assert report.records_recovered == 3 + 40 + 40 + 3 + (3 if damaged else 0), name
        assert len(report.damaged) == int(damaged)
        (finding,) = report.findings
        assert finding.code == "odd_codec_end"
        assert "2 batches (offsets 3 to 82, from position " in finding.message


def test_runs_with_different_ends_are_separate_findings(package: ModuleType, tmp_path: Path) -> None:
    odd = batches_with_odd_ends()
    log = write_log(tmp_path, odd["gzip-crc"][0], odd["zstd-garbage"][0], NORMAL, odd["zstd-garbage"][0])
    findings = kafkafmt.verify(log).partitions[0].findings
    assert [f.code for f in findings] == ["odd_codec_end"] * 3


@pytest.mark.parametrize("damaged", [False, True])
def test_batches_that_java_refuses_are_findings(package: ModuleType, tmp_path: Path, damaged: bool) -> None:
    for name, batch in batches_that_java_refuses().items():
        count = int.from_bytes(batch[57:61], "big")
        after = [NORMAL[:70] + b"!" + NORMAL[71:], NORMAL] if damaged else []
        report = kafkafmt.verify(write_log(tmp_path / name, NORMAL, batch, NORMAL, *after)).partitions[0]
        assert report.records_recovered == 6 + count + (3 if damaged else 0), name
        assert [f.code for f in report.findings] == ["refused_by_kafka"], name
