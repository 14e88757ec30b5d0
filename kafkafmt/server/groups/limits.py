"""Define the limits that prevent hostile clients from filling the server's memory with groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GroupLimits:
    """Limits and timeouts of consumer groups. All times are in seconds.

    Attributes
    ----------
    groups : int
        Largest number of groups. Groups from the log directories and from the groups file count
        towards this limit, but they are loaded even if they exceed it.
    members : int
        Largest number of members of one group, like Kafka's ``group.max.size``.
    bytes : int
        Largest estimated memory of all groups and commits, in bytes. `MEMBER_BYTES` and
        `COMMIT_BYTES` are part of the estimate. Groups and commits from the log directories do not
        count.
    metadata_length : int
        Largest length of the metadata of one commit in UTF-16 code units, like Kafka's
        ``offset.metadata.max.bytes``.
    min_session_timeout, max_session_timeout : float
        Shortest and longest session timeout that a member may request, like Kafka's
        ``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``.
    initial_rebalance_delay : float
        Time for which an empty group waits for more members after the first member joins, like
        Kafka's ``group.initial.rebalance.delay.ms``. Kafka's default is 3 seconds. The default of
        the server is 0, so that a tool with one consumer starts immediately.
    new_member_timeout : float
        Time after which a new member is removed if its first rebalance is not complete.
    """

    groups: int = 10_000
    members: int = 1_000
    bytes: int = 64 << 20
    metadata_length: int = 4096
    min_session_timeout: float = 6.0
    max_session_timeout: float = 1800.0
    initial_rebalance_delay: float = 0.0
    new_member_timeout: float = 300.0
