"""Read and write the messages of Kafka's wire protocol in all versions, without network access.

    from kafkafmt import protocol

    splitter = protocol.FrameSplitter(max_size=100 << 20)
    for frame in splitter.feed(data):
        request = protocol.read_request(frame)
    response = protocol.read_response(frame, api_key=1, api_version=12)

    for data in protocol.record_data(response.body):           # views of the frame
        table = kafkafmt.to_arrow(data.records, start=fetch_offset, aborted=data.aborted)

    topic = protocol.MetadataRequest.MetadataRequestTopic(name="orders")
    body = protocol.MetadataRequest(topics=[topic])
    buffers = protocol.write_request(protocol.make_request(body, api_version=12, correlation_id=1))

Each message has a class, such as `FetchRequest` or `FetchResponse`. The classes of structures
inside the message are attributes of this class. A class is created when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support.text import shown
from .captures import Capture, read_capture
from .decode import Connection, DecodedFrame, decode_requests, decode_responses
from .error_codes import ErrorCode
from .frames import read_request, read_response, write_request, write_response
from .message_classes import Message, UnknownBody, class_names, find_class, message_class, to_json
from .record_data import BatchesEnd, RecordData, batches_end, record_data
from .requests import Request, Response, make_request, make_response
from .streams import Correlation, FrameSplitter

__all__ = [
    "BatchesEnd",
    "Capture",
    "Connection",
    "Correlation",
    "DecodedFrame",
    "ErrorCode",
    "FrameSplitter",
    "Message",
    "RecordData",
    "Request",
    "Response",
    "UnknownBody",
    "batches_end",
    "decode_requests",
    "decode_responses",
    "make_request",
    "make_response",
    "message_class",
    "read_capture",
    "read_request",
    "read_response",
    "record_data",
    "to_json",
    "write_request",
    "write_response",
]

if TYPE_CHECKING:
    from . import _classes
    from ._classes import *  # noqa: F403

    __all__ += _classes.__all__  # type: ignore[has-type]  # mypy, because of the import above
else:

    def __getattr__(name):
        found = find_class(name) if name.endswith(("Request", "Response", "Header")) else None
        if found is None:
            raise AttributeError(f"module {shown(__name__)} has no attribute {shown(name)}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted([*__all__, *class_names()])
