"""Base of the results that contain record data and facts about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class RecordBytes:
    """Makes a named tuple with a field `records` usable as that record data.

    ``bytes(result)`` is the record data. From Python 3.12 on, the result also provides the data as
    a buffer.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def records(self) -> Any: ...
        def _asdict(self) -> dict[str, Any]: ...

    def __bytes__(self) -> bytes:
        return bytes(self.records)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.records)

    def __repr__(self) -> str:
        shown = [f"records=<{memoryview(self.records).nbytes} bytes>"]
        for name, value in self._asdict().items():
            if name != "records":
                shown.append(f"{len(value)} {name}" if isinstance(value, list) else f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"
