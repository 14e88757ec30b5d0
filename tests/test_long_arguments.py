"""Error messages about wrong arguments, if an argument is very long."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_cases import GOLDEN

import kafkafmt
from kafkafmt import protocol

MOST = 500
TEXT = "x" * 1_000_000
BYTES = b"\xff" * 1_000_000
LONG = [TEXT, BYTES, [TEXT] * 10, {TEXT: BYTES}]
IDS = ["text", "bytes", "texts", "dict"]
CLUSTER = kafkafmt.metadata(GOLDEN / "kafka-4.3.1" / "internal" / "log")
PATHS = """
open verify salvage:o stats diff describe export:o serve rewrite:o restore:o metadata schemas scan_polars dump make:o
""".split()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("long") / "data"
    with kafkafmt.LogDirectory(data) as directory:
        directory.writer("orders", 0).append([(b"k", b"v", 5)])
    return data


def message_of(call: Callable[[], Any]) -> str:
    """Return the message of the error that a call raises. Return an empty string if the call succeeds."""
    try:
        result = call()
        if hasattr(result, "__next__"):
            list(result)
        elif hasattr(result, "collect"):
            result.collect()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def is_short(message: str) -> bool:
    return len(message) < MOST and "\n" not in message


@pytest.mark.parametrize("value", LONG, ids=IDS)
@pytest.mark.parametrize("name", PATHS)
def test_message_about_a_long_path_is_short(name: str, value: Any, tmp_path: Path) -> None:
    function, _, output = name.partition(":")
    arguments = [tmp_path / "output"] if output else []
    message = message_of(lambda: getattr(kafkafmt, function)(value, *arguments))
    assert message
    assert is_short(message), message[:MOST]


@pytest.mark.parametrize("value", LONG, ids=IDS)
@pytest.mark.parametrize("name", ["salvage", "export", "rewrite", "restore", "make"])
def test_message_about_a_long_output_is_short(name: str, value: Any, data: Path) -> None:
    message = message_of(lambda: getattr(kafkafmt, name)(data, value))
    assert message
    assert is_short(message), message[:MOST]


def regex(value: Any) -> str:
    """Return a text that is long, but not so long that compiling it as a regular expression takes long."""
    return repr(value)[:10_000]


api: Any = kafkafmt


def orders(data: Path) -> Any:
    return kafkafmt.open(data)["orders"]


OPTIONS: dict[str, Callable[[Path, Any], Any]] = {
    "on_error": lambda data, x: orders(data).records(on_error=x),
    "isolation": lambda data, x: orders(data).records(isolation=x),
    "start": lambda data, x: orders(data).records(start=x),
    "start_time": lambda data, x: orders(data).records(start_time=x),
    "unknown": lambda data, x: orders(data).records(**{str(x): 1}),
    "columns": lambda data, x: orders(data).to_arrow(x),
    "column": lambda data, x: orders(data).to_arrow([x]),
    "limit": lambda data, x: orders(data).to_arrow(limit=x),
    "topic": lambda data, x: api.open(data)[x],
    "partition": lambda data, x: api.open(data)["orders", x],
    "key": lambda data, x: orders(data).find(key=[x]),
    "key_regex": lambda data, x: orders(data).find(key_regex="(" + regex(x)),
    "value_regex": lambda data, x: orders(data).find(value_regex=[regex(x)]),
    "headers": lambda data, x: orders(data).find(headers=[x, 5]),
    "value_json": lambda data, x: orders(data).find(value_json=x),
    "value_json_path": lambda data, x: orders(data).find(value_json={f"..{regex(x)}": 1}),
    "follow": lambda data, x: api.open(data).follow(x, start_time=x),
    "groups": lambda data, x: api.open(data).groups(x),
    "topics": lambda data, x: api.verify(data, topics=x),
    "partitions": lambda data, x: api.verify(data, partitions=x),
    "threads": lambda data, x: api.verify(data, threads=x),
    "replicas": lambda data, x: api.open(data, replicas=x),
    "salvage_replicas": lambda data, x: api.salvage(data, "output", replicas=x),
    "max_batch_bytes": lambda data, x: api.open(data, max_batch_bytes=x),
    "export_columns": lambda data, x: api.export(data, "output", columns=x),
    "export_topics": lambda data, x: api.export(data, "output", topics=x),
    "compression": lambda data, x: api.export(data, "output", compression=x),
    "group": lambda data, x: api.export(data, "output", group=x),
    "engine": lambda data, x: api.export(data, "output", engine=x),
    "drop_keys": lambda data, x: api.rewrite(data, "output", drop_keys=[[x]]),
    "drop_key_regex": lambda data, x: api.rewrite(data, "output", drop_key_regex="(" + regex(x)),
    "codec": lambda data, x: api.build_batch([(b"k", b"v", 5)], codec=x),
    "magic": lambda data, x: api.build_batch([(b"k", b"v", 5)], magic=x),
    "record": lambda data, x: api.build_batch([x]),
    "timestamp": lambda data, x: api.build_batch([(b"k", b"v", x)]),
    "header": lambda data, x: api.build_batch([(b"k", b"v", 5, [x])]),
    "header_key": lambda data, x: api.build_batch([(b"k", b"v", 5, [("\ud800" + str(x), b"")])]),
    "value": lambda data, x: api.build_batch([(b"k", {"a": x}, 5)]),
    "columns_of": lambda data, x: api.records.columns_of(x),
    "columns_of_columns": lambda data, x: api.records.columns_of(b"", x),
    "build_columns": lambda data, x: api.records.build_columns(x),
    "build_timestamps": lambda data, x: api.build_batch([(b"k", b"v", 5)], base_offset=x),
    "read_records": lambda data, x: api.read_records(x),
    "iter_batches": lambda data, x: api.iter_batches(x),
    "check_batches": lambda data, x: api.check_batches(x).ok,
    "to_arrow": lambda data, x: api.to_arrow(b"", x),
    "to_arrow_buffer": lambda data, x: api.to_arrow(x),
    "recompress": lambda data, x: api.records.recompress(b"", x),
    "convert": lambda data, x: api.records.convert(b"", x),
    "validate": lambda data, x: api.records.validate_and_assign_offsets(b"", 0, codec=x),
    "assign_offsets": lambda data, x: api.records.assign_offsets(b"", x),
    "marker": lambda data, x: api.records.build_marker(x, 1, commit=True),
    "control": lambda data, x: api.records.decode_control_record(x, x),
    "Partitioner": lambda data, x: api.records.Partitioner(x),
    "writer": lambda data, x: api.LogDirectory(data / "new").writer(x, 0),
    "make_source": lambda data, x: api.make(x, data / "made", topic="t"),
    "make_topic": lambda data, x: api.make(io.BytesIO(), data / "made", topic=x),
    "make_input_format": lambda data, x: api.make("x.csv", data / "made", topic="t", input_format=x),
    "metadata_at": lambda data, x: api.metadata(data, at=x),
    "metadata_diff": lambda data, x: CLUSTER.diff(CLUSTER, views=x),
    "schemas_context": lambda data, x: api.schemas(data, context=x),
    "schemas_subject": lambda data, x: api.SchemaRegistry([]).get_latest_version(str(x)),
    "schemas_id": lambda data, x: api.SchemaRegistry([]).get_schema(x),
    "serve_host": lambda data, x: api.serve(data, host=x),
    "serve_port": lambda data, x: api.serve(data, port=x),
    "serve_topics": lambda data, x: api.serve(data, topics=x),
    "serve_users": lambda data, x: api.serve(data, users=x),
    "dump_indexes": lambda data, x: api.dump(data, indexes=x),
    "api": lambda data, x: protocol.read_response(b"", api_key=x, api_version=1),
    "message": lambda data, x: protocol.make_request(
        protocol.MetadataRequest(topics=x), api_version=1, correlation_id=1
    ),
    "message_number": lambda data, x: protocol.write_request(
        protocol.make_request(protocol.FetchRequest(max_wait_ms=x), api_version=4, correlation_id=1)
    ),
}


@pytest.mark.parametrize("value", LONG, ids=IDS)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.slow
def test_message_about_a_long_argument_is_short(name: str, value: Any, data: Path, tmp_path: Path) -> None:
    message = message_of(lambda: OPTIONS[name](data, value))
    assert is_short(message), f"{len(message)}: {message[:MOST]}"


def test_message_shows_both_ends_of_a_long_argument(data: Path) -> None:
    with pytest.raises(ValueError, match=r"isolation is 'start-x+\.\.\.x+-end'") as error:
        kafkafmt.open(data)["orders"].records(isolation=f"start-{TEXT}-end")  # type: ignore[call-overload]
    assert re.search("it must be 'read_uncommitted' or 'read_committed'", str(error.value))
