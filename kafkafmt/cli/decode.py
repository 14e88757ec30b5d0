"""`kafkafmt decode`: decode frames of the wire protocol, as one side of a connection sent them."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import click

from ..errors import KafkaFormatError, StructureError, UnsupportedError
from ..log import NoLogError
from ..log.reading.recognize import HEAD_BYTES, packing_of_content
from ..messages.as_json import uuid_text
from ..protocol import Correlation, FrameSplitter, Request, UnknownBody, apis, record_data, to_json
from ..protocol.frames import (
    SIZE_BYTES,
    correlation_id_of,
    header_version,
    read_request_body,
    read_request_header,
    read_response_body,
    read_response_header,
)
from ..protocol.message_classes import REQUEST, RESPONSE
from ..records import read_records
from ..text import encode_json, plain
from .cat import json_row, text_line
from .options import LocalPath, ParamType, bytes_option, format_option, limit_batch_option
from .output import BYTES, EXIT_DAMAGE, counted, tell

CHUNK = 1 << 20
MAX_FRAME = 2**31 - 1
"""The protocol's own limit. A large size field alone costs no memory: only bytes that were read are kept."""


class ApiName(ParamType[int]):
    """The name of an API, in any case, with or without underscores; or its key."""

    name = "NAME|KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the key."""
        if isinstance(value, str) and value.isascii() and value.isdigit() and apis.api(int(value)) is not None:
            return int(value)
        try:
            return apis.key_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(epilog="\b\nExample: kafkafmt decode --requests client.bin --responses broker.bin --format json")
@click.option("--requests", metavar="FILE", type=LocalPath(), help="The stream that a client sent; - is stdin.")
@click.option("--responses", metavar="FILE", type=LocalPath(), help="The stream that a broker sent; - is stdin.")
@click.option(
    "--api", type=ApiName(), help="API, by name or key, of responses that match no request. Requires --api-version."
)
@click.option(
    "--api-version",
    metavar="N",
    type=click.IntRange(0, 32767),
    help="API version of responses that match no request. Requires --api.",
)
@click.option("--records", is_flag=True, help="Print the records in record data too, in the form of `kafkafmt cat`.")
@bytes_option
@limit_batch_option
@format_option
def decode(
    requests: str | None,
    responses: str | None,
    api: int | None,
    api_version: int | None,
    records: bool,
    encoding: str,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Decode frames of the wire protocol, one line each: first the requests, then the responses.

    FILE is a stream of frames, each with its size before it, as one side of a connection sent them. Responses are
    matched to requests by correlation id.

    A frame that cannot be decoded is printed with its error, the next one is decoded, and the exit code is 1. If the
    API or its version is unknown, the error names it, and says how many bytes were not decoded. Bytes after a message
    are counted (trailingBytes in JSON).
    """
    if requests is None and responses is None:
        raise click.UsageError("give --requests, --responses or both")
    if requests == responses == "-":
        raise click.UsageError("stdin can be only one of --requests and --responses")
    if (api is None) != (api_version is None):
        raise click.UsageError("--api and --api-version must be given together")
    show = _json_line(records, BYTES[encoding]) if output_format == "json" else _text_lines(records, BYTES[encoding])
    waiting = Correlation()
    failed = False
    for row, body in itertools.chain(_requests(requests, waiting), _responses(responses, waiting, (api, api_version))):
        trouble: list[str] = []
        found = _records_of(body, max_batch_bytes, trouble) if records and body is not None else iter(())
        for part in show(row, body, found):
            sys.stdout.write(part)
        for message in trouble:
            sys.stdout.flush()
            tell(f"{row['direction']} at {row['position']}: {message}")
        failed = failed or "error" in row or bool(trouble)
    return EXIT_DAMAGE if failed else 0


Row = dict[str, Any]
Found = Iterator[tuple[Any, Any]]
"""Pairs of an object with the topic and partition, and a record."""


def _frames(path: str | None) -> Iterator[tuple[int, int, memoryview | None, str]]:
    """Yield position, size, frame and "" for each frame. If the rest is not a frame, yield None and an error for it."""
    if path is None:
        return
    splitter, position = FrameSplitter(MAX_FRAME), 0
    stream: Any
    with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
        head = stream.peek(HEAD_BYTES)[:HEAD_BYTES] if stream.seekable() else b""
        packed = packing_of_content(head)
        if (
            packed
            and not 0 <= int.from_bytes(head[:SIZE_BYTES], "big", signed=True) <= os.path.getsize(path) - SIZE_BYTES
        ):
            raise NoLogError(f"{path}: contains no frames, because it is {packed}; unpack it first")
        try:
            while data := stream.read1(CHUNK):  # returns what a pipe has, without waiting for more
                for frame in splitter.feed(data):
                    yield position, len(frame), frame, ""
                    position += len(frame)
        except KafkaFormatError as error:
            yield position, splitter.buffered, None, error.message
            return
    if splitter.buffered:
        yield (
            position,
            splitter.buffered,
            None,
            f"the stream ends inside a frame, after {splitter.buffered} bytes of it",
        )


def _row(direction: str, position: int, size: int) -> Row:
    """Return the row of a frame with all its keys; those that are not known yet are None."""
    row: Row = {"direction": direction, "position": position, "bytes": size}
    return row | {"apiKey": None, "api": None, "apiVersion": None, "correlationId": None, "header": {}}


def _name_api(row: Row, key: int, version: int) -> None:
    known = apis.api(key)
    row |= {"apiKey": key, "api": known and known.name, "apiVersion": version}


def _add_body(row: Row, body: Any, version: int, trailing: bytes) -> None:
    """Add a body that was read, and how many bytes follow it; raise `UnsupportedError` if the body is not known."""
    if isinstance(body, UnknownBody):
        row["undecodedBytes"] = len(body.data)
        raise UnsupportedError(body.why(), row["bytes"] - len(body.data))
    row["body"] = to_json(body, version)
    if trailing:
        row["trailingBytes"] = len(trailing)


def _requests(path: str | None, waiting: Correlation) -> Iterator[tuple[Row, Any]]:
    """Yield row and body of each request. If it cannot be decoded, the body is None and the row has an error."""
    for position, size, frame, error in _frames(path):
        row, body = _row(REQUEST, position, size), None
        try:
            if frame is None:
                raise StructureError(error)
            header, end = read_request_header(frame)
            _name_api(row, header.api_key, header.api_version)
            row["correlationId"] = header.correlation_id
            row["header"] = to_json(header, header_version(REQUEST, header.api_key, header.api_version))
            waiting.expect(header.correlation_id, header.api_key, header.api_version)
            body, trailing = read_request_body(frame, header, end)
            _add_body(row, body, header.api_version, trailing)
            if not Request(header, body).has_response:
                waiting.forget(header.correlation_id)
        except KafkaFormatError as failure:
            row["error"] = error or str(failure)
        yield row, body


def _responses(
    path: str | None, waiting: Correlation, default: tuple[int | None, int | None]
) -> Iterator[tuple[Row, Any]]:
    """Yield row and body of each response. If it cannot be decoded, the body is None and the row has an error."""
    for position, size, frame, error in _frames(path):
        row, body = _row(RESPONSE, position, size), None
        try:
            if frame is None:
                raise StructureError(error)
            row["correlationId"] = correlation_id_of(frame)
            key, version = waiting.take(row["correlationId"]) or default
            if key is None or version is None:
                what = f"no request has correlation id {row['correlationId']}; give its --api and --api-version"
                raise StructureError(what, SIZE_BYTES)
            _name_api(row, key, version)
            header, end = read_response_header(frame, key, version)
            row["header"] = to_json(header, header_version(RESPONSE, key, version))
            body, row["apiVersion"], trailing = read_response_body(frame, end, key, version)
            _add_body(row, body, row["apiVersion"], trailing)
        except KafkaFormatError as failure:
            row["error"] = error or str(failure)
        yield row, body


def _records_of(body: Any, max_batch_bytes: int, trouble: list[str]) -> Found:
    """Yield the records in a message's record data as far as they can be read; add to `trouble` what is wrong with the rest.

    They are not collected: a frame of some kilobytes can contain millions of records.
    """
    for data in record_data(body):
        where = data if data.topic else data._replace(topic=uuid_text(data.topic_id))
        try:
            for record in read_records(data.records, max_batch_bytes=max_batch_bytes):
                yield where, record
        except KafkaFormatError as error:
            trouble.append(f"record data of {where.topic}-{where.partition}: {error}")


def _json_line(records: bool, text: Callable[[bytes], str]) -> Callable[[Row, Any, Found], Iterator[str]]:
    def show(row: Row, body: Any, found: Found) -> Iterator[str]:
        line = encode_json(row)
        if not records or "body" not in row:
            yield line + "\n"
            return
        yield line[:-1] + ', "records": ['
        for i, (where, record) in enumerate(found):
            yield (", " if i else "") + encode_json(json_row(where, record, text))
        yield "]}\n"

    return show


def _text_lines(records: bool, text: Callable[[bytes], str]) -> Callable[[Row, Any, Found], Iterator[str]]:
    line = text_line(text)

    def show(row: Row, body: Any, found: Found) -> Iterator[str]:
        api = row["api"] or ("?" if row["apiKey"] is None else f"API {row['apiKey']}")
        version = "" if row["apiVersion"] is None else f" v{row['apiVersion']}"
        number = "" if row["correlationId"] is None else f"  #{row['correlationId']}"
        client = row["header"].get("clientId")
        what = f"error: {row['error']}" if "error" in row else repr(body)
        what += f"  and {counted(row['trailingBytes'], 'byte')} after the message" if "trailingBytes" in row else ""
        shown = f"{row['direction']:8}  {row['position']}  {api}{version}{number}{'' if client is None else '  ' + client}  {what}"
        yield plain(shown) + "\n"
        for where, record in found:
            yield "    " + line(where, record)

    return show
