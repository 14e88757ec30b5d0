"""Check that `scan_damaged` finds the same damage, whichever way it computes CRCs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import ModuleType

import pytest
from building import message, mutate, simple_batch

import kafkafmt
from kafkafmt.records import damage


def streams() -> Iterator[bytes]:
    chance = random.Random(5)
    for _ in range(60):
        parts = [
            message(1, b"k", b"v" * chance.randrange(40), offset=i)
            if chance.random() < 0.3
            else simple_batch([b"v" * 40] * 3, i)
            for i in range(0, 60, 3)
        ]
        for i in chance.sample(range(len(parts)), chance.randrange(8)):
            at = chance.choice([8, 9, 11, 16, 25, len(parts[i]) - 1])
            parts[i] = mutate(parts[i], at, chance.choice([b"\0", b"\1", b"\2", b"\7", b"\xff"]))
        yield b"".join(parts)[: -chance.randrange(60)]


def test_damage_is_the_same_with_derived_crcs(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list(streams())
    direct = [kafkafmt.check_batches(data) for data in given]
    monkeypatch.setattr(damage, "CRC_BUDGET", 0)
    for data, before in zip(given, direct, strict=True):
        after = kafkafmt.check_batches(data)
        # if a header field is also impossible, this field is reported instead of the CRC
        assert [(p.position, p.base_offset) for p in after.problems] == [
            (p.position, p.base_offset) for p in before.problems
        ]
        assert {p.code for p in after.problems} <= {p.code for p in before.problems} | {"corrupt_structure"}
        assert after[1:] == before[1:]


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_every_valid_batch_is_found(package: ModuleType, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(damage, "FIRST_ROWS", rows)
    parts = [simple_batch([b"v"], i) for i in range(50)]
    beyond = mutate(simple_batch([b"v"], 2**63 - 1), 8, b"\x40")
    data = b"junk".join([beyond, *parts, beyond, beyond, *parts])
    scanner, found, at = damage.DamageScanner(data), [], 0
    while (position := scanner.find(at)) is not None:
        found.append(position)
        at = position + 1
    assert len(found) == 100
    assert all(data[p : p + len(parts[0])] in parts for p in found)
    assert scanner.find(0) == found[0]
    assert scanner.find(len(data)) is None
    assert scanner.find(found[70] - 3) == found[70]
