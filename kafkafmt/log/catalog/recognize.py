"""Recognize files that are not Kafka logs: compressed files, archives, and `.log` files of other programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Protocol

from ...constants import ENTRY_OVERHEAD, LENGTH_AT, MAGIC_AT, MAGIC_END, MAGIC_V2, MIN_LENGTHS
from ...support.paths import Location
from ..formats import base_offset_of, parse_partition_name
from ..storage import FileView

SEARCHED = 16 << 20
"""Number of bytes that are searched for a valid batch in a `.log` file whose name is not a base offset."""
FOLLOWED = 1000
"""Maximum number of batch positions that are computed from length fields to find a valid batch in a file."""
HEAD_BYTES = 512
_TAR_MAGIC_AT = 257
_MAGICS = (
    (0, b"\x1f\x8b\x08", "gzip"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"\x04\x22\x4d\x18", "lz4"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (0, b"PK\x03\x04", "zip"),
    (0, b"PK\x05\x06", "zip"),
    (_TAR_MAGIC_AT, b"ustar", "tar"),
)
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")
_NAMES = {
    "gz": "gzip", "tgz": "gzip", "zst": "zstd", "zstd": "zstd", "tzst": "zstd", "lz4": "lz4", "xz": "xz", "txz": "xz", "lzma": "xz",
    "bz2": "bzip2", "tbz": "bzip2", "tbz2": "bzip2", "7z": "7-Zip", "zip": "zip", "tar": "tar",
}  # fmt: skip
_TOOLS = {"gzip": "gunzip", "bzip2": "bunzip2", "xz": "unxz", "zstd": "unzstd", "lz4": "unlz4"}
_TAR = re.compile(r"\.(tar\.\w+|tgz|tbz2?|txz|tzst)\Z", re.IGNORECASE)
_NOT_PACKED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
"""Suffixes of nearly all files in a partition directory. Comparing suffixes is faster than searching for `_SUFFIX`."""
_SUFFIX = re.compile(rf"((?:\.tar)?\.({'|'.join(_NAMES)}))\Z", re.IGNORECASE)


class BatchSearch(Protocol):
    """Finds valid batches in a file."""

    def valid(self, position: int) -> bool:
        """Return whether a valid batch begins at a position."""

    def find(self, start: int, end: int) -> Iterator[int]:
        """Yield the positions of valid batches that begin at positions in [start, end)."""


OpenSearch = Callable[[FileView], BatchSearch]


def packing_of_name(name: str) -> str | None:
    """Return the compression or archive format that a file name suffix indicates. For any other suffix, return None."""
    found = _SUFFIX.search(name)
    return _NAMES[found[2].lower()] if found else None


def packing_of_content(head: bytes) -> str | None:
    """Return the compression or archive format that the first 512 bytes of a file indicate, or None."""
    for at, magic, name in _MAGICS:
        if head[at : at + len(magic)] == magic:
            return name
    return "bzip2" if _BZIP2.match(head) else None


def packing(path: Location) -> str | None:
    """Describe the format of a compressed file or archive in a phrase for messages. For other files, return None."""
    with FileView(path, fill_unreadable=True) as view:
        found = packing_of_content(view.read(0, HEAD_BYTES))
    if found is not None:
        return f"its format is {found}; {_unpacking(path.name, found)}"
    named = packing_of_name(path.name)
    return f"its name indicates the format {named}; unpack it first" if named else None


def _unpacking(name: str, found: str) -> str:
    """Return what to do with a compressed file. Without the compression, tar files can be read."""
    tool = _TOOLS.get(found)
    return f"{tool} converts it to a .tar file, which can be read" if tool and _TAR.search(name) else "unpack it first"


def packed_segments(names: list[str]) -> list[str]:
    """Return the file names that consist of a segment's base offset and a suffix such as ``.log.gz``."""
    return [name for name, stem in _stems(names) if base_offset_of(stem) is not None]


def packed_logs(names: list[str]) -> list[str]:
    """Return the names of files that contain segments or partition directories in compressed or archived form."""
    return [
        name for name, stem in _stems(names) if base_offset_of(stem) is not None or parse_partition_name(stem).parsed
    ]


def _stems(names: list[str]) -> list[tuple[str, str]]:
    """Return (name, name without suffix) for each name with the suffix of a compressed file or an archive."""
    return [
        (name, name[: found.start()])
        for name in names
        if not name.endswith(_NOT_PACKED) and (found := _SUFFIX.search(name))
    ]


def has_valid_batch(path: Location, search_in: OpenSearch) -> bool:
    """Return whether the first 16 MiB of a readable file, not compressed or an archive, contain a valid batch."""
    try:
        view = FileView(path, fill_unreadable=True)
    except (FileNotFoundError, PermissionError):
        return False
    with view:
        search = search_in(view)
        if packing_of_content(view.read(0, HEAD_BYTES)) and not search.valid(0):
            return False  # a tar archive can contain valid batches, but it is not a log
        return (
            any(search.valid(at) for at in _by_length(view))
            or next(search.find(0, min(view.size, SEARCHED)), None) is not None
        )


def _by_length(view: FileView) -> Iterator[int]:
    """Yield the positions of batches in a file, computed from length fields."""
    # Unlike `BatchSearch.find`, this does not ignore batches with implausible header fields.
    position = 0
    for _ in range(FOLLOWED):
        head = view.read(position, MAGIC_END)
        if len(head) < MAGIC_END or head[MAGIC_AT] > MAGIC_V2:
            return
        yield position
        length = int.from_bytes(head[LENGTH_AT:ENTRY_OVERHEAD], "big", signed=True)
        if length < MIN_LENGTHS[head[MAGIC_AT]]:
            return
        position += ENTRY_OVERHEAD + length


def starts_with_batch(path: Location, search_in: OpenSearch) -> bool:
    with FileView(path, fill_unreadable=True) as view:
        return search_in(view).valid(0)
