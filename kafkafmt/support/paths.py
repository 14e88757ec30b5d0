"""Interpret user input as local paths or URLs.

`input_path` converts the paths and URLs of logs, and `output_path` the local paths to which the Python
API writes. `local_path` converts the paths of other files.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .text import shown

REMOTE = frozenset("abfs abfss adl cos dbfs ftp gs hdfs http https oss s3 s3a s3n sftp viewfs wasb wasbs".split())
"""Schemes that are recognized without a slash after the colon. Others, such as a drive letter, need one."""
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers for a full disk, a quota, and a file that is too large."""
LONGEST_PATH = 32_768
"""Largest length of a path or URL. File systems have lower limits."""
_URL = re.compile(r"[^/\\]*://")
_URL_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^\s'\"<>]*")
_USER = re.compile(r"(://)([^/?#]*)@")
_SECRET_PARAMETER = re.compile(
    r"([?&;](?:sig|[\w.-]*(?:signature|token|secret|passw|pwd|credential|access-?key|api[_-]?key)[\w.-]*|x-(?:amz|goog)-[\w-]*)=)"
    r"(?:(?!::|[:;,.]+$)[^&])*",
    re.IGNORECASE,
)
_WITHOUT_SLASHES = re.compile(rf"\b((?:{'|'.join(sorted(REMOTE))}):/?)[^/\s'\"]+@", re.IGNORECASE)
_CONTAINER_AS_USER = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes whose URLs contain the name of a container where other URLs contain a user."""
HIDDEN = "(hidden)"
"""Text that replaces a secret in a URL."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


def without_secrets(text: str) -> str:
    """Replace the secrets in all URLs of a text: users with their passwords, signatures and tokens."""
    # For messages and reports with a path as the user has given it, or with a message of another
    # library. The text of a `UrlPath` never contains a secret.
    if "@" not in text and "=" not in text:
        return text
    return _URL_IN_TEXT.sub(_hide, _WITHOUT_SLASHES.sub(rf"\1{HIDDEN}@", text))


def _hide(found: re.Match[str]) -> str:
    url = "::".join(_USER.sub(_hide_user, part, count=1) for part in found[0].split("::"))
    return _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", url)


def _hide_user(found: re.Match[str]) -> str:
    scheme = found.string[: found.start()].lower()
    return found[0] if scheme in _CONTAINER_AS_USER and ":" not in found[2] else f"://{HIDDEN}@"


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the local path for a path or ``file:`` URL that a user has given."""
    # A ``file:`` URL (``file:/x``, ``file:///x``, ``file://localhost/x``) becomes an absolute path
    # and is percent-decoded, unless a file exists only under the undecoded name: Hadoop's ``Path``
    # in Spark does not decode URLs. ValueError: another scheme, a drive letter, or another host. A
    # local file whose name begins with a URL scheme needs a path such as ``./s3:/x``.
    text = os.fspath(path)
    if text:
        _check_length(text)
    scheme = _scheme(text)
    if scheme == "file":
        return _path_of_url(text)
    if scheme is not None:
        what = f"a path with the scheme {shown(scheme)}" if len(scheme) != 1 else "a path with a drive letter"
        raise ValueError(
            f"{without_secrets(text)}: only local files can be used, not {what}; to use a local file with this name, "
            "pass its absolute path"
        )
    return os.path.abspath(text) if text and _scheme(str(Path(text))) else text  # pathlib removes a leading "./".


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
                f"{without_secrets(url)}: only local files can be used, not files on another host; the URL of a local "
                "file begins with file:///"
            )
        rest = f"/{tail}"
    literal = f"/{rest.lstrip('/')}"
    decoded = unquote(literal, errors="surrogateescape")
    if not rest.startswith("/") or literal == "/" or "\0" in decoded:
        raise ValueError(
            f"{without_secrets(url)} is not a URL of a local file; an example is file:///var/lib/kafka/data"
        )
    return literal if os.path.lexists(literal) and not os.path.lexists(decoded) else decoded


def output_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute local path for an output path that a user has given (see `local_path`)."""
    check_output(path)
    _check_length(os.fspath(path))
    return Path(os.path.abspath(local_path(path)))


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise TypeError if an output path that a user has given is neither a str nor an os.PathLike."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"an output must be a path, not {shown(path)}")


def _check_length(text: str) -> None:
    if not text:  # For an empty path, abspath() would return the working directory.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "''")
    if len(text) > LONGEST_PATH:  # The system's own error would contain the whole path.
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), shown(text))


class UrlError(ValueError):
    """Raised if a URL is wrong or cannot be used. The error message is a single line."""


WITHOUT_HOST = frozenset("memory zip tar libarchive".split())
"""Schemes whose URLs name no host or bucket. The path begins directly after `://`."""


if TYPE_CHECKING:
    _Base = Path  # Type checkers treat a UrlPath as a Path, because most code handles both in the same way.
else:
    _Base = object


class UrlPath(_Base):
    """The URL of a file or directory that is not local. It has some of the methods of `pathlib.Path`."""

    # `str` returns no password, signature or token. `url` is the whole URL, whose path is not
    # percent-decoded.

    __slots__ = ("chain", "key", "root")

    root: str  # the URL up to the host or bucket, without a slash at its end
    key: str  # the path after the root, without a slash at its start or end
    chain: str  # the other URLs of a URL chain of fsspec, starting with ``::``, or ""

    def __init__(self, url: str) -> None:
        first, colons, chain = url.partition("::")
        scheme, _, rest = first.partition("://")
        scheme = scheme.lower()
        host, _, key = ("", "", rest) if scheme in WITHOUT_HOST else rest.partition("/")
        parts = [part for part in key.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise UrlError(f"{without_secrets(url)}: a URL must not contain '..'")
        if not host and scheme not in WITHOUT_HOST:
            raise UrlError(f"{without_secrets(url)}: the URL names no host or bucket; write {scheme}://NAME/PATH")
        self.root = f"{scheme}://{host}"
        self.key = "/".join(parts)
        self.chain = colons + chain

    @property
    def scheme(self) -> str:
        """Scheme, in lower case."""
        return self.root.partition(":")[0]

    @property
    def name(self) -> str:
        """The last part of the path. If the path is empty, this is the name of the host, bucket or archive."""
        archive = os.path.splitext(self.chain.rpartition("/")[2])[0]
        if name := self.key.rpartition("/")[2]:
            return _SECRET_PARAMETER.sub(rf"\1{HIDDEN}", name) if "=" in name else name
        return without_secrets(self.root).rpartition("/")[2].removeprefix(f"{HIDDEN}@") or archive

    @property
    def suffix(self) -> str:
        """Extension of the name, with its dot, or an empty string."""
        return os.path.splitext(self.name)[1]

    @property
    def parent(self) -> UrlPath:
        """URL of the directory that contains this file or directory. The parent of the root is the root."""
        return self._with(self.key.rpartition("/")[0])

    def with_name(self, name: str) -> UrlPath:
        """Return the URL of another file in the same directory."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> UrlPath:
        return self._with(os.path.splitext(self.key)[0] + suffix)

    def __truediv__(self, name: str | os.PathLike[str]) -> UrlPath:
        return self._with(f"{self.key}/{os.fspath(name)}" if self.key else os.fspath(name))

    def _with(self, key: str) -> UrlPath:
        made = UrlPath.__new__(UrlPath)
        made.root, made.key, made.chain = self.root, key, self.chain
        return made

    @property
    def url(self) -> str:
        """The whole URL, which can contain secrets."""
        slash = "" if self.root.endswith("://") or not self.key else "/"
        return f"{self.root}{slash}{self.key}{self.chain}"

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __repr__(self) -> str:
        return f"UrlPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlPath) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> tuple[type[UrlPath], tuple[str]]:
        return UrlPath, (self.url,)


Location = Path | UrlPath
"""Local path or URL of a file or directory."""


def is_url(text: str) -> bool:
    """Return whether a path is a URL with a scheme other than ``file``, such as ``s3://bucket/x``."""
    scheme = _scheme(text)
    return "://" in text and scheme != "file" and re.fullmatch(r"[a-z][a-z0-9+.-]+", scheme or "") is not None


def input_path(path: str | os.PathLike[str] | UrlPath) -> Location:
    """Return the absolute local path or the URL for a path that a user has given."""
    # A missing package for the scheme of a URL is an error only when a file is opened.
    if isinstance(path, UrlPath):
        return path
    text = os.fspath(path)
    _check_length(text)
    if is_url(text):
        return UrlPath(text)
    scheme = _scheme(text)
    if scheme in REMOTE:
        raise UrlError(f"{without_secrets(text)}: a URL has two slashes after its scheme, as in {scheme}://NAME/PATH")
    return Path(os.path.abspath(local_path(text)))


def check_local(path: Location, what: str) -> Path:
    """Return `path` if it is local. For a URL, raise UrlError with a message about the unsupported action `what`."""
    if isinstance(path, UrlPath):
        raise UrlError(f"{path}: only local files can be {what}; copy the files first")
    return path


def is_device_or_pipe(path: Path) -> bool:
    """Return whether a path names a device or a pipe, such as /dev/stdout, which must not be replaced with a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


class TemporaryFilesError(OSError):
    """Raised if there is no space for a temporary file. It contains the path of the directory for temporary files."""


class full_disk_named:
    """Convert errors about a full disk, a quota or a too large file, so that they contain the path `output`."""

    # Without this, such an error contains the path of the copied input, or no path. A
    # `TemporaryFilesError` concerns another disk. This is a class, because a generator takes five
    # times as long, and `salvage` enters it for each file that it writes.

    __slots__ = ("_output",)

    def __init__(self, output: str | os.PathLike[str]) -> None:
        self._output = output

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.errno in FULL_DISK and not isinstance(error, TemporaryFilesError):
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(self._output)) from error
