"""Find the logs in tar and zip files."""

from __future__ import annotations

from ...paths import Location, UrlPath
from ..format import files
from ..format.names import parse_partition_name

SCHEMES = {".tar": "tar", ".zip": "zip"}
LEVELS = 4
"""Maximum depth of nested directories that are entered if each of them contains only the next one."""


def archive_root(path: Location) -> UrlPath | None:
    """Return the directory inside a tar or zip file that is searched for logs, or None for any other file.

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
