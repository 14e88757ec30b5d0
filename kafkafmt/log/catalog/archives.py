"""Find log directories inside tar and zip files."""

from __future__ import annotations

import re

from ...support.paths import Location, UrlPath
from ..formats import parse_partition_name
from ..storage import list_directory

_ARCHIVE = re.compile(r"\.(?:(?P<zip>zip)|tar|tar\.gz|tgz|tar\.xz|txz|tar\.bz2|tbz2?)\Z", re.IGNORECASE)
"""Suffixes of the archives that Python can read. Compressed ones are decompressed into a temporary file."""
LEVELS = 4  # maximum number of nested single directories that are entered to find the logs in an archive


def archive_root(path: Location) -> UrlPath | None:
    """Return the URL of the directory to read inside a tar or zip file, or None for any other file."""
    # Many archives contain a single directory. It is returned unless it is a partition directory.
    found = _ARCHIVE.search(path.name)
    if found is None or (isinstance(path, UrlPath) and path.chain):
        return None
    place = UrlPath(
        f"{'zip' if found['zip'] else 'tar'}://::{path.url if isinstance(path, UrlPath) else f'file://{path}'}"
    )
    for _ in range(LEVELS):
        directories, names = list_directory(place)
        if names or len(directories) != 1 or parse_partition_name(directories[0]).parsed:
            break
        place /= directories[0]
    return place
