"""Define the base class of results that contain record data, such as `Validated`."""

from __future__ import annotations

from typing import Any, Protocol

from ..types import Buffer, view_of


class _Result(Protocol):
    @property
    def records(self) -> Buffer: ...
    def _asdict(self) -> dict[str, Any]: ...


class RecordBytes:
    """Mixin for named tuples with a field `records`. It makes them usable as record data.

    ``bytes(result)`` returns the record data. From Python 3.12 onwards, the result also supports
    the buffer protocol.
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
