"""Implement `kafkafmt decode`, which decodes captured frames of the wire protocol."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import UUID

import click

from ..errors import KafkaFormatError
from ..log import NoLogError
from ..log.catalog import HEAD_BYTES, packing_of_content
from ..messages.as_json import uuid_text
from ..protocol import Capture, Correlation, apis, read_capture, record_data
from ..protocol.decode import DecodedFrame, decode_requests, decode_responses
from ..protocol.frames import SIZE_BYTES
from ..protocol.message_classes import REQUEST
from ..protocol.topic_names import TopicNames
from ..records import read_records
from ..support.text import counted, encode_json, plain, shown
from .hidden import hide_secrets
from .options import LocalPath, ParamType, WholeNumber, bytes_option, format_option, limit_batch_option
from .output import BYTES, EXIT_DAMAGE, EXIT_UNREADABLE, tell
from .record_lines import json_row, text_line


class TopicIdName(ParamType[tuple[UUID, str]]):
    """Click parameter type for the id of a topic and its name. The id has Kafka's form, or that of a UUID."""

    name = "ID=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[UUID, str]:
        if isinstance(value, tuple):
            return value
        text, equals, name = str(value).partition("=")
        try:
            if not equals or not name:
                raise ValueError(text)
            is_base64 = re.fullmatch(r"[\w-]{22}", text, re.ASCII)
            return UUID(bytes=base64.urlsafe_b64decode(text + "==")) if is_base64 else UUID(text), name
        except ValueError:
            self.fail(f"{shown(value)} is not a topic id and a name, such as 8mC5Fv3qT0uXoK2dJ6bqVw=orders", param, ctx)


class ApiName(ParamType[int]):
    """Click parameter type for an API, given by name or key. Case and underscores in the name are ignored."""

    name = "NAME|KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit() and apis.api(int(value)) is not None:
            return int(value)
        try:
            return apis.key_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(epilog="\b\nExample: kafkafmt decode kafka.pcap --records")
@click.argument("captures", nargs=-1, metavar="[CAPTURE]…", type=LocalPath())
@click.option(
    "--requests", metavar="FILE", type=LocalPath(), help="File that contains the bytes a client sent, or - for stdin."
)
@click.option(
    "--responses", metavar="FILE", type=LocalPath(), help="File that contains the bytes a broker sent, or - for stdin."
)
@click.option(
    "--api",
    type=ApiName(),
    help="Decode responses without a matching request as responses of this API, given by name or key. Requires "
    "--api-version.",
)
@click.option(
    "--api-version",
    metavar="N",
    type=WholeNumber(0, 32767),
    help="Decode responses without a matching request as this version of the API. Requires --api.",
)
@click.option(
    "--port",
    "ports",
    metavar="N",
    type=WholeNumber(1, 65535),
    multiple=True,
    help="Decode only the connections in CAPTURE to this port of a broker. May be repeated.",
)
@click.option(
    "--topic-id",
    "topic_ids",
    type=TopicIdName(),
    multiple=True,
    help="Name of the topic with this id, for messages that contain only the id. Names in decoded messages, such as "
    "Metadata responses, are also used. May be repeated.",
)
@click.option(
    "--records",
    is_flag=True,
    help="Also print the records in each message, in the output format of `kafkafmt cat`.",
)
@click.option(
    "--show-secrets",
    is_flag=True,
    help="Print SASL tokens, passwords in configs, salted passwords and HMACs of delegation tokens. Without this option, "
    "they are hidden.",
)
@bytes_option
@limit_batch_option
@format_option
def decode(
    captures: tuple[str, ...],
    requests: str | None,
    responses: str | None,
    api: int | None,
    api_version: int | None,
    ports: tuple[int, ...],
    topic_ids: tuple[tuple[UUID, str], ...],
    records: bool,
    show_secrets: bool,
    encoding: str,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Decode captured frames of the wire protocol, and print one line per frame.

    CAPTURE is a packet capture in the format pcap or pcapng, such as that of tcpdump -w, or - for stdin. Frames are
    printed in the order of the packets. Several captures are read one after another, as one capture.

    FILE contains all bytes that one side of a connection sent: frames, each after a size field. All requests are
    printed before the responses.

    A response belongs to the request with the same correlation id.

    If a frame cannot be decoded, its error is printed, decoding continues with the next frame, and
    the exit code is 1. If the API or version of a frame is unknown, the error contains the API key or
    version, and the number of bytes that were not decoded. Bytes after the end of a message are counted
    (trailingBytes in JSON).

    Secrets in messages are printed as "(hidden)". Records, which --records prints, can contain other secrets.
    """
    if captures and (requests is not None or responses is not None):
        raise click.UsageError("specify either CAPTURE, or --requests and --responses")
    if not captures and requests is None and responses is None:
        raise click.UsageError("specify CAPTURE, or --requests, --responses or both")
    if ports and not captures:
        raise click.UsageError("--port can only be used with CAPTURE")
    if requests == responses == "-":
        raise click.UsageError("only one of --requests and --responses can be - (stdin)")
    if (api is None) != (api_version is None):
        raise click.UsageError("--api and --api-version can only be used together")
    show = _json_line(records, BYTES[encoding]) if output_format == "json" else _text_lines(records, BYTES[encoding])
    names = dict(topic_ids)
    broken: list[str] = []
    if captures:
        sources = [sys.stdin.buffer if path == "-" else path for path in captures]
        capture = read_capture(*sources, ports=ports, topic_names=names, api=api, api_version=api_version)
        frames = _captured(capture, broken)
    else:
        frames = map(TopicNames(names).complete, _decoded(requests, responses, api, api_version))
    failed = printed = False
    for frame in frames:
        printed = True
        if not show_secrets:
            hide_secrets(frame)
        if frame.unmatched:
            frame.error = f"{frame.error}; to decode it, specify --api and --api-version"
        trouble: list[str] = []
        wanted = records and frame.message is not None
        found = _records_of(frame, max_batch_bytes, trouble) if wanted else iter(())
        for part in show(frame, found):
            sys.stdout.write(part)
        for message in trouble:
            sys.stdout.flush()
            tell(f"{frame.direction} at {frame.position}: {message}")
        failed = failed or frame.error is not None or bool(trouble)
    if broken and not printed:
        return EXIT_UNREADABLE
    return EXIT_DAMAGE if failed or broken else 0


Found = Iterator[tuple[Any, Any]]
"""Iterator of pairs (source, record). The source is an object with the record's topic and partition."""


def _captured(capture: Capture, trouble: list[str]) -> Iterator[DecodedFrame]:
    """Yield the frames in packet captures. If a capture is damaged, append its error to `trouble`."""
    try:
        yield from capture
    except KafkaFormatError as error:
        trouble.append(str(error) if error.position else error.message)
    sys.stdout.flush()
    for message in capture.messages + trouble:
        tell(message)


def _decoded(
    requests: str | None, responses: str | None, api: int | None, api_version: int | None
) -> Iterator[DecodedFrame]:
    """Yield the decoded requests, and then the decoded responses."""
    # Opening a pipe blocks until another process opens it for writing, so the file of responses is
    # opened only after all requests were read.
    waiting = Correlation()
    if requests is not None:
        with _opened(requests) as stream:
            yield from decode_requests(stream, waiting)
    if responses is not None:
        with _opened(responses) as stream:
            yield from decode_responses(stream, waiting, api, api_version)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file of captured frames. Raise NoLogError if the file is compressed."""
    stream: Any
    with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES] if stream.seekable() else b""
        packed = packing_of_content(head)
        if (
            packed
            and not 0 <= int.from_bytes(head[:SIZE_BYTES], "big", signed=True) <= os.path.getsize(path) - SIZE_BYTES
        ):
            raise NoLogError(f"{path} is {packed} and cannot be decoded; unpack it first")
        yield stream


def _records_of(frame: DecodedFrame, max_batch_bytes: int, trouble: list[str]) -> Found:
    """Yield the records in the message of a frame. Append errors to `trouble`."""
    # Records are not collected in a list, because a frame of a few kilobytes can contain millions
    # of compressed records.
    assert frame.message is not None
    for data in record_data(frame.message):
        name = data.topic or frame.topic_names.get(data.topic_id) or uuid_text(data.topic_id)
        where = data._replace(topic=name)
        try:
            for record in read_records(data.records, max_batch_bytes=max_batch_bytes):
                yield where, record
        except KafkaFormatError as error:
            trouble.append(f"error in the record data of {where.topic}-{where.partition}: {error}")


def _json_line(records: bool, text: Callable[[bytes], str]) -> Callable[[DecodedFrame, Found], Iterator[str]]:
    """Return a function that yields several strings, which together are the JSON line of a frame."""

    def show(frame: DecodedFrame, found: Found) -> Iterator[str]:
        line = encode_json(frame.to_dict())
        if not records or frame.error is not None:
            yield line + "\n"
            return
        yield line[:-1] + ', "records": ['
        for i, (where, record) in enumerate(found):
            yield (", " if i else "") + encode_json(json_row(where, record, text))
        yield "]}\n"

    return show


def _text_lines(records: bool, text: Callable[[bytes], str]) -> Callable[[DecodedFrame, Found], Iterator[str]]:
    """Return a function that yields a line of text for a frame, and then a line for each of its records."""
    line = text_line(text)

    def show(frame: DecodedFrame, found: Found) -> Iterator[str]:
        api = frame.api or (
            "-" if frame.token is not None else "?" if frame.api_key is None else f"API {frame.api_key}"
        )
        version = "" if frame.api_version is None else f" v{frame.api_version}"
        number = "" if frame.correlation_id is None else f"  #{frame.correlation_id}"
        client = frame.header.get("clientId")
        if frame.token is not None:
            what = f"SASL token {frame.token!r}"
        else:
            what = repr(frame.message) if frame.error is None else f"error: {frame.error}"
        if frame.error is None and frame.trailing_bytes:
            what += f"  and {counted(frame.trailing_bytes, 'byte')} after the message"
        about = f"{api}{version}{number}{'' if client is None else '  ' + client}"
        place = ""
        if (connection := frame.connection) is not None:
            arrow = ">" if frame.direction == REQUEST else "<"
            place = f"{frame.time_text or '-'}  {connection.client} {arrow} {connection.broker}  "
        yield plain(f"{place}{frame.direction:8}  {frame.position}  {about}  {what}") + "\n"
        for where, record in found:
            yield "    " + line(where, record)

    return show
