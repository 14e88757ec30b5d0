"""Coordinate consumer groups: manage their members, rebalances and committed offsets."""

from .apis import GroupApis
from .limits import GroupLimits
from .offsets_file import GroupsFileError

__all__ = ["GroupApis", "GroupLimits", "GroupsFileError"]
