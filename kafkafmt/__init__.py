"""Kafka's formats, read in Python at the speed of the machine: logs on disk, record batches, no broker.

    import kafkafmt
    log = kafkafmt.open("/var/lib/kafka/data")
    for record in log["orders", 3]: ...
    table = log["orders", 3].to_arrow()
"""

from __future__ import annotations

from typing import Any

from ._backend import backend, core
from .errors import (
    ChecksumError,
    InvalidError,
    KafkaFormatError,
    StructureError,
    TooLargeError,
    TruncatedError,
    UnsupportedError,
)
from .log import Damage, DamagedLogError
from .records import read_records
from .view import Groups, Log, Partition
from .view import open_log as open

Record = core.Record

__all__ = [
    "ChecksumError",
    "Damage",
    "DamagedLogError",
    "Groups",
    "InvalidError",
    "KafkaFormatError",
    "Log",
    "Partition",
    "Record",
    "StructureError",
    "TooLargeError",
    "TruncatedError",
    "UnsupportedError",
    "backend",
    "open",
    "read_records",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # looked up when asked for: it costs a third of the import
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("kafkafmt")
        except PackageNotFoundError:  # a source tree that was never installed
            return "0"
    raise AttributeError(f"module 'kafkafmt' has no attribute {name!r}")
