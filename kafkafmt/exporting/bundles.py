"""Combine splits into bundles. A task writes each bundle to separate Parquet files.

A bundle has at least the target size of a file. It is smaller only if this is necessary to
distribute the work evenly among the cores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..spark.source.splits import SPLIT_BYTES, Split
from .options import ExportOptions

SMALLEST_BUNDLE = 16 << 20
MAX_BUNDLES = 20_000
"""Approximate number of bundles of an export whose split size is not set."""
BUNDLES_PER_CORE = 4
"""Number of bundles per core. It is greater than one so that a core that finishes a bundle early
can process another bundle.
"""
FILES_PER_BUNDLE = 2
"""Number of log bytes in the largest bundle, as a multiple of the file size. It is greater than one
because a Parquet file is often smaller than the part of the log that it contains.
"""


@dataclass
class Bundle:
    """Splits of one topic, in order of partition and offset, that a task writes to the same files."""

    number: int
    splits: list[Split]

    @property
    def bytes(self) -> int:
        """Total size of the splits, in bytes."""
        return sum(split.bytes for split in self.splits)


def bundle_bytes(options: ExportOptions, total: int, cores: int) -> int:
    """Return the size of a bundle in bytes, for a log of `total` bytes."""
    if options.split_bytes:
        return options.split_bytes
    most = max(SPLIT_BYTES, FILES_PER_BUNDLE * options.file_size)
    return max(share(total, cores, SMALLEST_BUNDLE, most), total // MAX_BUNDLES)


def share(total: int, cores: int, least: int, most: int) -> int:
    """Return a size in bytes that lets each core process several tasks or bundles of this size.

    `least` and `most` are the limits of the result.
    """
    return min(max(total // (cores * BUNDLES_PER_CORE), least), most)


def bundle_splits(splits: Iterable[Split], first: int, size: int, joined: bool = False) -> list[Bundle]:
    """Combine adjacent splits into bundles of about `size` bytes.

    Parameters
    ----------
    splits : iterable of Split
        Splits in order of topic, partition and offset.
    first : int
        Number of the first bundle.
    size : int
        Size of a bundle, in bytes. A small split may exceed it by a quarter, to avoid a small file.
    joined : bool, default False
        Whether a bundle may contain several partitions of one topic.
    """
    bundles: list[Bundle] = []
    filled = 0
    for split in splits:
        last = bundles[-1].splits[-1] if bundles else None
        fits = filled + split.bytes <= size + size // 4
        same = last is not None and last.topic == split.topic and (joined or last.partition == split.partition)
        if not same or not fits:
            bundles.append(Bundle(first + len(bundles), []))
            filled = 0
        bundles[-1].splits.append(split)
        filled += split.bytes
    return bundles
