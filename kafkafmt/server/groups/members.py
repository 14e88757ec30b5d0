"""Define the members of classic groups, and the JoinGroup and SyncGroup fields that affect these groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import getsizeof
from typing import NamedTuple

from ...protocol import ErrorCode


class JoinRequest(NamedTuple):
    """The fields of a JoinGroup request that affect the state of the group. Times are in seconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each protocol that the member supports. The preferred protocol is first."""
    requires_known_id: bool = True
    """Whether the client supports the error MEMBER_ID_REQUIRED (JoinGroup version 4 and later)."""
    can_skip_assignment: bool = True
    """Whether the client supports `skip_assignment` in the response (JoinGroup version 9 and later)."""


class JoinedMember(NamedTuple):
    """A member in the list of members that a JoinGroup response sends to the leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The fields of a JoinGroup response that depend on the state of the group."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The fields of a SyncGroup response, such as the assignment of the member."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


RespondToJoin = Callable[[JoinResult], None]
RespondToSync = Callable[[SyncResult], None]

MEMBER_BYTES = 1024
"""Approximate memory of a member without its strings, metadata and assignment, in bytes."""


@dataclass
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: tuple[tuple[str, bytes], ...]
    deadline: float
    """Time at which the server removes the member if it has received no request from the member."""
    is_new: bool = True
    """Whether the first rebalance of the member is not complete yet. Such a member cannot send heartbeats."""
    assignment: bytes = b""
    respond_to_join: RespondToJoin | None = field(default=None, repr=False)
    respond_to_sync: RespondToSync | None = field(default=None, repr=False)

    @property
    def awaits_join(self) -> bool:
        return self.respond_to_join is not None

    @property
    def can_expire(self) -> bool:
        """Whether the member expires at its deadline."""
        # While it waits for JoinGroup or SyncGroup, only a new member does.
        return self.is_new or (self.respond_to_join is None and self.respond_to_sync is None)

    @property
    def size(self) -> int:
        """Approximate memory for this group member, in bytes."""
        texts = sum(map(getsizeof, (self.member_id, self.instance_id, self.client_id, self.client_host)))
        return MEMBER_BYTES + texts + protocols_size(self.protocols) + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol, or b"" if the member does not support the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def finish_join(self, result: JoinResult) -> None:
        """Respond to the member's JoinGroup request, unless a response was already sent."""
        respond, self.respond_to_join = self.respond_to_join, None
        if respond is not None:
            respond(result)

    def finish_sync(self, result: SyncResult) -> None:
        """Respond to the member's SyncGroup request, unless a response was already sent."""
        respond, self.respond_to_sync = self.respond_to_sync, None
        if respond is not None:
            respond(result)


def protocols_size(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """Return the approximate memory of the names and metadata of a member's protocols, in bytes."""
    return sum(100 + getsizeof(name) + len(metadata) for name, metadata in protocols)
