"""Search for Kafka logs below a path that contains none, so that the error message can name them."""

from __future__ import annotations

from ...support.paths import Location, UrlPath
from ..formats import base_of, parse_partition_name
from ..storage import list_directory

MAX_DIRECTORIES = 200  # maximum number of directories that are searched


def nearby_logs(path: Location) -> str:
    """Search for logs at most two levels below `path`. Return a hint for an error message, or an empty string."""
    found: list[str] = []
    if isinstance(path, UrlPath):
        # Remote directories are not searched, because each of them would require a request.
        return ""
    level, left = list[Location]([path]), MAX_DIRECTORIES
    for _ in range(2):
        following: list[Location] = []
        for parent in level:
            for child in _directories(parent)[:left]:
                left -= 1
                inner = _directories(parent / child)
                if any(
                    parse_partition_name(name).parsed and _has_log(parent / child / name)
                    for name in inner[:MAX_DIRECTORIES]
                ):
                    found.append(str(parent / child))
                else:
                    following.append(parent / child)
        level = following
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"; there {'is a log' if len(found) == 1 else 'are logs'} in {', '.join(found[:3])}{more}" if found else ""


def _directories(path: Location) -> list[str]:
    try:
        return list_directory(path)[0]
    except OSError:
        return []


def _has_log(path: Location) -> bool:
    try:
        return any(base_of(name) is not None for name in list_directory(path)[1])
    except OSError:
        return False
