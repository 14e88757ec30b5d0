"""Check how batches are reported whose records cannot be decoded although their CRCs match."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import pytest
from building import CONTROL, GZIP, SNAPPY, batch, message, mutate, record, simple_batch

import kafkafmt
from kafkafmt.log import DamagedLogError, PartitionLog, discover
from kafkafmt.log.damage import segment_tables
from kafkafmt.log.findings.models import Damage
from kafkafmt.log.reading import OffsetInterval

COUNT = "record count does not fit the bytes of the batch"
FILE = f"{0:020}.log"


def log_of(folder: Path, *batches: bytes) -> PartitionLog:
    part = folder / "t-0"
    part.mkdir(exist_ok=True)
    (part / FILE).write_bytes(b"".join(batches))
    return PartitionLog(discover([part]).partitions[0])


def read(log: PartitionLog) -> tuple[list[int], list[Damage]]:
    """Return the offsets of the readable records, and the damage."""
    damaged: list[Damage] = []
    offsets = [r.offset for r in log.records(on_damage=damaged.append)]
    return offsets, damaged


def wrong(base_offset: int, records: int = 1, **fields: object) -> bytes:
    """Return a batch with `records` records. The record count in its header is 1,000, which is too large."""
    deltas = {"count": 1000, "last_offset_delta": records - 1} | fields
    return batch([record(i, value=b"x") for i in range(records)], base_offset=base_offset, **deltas)  # type: ignore[arg-type]


def spans(damaged: list[Damage]) -> list[tuple[int | None, int | None, str, int | None]]:
    return [(d.first_offset, d.last_offset, d.message, d.records) for d in damaged]


def test_offsets_between_the_neighbours_may_be_missing(package: object, tmp_path: Path) -> None:
    parts = [simple_batch([b"a", b"b"], 0), wrong(4), wrong(5, 2), simple_batch([b"c"], 9), wrong(12)]
    offsets, damaged = read(log_of(tmp_path, *parts))
    assert offsets == [0, 1, 9]
    assert spans(damaged) == [(2, 4, COUNT, None), (5, 8, COUNT, None), (10, None, COUNT, None)]
    starts = [sum(map(len, parts[:i])) for i in (1, 2, 4)]
    assert [(d.position, d.length) for d in damaged] == list(
        zip(starts, map(len, [parts[1], parts[2], parts[4]]), strict=True)
    )
    assert kafkafmt.verify(tmp_path).partitions[0].damaged == damaged


def test_damage_between_many_ranges_has_the_same_bounds(package: object, tmp_path: Path) -> None:
    """More than four ranges of valid batches are read with one read call."""
    parts, expected = [], []
    for i in range(0, 60, 6):
        corrupted = simple_batch([b"v" * 20], i + 5)
        parts += [
            simple_batch([b"a"], i),
            wrong(i + 1, 2),
            simple_batch([b"b"], i + 3),
            wrong(i + 4),
            corrupted[:-1] + b"!",
        ]
        expected += [(i + 1, i + 2), (i + 4, i + 5)]
    log = log_of(tmp_path, *parts)
    offsets, damaged = read(log)
    assert offsets == [o for i in range(0, 60, 6) for o in (i, i + 3)]
    undecodable = [d for d in damaged if d.message == COUNT]
    assert [(d.first_offset, d.last_offset) for d in undecodable] == [*expected[:-1], (58, None)]
    report = kafkafmt.verify(tmp_path).partitions[0]
    assert list(report.damaged) == sorted(damaged, key=lambda d: d.position)
    assert report.records_recovered == len(offsets)


def test_first_inner_offset_of_the_next_wrapper_ends_the_gap(package: object, tmp_path: Path) -> None:
    inner = b"".join(message(1, None, b"v", offset=i) for i in range(3))
    wrapper = message(1, None, gzip.compress(inner), offset=9, attributes=GZIP)
    body = struct.pack(">bbqi", 1, 0, 0, 256) + b"k" + struct.pack(">i", 1) + b"v"
    wrong_key = struct.pack(">qiI", 2, len(body) + 4, zlib.crc32(body)) + body
    offsets, damaged = read(log_of(tmp_path, message(1, None, b"v", offset=1), wrong_key, wrapper))
    assert offsets == [1, 7, 8, 9]
    assert spans(damaged) == [(2, 6, "key or value runs past the end of its message", 1)]


def test_errors_inside_compressed_records_have_a_position(package: object, tmp_path: Path) -> None:
    fine, cut = record(0, value=b"v"), record(1, value=b"v", length=50)
    parts = [batch([fine, cut], base_offset=0, codec=GZIP), wrong(2, codec=SNAPPY, count=3), simple_batch([b"v"], 3)]
    plain = mutate(simple_batch([b"v"], 4), 21, b"\x00\x07", repair=True)
    offsets, damaged = read(log_of(tmp_path, *parts, plain))
    assert offsets == [3]
    messages = [
        f"record length runs past the end of the batch, at byte {len(fine)} of its decompressed records",
        f"{COUNT}, at byte 0 of its decompressed records",
        "codec 7 is not supported",
    ]
    assert [d.message for d in damaged] == messages
    assert [d.code for d in damaged] == ["corrupt_structure", "corrupt_structure", "unsupported"]


def test_control_batches_contain_no_data_records(package: object, tmp_path: Path) -> None:
    log = log_of(tmp_path, simple_batch([b"v"], 0), wrong(1, flags=CONTROL, count=1, payload=b"\x00" * 9))
    damaged: list[Damage] = []
    assert [r.offset for r in log.records(OffsetInterval(0, control=True), on_damage=damaged.append)] == [0]
    assert [d.records for d in damaged] == [0]


def test_next_batch_is_read_from_the_file_at_the_end_of_the_buffer(
    package: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 200)
    parts = [part for i in range(0, 30, 3) for part in (simple_batch([b"a"], i), wrong(i + 1))]
    _, damaged = read(log_of(tmp_path, *parts))
    assert [(d.first_offset, d.last_offset) for d in damaged] == [
        (i + 1, i + 2 if i < 27 else None) for i in range(0, 30, 3)
    ]


def test_first_batch_that_cannot_be_decoded_raises_an_error(package: object, tmp_path: Path) -> None:
    log = log_of(tmp_path, simple_batch([b"a"], 0), wrong(1), wrong(2), simple_batch([b"b"], 3))
    records = log.records()
    assert next(records).offset == 0
    with pytest.raises(DamagedLogError, match=f"{COUNT}; offset 1 cannot be read") as raised:
        next(records)
    assert (raised.value.damage.first_offset, raised.value.damage.last_offset) == (1, 1)
    assert isinstance(raised.value.__cause__, kafkafmt.KafkaFormatError)


def undecodable_wrapper(offset: int) -> bytes:
    """Return a wrapper message of format 1 with a valid CRC, whose snappy data is corrupted."""
    return message(1, None, b"\xff" * 40, offset=offset, attributes=SNAPPY)


def test_undecodable_wrapper_outside_the_selected_offsets_is_not_damage(package: object, tmp_path: Path) -> None:
    """All wrapper messages near the selected offsets are decompressed, because their headers contain only the last offset."""
    plain = [message(1, None, b"v", offset=i) for i in range(12)]
    parts = [plain[0], undecodable_wrapper(2), *plain[3:7], undecodable_wrapper(8), *plain[9:]]
    log = log_of(tmp_path, *parts)
    for start, end, expected in (
        (0, 3, [(1, 2)]),
        (1, 2, [(1, 2)]),
        (2, 7, [(1, 2)]),
        (3, 7, []),
        (4, 8, [(7, 8)]),
        (8, 9, [(7, 8)]),
        (9, 12, []),
    ):
        damaged: list[Damage] = []
        interval = OffsetInterval(start, end)
        offsets = [r.offset for r in log.records(interval, on_damage=damaged.append)]
        assert offsets == [i for i in range(start, end) if i not in (1, 2, 7, 8)]
        assert [(d.first_offset, d.last_offset) for d in damaged] == expected
        if expected:
            with pytest.raises(DamagedLogError):
                list(log.records(interval))
        else:
            assert [r.offset for r in log.records(interval)] == offsets
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    report = kafkafmt.verify(tmp_path).partitions[0]
    assert [(d.first_offset, d.last_offset) for d in report.damaged] == [(7, 8)]
    assert report.records_recovered == 7
