"""Check that `verify` reports records after the maximum timestamp in the header of their batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import source_rows
from building import GZIP, batch, compress, message, mutate, record

import kafkafmt

T0 = 1_700_000_000_000
STATED = 5


def directory(root: Path, *batches: bytes) -> Path:
    (root / "t-0").mkdir()
    (root / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    return root


def late(base_offset: int, codec: int = 0) -> bytes:
    """Return a batch whose header states the maximum timestamp T0 + 5, and with a record at T0 + 90."""
    records = [record(0, 0, b"k", b"v"), record(1, 90, b"k", b"v"), record(2, 3, b"k", b"v")]
    return batch(records, base_offset=base_offset, base_timestamp=T0, max_timestamp=T0 + STATED, codec=codec)


def right(base_offset: int) -> bytes:
    return batch([record(0, 7, b"k", b"v")], base_offset=base_offset, base_timestamp=T0, max_timestamp=T0 + 7)


def found(root: Path, shallow: bool = False) -> list[tuple[str, str]]:
    (report,) = kafkafmt.verify(root, shallow=shallow).partitions
    return [(f.code, f.message) for f in report.findings]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_verify_reports_records_after_the_maximum_timestamp(package: object, tmp_path: Path, codec: int) -> None:
    first = right(0)
    root = directory(tmp_path, first, late(1, codec), right(4))
    message = (
        f"the batch at position {len(first)} contains a record with the timestamp {T0 + 90}, "
        f"which is after the maximum timestamp {T0 + STATED} in the batch header"
    )
    assert found(root) == [("max_timestamp_mismatch", message)]
    assert found(root, shallow=True) == []
    assert kafkafmt.verify(root).ok
    assert not kafkafmt.verify(root, strict=True).ok


def test_verify_reports_many_late_batches_in_one_finding(package: object, tmp_path: Path) -> None:
    root = directory(tmp_path, *(late(3 * i) for i in range(3)))
    ((code, message),) = found(root)
    assert code == "max_timestamp_mismatch"
    assert message.endswith("; 2 more batches have the same error")


def test_verify_reports_late_records_of_a_damaged_segment(package: object, tmp_path: Path) -> None:
    damaged = mutate(right(3), 70, b"\xff")
    root = directory(tmp_path, late(0), damaged, right(4), right(4), late(5))
    (message,) = [m for code, m in found(root) if code == "max_timestamp_mismatch"]
    assert "position 0 contains" in message
    assert message.endswith("; 1 more batch has the same error")


def test_verify_reports_late_records_of_a_wrapper_message(package: object, tmp_path: Path) -> None:
    inner = b"".join(message(1, None, b"v", offset=i, timestamp=T0 + t) for i, t in enumerate((0, 90, 3)))
    wrapper = message(1, None, compress(GZIP, inner), offset=2, timestamp=T0 + STATED, attributes=GZIP)
    plain = message(1, None, b"v", offset=3, timestamp=T0 + 95)
    assert [code for code, _ in found(directory(tmp_path, wrapper, plain))] == ["max_timestamp_mismatch"]


def test_late_records_below_the_log_start_are_not_reported(package: object, tmp_path: Path) -> None:
    root = directory(tmp_path, late(0), right(3))
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert found(root) == []


def test_maximum_timestamp_above_all_records_is_no_finding(package: object, tmp_path: Path) -> None:
    header = batch([record(0, 0)], base_timestamp=T0, max_timestamp=T0 + 50)
    append_time = batch([record(0, 90)], base_offset=1, base_timestamp=T0, max_timestamp=T0, attributes=8)
    assert found(directory(tmp_path, header, append_time)) == []


def test_late_record_is_only_missing_if_the_timestamp_limits_what_is_read(tmp_path: Path) -> None:
    root = directory(tmp_path, right(0), late(1), right(4))
    limit = T0 + 50
    times = source_rows.read(root)["timestampMillis"].to_pylist()
    assert [t for t in times if t >= limit] == [T0 + 90]
    assert source_rows.read(root, where=f'[["timestamp", ">=", {limit}]]').num_rows == 0  # see spark-options.md
    assert [code for code, _ in found(root)] == ["max_timestamp_mismatch"]
