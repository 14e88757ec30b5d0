"""Find the logs in tar and zip files."""

from __future__ import annotations

from ...paths import Location, UrlPath
from ..format import files
from ..format.names import parse_partition_name

SCHEMES = {".tar": "tar", ".zip": "zip"}
LEVELS = 4
"""Greatest number of directories that are entered because each is alone in its parent."""


def archive_root(path: Location) -> UrlPath | None:
    """Return the directory in a tar or zip file in which logs are searched, or None for any other file.

    If an archive contains only one directory, this is that directory, unless it is a partition.
    Archives are often made of a directory.
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
