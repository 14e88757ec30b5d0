"""Combine splits (ranges of a partition) into bundles. Each Parquet file contains records of only one bundle.

A bundle is normally at least as large as the target size of a Parquet file. If this size results in
too few bundles for all cores, bundles are smaller.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..spark.source.splits import SPLIT_BYTES, Split
from .options import ExportOptions

SMALLEST_BUNDLE = 16 << 20
MAX_BUNDLES = 20_000
"""Approximate maximum number of bundles (groups of splits) in an export if `ExportOptions.split_bytes` is not set."""
BUNDLES_PER_CORE = 4
"""Number of tasks or bundles per core. A core that finishes early can process another one."""
FILES_PER_BUNDLE = 2
"""Largest size of the log data that one task exports, as a multiple of the target file size. It is
greater than 1 because a Parquet file is often smaller than the log data that it contains.
"""


@dataclass
class Bundle:
    """Splits (ranges of partitions) of one topic. One task exports these splits, and writes them to the same Parquet files."""

    number: int
    splits: list[Split]

    @property
    def bytes(self) -> int:
        return sum(split.bytes for split in self.splits)


def bundle_bytes(options: ExportOptions, total: int, cores: int) -> int:
    """Return the bytes of log data that one task exports. `total` is the size of all logs."""
    if options.split_bytes:
        return options.split_bytes
    most = max(SPLIT_BYTES, FILES_PER_BUNDLE * options.file_size)
    return max(share(total, cores, SMALLEST_BUNDLE, most), total // MAX_BUNDLES)


def share(total: int, cores: int, least: int, most: int) -> int:
    """Return the bytes, between `least` and `most`, for one task, so that each core gets several tasks."""
    return min(max(total // (cores * BUNDLES_PER_CORE), least), most)


def bundle_splits(
    splits: Iterable[Split],
    first: int,
    size: int,
    joined: bool = False,
    exported: Mapping[tuple[str, int], Sequence[int]] | None = None,
) -> list[Bundle]:
    """Combine adjacent splits (ranges of a partition) into bundles of about `size` bytes."""
    # Splits are in order of topic, partition and offset. A bundle may be up to a quarter larger if
    # this avoids a small file. If `joined` is True, it may contain several partitions of one topic.
    # `exported` has the sorted first offsets of the splits that were already exported: a bundle
    # does not span such a split, or the files of a partition would not be in offset order.
    bundles: list[Bundle] = []
    filled = 0
    for split in splits:
        last = bundles[-1].splits[-1] if bundles else None
        fits = filled + split.bytes <= size + size // 4
        same = last is not None and last.topic == split.topic and (joined or last.partition == split.partition)
        if not same or not fits or (last is not None and _is_exported_between(last, split, exported or {})):
            bundles.append(Bundle(first + len(bundles), []))
            filled = 0
        bundles[-1].splits.append(split)
        filled += split.bytes
    return bundles


def _is_exported_between(before: Split, after: Split, exported: Mapping[tuple[str, int], Sequence[int]]) -> bool:
    """Return whether a split between two splits of the same partition was already exported."""
    if before.partition != after.partition:
        return False
    starts = exported.get((before.topic, before.partition), ())
    return bisect(starts, before.first_offset) != bisect(starts, after.first_offset)
