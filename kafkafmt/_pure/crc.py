"""Compute CRC-32C with the `crc32c` package, and CRC-32 with zlib.

Only this module imports the `crc32c` package.
"""

from __future__ import annotations

import zlib

from crc32c import crc32c as _crc32c

from ..types import Buffer
from .varint import check_range, view_of


def crc32c(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    view = view_of(buffer)
    last = check_range(view, start, end)
    return _crc32c(view[start:last], value & 0xFFFFFFFF)


def crc32(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    view = view_of(buffer)
    last = check_range(view, start, end)
    return zlib.crc32(view[start:last], value & 0xFFFFFFFF)


def crc32c_way(way: int | None = None) -> str:
    return "crc32c package"
