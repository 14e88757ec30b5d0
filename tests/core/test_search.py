"""Check the functions that search for batches, on both cores."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import crc32c
import numpy as np
import pytest
from building import message, mutate, simple_batch
from seeding import seeds

from kafkafmt import _pure
from kafkafmt.types import BATCH_DTYPE

MANY = 64


def find(
    core: ModuleType, data: bytes, start: int = 0, end: int | None = None
) -> tuple[list[int], list[tuple[int, int]], int]:
    found, beyond = np.empty(MANY, np.int64), np.empty((MANY, 2), np.int64)
    n, n_beyond, position = core.find_batches(data, found, beyond, start, end)
    return found[:n].tolist(), [tuple(row) for row in beyond[:n_beyond].tolist()], position


def skip(core: ModuleType, data: bytes, start: int = 0, expected: int = 0, room: int = MANY) -> tuple[list[int], int]:
    """Return the positions of the corrupted batches before the first valid one, and of the byte after them."""
    spans = np.empty((room, 8), np.int64)
    _, n, position, *_ = core.scan_damaged(data, np.empty(MANY, BATCH_DTYPE), spans, start, None, None, expected)
    first = spans[:n][spans[:n, 6] == 0]
    return first[:, 0].tolist(), int(first[-1, 1]) if len(first) else position


def fake_header(claimed: int, offset: int = 7) -> bytes:
    """Return a header of format 2 with a given batch size and a CRC that does not match."""
    return struct.pack(">qiibIhiqqqhii", offset, claimed - 12, 0, 2, 0x12345678, 0, 0, 0, 0, -1, -1, -1, 1)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 4096, 100_000, 3_000_000])
@pytest.mark.parametrize("kind", ["crc32c", "crc32"])
def test_crc_of_rest_equals_the_crc_of_the_last_bytes(core: ModuleType, kind: str, size: int) -> None:
    data = random.Random(size).randbytes(size + 1000)
    crc = crc32c.crc32c if kind == "crc32c" else zlib.crc32
    of_rest = getattr(core, f"{kind}_of_rest")
    assert of_rest(crc(data), crc(data[:1000]), size) == crc(data[1000:])
    assert of_rest(crc(data[1000:]), crc(data[:1000]), size) == crc(data)


@pytest.mark.parametrize("castagnoli", [True, False])
def test_append_crcs_equals_the_crcs_of_the_joined_bytes(core: ModuleType, castagnoli: bool) -> None:
    crc = crc32c.crc32c if castagnoli else zlib.crc32
    chance = random.Random(7)
    heads, between, data = [chance.randbytes(n) for n in (0, 1, 70, 9)], chance.randbytes(300), chance.randbytes(500)
    ends, crcs = np.array([0, 40, 40, 500], np.int64), np.array([crc(head) for head in heads], np.int64)
    core.append_crcs(castagnoli, data, crc(between), len(between), ends, crcs)
    assert crcs.tolist() == [crc(head + between + data[:end]) for head, end in zip(heads, ends.tolist(), strict=True)]
    for wrong in ([0, 40, 39, 41], [0, 1, 2, 501], [-1, 0, 0, 0]):
        with pytest.raises(ValueError, match="end"):
            core.append_crcs(castagnoli, data, 0, 0, np.array(wrong, np.int64), crcs)


def test_crc_of_rest_rejects_a_negative_size(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="-1"):
        core.crc32c_of_rest(0, 0, -1)


@pytest.mark.parametrize("size", [10, 5_000, 70_000])
def test_find_batches_finds_whole_valid_batches(core: ModuleType, size: int) -> None:
    batches = [
        simple_batch([bytes(size)], 0),
        message(1, b"k", bytes(size), offset=1),
        message(0, None, b"v", offset=2),
    ]
    data = b"junk" + batches[0] + b"\x02" * 90 + batches[1] + mutate(simple_batch([b"x"], 5), 65, b"?") + batches[2]
    starts = [data.index(b) for b in batches]
    assert find(core, data)[::2] == (starts, len(data))
    assert find(core, data, starts[0] + 1)[::2] == (starts[1:], len(data))
    assert find(core, data, 0, starts[2])[::2] == (starts[:2], starts[2])


def test_find_batches_finds_a_batch_inside_another(core: ModuleType) -> None:
    inner = simple_batch([b"inner"], 9)
    outer = simple_batch([inner], 0)
    assert find(core, outer)[0] == [0, outer.index(inner)]


def test_find_batches_reports_batches_that_end_beyond_the_buffer(core: ModuleType) -> None:
    batch = simple_batch([random.Random(3).randbytes(9_000)], 4)
    for cut in (61, 100, 2_000, 8_000):
        found, beyond, position = find(core, b"abc" + batch[:cut])
        assert (found, beyond[0], position) == ([], (3, crc32c.crc32c(batch[21:cut])), 3 + cut)


def test_find_batches_stops_at_the_first_batch_without_a_row(core: ModuleType) -> None:
    data = b"".join(simple_batch([b"v"], i) for i in range(5))
    few, none, many = np.empty(2, np.int64), np.empty((0, 2), np.int64), np.empty((MANY, 2), np.int64)
    size = len(data) // 5
    n, _, position = core.find_batches(data, few, many)
    assert (n, position) == (2, 2 * size)
    n, _, position = core.find_batches(data[4 * size : -1], few, none)
    assert (n, position) == (0, 0)


def test_headers_that_claim_large_batches_are_not_batches(core: ModuleType) -> None:
    """Each header states a batch that ends at the end of the buffer.

    Computing each CRC separately would take quadratic time.
    """
    count = 300
    data = b"".join(fake_header((count - i) * 61) for i in range(count))
    assert find(core, data) == ([], [], len(data))
    assert core.find_batch(data) is None
    assert core.find_batch(data + simple_batch([b"v"], 3)) == len(data)


def test_scan_damaged_skips_up_to_a_valid_batch(core: ModuleType) -> None:
    parts = [simple_batch([b"v%d" % i * 9], i) for i in range(6)]
    for i in (1, 2, 3):
        parts[i] = mutate(parts[i], 65, b"\xff")
    starts = [sum(map(len, parts[:i])) for i in range(6)]
    data = b"".join(parts)
    assert skip(core, data, starts[1], 1) == (starts[1:4], starts[4])
    assert skip(core, data, starts[1], 1, room=2) == (starts[1:3], starts[3])
    assert skip(core, data, starts[1], 2) == ([], starts[1])


@pytest.mark.parametrize("junk", [b"\xff" * 100, bytes(100), simple_batch([b"v"], 2**60)])
def test_scan_damaged_does_not_skip_a_batch_that_no_header_follows(core: ModuleType, junk: bytes) -> None:
    bad = mutate(simple_batch([b"value"], 0), 65, b"\xff")
    assert skip(core, bad + junk) == ([], 0)


def test_scan_damaged_does_not_skip_a_batch_that_may_contain_another(core: ModuleType) -> None:
    bad = mutate(simple_batch([simple_batch([b"inner"], 7)], 0), 17, b"\xff\xff")
    assert skip(core, bad + simple_batch([b"v"], 1) + bytes(61)) == ([], 0)


def test_scan_damaged_does_not_trust_a_length_that_ends_inside_a_valid_batch(core: ModuleType) -> None:
    """The damaged batch lacks its last bytes, and the offset of the batch after it is too high for the segment."""
    bad = mutate(message(1, None, b"damaged", offset=0), 15, b"\xff")[:-3]
    around = message(1, None, b"v" * 20, offset=2**56)
    data = bad + around + message(1, None, b"v", offset=2)
    assert skip(core, data) == ([], 0)


@pytest.mark.parametrize("seed", range(40))
def test_both_cores_find_the_same_batches(seed: int) -> None:
    native = pytest.importorskip("kafkafmt._core")
    rng = random.Random(seed)
    parts: list[bytes] = []
    for i in range(rng.randrange(1, 12)):
        kind = rng.choice(["batch", "message", "header", "bytes"])
        if kind == "batch":
            made = simple_batch([rng.randbytes(rng.choice([3, 3_000, 40_000]))], i)
        elif kind == "message":
            made = message(rng.randrange(2), b"k", rng.randbytes(rng.choice([0, 50, 5_000])), offset=i)
        elif kind == "header":
            made = fake_header(rng.choice([61, 200, 5_000, 10**6, 2**31 - 1]))
        else:
            made = rng.randbytes(rng.randrange(80))
        if rng.random() < 0.4 and made:
            at = rng.randrange(len(made))
            made = mutate(made, at, bytes([made[at] ^ 1 << rng.randrange(8)]))
        parts.append(made)
    data = b"".join(parts)
    start = rng.randrange(len(data) + 1)
    end = rng.randrange(start, len(data) + 1)
    assert find(native, data, start, end) == find(_pure, data, start, end)
    assert native.find_batch(data, start, end) == _pure.find_batch(data, start, end)
    for at in [0, *np.cumsum([len(p) for p in parts[:-1]]).tolist()]:
        assert skip(native, data, at, 0) == skip(_pure, data, at, 0)


@pytest.mark.parametrize("fill", [b"\x00", b"\xff", b"\x03", b"\x02"])
@pytest.mark.parametrize("made", [simple_batch([b"v"], 0), message(1, b"k", b"v", offset=0), fake_header(200, 0)])
def test_both_cores_find_a_header_at_each_alignment_in_equal_bytes(fill: bytes, made: bytes) -> None:
    """A core can skip several positions at once, but never a position at which a header begins."""
    native = pytest.importorskip("kafkafmt._core")
    for before in range(40):
        for after in (0, 1, 7, 8, 30):
            data = fill * before + made + fill * after
            assert find(native, data) == find(_pure, data)
            assert find(native, data, 0, before) == find(_pure, data, 0, before)
            assert native.find_batch(data) == _pure.find_batch(data)
            assert native.find_batch(data, check_crc=False) == _pure.find_batch(data, check_crc=False)
            if not made.startswith(fake_header(200, 0)):
                assert find(native, data)[0] == [before]


@pytest.mark.parametrize("seed", range(20))
def test_both_cores_find_the_same_batches_between_runs_of_equal_bytes(seed: int) -> None:
    native = pytest.importorskip("kafkafmt._core")
    rng = random.Random(seed)
    parts = []
    for i in range(30):
        parts.append(rng.choice([b"\x00", b"\x00", b"\xff", b"\x01", b"\x04"]) * rng.randrange(60))
        made = simple_batch([bytes(rng.randrange(40))], i)
        parts.append(made if rng.random() < 0.5 else made[: rng.randrange(len(made))])
    data = b"".join(parts)
    start = rng.randrange(len(data))
    end = rng.randrange(start, len(data) + 1)
    assert find(native, data, start, end) == find(_pure, data, start, end)
    assert find(native, data) == find(_pure, data)


@pytest.mark.parametrize("seed", range(20))
def test_both_cores_find_the_same_heaviest_chain(seed: int) -> None:
    native = pytest.importorskip("kafkafmt._core")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    first = rng.integers(0, 40, n)
    last = first + rng.integers(0, 6, n)
    weight = rng.integers(1, 4, n) << 32
    left_out = np.concatenate(([0], np.cumsum(last - first + 1)))
    damage, bonus = np.cumsum(rng.integers(0, 2, n)), rng.integers(-2, 3, n)
    results = []
    for each in (native, _pure):
        parent, score = np.empty(n, np.int64), np.empty(n, np.int64)
        each.heaviest_chain(first, last, weight, left_out, damage, bonus, parent, score, 16)
        results.append((parent.tolist(), score.tolist()))
    assert results[0] == results[1]


def blocks(n: int, size: int) -> list[range]:
    return [range(at, min(at + size, n)) for at in range(0, n, size)]


ORDERS: dict[str, Callable[[np.random.Generator, int], list[int]]] = {
    "shuffled": lambda rng, n: rng.permutation(n).tolist(),
    "with copies": lambda rng, n: rng.integers(0, n, n).tolist(),
    "reversed": lambda _, n: list(range(n))[::-1],
    "blocks reversed": lambda rng, n: [i for block in blocks(n, int(rng.integers(2, 90))) for i in block[::-1]],
    "blocks shuffled": lambda rng, n: [
        i for block in blocks(n, int(rng.integers(2, 90))) for i in rng.permutation(block)
    ],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reach", [17, 40, 2048])
def test_both_cores_find_the_same_chain_of_many_runs(order: str, reach: int) -> None:
    native = pytest.importorskip("kafkafmt._core")
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(100, 300))
        width, chosen = rng.integers(1, 5, n), ORDERS[order](rng, n)
        first = (np.cumsum(width) - width)[chosen]
        last = first + width[chosen] - 1
        weight = rng.integers(1, 1 + int(rng.integers(1, 4)), n) << 32
        # The index of the native core requires these values. The last seed shows that other values are accepted too.
        left_out = np.concatenate(([0], np.cumsum(last - first + 1))) * (2 if seed == 7 else 1)
        damage = np.cumsum(rng.random(n) < rng.choice([0, 0.02, 0.5])).astype(np.int64)
        bonus = rng.integers(-2, 3, n)
        results = []
        for each in (native, _pure):
            parent, score = np.empty(n, np.int64), np.empty(n, np.int64)
            each.heaviest_chain(first, last, weight, left_out, damage, bonus, parent, score, reach)
            results.append((parent.tolist(), score.tolist()))
        assert results[0] == results[1]


def test_scan_damaged_ignores_a_header_that_claims_to_end_after_the_file(core: ModuleType) -> None:
    bad = mutate(simple_batch([fake_header(100_000, 3) + b"v"], 0), 17, b"\xff\xff")
    data = bad + simple_batch([b"v"], 1) + simple_batch([b"w"], 2)
    for file_end, skipped in ((len(data), 1), (200_000, 0)):
        rows, spans = np.empty(9, BATCH_DTYPE), np.empty((9, 8), np.int64)
        n, m, position, *_ = core.scan_damaged(data, rows, spans, 0, None, file_end, 0)
        assert (n, m, position) == ((2, 1, len(data)) if skipped else (0, 0, 0))
        assert spans[:m, [0, 1, 7]].tolist() == [[0, len(bad), 1]] * skipped


def test_scan_damaged_reports_valid_and_skipped_batches_in_order(core: ModuleType) -> None:
    parts = [simple_batch([b"v%d" % i * 9], i) for i in range(7)]
    for i in (1, 2, 4):
        parts[i] = mutate(parts[i], 65, b"\xff")
    starts = [sum(map(len, parts[:i])) for i in range(8)]
    rows, spans = np.empty(9, BATCH_DTYPE), np.empty((9, 8), np.int64)
    n, m, position, expected, last, error = core.scan_damaged(b"".join(parts), rows, spans, 0, None, None, 0, -1)
    assert (n, m, position, expected, last, error) == (4, 3, starts[7], 7, 6, None)
    assert rows["base_offset"][:n].tolist() == [0, 3, 5, 6]
    assert spans[:m, [0, 1, 6, 2]].tolist() == [
        [starts[i], starts[i + 1], before, 2] for i, before in ((1, 1), (2, 1), (4, 2))
    ]
    assert (spans[:m, 3] == [crc32c.crc32c(parts[i][21:]) for i in (1, 2, 4)]).all()


def test_scan_damaged_derives_crcs_from_prefixes(core: ModuleType) -> None:
    """Computing each CRC separately would take quadratic time. After 1 MiB of wrong CRCs, they are derived."""
    count = 400
    parts = [mutate(simple_batch([bytes(8000)], i), 17, b"\x01\x02\x03\x04") for i in range(count)]
    parts[::3] = [simple_batch([bytes(8000)], i) for i in range(0, count, 3)]
    data = b"".join(parts) + simple_batch([b"v"], count) * 2
    rows, spans = np.empty(900, BATCH_DTYPE), np.empty((900, 8), np.int64)
    n, m, *_ = core.scan_damaged(data, rows, spans, 0, None, None, 0, -1)
    assert (n, m) == (len(parts[::3]) + 2, count - len(parts[::3]))
    ends = {int(a): int(a) + 12 + int.from_bytes(data[a + 8 : a + 12], "big") for a in spans[:m, 0]}
    assert [int(crc) for crc in spans[:m, 3]] == [crc32c.crc32c(data[a + 21 : end]) for a, end in ends.items()]


WRAPPER = 11
"""Stands for a wrapper message of magic 1."""
DAMAGE: list[tuple[int, Any]] = [
    (8, lambda rng, part: struct.pack(">i", rng.choice([rng.randrange(3_000), len(part), 2 * len(part) - 12, 200]))),
    (8, lambda rng, part: struct.pack(">i", rng.choice([-1, 0, 14, 60_000, 2**20, 2**31 - 1]))),
    (7, lambda rng, part: bytes([rng.randrange(256)])),
    (16, lambda rng, part: bytes([rng.choice([0, 1, 2, 3, 255])])),
    (17, lambda rng, part: bytes([rng.choice([0, 1, 2, 3, 255])])),
    (0, lambda rng, part: bytes(len(part))),
]


@pytest.mark.parametrize("seed", seeds(20, range(90)))
def test_both_cores_scan_damage_in_the_same_way(seed: int) -> None:
    native = pytest.importorskip("kafkafmt._core")
    rng = random.Random(seed)
    magics = rng.choice([[2], [2], [0], [1], [1, 1, 2], [0, 1, 2], [1, 1, WRAPPER], [1, 2, WRAPPER]])
    parts = []
    for i in range(60):
        value = rng.randbytes(rng.choice([1, 40, 900]))
        magic = rng.choice(magics)
        if magic == 2:
            part = simple_batch([value] * rng.choice([1, 1, 3]), 3 * i)
        elif magic == WRAPPER:
            # The compressed data contains the inner messages unchanged. Usually, their offsets are relative.
            first = rng.choice([0, 0, 0, 3 * i])
            inner = b"".join(message(1, None, value, offset=first + k) for k in range(rng.choice([1, 3, 3, 5])))
            part = message(1, None, inner, offset=3 * i + 2, attributes=2)
        else:
            part = message(magic, b"k", value, offset=3 * i, attributes=rng.random() < 0.05)
        if rng.random() < 0.5:
            part = mutate(part, len(part) - 1, bytes([part[-1] ^ 1]))
        for at, damaged in DAMAGE:
            if rng.random() < 0.1:
                part = mutate(part, at, damaged(rng, part))
        parts.append(part)
    data = b"".join(parts)
    starts = np.cumsum([0] + [len(p) for p in parts]).tolist()
    # Some wrapper messages have a wrong offset, or no messages with increasing offsets.
    ranges = [rng.choice([(3 * i, 3 * i + 2), (3 * i, 3 * i + 1), (2**63 - 1, -(2**63))]) for i in range(60)]
    known = np.array([(starts[i], *ranges[i], 3) for i in range(60)], np.int64)
    for i, at in enumerate(starts[:-1]):
        file_end, expected = rng.choice([len(data), len(data) + 5_000_000]), rng.choice([0, 3 * i, max(3 * i - 3, 0)])
        outcomes: list[list[Any]] = []
        for each in (native, _pure):
            outcomes.append([])
            for wrappers, prefetch in ((None, False), (known, False), (known[:3], True)):
                rows, spans = np.zeros(70, BATCH_DTYPE), np.zeros((70, 8), np.int64)
                *counts, error = each.scan_damaged(
                    data, rows, spans, at, None, file_end, expected, None, wrappers, prefetch
                )
                outcomes[-1].append((counts, str(error), rows[: counts[0]].tolist(), spans[: counts[1]].tolist()))
        assert outcomes[0] == outcomes[1]


def expected_after(core: ModuleType, offsets: list[int], expected: int, last: int | None) -> tuple[int, int | None]:
    data = b"".join(simple_batch([b"v"], offset) for offset in offsets)
    rows, spans = np.empty(MANY, BATCH_DTYPE), np.empty((MANY, 8), np.int64)
    result: tuple[int, int | None] = core.scan_damaged(data, rows, spans, 0, None, None, expected, last)[3:5]
    return result


def test_the_lowest_possible_offset_rises_only_with_consecutive_batches(core: ModuleType) -> None:
    """If offsets are missing directly before the last batch, its offset may be corrupted."""
    assert expected_after(core, [5, 6, 7], 5, 4) == (8, 7)
    assert expected_after(core, [5, 8], 5, 4) == (6, 8)
    assert expected_after(core, [8, 9], 6, None) == (10, 9)
    assert expected_after(core, [8], 6, None) == (6, 8)
    assert expected_after(core, [3], 10, 9) == (4, 3)
    assert expected_after(core, [], 10, 9) == (10, 9)
    assert expected_after(core, [2**63 - 2], 2**63 - 2, 2**63 - 3) == (2**63 - 1, 2**63 - 2)
