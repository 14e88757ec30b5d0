"""Index the members of a classic group by member id and by group instance id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...protocol import ErrorCode
from .members import Member


class MemberTable:
    """The members of a classic group, in the order in which they joined."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        """The member id of each static member, by group instance id."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def first(self) -> str | None:
        """Return the id of the member that joined first, or None if the group has no members."""
        return next(iter(self._members), None)

    def id_of_instance(self, instance_id: str | None) -> str | None:
        """Return the member id of the static member with this instance id, or None if there is none."""
        return None if instance_id is None else self._static.get(instance_id)

    def add(self, member: Member) -> None:
        """Add a member after all existing members."""
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id

    def remove(self, member: Member) -> None:
        del self._members[member.member_id]
        if member.instance_id is not None:
            del self._static[member.instance_id]

    def rename(self, member: Member, member_id: str) -> None:
        """Change the member id of a static member, and keep the order of all members."""
        assert member.instance_id is not None
        old, member.member_id = member.member_id, member_id
        self._members = {(member_id if known == old else known): value for known, value in self._members.items()}
        self._static[member.instance_id] = member_id

    def id_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE if the ids of a request are valid. Otherwise, return an error code."""
        # UNKNOWN_MEMBER_ID: no member has the id. FENCED_INSTANCE_ID: the static member with this
        # instance id has another id.
        if instance_id is None:
            return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID
        known = self._static.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if known == member_id else ErrorCode.FENCED_INSTANCE_ID

    def rebalance_timeout(self) -> float:
        """Return the longest rebalance timeout among all members, in seconds."""
        return max((member.rebalance_timeout for member in self), default=0.0)

    def common_protocols(self) -> set[str]:
        names = [{name for name, _ in member.protocols} for member in self]
        return set.intersection(*names) if names else set()

    def select_protocol(self) -> str:
        """Return the protocol with the most votes. A member votes for its first protocol that all members support."""
        candidates = self.common_protocols()
        votes: Counter[str] = Counter()
        for member in self:
            votes.update(next(([name] for name, _ in member.protocols if name in candidates), ()))
        return votes.most_common(1)[0][0]
