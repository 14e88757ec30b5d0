"""Read and write Kafka logs in Spark: a data source, a data sink, and functions for `mapInArrow`.

The modules of this package are imported when one of their names is first used. They require pyspark
and pyarrow. The functions for `mapInArrow` also require pandas.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..support.extras import install_line

_HOMES = {
    "register": "source.data_source",
    "read": "reader",
    "check_executors": "shipped",
    "decode_batches": "functions",
    "read_paths": "functions",
    "decode_partition": "functions",
    "decode_values": "value_functions",
    "decode_value_partition": "value_functions",
    "make_session": "session",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in ("pyspark", "py4j", "pyarrow", "pandas"):
            raise
        raise ImportError(f"kafkafmt.spark needs {package}: {install_line('spark')}") from missing
