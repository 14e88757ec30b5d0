"""Find the C functions of the installed compression packages that the core calls without the GIL.

The packages' shared objects export these functions on Linux and macOS. A function is used only if the
library has a version whose binary interface is known. Without its functions, the payloads of a codec
are decompressed through the package's Python API, with the same results.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ..constants import CODEC_FUNCTIONS
from .packages import SERVED_BY, lz4_frame, zstandard

ISAL_VERSIONS = range(30, 33)
"""Minor versions of ISA-L 2 whose struct `inflate_state` begins with the fields that the core uses."""


class CodecFunctions:
    """Addresses of C functions, and the library of each codec that the core calls."""

    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        """Address of each function, by its name in CODEC_FUNCTIONS."""
        self.libraries: dict[str, str] = {"snappy": "kafkafmt"}
        """Name and version of the library, by the name of the codec."""
        for find in (_lz4, _zstd, _zlib, _isal):
            # A package can be missing, be built in another way, or export other names.
            with suppress(Exception):
                find(self)

    def add(self, prefix: str, codec: str, library: str, shared: ctypes.CDLL) -> None:
        """Add the functions of a shared object whose names in CODEC_FUNCTIONS begin with `prefix`."""
        symbols = {name: symbol for name, symbol in CODEC_FUNCTIONS.items() if name.startswith(prefix)}
        found = {name: ctypes.cast(getattr(shared, symbol), ctypes.c_void_p).value for name, symbol in symbols.items()}
        self.addresses.update({name: address for name, address in found.items() if address})
        self.libraries[codec] = library


@lru_cache(maxsize=1)
def codec_functions() -> CodecFunctions:
    """Return the functions. The packages are searched only once."""
    return CodecFunctions()


def _lz4(functions: CodecFunctions) -> None:
    shared = _shared(lz4_frame._frame)
    version = shared.LZ4_versionNumber()
    if shared.LZ4F_getVersion() == 100 and 10900 <= version < 20000:
        functions.add("lz4_", "lz4", f"lz4 {_dotted(version)}", shared)


def _zstd(functions: CodecFunctions) -> None:
    if SERVED_BY["zstd"] == "compression.zstd":
        shared = _shared(import_module("_zstd"))  # exports the functions if it is linked with libzstd
    else:
        # Only the backend for PyPy exports the functions. It need not be imported.
        (path,) = Path(zstandard.__file__).parent.glob("_cffi*.so")
        shared = ctypes.CDLL(str(path))
    version = shared.ZSTD_versionNumber()
    if 10400 <= version < 20000:
        functions.add("zstd_", "zstd", f"zstd {_dotted(version)}", shared)


def _zlib(functions: CodecFunctions) -> None:
    import zlib

    functions.add("zlib_", "gzip", f"zlib {zlib.ZLIB_RUNTIME_VERSION}", _shared(zlib))


def _isal(functions: CodecFunctions) -> None:
    import isal
    from isal import isal_zlib

    if isal.ISAL_MAJOR_VERSION == 2 and isal.ISAL_MINOR_VERSION in ISAL_VERSIONS:
        functions.add("isal_", "gzip", f"ISA-L {isal.ISAL_VERSION}", _shared(isal_zlib))


def _shared(module: ModuleType) -> ctypes.CDLL:
    if module.__file__ is None:
        raise ImportError(f"{module.__name__} has no file")
    return ctypes.CDLL(module.__file__)


def _dotted(version: int) -> str:
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
