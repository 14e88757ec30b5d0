"""Define the limits that prevent hostile clients from filling the server's memory with groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GroupLimits:
    """Limits and timeouts of consumer groups. All times are in seconds."""

    groups: int = 10_000  # loaded groups count, but are loaded even if they exceed the limit
    members: int = 1_000  # of one group, like Kafka's ``group.max.size``
    bytes: int = 64 << 20  # estimated; without the commits from the log directories
    metadata_length: int = 4096  # in UTF-16 code units, like ``offset.metadata.max.bytes``
    min_session_timeout: float = 6.0  # like ``group.min.session.timeout.ms``
    max_session_timeout: float = 1800.0  # like ``group.max.session.timeout.ms``
    initial_rebalance_delay: float = 0.0  # Kafka's is 3; 0 lets a tool with one consumer start at once
    new_member_timeout: float = 300.0  # a new member is removed if its first rebalance takes longer
