"""Read and write the groups file, which keeps committed offsets across restarts of the server.

The file contains one JSON object per line. The first line is ``{"kafkafmt_groups": 1}``. Each
other line changes the groups and commits that the server has read from the log directories. If two
lines concern the same commit or group, the later line applies. A line has one of these forms:

- ``{"group": "g", "topic": "t", "partition": 0, "offset": 5, "leader_epoch": -1, "metadata": "",
  "timestamp": 1700000000000}``: the group commits an offset;
- ``{"group": "g", "topic": "t", "partition": 0}``: the commit is deleted;
- ``{"group": "g", "protocol_type": "consumer", "generation": 3}``: the group has this protocol type and generation.
  For groups that use KIP-848, the line also contains ``"type": "consumer"``;
- ``{"group": "g"}``: the group is deleted.

The server appends each change to the file. If the last line is incomplete, it is ignored and
reported. A last line that lacks only its line break is complete. The server rewrites the file
without outdated lines when the server starts, and when the file contains many outdated lines. The
new file replaces the old file by an atomic rename.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from ...support.paths import full_disk_named

HEADER = {"kafkafmt_groups": 1}
_HEADER_LINE = json.dumps(HEADER).encode() + b"\n"
SPARE_LINES = 10_000
"""Rewrite the groups file if more lines were appended than it had before, and this many more."""
SPARE_BYTES = 64 << 20
"""Appended bytes after which the file is rewritten. Long names can make 10,000 lines as large as 2 GB."""
MAX_BYTES = 256 << 20
"""Size of the largest groups file that the server reads, in bytes. The server writes no larger file."""
FOR_DELETIONS = 1 / 16
"""Part of `MAX_BYTES` that only deletions can use, so that a client can delete groups if the file is full."""
FULL_INTERVAL = 60.0
"""Least number of seconds between two rewrites of a full file. Each rewrite can take seconds."""
TEXT = range(2**15)
"""The lengths in bytes of a string that a response can contain."""
INT32, INT64 = range(2**31), range(2**63)
FIELDS: dict[str, tuple[type[str] | type[int], range]] = {
    "group": (str, TEXT), "topic": (str, TEXT), "partition": (int, INT32), "offset": (int, INT64),
    "leader_epoch": (int, range(-1, 2**31)), "metadata": (str, TEXT), "timestamp": (int, range(-(2**63), 2**63)),
    "protocol_type": (str, TEXT), "generation": (int, INT32), "type": (str, TEXT),
}  # fmt: skip
"""Type of each field, with the valid values of a number or the valid lengths of a string in UTF-8."""
MOST_SHOWN = 100
"""Largest number of characters of a line or value in an error message."""
KINDS = (
    {"group"},
    {"group", "protocol_type", "generation"},
    {"group", "topic", "partition"},
    {"group", "topic", "partition", "offset", "leader_epoch", "metadata", "timestamp"},
    {"group", "protocol_type", "generation", "type"},
)
"""The sets of fields that a line of the groups file may have."""


class GroupsFileError(ValueError):
    """Raised if a file is not a valid groups file, or if another server uses it."""


class GroupsFileFullError(OSError):
    """Raised if a change would make the groups file larger than `MAX_BYTES`."""


class Entry(NamedTuple):
    """One line of the groups file: a group change or an offset commit. Missing fields have their defaults."""

    group: str
    topic: str | None = None
    partition: int = 0
    offset: int | None = None
    leader_epoch: int = -1
    metadata: str = ""
    timestamp: int = -1
    protocol_type: str | None = None
    generation: int = 0
    type: str = "classic"

    def to_dict(self) -> dict[str, Any]:
        if self.protocol_type is not None:
            kind = KINDS[1] if self.type == "classic" else KINDS[4]
        elif self.topic is None:
            kind = KINDS[0]
        else:
            kind = KINDS[2] if self.offset is None else KINDS[3]
        return {name: value for name, value in self._asdict().items() if name in kind}


class GroupsFile:
    """A groups file that is open and locked, so that only one server at a time uses it."""

    # It is created if it is missing.

    def __init__(self, path: Path) -> None:
        # `rewrite` replaces the file. Without links in the path, it replaces neither a link nor a device.
        self.path: Path = Path(os.path.realpath(path))
        if self.path.exists() and not self.path.is_file():
            raise GroupsFileError(f"{path} is not a regular file; pass the path of a new file or of a groups file")
        self.ignored: bytes = b""
        self._lines = self._appended = self._appended_bytes = 0
        """Number of lines after the last rewrite, and of the lines and bytes that were appended since then."""
        self._incomplete = 0
        """Number of bytes of an incomplete line at the end of the file. `append` removes them."""
        self._prefix = b""
        """What `append` writes first: the header of an empty file, or the line break that the last line lacks."""
        self._handle = _open_locked(self.path)

    def load(self) -> list[Entry]:
        """Return the entries of the groups file. An incomplete last line is ignored."""
        size = os.fstat(self._handle.fileno()).st_size
        if size > MAX_BYTES:
            raise GroupsFileError(f"{self.path} has {size} bytes; a groups file has at most {MAX_BYTES} bytes")
        *lines, last = self.path.read_bytes().split(b"\n")
        if not size:
            self._prefix = _HEADER_LINE
        if isinstance(_parse(last), dict):  # the last line is complete, and lacks only its line break
            lines.append(last)
            self._prefix = b"\n"
        elif last:
            self.ignored, self._incomplete = last, len(last)
        if size and (not lines or _parse(lines[0]) != HEADER):
            raise GroupsFileError(
                f"{self.path} is not a groups file: the first line is not {json.dumps(HEADER)}; pass another path"
            )
        return [self._entry(number, line) for number, line in enumerate(lines[1:], 2)]

    def append(self, entries: Sequence[Entry]) -> None:
        """Append changes to the groups file. If a write fails, the file keeps its previous content."""
        data, count = _lines(entries)
        deletions = all(entry.offset is None and entry.protocol_type is None for entry in entries)
        size = os.fstat(self._handle.fileno()).st_size
        if self._incomplete:
            size -= self._incomplete
            self._handle.truncate(size)
            self._incomplete = 0
        limit = MAX_BYTES if deletions else int(MAX_BYTES * (1 - FOR_DELETIONS))
        if size + len(self._prefix) + len(data) > limit:
            raise GroupsFileFullError(
                errno.EFBIG, f"the file would be larger than {limit} bytes; delete unused groups", str(self.path)
            )
        try:
            with full_disk_named(self.path):
                _write(self._handle, self._prefix + data)
        except OSError:
            self._handle.truncate(size)
            raise
        self._prefix = b""
        self._appended += count
        self._appended_bytes += len(data)

    def needs_rewrite(self) -> bool:
        """Return whether so much was appended since the last rewrite that many lines are probably outdated."""
        return self._appended > self._lines + SPARE_LINES or self._appended_bytes > SPARE_BYTES

    def rewrite(self, entries: Iterable[Entry]) -> None:
        """Replace the content of the groups file atomically."""
        data, count = _lines(entries)
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        temporary.unlink(missing_ok=True)
        handle = FileIO(temporary, "ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with full_disk_named(self.path):
                _write(handle, _HEADER_LINE + data)
                os.fsync(handle.fileno())
            os.replace(temporary, self.path)
        except OSError:
            handle.close()
            temporary.unlink(missing_ok=True)
            self._appended = self._appended_bytes = 0  # try again after the same number of lines or bytes
            raise
        self._handle.close()
        self._handle, self._lines = handle, count
        self._appended = self._appended_bytes = 0
        self._incomplete, self._prefix = 0, b""

    def close(self) -> None:
        """Close the groups file, which releases its lock."""
        self._handle.close()

    def _entry(self, number: int, line: bytes) -> Entry:
        found = _parse(line)
        if not isinstance(found, dict) or set(found) not in KINDS:
            raise GroupsFileError(
                f"{self.path}: line {number} does not describe a commit or a group: {line[:MOST_SHOWN]!r}"
            )
        for name, value in found.items():
            if not _is_valid(name, value):
                shown = f"{value!r:.{MOST_SHOWN}}"
                raise GroupsFileError(f"{self.path}: line {number}: {name} has the invalid value {shown}")
        return Entry(**found)


def _is_valid(name: str, value: object) -> bool:
    """Return whether a response can contain the value of a field."""
    kind, valid = FIELDS[name]
    if type(value) is not kind:
        return False
    if name == "type":
        return value in ("classic", "consumer")
    if not isinstance(value, str):
        return value in valid
    try:
        return len(value.encode()) in valid
    except UnicodeEncodeError:
        return False


def _open_locked(path: Path) -> FileIO:
    while True:
        handle = FileIO(path, "ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        except BlockingIOError:
            handle.close()
            raise GroupsFileError(f"{path} is used by another server; pass another groups file") from None
        except FileNotFoundError:
            pass
        handle.close()  # Try again, because another server has replaced the file before it was locked.


def _write(handle: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[handle.write(view) :]


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _lines(entries: Iterable[Entry]) -> tuple[bytes, int]:
    lines = [json.dumps(entry.to_dict(), separators=(",", ":")) + "\n" for entry in entries]
    return "".join(lines).encode(), len(lines)
