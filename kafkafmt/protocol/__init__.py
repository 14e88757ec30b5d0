"""Kafka's wire protocol: every message of every version, read and written; frames and streams of them. No client.

    from kafkafmt import protocol

    splitter = protocol.FrameSplitter(max_size=100 << 20)
    for frame in splitter.feed(data):
        request = protocol.read_request(frame)
    response = protocol.read_response(frame, api_key=1, api_version=12)

    for data in protocol.record_data(response.body):           # views of the frame
        table = kafkafmt.to_arrow(data.records, start=fetch_offset, aborted=data.aborted)

    body = protocol.MetadataRequest(topics=[protocol.MetadataRequest.MetadataRequestTopic(name="orders")])
    buffers = protocol.write_request(protocol.make_request(body, api_version=12, correlation_id=1))

The classes of messages (`FetchRequest`, `FetchResponse`, …) are made on first use.
"""

from __future__ import annotations

from typing import Any

from . import apis
from .error_codes import ErrorCode
from .frames import (
    Request,
    Response,
    make_request,
    make_response,
    read_request,
    read_response,
    write_request,
    write_response,
)
from .messages import Message, UnknownBody, find_class, message_class, to_json
from .record_data import BatchesEnd, RecordData, batches_end, record_data
from .streams import Correlation, FrameSplitter

__all__ = [
    "BatchesEnd",
    "Correlation",
    "ErrorCode",
    "FrameSplitter",
    "Message",
    "RecordData",
    "Request",
    "Response",
    "UnknownBody",
    "batches_end",
    "make_request",
    "make_response",
    "message_class",
    "read_request",
    "read_response",
    "record_data",
    "to_json",
    "write_request",
    "write_response",
]


def __getattr__(name: str) -> Any:
    found = find_class(name) if name.endswith(("Request", "Response", "Header")) else None
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    names = [api.name for key in apis.keys().values() if (api := apis.api(key))]
    return sorted([*__all__, "RequestHeader", "ResponseHeader", *(n + kind for n in names for kind in ("Request", "Response"))])
