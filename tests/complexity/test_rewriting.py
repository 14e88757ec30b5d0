"""Check rewriting of logs with many segments, keys, producers and open transactions."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from building import TRANSACTIONAL, batch, mutate, record

import kafkafmt

from .growth import grows_linearly, lines_of

NUMBER = itertools.count()


def rewrite(root: Path, segments: list[tuple[int, bytes]], **changes: Any) -> Counter[str]:
    """Write segments, rewrite them, and return the executed lines. Then verify the copy."""
    number = next(NUMBER)
    folder = root / f"{number}" / "t-0"
    folder.mkdir(parents=True)
    for base, data in segments:
        (folder / f"{base:020}.log").write_bytes(data)
    out = root / f"{number}-out"
    lines = lines_of(lambda: kafkafmt.rewrite(folder.parent, out, threads=1, **changes))
    assert kafkafmt.verify(out).partitions[0].damaged == ()
    return lines


def keyed(offset: int, key: bytes, **fields: Any) -> bytes:
    return batch([record(0, key=key), record(1, key=b"stays")], base_offset=offset, **fields)


def produced(offset: int, producer: int) -> bytes:
    return keyed(offset, b"k%d" % offset, producer_id=producer, producer_epoch=0, base_sequence=offset)


@pytest.mark.parametrize("compact", [False, True])
def test_rewrite_grows_linearly_with_segments(compact: bool, tmp_path: Path) -> None:
    """The number of producers is constant, because each segment has a snapshot of all producers."""

    def work(n: int) -> Counter[str]:
        segments = [(2 * i, produced(2 * i, i % 5)) for i in range(n)]
        return rewrite(tmp_path, segments, drop_key_regex="^k", compact=compact)

    grows_linearly(20, work)


@pytest.mark.parametrize("compact", [False, True])
def test_rewrite_grows_linearly_with_producers(compact: bool, tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(produced(2 * i, i) for i in range(n))
        return rewrite(tmp_path, [(0, data)], drop_key_regex="^k", compact=compact)

    grows_linearly(100, work)


def test_rewrite_grows_linearly_with_batches(tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        data = b"".join(keyed(2 * i, b"k%d" % i) for i in range(n))
        return rewrite(tmp_path, [(0, data)], compact=True)

    grows_linearly(100, work)


@pytest.mark.parametrize("changes", [{}, {"drop_keys": "k"}], ids=["copy", "drop"])
def test_rewrite_handles_batches_between_damage_together(changes: dict[str, Any], tmp_path: Path) -> None:
    """For 200 additional batches, fewer than 100 additional lines of `rewrite_partition.py` are executed."""

    def work(n: int) -> int:
        parts = [keyed(2 * i, b"k%d" % i) for i in range(2 * n)]
        data = b"".join(mutate(part, len(part) - 1, b"\xee") if i % 2 else part for i, part in enumerate(parts))
        return rewrite(tmp_path, [(0, data)], on_error="skip", **changes)["kafkafmt.log.rewriting.rewrite_partition"]

    work(10)
    assert work(110) - work(10) < 100


def test_reading_grows_linearly_with_emptied_segments_in_an_open_transaction(tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        fields: dict[str, Any] = {"flags": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        number = next(NUMBER)
        folder = tmp_path / f"{number}" / "t-0"
        folder.mkdir(parents=True)
        for i in range(n):
            one = batch([record(0)], base_offset=4 * i, **fields) if i % 3 == 0 else b""
            (folder / f"{4 * i:020}.log").write_bytes(one)
        (folder.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 0\n")
        return lines_of(lambda: list(kafkafmt.open(folder.parent).partitions[0].records(isolation="read_committed")))

    grows_linearly(30, work)
