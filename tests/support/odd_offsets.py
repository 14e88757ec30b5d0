"""Build logs whose batches have odd record offsets: Kafka delivers a record at base offset + delta, whatever the delta is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from building import ABORT, COMMIT, TRANSACTIONAL, batch, control_batch, record, simple_batch

Expected = list[tuple[int, bytes]]
"""Offset and value of each record, in the order in which they are stored."""
NOW = 1_700_000_000_000
DELTAS = {
    "one-based": ([1, 2, 3], 2),
    "zeros": ([0, 0, 0], 2),
    "descending": ([2, 1, 0], 2),
    "last delta 0": ([0, 1, 2], 0),
    "far": ([-1, 70_000, -9], 2),
}
"""For each kind of odd batch, the offset deltas of its records, and its last offset delta."""


def odd(kind: str, base: int, codec: int = 0, **fields: Any) -> bytes:
    """Return a batch with odd record offsets at the base offset `base`."""
    deltas, last = DELTAS[kind]
    records = [record(d, i, b"k%d" % i, b"%d/%d" % (base, i)) for i, d in enumerate(deltas)]
    return batch(
        records,
        base_offset=base,
        codec=codec,
        base_timestamp=NOW,
        max_timestamp=NOW + 2,
        last_offset_delta=last,
        **fields,
    )


def offsets(kind: str, base: int) -> Expected:
    """Return the offsets and values of the records in such a batch, in stored order."""
    return [(base + delta, b"%d/%d" % (base, i)) for i, delta in enumerate(DELTAS[kind][0])]


def mixed_log(folder: Path, kind: str, codec: int = 0, batches: int = 12) -> Expected:
    """Write the log `folder`/t-0 with odd and normal batches in turn. Return the offset and the value of each record."""
    path, parts = folder / "t-0", list[bytes]()
    expected: Expected = []
    path.mkdir(parents=True)
    for base in range(100, 100 + 3 * batches, 3):
        if base % 2:
            parts.append(odd(kind, base, codec))
            expected += offsets(kind, base)
        else:
            values = [b"%d/%d" % (base, i) for i in range(3)]
            parts.append(simple_batch(values, base, codec=codec))
            expected += [(base + i, value) for i, value in enumerate(values)]
    (path / f"{100:020}.log").write_bytes(b"".join(parts))
    return expected


def transactional_log(folder: Path, kind: str) -> Expected:
    """Write the log `folder`/t-0 with aborted and committed odd batches in turn. Return the committed records."""
    path, parts = folder / "t-0", list[bytes]()
    committed: Expected = []
    path.mkdir(parents=True)
    for base in range(100, 140, 4):
        keep = base % 8 == 0
        ends: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
        parts.append(odd(kind, base, flags=TRANSACTIONAL, base_sequence=base - 100, **ends))
        parts.append(control_batch(COMMIT if keep else ABORT, base_offset=base + 3, **ends))
        committed += offsets(kind, base) if keep else []
    (path / f"{100:020}.log").write_bytes(b"".join(parts))
    return committed
