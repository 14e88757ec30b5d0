"""Find the logs in tar and zip files."""

from __future__ import annotations

from ...paths import Location, UrlPath
from ..format import files
from ..format.names import parse_partition_name

SCHEMES = {".tar": "tar", ".zip": "zip"}
LEVELS = 4
"""Maximum number of nested directories that are entered.

A directory is entered only if its parent contains nothing else.
"""


def archive_root(path: Location) -> UrlPath | None:
    """Return the directory to search for logs inside a tar or zip file. Return None for any other file.

    Archives are often created from a single directory. If an archive contains only one directory,
    that directory is returned, unless it is a partition directory.
    """
    scheme = SCHEMES.get(path.suffix)
    if scheme is None or (isinstance(path, UrlPath) and path.chain):
        return None
    place = UrlPath(f"{scheme}://::{path if isinstance(path, UrlPath) else f'file://{path}'}")
    for _ in range(LEVELS):
        directories, names = files.list_directory(place)
        if names or len(directories) != 1 or parse_partition_name(directories[0]).parsed:
            break
        place /= directories[0]
    return place
