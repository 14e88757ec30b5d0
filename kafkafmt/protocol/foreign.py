"""Recognize streams of other protocols that were sent to a Kafka port, by their first bytes."""

from __future__ import annotations

import re

HEAD_BYTES = 12
"""Number of bytes at the start of a stream that are sufficient to recognize a protocol."""
_PATTERNS = (
    ("an HTTP request", re.compile(rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PRI) ")),
    ("an HTTP response", re.compile(rb"HTTP/")),
    ("SSH", re.compile(rb"SSH-")),
    ("the PROXY protocol version 1", re.compile(rb"PROXY ")),
    ("the PROXY protocol version 2", re.compile(rb"\r\n\r\n\x00\r\nQUIT\n")),
    # A hello, or an alert of two bytes. A frame of 350 MB could have the same first two bytes.
    ("TLS", re.compile(rb"\x16\x03[\x00-\x04]..[\x01\x02]|\x15\x03[\x00-\x04]\x00\x02", re.DOTALL)),
)
_TLS_RECORD = re.compile(rb"[\x14-\x17]\x03")


def foreign_protocol(head: bytes, incomplete: bool) -> str | None:
    """Return the other protocol that `head`, the first HEAD_BYTES of a stream, shows, or None."""
    # `incomplete` is True if the stream ends inside the frame that its size field announces.
    for name, pattern in _PATTERNS:
        if pattern.match(head):
            return name
    return "TLS" if incomplete and _TLS_RECORD.match(head) else None


def explain(name: str, head: bytes) -> str:
    """Return an error message for a stream of another protocol."""
    return f"the stream is not Kafka's protocol but {name}: {_size_field(head)}, the bytes {head[:4]!r}"


def ends_inside(head: bytes, received: str) -> str:
    """Return an error message for a stream that ends inside a frame. `received` is the number of bytes in words."""
    name = foreign_protocol(head, True)
    if name is not None:
        return explain(name, head)
    message = f"the stream ends inside a frame, after {received} of the frame"
    return f"{message}; {_size_field(head)}" if len(head) >= 4 else message


def _size_field(head: bytes) -> str:
    return f"the size field is {int.from_bytes(head[:4], 'big', signed=True)}"
