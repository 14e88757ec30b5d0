"""Test that spans are copied in the given order, however large they are and wherever they are."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kafkafmt.log.storage import span_buffer, span_copier
from kafkafmt.log.storage.file_view import FileView
from kafkafmt.log.storage.span_copier import SpanCopier

DATA = random.Random(5).randbytes(300_000)


def copied(folder: Path, spans: list[tuple[int, int]], inserted: Sequence[tuple[int, bytes]] = ()) -> bytes:
    source, target = folder / "source", folder / "target"
    source.write_bytes(DATA)
    with FileView(source) as view, target.open("wb") as file:
        SpanCopier().copy(view, file.fileno(), np.array(spans, np.int64).reshape(-1, 2), inserted)
    return target.read_bytes()


@pytest.mark.parametrize("seed", range(30))
def test_spans_are_copied_in_the_given_order(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(span_copier, "GROUP_BYTES", chance.choice((1000, 20_000, 1 << 20)))
    monkeypatch.setattr(span_buffer, "WINDOW_BYTES", chance.choice((1000, 20_000, 1 << 28)))
    monkeypatch.setattr(span_buffer, "PAGE_BYTES", chance.choice((0, 300, 4096)))
    monkeypatch.setattr(span_copier, "SMALL", chance.choice((100, 1000)))
    monkeypatch.setattr(span_copier, "MOST_SPANS", chance.choice((5, 100)))
    spans, at = [], 0
    for _ in range(chance.choice((0, 1, 3, 50, 400))):
        size = chance.choice((0, 1, 60, 60, 99, 300, 3000))
        spans.append((at, min(at + size, len(DATA))))
        at = min(max(at + size + chance.choice((0, 0, 10, 400, -700, 90_000, -80_000)), 0), len(DATA))
    whole = b"".join(DATA[a:b] for a, b in spans)
    assert copied(tmp_path, spans) == whole
    places = sorted([0, 0, len(whole), *(chance.randrange(len(whole) + 1) for _ in range(20))])
    inserted = [(place, b"<%d>" % i) for i, place in enumerate(places)]
    ends = [*places[1:], len(whole)]
    expected = b"".join(data + whole[place:end] for (place, data), end in zip(inserted, ends, strict=True))
    assert copied(tmp_path, spans, inserted) == expected


def test_many_small_spans_take_few_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("preadv", "write", "copy_file_range"):
        real = getattr(os, name)

        def counted(*args: object, name: str = name, real: object = real) -> object:
            calls.append(name)
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, counted)
    spans = [(i, i + 70) for i in range(0, len(DATA) - 100, 100)]
    assert copied(tmp_path, spans) == b"".join(DATA[a:b] for a, b in spans)
    assert len(calls) <= 4


def test_spans_from_two_places_take_few_system_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = os.preadv

    def counted(file: int, buffers: list[memoryview], position: int) -> int:
        reads.append(position)
        return read(file, buffers, position)

    monkeypatch.setattr(os, "preadv", counted)
    spans = [(i + far, i + far + 70) for i in range(0, 20_000, 100) for far in (0, 250_000)]
    assert copied(tmp_path, spans) == b"".join(DATA[a:b] for a, b in spans)
    assert reads == [0, 250_000]


def test_source_that_ends_before_a_span_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="truncated"):
        copied(tmp_path, [(i, i + 50) for i in range(len(DATA) - 400, len(DATA) + 400, 100)])


@pytest.mark.parametrize("gap", [0, 1000, 4096, 4097, 50_000])
def test_large_gaps_between_small_spans_are_not_read(tmp_path: Path, gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    read_into = FileView.read_into

    def counted(self: FileView, view: np.ndarray, position: int) -> int:
        sizes.append(len(view))
        return read_into(self, view, position)

    monkeypatch.setattr(FileView, "read_into", counted)
    spans = [(100, 8000), (8000 + gap, 16_000 + gap)]
    assert copied(tmp_path, spans) == b"".join(DATA[a:b] for a, b in spans)
    assert sizes == ([15_900 + gap] if gap <= span_buffer.PAGE_BYTES else [7900, 8000])
