"""`kafkafmt decode`: frames of the wire protocol, as one side of a connection sent them."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import click

from ..errors import KafkaFormatError, StructureError
from ..messages.as_json import uuid_text
from ..protocol import Correlation, FrameSplitter, Request, apis, record_data, to_json
from ..protocol.frames import (
    SIZE_BYTES,
    correlation_id_of,
    header_version,
    read_request_body,
    read_request_header,
    read_response_body,
    read_response_header,
)
from ..protocol.messages import REQUEST, RESPONSE
from ..records import read_records
from .cat import BYTES, json_row, text_line
from .common import EXIT_DAMAGE, format_option, limit_batch_option, plain, tell

CHUNK = 1 << 20
MAX_FRAME = 2**31 - 1
"""No limit but the protocol's own: no more is kept of a frame than is there."""


class ApiName(click.ParamType):  # type: ignore[type-arg]
    """The name of an API, in any case, with or without underscores; or its key."""

    name = "NAME|KEY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit() and apis.api(int(value)) is not None:
            return int(value)
        try:
            return apis.key_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(epilog="Example: kafkafmt decode --requests client.bin --responses broker.bin --format json")
@click.option("--requests", metavar="FILE", help="What a client sent; - is stdin.")
@click.option("--responses", metavar="FILE", help="What a broker sent.")
@click.option("--api", type=ApiName(), help="What responses answer for which there is no request.")
@click.option("--api-version", type=click.IntRange(0, 32767), help="The version of it.")
@click.option("--records", is_flag=True, help="Show what record data holds too.")
@click.option("--bytes", "encoding", type=click.Choice(list(BYTES)), default="utf8", show_default=True, help="How keys and values appear.")
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
    """Frames of the wire protocol, requests first, one line a frame.

    FILE is a stream of frames, each with its size before it, as one side of a connection sent them. Responses are matched to
    requests by correlation id. A frame that cannot be read shows its error, the next one is read.
    """
    if requests is None and responses is None:
        raise click.UsageError("give --requests, --responses or both")
    if requests == responses == "-":
        raise click.UsageError("stdin can be only one of --requests and --responses")
    if (api is None) != (api_version is None):
        raise click.UsageError("--api and --api-version go together")
    show = _json_line(records, BYTES[encoding]) if output_format == "json" else _text_lines(records, BYTES[encoding])
    waiting = Correlation()
    failed = False
    for row, body in itertools.chain(_requests(requests, waiting), _responses(responses, waiting, (api, api_version))):
        found, trouble = _records_of(body, max_batch_bytes) if records and body is not None else ([], [])
        sys.stdout.write(show(row, body, found))
        for message in trouble:
            sys.stdout.flush()
            tell(f"{row['direction']} at {row['position']}: {message}")
        failed = failed or body is None or bool(trouble)
    return EXIT_DAMAGE if failed else 0


Row = dict[str, Any]
Found = list[tuple[Any, Any]]
"""Where records stand (what has a topic and a partition), and each record."""


def _frames(path: str | None) -> Iterator[tuple[int, int, memoryview | None, str]]:
    """Position, bytes and frame of each; at the end, if the stream ends otherwise, None for the frame and an error."""
    if path is None:
        return
    splitter, position = FrameSplitter(MAX_FRAME), 0
    stream: Any
    with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
        try:
            while data := stream.read1(CHUNK):  # what a pipe has, at once
                for frame in splitter.feed(data):
                    yield position, len(frame), frame, ""
                    position += len(frame)
        except KafkaFormatError as error:
            yield position, splitter.buffered, None, error.message
            return
    if splitter.buffered:
        yield position, splitter.buffered, None, f"the stream ends inside a frame, of which {splitter.buffered} bytes are there"


def _row(direction: str, position: int, size: int) -> Row:
    """A frame's row with all its keys, as much as is known so far."""
    row: Row = {"direction": direction, "position": position, "bytes": size}
    return row | {"apiKey": None, "api": None, "apiVersion": None, "correlationId": None, "header": {}}


def _name_api(row: Row, key: int, version: int) -> None:
    known = apis.api(key)
    row |= {"apiKey": key, "api": known and known.name, "apiVersion": version}


def _requests(path: str | None, waiting: Correlation) -> Iterator[tuple[Row, Any]]:
    """Every request's row and body, or None and an error in the row."""
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
            body = read_request_body(frame, header, end)
            row["body"] = to_json(body, header.api_version)
            if not Request(header, body).has_response:
                waiting.forget(header.correlation_id)
        except KafkaFormatError as failure:
            row["error"] = error or str(failure)
        yield row, body


def _responses(path: str | None, waiting: Correlation, default: tuple[int | None, int | None]) -> Iterator[tuple[Row, Any]]:
    """The same for responses."""
    for position, size, frame, error in _frames(path):
        row, body = _row(RESPONSE, position, size), None
        try:
            if frame is None:
                raise StructureError(error)
            row["correlationId"] = correlation_id_of(frame)
            key, version = waiting.take(row["correlationId"]) or default
            if key is None or version is None:
                what = f"no request has correlation id {row['correlationId']}; --api and --api-version say what it answers"
                raise StructureError(what, SIZE_BYTES)
            _name_api(row, key, version)
            header, end = read_response_header(frame, key, version)
            row["header"] = to_json(header, header_version(RESPONSE, key, version))
            body, row["apiVersion"] = read_response_body(frame, end, key, version)
            row["body"] = to_json(body, row["apiVersion"])
        except KafkaFormatError as failure:
            row["error"] = error or str(failure)
        yield row, body


def _records_of(body: Any, max_batch_bytes: int) -> tuple[Found, list[str]]:
    """The records in a message's record data as far as they can be read, and what is wrong with the rest."""
    found: Found = []
    trouble = []
    for data in record_data(body):
        where = data if data.topic else data._replace(topic=uuid_text(data.topic_id))
        try:
            found.extend((where, record) for record in read_records(data.records, max_batch_bytes=max_batch_bytes))
        except KafkaFormatError as error:
            trouble.append(f"record data of {where.topic}-{where.partition}: {error}")
    return found, trouble


def _json_line(records: bool, text: Callable[[bytes], str]) -> Callable[[Row, Any, Found], str]:
    encode = json.JSONEncoder(ensure_ascii=False).encode

    def show(row: Row, body: Any, found: Found) -> str:
        if records and body is not None:
            row["records"] = [json_row(where, record, text) for where, record in found]
        return encode(row) + "\n"

    return show


def _text_lines(records: bool, text: Callable[[bytes], str]) -> Callable[[Row, Any, Found], str]:
    line = text_line(text)

    def show(row: Row, body: Any, found: Found) -> str:
        api = row["api"] or ("?" if row["apiKey"] is None else f"API {row['apiKey']}")
        version = "" if row["apiVersion"] is None else f" v{row['apiVersion']}"
        number = "" if row["correlationId"] is None else f"  #{row['correlationId']}"
        client = row["header"].get("clientId")
        what = f"error: {row['error']}" if body is None else repr(body)
        shown = f"{row['direction']:8}  {row['position']}  {api}{version}{number}{'' if client is None else '  ' + client}  {what}"
        return plain(shown) + "\n" + "".join("    " + line(where, record) for where, record in found)

    return show
