"""Test conditions on the fields of decoded keys and values. pyarrow is not needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._backend import core
from ..log.finding import JsonEquals
from ..types import Buffer, IntArray, RecordColumns
from .record_decoder import RecordDecoder
from .sides import SIDES
from .where import Test


class RecordTest:
    """Conditions that the decoded sides of a record must meet. A side without a decoder is text."""

    def __init__(
        self, decoders: Mapping[str, RecordDecoder], where: Test | None, value_json: tuple[JsonEquals, ...] = ()
    ) -> None:
        self._decoders, self._where, self._value_json = decoders, where, value_json

    def __bool__(self) -> bool:
        return self._where is not None or bool(self._value_json)

    def matching(self, source: Buffer, columns: RecordColumns, rows: IntArray) -> IntArray:
        """Return the indexes in `rows` of the records that meet the conditions."""
        records = core.make_records(source, columns)
        found = [i for i, row in enumerate(rows.tolist()) if self._matches(records[row])]
        return np.array(found, np.intp)

    def _matches(self, record: Any) -> bool:
        sides = {side: self._object(side, record) for side in SIDES}
        if self._where is not None and not self._where(sides):
            return False
        text = json.dumps(sides["value"]).encode() if self._value_json else b""
        return all(condition.matches(text) for condition in self._value_json)

    def _object(self, side: str, record: Any) -> Any:
        raw: bytes | None = getattr(record, side)
        if side in self._decoders:
            return self._decoders[side].decode(raw, record.headers).value
        return None if raw is None else raw.decode(errors="backslashreplace")
