"""Find log directories inside tar and zip files."""

from __future__ import annotations

from ...support.paths import Location, UrlPath
from ..formats import parse_partition_name
from ..storage import list_directory

SCHEMES = {".tar": "tar", ".zip": "zip"}
LEVELS = 4  # maximum number of nested single directories that are entered to find the logs in an archive


def archive_root(path: Location) -> UrlPath | None:
    """Return the URL of the directory to read inside a tar or zip file, or None for any other file."""
    # Many archives contain a single directory. It is returned unless it is a partition directory.
    scheme = SCHEMES.get(path.suffix)
    if scheme is None or (isinstance(path, UrlPath) and path.chain):
        return None
    place = UrlPath(f"{scheme}://::{path.url if isinstance(path, UrlPath) else f'file://{path}'}")
    for _ in range(LEVELS):
        directories, names = list_directory(place)
        if names or len(directories) != 1 or parse_partition_name(directories[0]).parsed:
            break
        place /= directories[0]
    return place
