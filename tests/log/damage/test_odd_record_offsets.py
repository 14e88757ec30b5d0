"""Read batches with odd record offsets in every way. Kafka delivers a record at base offset + delta, whatever the delta is."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from building import (
    ABORT,
    COMMIT,
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    TRANSACTIONAL,
    ZSTD,
    batch,
    record,
    simple_batch,
)
from command import inside
from odd_offsets import DELTAS, Expected, mixed_log, odd, offsets, transactional_log

import kafkafmt
from kafkafmt.log import PartitionLog
from kafkafmt.log.reading import OffsetInterval

CODECS = [NONE, GZIP, LZ4, ZSTD]


def rows(table: pa.Table) -> Expected:
    return list(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))


def of(records: Any) -> Expected:
    return [(r.offset, bytes(r.value)) for r in records]


def printed(text: str) -> Expected:
    return [(r["offset"], r["value"].encode()) for r in map(json.loads, text.splitlines())]


def base_of(value: bytes) -> int:
    return int(value.split(b"/")[0])


@pytest.fixture(params=DELTAS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_every_reader_delivers_the_same_records(package: ModuleType, tmp_path: Path, kind: str, codec: int) -> None:
    expected = mixed_log(tmp_path, kind, codec)
    partition = kafkafmt.open(tmp_path)["t", 0]
    data = next((tmp_path / "t-0").glob("*.log")).read_bytes()
    assert of(partition.records()) == expected
    assert rows(partition.to_arrow()) == expected
    assert [row for part in partition.to_batches() for row in rows(pa.Table.from_batches([part]))] == expected
    assert of(kafkafmt.read_records(data)) == expected
    assert rows(kafkafmt.to_arrow(data)) == expected
    assert kafkafmt.check_batches(data).ok
    assert kafkafmt.check_batches(data).records == len(expected)


@pytest.mark.parametrize("bounds", [(101, None), (104, 110), (None, 107), (103, 105), (134, None), (0, 10**9)], ids=str)
def test_a_selection_filters_each_record_by_its_offset(
    package: ModuleType, tmp_path: Path, kind: str, bounds: tuple[int | None, int | None]
) -> None:
    """Batches are found by their headers, and then each record is compared with the selection."""
    low, high = (bounds[0] or 0), bounds[1] or 2**63
    lasts = {base_of(value): base_of(value) + 2 for _, value in mixed_log(tmp_path, kind)}
    if kind == "last delta 0":
        lasts = {base: last - 2 * (base % 2) for base, last in lasts.items()}
    expected = [
        (offset, value)
        for offset, value in mixed_log(tmp_path / "again", kind)
        if low <= offset < high and base_of(value) < high and lasts[base_of(value)] >= low
    ]
    given: dict[str, Any] = {name: n for name, n in zip(("start", "end"), bounds, strict=True) if n is not None}
    partition = kafkafmt.open(tmp_path / "t-0")["t", 0]
    data = next((tmp_path / "t-0").glob("*.log")).read_bytes()
    assert of(partition.records(**given)) == rows(partition.to_arrow(**given)) == expected
    assert of(kafkafmt.read_records(data, **given)) == rows(kafkafmt.to_arrow(data, **given)) == expected


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 100])
def test_adjacent_shares_contain_each_record_once(package: ModuleType, tmp_path: Path, kind: str, step: int) -> None:
    expected = mixed_log(tmp_path, kind)
    log: PartitionLog = kafkafmt.open(tmp_path)["t", 0].log
    found: Expected = []
    for low in range(0, 200, step):
        found += of(log.records(OffsetInterval(low, low + step)))
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("codec", CODECS)
def test_verify_reports_one_finding_for_each_run(tmp_path: Path, kind: str, codec: int) -> None:
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    first, normal = odd(kind, 0, codec) + odd(kind, 3, codec), simple_batch([b"a", b"b"], 6)
    path.write_bytes(first + normal + odd(kind, 8, codec))
    report = kafkafmt.verify(tmp_path)
    (entry,) = report.partitions
    assert (report.ok, len(entry.damaged), entry.records, entry.records_recovered) == (True, 0, 11, 11)
    last = 0 if kind == "last delta 0" else 2
    assert [(f.code, f.message) for f in entry.findings] == [
        (
            "odd_record_offsets",
            f"record offsets in {batches} ({places}, from position {position} on) do not increase or are outside the "
            "offsets in the batch header; Kafka delivers these records too",
        )
        for batches, places, position in (
            ("2 batches", f"offsets 0 to {3 + last}", 0),
            ("1 batch", f"offsets 8 to {8 + last}" if last else "offset 8", len(first + normal)),
        )
    ]
    done = inside("verify", tmp_path)
    assert done.returncode == 0
    assert "Do not start" not in done.stdout


def test_copies_contain_the_same_bytes_and_finding(tmp_path: Path, kind: str) -> None:
    mixed_log(tmp_path / "log", kind)
    data = next((tmp_path / "log" / "t-0").glob("*.log")).read_bytes()
    findings = [f.code for p in kafkafmt.verify(tmp_path / "log").partitions for f in p.findings]
    assert set(findings) == {"odd_record_offsets"}
    for name, command in {"s": ("salvage",), "r": ("rewrite",)}.items():
        assert inside(*command, tmp_path / "log", "-O", tmp_path / name).returncode == 0
        assert next((tmp_path / name / "t-0").glob("*.log")).read_bytes() == data
        (entry,) = kafkafmt.verify(tmp_path / name).partitions
        assert (len(entry.damaged), [f.code for f in entry.findings]) == (0, findings)
    merged = ("salvage", tmp_path / "log", tmp_path / "s", "--replicas", "merge", "-O", tmp_path / "m")
    assert inside(*merged).returncode == 0
    assert next((tmp_path / "m" / "t-0").glob("*.log")).read_bytes() == data


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_a_changed_copy_keeps_the_offsets_of_the_records(
    package: ModuleType, tmp_path: Path, kind: str, codec: int
) -> None:
    expected = mixed_log(tmp_path / "log", kind, codec)
    before = {r.value: (r.offset, r.timestamp, r.key) for r in kafkafmt.open(tmp_path / "log")["t", 0].records()}
    for name, options in {"z": ("--codec", "zstd"), "k": ("--drop-key", "k1")}.items():
        assert inside("rewrite", tmp_path / "log", "-O", tmp_path / name, *options).returncode == 0
        after = list(kafkafmt.open(tmp_path / name)["t", 0].records())
        assert of(after) == [row for row in expected if name == "z" or before[row[1]][2] != b"k1"]
        assert all(before[r.value] == (r.offset, r.timestamp, r.key) for r in after)
        assert kafkafmt.verify(tmp_path / name).ok
    assert inside("diff", tmp_path / "log", tmp_path / "log").returncode == 0
    done = inside("diff", tmp_path / "log", tmp_path / "z", "--format", "json")
    kinds = {d["kind"] for p in json.loads(done.stdout)["partitions"] for d in p["differences"]}
    assert kinds <= {"bytes_differ"}


@pytest.mark.slow
def test_commands_print_and_export_the_records(tmp_path: Path, kind: str) -> None:
    expected = mixed_log(tmp_path / "log", kind)
    done = inside("cat", tmp_path / "log", "--format", "json")
    assert (done.returncode, printed(done.stdout)) == (0, expected)
    done = inside("cat", tmp_path / "log", "--format", "json", "--key-regex", "k1")
    assert printed(done.stdout) == [row for row in expected if base_of(row[1]) % 2 and row[1].endswith(b"/1")]
    assert inside("export", tmp_path / "log", "-O", tmp_path / "out").returncode == 0
    exported = ds.dataset(tmp_path / "out" / "data", partitioning="hive").to_table()
    assert rows(exported) == expected
    stats = json.loads(inside("stats", tmp_path / "log", "--format", "json").stdout)
    assert stats["topics"][0]["records"] == len(expected)


def test_aborted_records_are_not_delivered_as_committed(package: ModuleType, tmp_path: Path, kind: str) -> None:
    committed = transactional_log(tmp_path, kind)
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert of(partition.records(isolation="read_committed")) == committed
    assert rows(partition.to_arrow(isolation="read_committed")) == committed
    assert len(of(partition.records())) == 30
    data = next((tmp_path / "t-0").glob("*.log")).read_bytes()
    aborted = [(7, base) for base in range(100, 140, 4) if base % 8]
    assert of(kafkafmt.read_records(data, aborted=aborted)) == committed


@pytest.mark.parametrize("delta", [1, -1, 5])
def test_marker_with_an_odd_offset_ends_its_transaction(package: ModuleType, tmp_path: Path, delta: int) -> None:
    """A broker reads the kind of a marker from the first record of its batch, and the offset from the header."""
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.parent.mkdir()
    parts = []
    for base, end in ((0, ABORT), (4, COMMIT)):
        marker = record(delta, 0, struct.pack(">hh", 0, end), struct.pack(">hi", 0, 0))
        parts.append(odd("zeros", base, flags=TRANSACTIONAL, base_sequence=base, **fields))
        parts.append(
            batch([marker], base_offset=base + 3, flags=TRANSACTIONAL | CONTROL, last_offset_delta=0, **fields)
        )
    path.write_bytes(b"".join(parts))
    partition = kafkafmt.open(tmp_path)["t", 0]
    assert of(partition.records(isolation="read_committed")) == offsets("zeros", 4)


def test_lookups_use_the_offsets_in_headers(package: ModuleType, tmp_path: Path) -> None:
    mixed_log(tmp_path, "descending")
    partition = kafkafmt.open(tmp_path)["t", 0]
    found = partition.seek(offset=104)
    assert found is not None
    assert (found.offset, found.position) == (105, len(simple_batch([b"100/0"] * 3, 100)))


def test_follower_delivers_appended_records(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t-0" / f"{100:020}.log"
    path.parent.mkdir()
    path.write_bytes(odd(kind, 100))
    followed = kafkafmt.open(tmp_path)["t", 0].follow(poll=0.01, idle_timeout=1, start=50)
    found = of([next(followed) for _ in offsets(kind, 100)])
    with path.open("ab") as file:
        file.write(odd(kind, 103, ZSTD) + simple_batch([b"x"], 106))
    assert found + of(followed) == [*offsets(kind, 100), *offsets(kind, 103), (106, b"x")]


def test_records_before_the_first_segment_are_delivered(package: ModuleType, tmp_path: Path) -> None:
    """The first record has an offset below the base offset of the segment. No checkpoint hides it."""
    path = tmp_path / "t-0" / f"{50:020}.log"
    path.parent.mkdir()
    path.write_bytes(odd("far", 50) + simple_batch([b"x"], 53))
    assert of(kafkafmt.open(tmp_path)["t", 0].records()) == [*offsets("far", 50), (53, b"x")]
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 51\n")
    hidden = [row for row in offsets("far", 50) if row[0] >= 51]
    assert of(kafkafmt.open(tmp_path)["t", 0].records()) == [*hidden, (53, b"x")]
