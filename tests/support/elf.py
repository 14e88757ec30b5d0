"""Read the segments, the dynamic section and the strings of a 64-bit little-endian ELF file."""

from __future__ import annotations

import struct

DYNAMIC, GNU_STACK, GNU_RELRO = 2, 0x6474E551, 0x6474E552
RPATH, RUNPATH, FLAGS, FLAGS_1, STRTAB, STRSZ = 15, 29, 30, 0x6FFFFFFB, 5, 10
BIND_NOW, NOW = 8, 1
EXECUTABLE = 1


class Elf:
    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\x02\x01"
        (headers,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        fields = [struct.unpack_from("<IIQQQQQQ", data, headers + size * n) for n in range(count)]
        self.segments = {kind: flags for kind, flags, *_ in fields}
        loads = [(address, offset, length) for kind, _, offset, address, _, length, *_ in fields if kind == 1]
        at, length = next((offset, length) for kind, _, offset, _, _, length, *_ in fields if kind == DYNAMIC)
        self.dynamic = dict(struct.iter_unpack("<QQ", data[at : at + length]))
        names = next(self.dynamic[STRTAB] - a + offset for a, offset, n in loads if a <= self.dynamic[STRTAB] < a + n)
        self.strings = data[names : names + self.dynamic[STRSZ]].split(b"\0")
