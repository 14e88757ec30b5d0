"""Read consumer groups and their committed offsets from the log."""

from typing import TYPE_CHECKING

from ...support.on_demand import names_on_demand
from .group_records import GROUPS_TOPIC
from .groups import CommittedOffset, Group, GroupState, Member, groups_dict, read_group_state

if TYPE_CHECKING:
    from .group_choice import GroupNotFoundError, choose_from_group, read_groups
else:
    __getattr__ = names_on_demand(
        __name__,
        {
            "group_choice": ("GroupNotFoundError", "choose_from_group", "read_groups"),
        },
    )  # fmt: skip

__all__ = [
    "GROUPS_TOPIC", "CommittedOffset", "Group", "GroupNotFoundError", "GroupState", "Member", "choose_from_group",
    "groups_dict", "read_group_state", "read_groups",
]  # fmt: skip
