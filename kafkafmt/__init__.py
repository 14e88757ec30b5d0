"""Kafka's formats, read in Python at the speed of the machine: logs on disk, record batches, no broker.

    import kafkafmt
    log = kafkafmt.open("/var/lib/kafka/data")
    for record in log["orders", 3]: ...
    table = log["orders", 3].to_arrow()
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version

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
from .view import Log, Partition
from .view import open_log as open

Record = core.Record

try:
    __version__ = _version("kafkafmt")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"

__all__ = [
    "ChecksumError",
    "Damage",
    "DamagedLogError",
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
