"""Find the names of topics of which a message contains only the id, as Fetch does since version 13."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from uuid import UUID

from ..messages import SchemaMessage
from ..messages.classes import ZERO_UUID
from .decode import DecodedFrame
from .message_classes import Message

NAME_FIELDS = ("name", "topic", "topic_name")


class TopicNames:
    """Names of topics by id. Messages that contain both, such as Metadata responses, add names."""

    def __init__(self, names: Mapping[UUID, str]) -> None:
        self._names = dict(names)

    def complete(self, frame: DecodedFrame) -> DecodedFrame:
        """Add the names of topics to a frame, and to the fields of its message that have no name. Return the frame."""
        if not isinstance(frame.message, Message):
            return frame
        for part in _parts_with_topic_id(frame.message):
            field = next((name for name in NAME_FIELDS if hasattr(part, name)), None)
            written = None if field is None else getattr(part, field)
            if part.topic_id == ZERO_UUID:
                continue
            if written:
                self._names.setdefault(part.topic_id, written)
            elif (name := self._names.get(part.topic_id)) is not None:
                frame.topic_names[part.topic_id] = name
                if field is not None:
                    setattr(part, field, name)
        return frame


def _parts_with_topic_id(message: SchemaMessage) -> Iterator[Any]:
    """Yield the structures inside a message that have the field `topic_id`."""
    left: list[Any] = [message]
    while left:
        part = left.pop()
        if not _contains_topic_id(part.__class__):
            continue
        if hasattr(part, "topic_id"):
            yield part
        for f in part.SCHEMA.fields:
            if f.struct is not None:
                value = getattr(part, f.name)
                left += [one for one in (value if isinstance(value, list) else [value]) if one is not None]


@cache
def _contains_topic_id(cls: Any) -> bool:
    return hasattr(cls, "topic_id") or any(hasattr(struct, "topic_id") for struct in cls.STRUCTS.values())
