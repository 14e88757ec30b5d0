"""Decompress the payloads of many batches in one call. The pure-Python core leaves each payload to the caller."""

from __future__ import annotations

from collections.abc import Mapping

from ..types import BatchTable, Buffer


class PayloadDecoder:
    def __init__(self, addresses: Mapping[str, int]) -> None:
        pass

    def append(
        self,
        buffer: Buffer,
        table: BatchTable,
        moved: BatchTable,
        begin: int,
        arena: Buffer,
        filled: int,
        enough: int,
        limit: int,
    ) -> tuple[int, int, int]:
        return begin, filled, 0
