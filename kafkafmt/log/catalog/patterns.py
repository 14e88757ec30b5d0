"""Expand paths that contain wildcards."""

from __future__ import annotations

import errno
import fnmatch
import glob

from ...support.paths import Location, UrlPath
from ..storage import list_directory, path_exists


def matching(path: Location) -> list[Location]:
    """Expand the wildcards `*`, `?` and `[...]` of a path to the sorted paths that match (at least one)."""
    # They do not match slashes. A path that exists literally is returned unchanged.
    if not glob.has_magic(str(path)) or path_exists(path):
        return [path]
    if isinstance(path, UrlPath):
        found: list[Location] = list(_matching_urls(path))
    else:
        found = [type(path)(name) for name in sorted(glob.glob(str(path)))]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "nothing matches the pattern", str(path))
    return found


def _matching_urls(path: UrlPath) -> list[UrlPath]:
    """Return the sorted URLs of all files and directories that match a pattern."""
    root = path
    while root.key:
        root = root.parent
    found, unchecked = [root], False
    for part in path.key.split("/"):
        if not glob.has_magic(part):
            found, unchecked = [folder / part for folder in found], True
            continue
        children = []
        for folder in found:
            try:
                directories, names = list_directory(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            hidden = part.startswith(".")
            children += [
                folder / name
                for name in sorted([*directories, *names])
                if fnmatch.fnmatchcase(name, part) and (hidden or not name.startswith("."))
            ]
        found, unchecked = children, False
    return [place for place in found if not unchecked or path_exists(place)]
