"""Open and check the logs of the tests."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

from building import TRANSACTIONAL, simple_batch
from reports import verify_partition

import kafkafmt
from kafkafmt.log import PartitionLog, discover

from .growth import lines_of

NUMBER = itertools.count()
"""Numbers for the names of directories."""


def log_of(folder: Path) -> PartitionLog:
    return PartitionLog(discover([folder]).partitions[0])


def verify(folder: Path) -> Counter[str]:
    return lines_of(lambda: verify_partition(log_of(folder)))


def committed(folder: Path) -> Counter[str]:
    partition = kafkafmt.open(folder).partitions[0]
    return lines_of(lambda: list(partition.records(isolation="read_committed", on_error="skip")))


def transactional(base: int, producer_id: int, **fields: Any) -> bytes:
    return simple_batch(
        [b"v"], base, flags=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0, base_sequence=0, **fields
    )
