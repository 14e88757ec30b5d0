"""Define the members of a classic group, and the requests and results of joining it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import NamedTuple

from ...protocol import ErrorCode


class JoinRequest(NamedTuple):
    """The fields of a JoinGroup request that the state of the group depends on. Times are in seconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each protocol, in the order of the member's preference."""
    requires_known_id: bool = True
    """Whether the member understands MEMBER_ID_REQUIRED (version 4 and later)."""
    can_skip_assignment: bool = True
    """Whether the member understands `skip_assignment` in the response (version 9 and later)."""


class JoinedMember(NamedTuple):
    """A member in the list that the leader gets."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The result of joining a group."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The result of SyncGroup: the member's assignment."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


RespondToJoin = Callable[[JoinResult], None]
RespondToSync = Callable[[SyncResult], None]

MEMBER_BYTES = 1024
"""Approximate memory of a member without its texts, metadata and assignment."""


@dataclass
class Member:
    """A member of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: tuple[tuple[str, bytes], ...]
    deadline: float
    """The member is removed at this time, unless it sends a request earlier."""
    is_new: bool = True
    """Whether the member still waits for its first generation. It cannot send heartbeats yet."""
    assignment: bytes = b""
    respond_to_join: RespondToJoin | None = field(default=None, repr=False)
    respond_to_sync: RespondToSync | None = field(default=None, repr=False)

    @property
    def awaits_join(self) -> bool:
        """Whether a JoinGroup request of the member has no response yet."""
        return self.respond_to_join is not None

    @property
    def can_expire(self) -> bool:
        """Whether the deadline applies. It does not while the member waits for the other members."""
        return self.is_new or (self.respond_to_join is None and self.respond_to_sync is None)

    @property
    def size(self) -> int:
        """Approximate memory of the member, in bytes."""
        texts = sum(map(getsizeof, (self.member_id, self.instance_id, self.client_id, self.client_host)))
        return MEMBER_BYTES + texts + protocols_size(self.protocols) + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol, or b"" if it does not support the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def finish_join(self, result: JoinResult) -> None:
        """Respond to the open JoinGroup request, if there is one."""
        respond, self.respond_to_join = self.respond_to_join, None
        if respond is not None:
            respond(result)

    def finish_sync(self, result: SyncResult) -> None:
        """Respond to the open SyncGroup request, if there is one."""
        respond, self.respond_to_sync = self.respond_to_sync, None
        if respond is not None:
            respond(result)


def protocols_size(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """Return the approximate memory of a member's protocols, in bytes."""
    return sum(100 + getsizeof(name) + len(metadata) for name, metadata in protocols)
