"""Define the limits that keep hostile clients from filling the server's memory with groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GroupLimits:
    """Limits and times of groups. All times are in seconds.

    Attributes
    ----------
    groups : int
        Largest number of groups. Groups from the log directories and from the groups file count,
        but are never refused.
    members : int
        Largest number of members of one group, as Kafka's ``group.max.size``.
    bytes : int
        Largest total memory of all groups and commits, as `MEMBER_BYTES` and `COMMIT_BYTES`
        estimate it. What the log directories contain does not count.
    metadata_bytes : int
        Largest size of the metadata of one commit, as Kafka's ``offset.metadata.max.bytes``.
    min_session_timeout, max_session_timeout : float
        As Kafka's ``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``.
    initial_rebalance_delay : float
        Time for which an empty group waits for more members after the first one, as Kafka's
        ``group.initial.rebalance.delay.ms``. Kafka's default is 3 seconds. It is 0 here, so that a
        tool with one consumer starts immediately.
    new_member_timeout : float
        Time after which a member is removed if it never gets its first generation.
    """

    groups: int = 10_000
    members: int = 1_000
    bytes: int = 64 << 20
    metadata_bytes: int = 4096
    min_session_timeout: float = 6.0
    max_session_timeout: float = 1800.0
    initial_rebalance_delay: float = 0.0
    new_member_timeout: float = 300.0
