"""Import the packages for gzip, lz4 and zstd, or what serves these codecs if a package is not installed.

lz4 has no wheels for musl and for free-threaded Python 3.14, and zstandard has none for free-threaded Python. lz4 is
replaced by cramjam. zstandard is replaced by Python's own `compression.zstd` from Python 3.14 on, and else by cramjam.
Without isal, zlib decompresses gzip data.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

zlib: Any
"""The module `isal.isal_zlib`, or zlib."""
lz4_frame: Any
"""The module `lz4.frame`, or a module with the same functions."""
zstandard: Any
"""The module `zstandard`, or a module with the same functions and classes."""
SERVED_BY = {"gzip": "zlib", "snappy": "cramjam", "lz4": "lz4", "zstd": "zstandard"}
"""The package, or module of Python, that serves each codec. gzip data is always compressed by zlib."""

try:
    zlib, SERVED_BY["gzip"] = import_module("isal.isal_zlib"), "isal"
except ImportError:
    zlib = import_module("zlib")
try:
    lz4_frame = import_module("lz4.frame")
except ImportError:
    from . import cramjam_lz4

    lz4_frame, SERVED_BY["lz4"] = cramjam_lz4, "cramjam"
try:
    zstandard = import_module("zstandard")
except ImportError:
    try:
        from . import stdlib_zstd

        zstandard, SERVED_BY["zstd"] = stdlib_zstd, "compression.zstd"
    except ImportError:
        from . import cramjam_zstd

        zstandard, SERVED_BY["zstd"] = cramjam_zstd, "cramjam"


def zstd_decompressor(limit: int) -> Any:
    """Return a ZstdDecompressor for content of at most `limit` bytes. Only cramjam, which needs the limit, checks it."""
    return zstandard.ZstdDecompressor(limit) if SERVED_BY["zstd"] == "cramjam" else zstandard.ZstdDecompressor()


def zstd_file_frame() -> Any:
    """Return an object that decompresses a zstd frame in parts. ModuleNotFoundError: no package can do this."""
    if SERVED_BY["zstd"] == "cramjam":
        raise ModuleNotFoundError("zstd files need the package zstandard, or Python 3.14", name="zstandard")
    return zstandard.ZstdDecompressor().decompressobj()


def read_blocks(data: memoryview, ends: list[int], limit: int) -> tuple[bytes, int]:
    """Decompress a zstd frame up to its first invalid block. Return the content, and the number of ends that were reached."""
    # `ends` are the positions after the header, after each block, and after the checksum. The rest is not read if the
    # content has more than `limit` bytes.
    if SERVED_BY["zstd"] == "cramjam":
        found: tuple[bytes, int] = zstandard.read_blocks(data, ends, limit)
        return found
    frame, content, p = zstandard.ZstdDecompressor().decompressobj(), bytearray(), 0
    for i, end in enumerate(ends):
        try:
            content += frame.decompress(data[p:end])
        except zstandard.ZstdError:
            return bytes(content), i
        if len(content) > limit:
            break
        p = end
    return bytes(content), len(ends)
