"""Call `decompress_payloads` of a core."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def decompressed_payloads(
    core: ModuleType, payloads: list[tuple[int, bytes]], limit: int, room: int, stop_at_fault: bool = False
) -> tuple[list[bytes | int], int]:
    """Decompress payloads that have other bytes between them. Each item of `payloads` contains a codec and data.

    Return the result or the fault of each processed payload, and the number of processed payloads. The fault of a
    skipped payload is 0.
    """
    count, data = len(payloads), b"".join(b"?" + payload for _, payload in payloads)
    lengths = np.array([len(payload) for _, payload in payloads], np.int32)
    positions = np.cumsum(lengths + 1, dtype=np.int64) - lengths
    codecs = np.array([codec for codec, _ in payloads], np.int64)
    sizes, faults, out = np.full(count, -9, np.int64), np.full(count, -9, np.int8), np.full(room + 1, 0xEE, np.uint8)
    done, filled = core.decompress_payloads(
        data, positions, lengths, codecs, count, limit, stop_at_fault, out[:room], sizes, faults
    )
    assert out[-1] == 0xEE
    results: list[bytes | int] = []
    end = 0
    for size, fault in zip(sizes[:done].tolist(), faults[:done].tolist(), strict=True):
        assert size == -1 or fault == 0
        results.append(fault if size == -1 else out[end : end + size].tobytes())
        end += max(size, 0)
    assert filled == end
    return results, done
