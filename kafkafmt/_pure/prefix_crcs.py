"""Compute the CRCs of many byte ranges of a buffer. The bytes of long ranges are not read repeatedly.

In arbitrary bytes, many positions can look like a batch header with a large length. Computing the
CRC of each of these batches directly could take quadratic time. Instead, the CRC of a long range is
derived from the CRCs of two prefixes of the buffer, with the method of zlib's `crc32_combine`. The
CRC of each prefix is computed only once.
"""

from __future__ import annotations

from functools import lru_cache

from ..constants import CRC_START, MAGIC_AT, MAGIC_V2
from ..types import Buffer, IntArray
from .crc import crc32, crc32c
from .varint import view_of

PREFIX_STEP = 1 << 12
DIRECT_LENGTH = 1 << 14
POLYNOMIALS = {True: 0x82F63B78, False: 0xEDB88320}
"""Reflected polynomials of CRC-32C (True) and CRC-32 (False)."""


class PrefixCrcs:
    """Computes the CRCs of byte ranges of a buffer. CRCs of long ranges are derived from CRCs of prefixes."""

    def __init__(self, view: memoryview, start: int) -> None:
        self.view = view
        self.start = start
        self._known: dict[bool, list[int]] = {True: [0], False: [0]}

    def prefix(self, castagnoli: bool, end: int) -> int:
        """Return the CRC of the bytes from `self.start` to `end`."""
        crcs, update = self._known[castagnoli], crc32c if castagnoli else crc32
        steps = (end - self.start) // PREFIX_STEP
        while len(crcs) <= steps:
            at = self.start + (len(crcs) - 1) * PREFIX_STEP
            crcs.append(update(self.view, crcs[-1], at, at + PREFIX_STEP))
        return update(self.view, crcs[steps], self.start + steps * PREFIX_STEP, end)

    def span(self, castagnoli: bool, start: int, end: int) -> int:
        """Return the CRC of the bytes from `start` to `end`."""
        if end - start <= DIRECT_LENGTH:
            return (crc32c if castagnoli else crc32)(self.view, 0, start, end)
        return _of_rest(castagnoli, self.prefix(castagnoli, end), self.prefix(castagnoli, start), end - start)

    def of_batch(self, p: int, end: int) -> int:
        """Compute the CRC that the batch at `p` would have if the batch ended at `end`."""
        castagnoli = self.view[p + MAGIC_AT] == MAGIC_V2
        return self.span(castagnoli, p + (CRC_START if castagnoli else MAGIC_AT), end)


def multiply(castagnoli: bool, a: int, b: int) -> int:
    """Return the product of the polynomials `a` and `b` modulo the polynomial of the CRC."""
    a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
    product, polynomial = 0, POLYNOMIALS[castagnoli]
    while a:
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (polynomial if b & 1 else 0)
    return product


@lru_cache(4096)
def power_of_x(castagnoli: bool, n: int) -> int:
    """Return the polynomial x**n modulo the polynomial of the CRC."""
    if n == 0:
        return 0x80000000
    half = power_of_x(castagnoli, n // 2)
    square = multiply(castagnoli, half, half)
    return multiply(castagnoli, square, 0x40000000) if n & 1 else square


def crc32c_of_rest(whole: int, prefix: int, size: int) -> int:
    return _of_rest(True, whole, prefix, size)


def crc32_of_rest(whole: int, prefix: int, size: int) -> int:
    return _of_rest(False, whole, prefix, size)


def append_crcs(castagnoli: bool, buffer: Buffer, value: int, appended: int, ends: IntArray, crcs: IntArray) -> None:
    view, start = view_of(buffer), 0
    for i, (end, crc) in enumerate(zip(ends.tolist(), crcs.tolist(), strict=True)):
        if not start <= end <= len(view):
            raise ValueError(f"the end {end} is not between {start} and {len(view)}")
        value = (crc32c if castagnoli else crc32)(view, value, start, end)
        crcs[i] = _of_rest(castagnoli, value, crc, appended + end)
        start = end


def _of_rest(castagnoli: bool, whole: int, prefix: int, size: int) -> int:
    if size < 0:
        raise ValueError(f"a count or position is {size}; it must be between 0 and 2**63 - 1")
    return (whole ^ multiply(castagnoli, power_of_x(castagnoli, 8 * size), prefix)) & 0xFFFFFFFF
