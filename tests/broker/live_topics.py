"""Plans for topics that are written while a test reads them."""

from __future__ import annotations

FIRST = [
    "topic=live partitions=2 codec=zstd content=mixed count=400 flush=60 time=1700000000000",
    "topic=tx partitions=1 count=5",
]
THEN = [
    "topic=live partitions=2 codec=lz4 count=3000 value=400",
    "topic=tx count=6 id=first end=open",
    "topic=tx count=8 id=second end=abort codec=zstd",
    "topic=tx count=4 id=first end=commit",
    "topic=later count=50 codec=snappy",
    "topic=tx count=4 id=third end=open",
    "topic=tx count=3 id=second end=commit",
]
LEVELS = ("read_uncommitted", "read_committed")
