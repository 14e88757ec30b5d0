"""Return the verify report of one partition as in the JSON output."""

from __future__ import annotations

from typing import Any

from kafkafmt.log import PartitionLog
from kafkafmt.log.auditing import verify


def verify_partition(log: PartitionLog, shallow: bool = False) -> dict[str, Any]:
    """Return the report as a dict, which is shorter to write in assertions."""
    return verify.verify_partition(log, shallow).to_dict()
