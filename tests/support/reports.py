"""Return the verify report of one partition, in its JSON form."""

from __future__ import annotations

from typing import Any

from kafkafmt.log import PartitionLog
from kafkafmt.log.verifying import verify_api as verify


def verify_partition(log: PartitionLog, shallow: bool = False) -> dict[str, Any]:
    """Return the report as a dict, which makes assertions shorter."""
    return verify.verify_partition(log, shallow).to_dict()
