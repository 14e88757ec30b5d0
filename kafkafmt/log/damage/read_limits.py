"""Define `ReadLimits`, the settings for reading segments."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ...constants import DEFAULT_MAX_BATCH_BYTES


@dataclass(frozen=True)
class ReadLimits:
    """Settings for reading segments, except for the selection of records.

    Attributes
    ----------
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression. A larger batch is reported as
        damage.
    run_bytes : int, optional
        Ranges of adjacent valid batches are divided at about this size, in bytes. By default, they
        are not divided.
    """

    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    run_bytes: int = sys.maxsize


DEFAULT_LIMITS = ReadLimits()
