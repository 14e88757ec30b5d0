"""Read consumer groups and their committed offsets from the log."""

from .group_choice import GroupNotFoundError, choose_from_group, read_groups
from .group_records import GROUPS_TOPIC
from .groups import CommittedOffset, Group, GroupState, Member, groups_dict, read_group_state

__all__ = [
    "GROUPS_TOPIC", "CommittedOffset", "Group", "GroupNotFoundError", "GroupState", "Member", "choose_from_group",
    "groups_dict", "read_group_state", "read_groups",
]  # fmt: skip
