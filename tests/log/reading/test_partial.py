"""Check that the first records of a damaged batch can be read."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from command import inside
from odd_batches import batch_of, write_log

import kafkafmt
from kafkafmt import build_batch
from kafkafmt.codecs.compressor import Compressor
from kafkafmt.constants import BATCH_HEADER_SIZE

COUNT = 60
PLAIN = bytes(
    build_batch([(b"k%d" % i, random.Random(i).randbytes(3000) + b"x" * 3000, i) for i in range(COUNT)], base_offset=0)
)
NORMAL = bytes(build_batch([(None, b"normal")] * 3))


def damaged_batches() -> dict[str, bytes]:
    """Return batches with valid CRCs whose data is cut or corrupted in the middle."""
    payload = PLAIN[BATCH_HEADER_SIZE:]
    found = {"none-cut": batch_of(0, payload[: len(payload) // 2], PLAIN)}
    corrupted = bytearray(payload)
    corrupted[len(payload) // 2 - 4000 : len(payload) // 2] = b"\xff" * 4000
    found["none-corrupted"] = batch_of(0, bytes(corrupted), PLAIN)
    for codec in range(1, 5):
        packed = bytes(Compressor(codec).compress(payload))
        found[f"{codec}-cut"] = batch_of(codec, packed[: len(packed) // 2], PLAIN)
        found[f"{codec}-records-corrupted"] = batch_of(codec, bytes(Compressor(codec).compress(corrupted)), PLAIN)
    return found


@pytest.mark.parametrize("name", damaged_batches())
def test_first_records_of_a_damaged_batch_are_read(package: ModuleType, tmp_path: Path, name: str) -> None:
    log = kafkafmt.open(write_log(tmp_path, NORMAL, damaged_batches()[name], NORMAL))
    partition = log["t", 0]
    expected = list(kafkafmt.read_records(PLAIN))
    without = list(partition.records(on_error="skip"))
    assert [r.offset for r in without] == [0, 1, 2, 63, 64, 65]
    found = list(partition.records(on_error="skip", partial=True))
    inner = found[3:-3]
    assert 5 < len(inner) < COUNT - 5
    assert [(r.offset - 3, r.key, r.value) for r in inner] == [
        (r.offset, r.key, r.value) for r in expected[: len(inner)]
    ]
    assert len(partition.damaged) == 1
    assert partition.to_arrow(on_error="skip", partial=True)["offset"].to_pylist() == [r.offset for r in found]
    some = partition.records(on_error="skip", partial=True, start=5, end=64)
    assert [r.offset for r in some] == [r.offset for r in found if 5 <= r.offset < 64]


def test_partial_requires_that_damage_is_skipped(package: ModuleType, tmp_path: Path) -> None:
    log = kafkafmt.open(write_log(tmp_path, NORMAL))
    with pytest.raises(ValueError, match='pass on_error="skip"'):
        log["t", 0].to_arrow(partial=True)


def test_cat_prints_the_first_records(tmp_path: Path) -> None:
    write_log(tmp_path, NORMAL, damaged_batches()["none-cut"])
    result = inside("cat", tmp_path, "--on-error", "skip", "--partial", "--format", "json")
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) > 8
    refused = inside("cat", tmp_path, "--partial")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--on-error skip" in refused.stderr


def test_unknown_argument_names_all_arguments(tmp_path: Path) -> None:
    partition: Any = kafkafmt.open(write_log(tmp_path, NORMAL))["t", 0]
    with pytest.raises(TypeError, match="the valid arguments are views, limit, start, end"):
        partition.records(json=True)
