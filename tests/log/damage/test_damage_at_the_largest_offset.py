"""Check damage next to batches with the offset 2**63 - 1, after which no offset fits into 64 bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from building import message, mutate, simple_batch

import kafkafmt

LARGEST = 2**63 - 1
VALUE = b"v" * 40
JUNK = b"\7" * 30


def corrupted(data: bytes) -> bytes:
    return data[:-1] + b"!"


LOGS = {
    "format 2": [simple_batch([VALUE], LARGEST), simple_batch([VALUE], LARGEST), JUNK],
    "format 1": [message(1, None, VALUE, offset=LARGEST), message(1, None, VALUE, offset=LARGEST), JUNK],
    "corrupted length": [
        mutate(simple_batch([VALUE], 0), 8, b"\x00\x00\x01\x01"),
        simple_batch([VALUE], LARGEST),
        simple_batch([VALUE], LARGEST),
        corrupted(simple_batch([VALUE], 3)),
    ],
    "inner messages": [
        JUNK,
        message(1, None, VALUE, offset=1),
        message(1, None, VALUE, offset=LARGEST),
        corrupted(message(1, None, VALUE, offset=3)),
        corrupted(simple_batch([VALUE], LARGEST)),
        message(1, None, VALUE, offset=5),
    ],
}


@pytest.mark.parametrize("name", LOGS)
def test_damage_after_the_largest_offset_is_reported(package: object, tmp_path: Path, name: str) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(LOGS[name]))
    (report,) = kafkafmt.verify(tmp_path).partitions
    assert report.damaged
