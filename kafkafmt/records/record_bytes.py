"""Base of the results that contain record data and facts about it."""

from __future__ import annotations

from typing import Any, Protocol

from ..types import Buffer, view_of


class _Result(Protocol):
    @property
    def records(self) -> Buffer: ...
    def _asdict(self) -> dict[str, Any]: ...


class RecordBytes:
    """Mixin for named tuples with a field `records`, which makes them usable as that record data.

    ``bytes(result)`` is the record data. From Python 3.12 on, the result also provides the data as
    a buffer.
    """

    __slots__ = ()

    def __bytes__(self: _Result) -> bytes:
        return bytes(view_of(self.records))

    def __buffer__(self: _Result, flags: int) -> memoryview:
        return view_of(self.records)

    def __repr__(self: _Result) -> str:
        shown = [f"records=<{view_of(self.records).nbytes} bytes>"]
        for name, value in self._asdict().items():
            if name != "records":
                shown.append(f"{len(value)} {name}" if isinstance(value, list) else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"
