"""Test that the wrapper messages of a segment are decompressed together, and only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from building import compress, message, mutate
from reports import verify_partition

from kafkafmt.log import PartitionLog, discover
from kafkafmt.log.damage import known_wrappers, segment_tables
from kafkafmt.records.payloads import PayloadReader
from kafkafmt.records.wrappers import WrapperReader
from kafkafmt.types import BatchTable, Buffer

GZIP = 1


def entries(n: int, plain: bool) -> list[bytes]:
    """Return `n` wrapper messages with two messages each. If `plain` is True, a plain message follows each of them."""
    found, offset = [], 0
    for _ in range(n):
        inner = b"".join(message(1, None, b"value", offset=k) for k in range(2))
        found.append(message(1, None, compress(GZIP, inner), offset=offset + 1, attributes=GZIP))
        offset += 2
        if plain:
            found.append(message(1, None, b"value", offset=offset))
            offset += 1
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of wrapper messages in each call of `WrapperReader.read`."""
    found: list[int] = []
    read = WrapperReader.read

    def counted(self: WrapperReader, buffer: Any, table: BatchTable, *args: Any) -> Any:
        found.append(len(table))
        return read(self, buffer, table, *args)

    monkeypatch.setattr(WrapperReader, "read", counted)
    return found


def open_log(folder: Path, parts: list[bytes]) -> PartitionLog:
    path = folder / "t-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"".join(parts))
    return PartitionLog(discover([path]).partitions[0])


def plan(folder: Path, parts: list[bytes]) -> Any:
    log = open_log(folder, parts)
    return log.plan(log.segments[0])


@pytest.mark.parametrize("plain", [False, True])
def test_wrapper_messages_between_damage_are_read_together(tmp_path: Path, plain: bool, reads: list[int]) -> None:
    parts = entries(3000, plain)
    parts = [mutate(p, len(p) - 1, bytes([p[-1] ^ 1])) if i % 5 == 2 else p for i, p in enumerate(parts)]
    found = plan(tmp_path, parts)
    assert len(found.damaged) == len(parts) // 5
    assert sum(reads) <= 3000
    assert len(reads) < 10


@pytest.mark.parametrize("most", [10, 1 << 20])
def test_wrapper_messages_are_decompressed_once_if_offsets_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int], most: int
) -> None:
    """The segment is read three times. If it has too many wrapper messages (MOST_WRAPPERS), they are decompressed again."""
    monkeypatch.setattr(known_wrappers, "MOST_WRAPPERS", most)
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 4096)
    parts = entries(300, True)
    parts = [mutate(p, 6, bytes([p[6] ^ 1])) if i % 7 == 3 else p for i, p in enumerate(parts)]
    found = plan(tmp_path, parts)
    assert len(found.damaged) == len(range(3, len(parts), 7))
    assert (sum(reads) == 300) == (most > 300)


@pytest.mark.parametrize("shallow", [False, True])
@pytest.mark.parametrize("damage", ["none", "wrong offsets", "late timestamps", "not decompressible"])
@pytest.mark.parametrize("log_start", [0, 101])
def test_verify_decompresses_each_wrapper_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, log_start: int, shallow: bool
) -> None:
    """Only wrapper messages whose records must be read are decompressed again."""
    decompressed = []
    read = PayloadReader.read

    def counted(self: PayloadReader, buffer: Buffer, table: BatchTable, **options: bool) -> Any:
        decompressed.extend(table["position"].tolist())
        return read(self, buffer, table, **options)

    monkeypatch.setattr(PayloadReader, "read", counted)
    parts = entries(200, False)
    for i in range(0, 200, 20):
        offset = 2 * i + 1
        if damage == "wrong offsets":
            parts[i] = mutate(parts[i], 6, bytes([parts[i][6] ^ 1]))
        elif damage == "late timestamps":
            inner = b"".join(message(1, None, b"value", offset=k, timestamp=k) for k in range(2))
            parts[i] = message(1, None, compress(GZIP, inner), offset=offset, attributes=GZIP)
        elif damage == "not decompressible":
            parts[i] = message(1, None, b"no gzip data", offset=offset, attributes=GZIP)
    if log_start:
        (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {log_start}\n")
    log = open_log(tmp_path, parts)
    assert log.log_start_offset == log_start
    report = verify_partition(log, shallow)
    again = len(decompressed) - 200
    assert len(set(decompressed)) == 200
    assert report["records_recovered"] == len(list(log.records(on_damage=lambda _: None)))
    assert bool(report["damaged"]) == (damage in ("wrong offsets", "not decompressible"))
    late = any("timestamp" in finding["message"] for finding in report["findings"])
    assert late == (damage == "late timestamps" and not shallow)
    below = log_start // 2 + 1 if log_start else 0
    assert again <= {"none": 0, "wrong offsets": 0}.get(damage, 30) + 2 * below


@pytest.mark.parametrize("missing", ["nothing", "a wrapper message", "an inner message"])
def test_missing_offsets_in_wrapper_messages_show_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(segment_tables, "BUFFER_BYTES", 4096)
    parts = entries(300, plain=False)
    parts[100] = mutate(parts[100], len(parts[100]) - 1, bytes([parts[100][-1] ^ 1]))
    if missing == "a wrapper message":
        del parts[200]
    elif missing == "an inner message":
        inner = b"".join(message(1, None, b"value", offset=k) for k in (0, 2))
        parts[-1] = message(1, None, compress(GZIP, inner), offset=600, attributes=GZIP)
    log = open_log(tmp_path, parts)
    assert log.compacted == (missing != "nothing")
