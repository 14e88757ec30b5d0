"""Define `ReadLimits`, the settings for reading segments."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ...constants import DEFAULT_MAX_BATCH_BYTES


@dataclass(frozen=True)
class ReadLimits:
    """Settings for reading segments, except for the selection of records."""

    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES  # decompressed; a larger batch is damage
    run_bytes: int = sys.maxsize  # ranges of valid batches are divided at about this size


DEFAULT_LIMITS = ReadLimits()
