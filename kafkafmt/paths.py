"""Convert a user's paths to local paths, and reject paths that are not local.

Every path that a user passes in Python, on the command line or in Spark is converted by
`local_path`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

REMOTE = frozenset("abfs abfss adl cos dbfs ftp gs hdfs http https oss s3 s3a s3n sftp viewfs wasb wasbs".split())
"""URL schemes that are rejected even if no slash follows the colon. Other text before a colon, such
as a drive letter, is a scheme only if a slash or backslash follows the colon.
"""
_URL = re.compile(r"[^/\\]*://")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def local_path(path: str | os.PathLike[str]) -> str:
    """Convert a path from a user to a local path.

    Parameters
    ----------
    path : str or os.PathLike
        A local path, or a ``file:`` URL: ``file:/x``, ``file:///x`` or ``file://localhost/x``.

    Returns
    -------
    str
        A path without a scheme is returned unchanged. The path of a ``file:`` URL is absolute and
        percent-decoded. If only a file with the undecoded name exists, the path is not decoded,
        because Hadoop's ``Path`` in Spark does not decode URLs either.

    Raises
    ------
    ValueError
        The path has another scheme (``s3://…``, ``dbfs:/…``), has a drive letter, or names another
        host.

    Notes
    -----
    To use a local file whose name begins like a URL scheme, pass its absolute path, or a path such
    as ``./s3:/x``.
    """
    text = os.fspath(path)
    scheme = _scheme(text)
    if scheme == "file":
        return _path_of_url(text)
    if scheme is not None:
        what = f"a path with the scheme {scheme!r}" if len(scheme) != 1 else "a path with a drive letter"
        raise ValueError(
            f"{text}: only local files can be used, not {what}; to use a local file with this name, pass its absolute path"
        )
    return os.path.abspath(text) if text and _scheme(str(Path(text))) else text  # pathlib drops a leading "./"


def _scheme(text: str) -> str | None:
    """Return the scheme of a path in lower case, or None if it has no scheme."""
    found = _SCHEME.match(text)
    if found and (found[1].lower() in REMOTE or found[1].lower() == "file" or found[2][:1] in ("/", "\\")):
        return found[1].lower()
    return text.partition("://")[0] if _URL.match(text) else None


def _path_of_url(url: str) -> str:
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        host, _, tail = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise ValueError(
                f"{url}: only local files can be used, not files on the host {host!r}; the URL of a local file begins with file:///"
            )
        rest = f"/{tail}"
    literal = f"/{rest.lstrip('/')}"
    decoded = unquote(literal, errors="surrogateescape")
    if not rest.startswith("/") or literal == "/" or "\0" in decoded:
        raise ValueError(f"{url} is not a URL of a local file; an example is file:///var/lib/kafka/data")
    return literal if os.path.lexists(literal) and not os.path.lexists(decoded) else decoded
