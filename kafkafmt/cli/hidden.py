"""Hide secrets in decoded frames: SASL tokens, passwords in configs, salted passwords and HMACs of delegation tokens.

Kafka's request log hides the same values.
"""

from __future__ import annotations

import base64
from typing import Any

from ..kraft.diff import HIDDEN
from ..kraft.sensitive import is_sensitive
from ..messages import SchemaMessage
from ..protocol.decode import DecodedFrame
from ..protocol.message_classes import Message, to_json

HIDDEN_BYTES = HIDDEN.encode()
SECRET_FIELDS = frozenset({"auth_bytes", "hmac", "salt", "salted_password", "request_data", "response_data"})
"""Fields that contain bytes. The last two are those of Envelope, which contains a whole request or response."""
PASSWORD_TYPE = 9
"""Value of the field ConfigType in DescribeConfigs for the type PASSWORD."""


def hide_secrets(frame: DecodedFrame) -> None:
    """Replace the secrets in a frame, which keeps its form. Empty and null values are kept."""
    if frame.token:
        frame.token = HIDDEN_BYTES
        frame.body = {"authBytes": base64.b64encode(HIDDEN_BYTES).decode()}
    message = frame.message
    if isinstance(message, Message) and frame.api_version is not None and _hide(message):
        frame.body = to_json(message, frame.api_version)


def _hide(message: SchemaMessage) -> bool:
    """Replace the secrets in a message and its nested structures. Return whether there were any."""
    found = False
    left: list[Any] = [message]
    while left:
        part = left.pop()
        sensitive = _is_sensitive(part)
        for f in part.SCHEMA.fields:
            value = getattr(part, f.name)
            if isinstance(value, list):
                left += value if f.struct is not None else ()
            elif f.struct is not None:
                left += () if value is None else (value,)
            elif value and (f.name in SECRET_FIELDS or (sensitive and f.name == "value")):
                setattr(part, f.name, HIDDEN_BYTES if f.type == "bytes" else HIDDEN)
                found = True
    return found


def _is_sensitive(part: Any) -> bool:
    """Return whether a structure is a config whose value can be a secret."""
    name = getattr(part, "name", None)
    if not isinstance(name, str) or not isinstance(getattr(part, "value", None), str):
        return False
    return (
        is_sensitive(name) or getattr(part, "config_type", 0) == PASSWORD_TYPE or getattr(part, "is_sensitive", False)
    )
