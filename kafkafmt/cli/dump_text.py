"""Format the contents of log files exactly as kafka-dump-log prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..constants import MAGIC_V2
from ..internal_topics.decode import json_text
from ..support.text import decode_header_key
from .dump_rows import Row
from .output import raw_in_a_pipe

CONTROL_TITLES = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def text_of(item: Row, contents: bool = False, skip_metadata: bool = False) -> str:
    """Return an item as a line of text, or "" if kafka-dump-log does not print it. `contents`: with key and value."""
    kind = item["type"]
    if kind == "record":
        return raw_in_a_pipe(_record(item, contents, skip_metadata)) + "\n"
    return raw_in_a_pipe(LINES[kind](item)) + "\n" if kind in LINES else ""


def _batch(b: Row) -> str:
    tail = f"magic: {b['magic']} compresscodec: {b['codec']} crc: {b['crc']} isvalid: {_java(b['isValid'])}"
    time = f"{b['timestampType']}: {b['maxTimestamp']} size: {b['size']}"
    if b["magic"] < MAGIC_V2:
        return f"offset: {b['lastOffset']} position: {b['position']} {time} {tail}"
    return (
        f"baseOffset: {b['baseOffset']} lastOffset: {b['lastOffset']} count: {b['count']} "
        f"baseSequence: {b['baseSequence']} lastSequence: {b['lastSequence']} producerId: {b['producerId']} "
        f"producerEpoch: {b['producerEpoch']} partitionLeaderEpoch: {b['partitionLeaderEpoch']} "
        f"isTransactional: {_java(b['isTransactional'])} isControl: {_java(b['isControl'])} "
        f"deleteHorizonMs: {_optional(b['deleteHorizonMs'])} position: {b['position']} {time} {tail}"
    )


def _record(r: Row, contents: bool, skip_metadata: bool) -> str:
    line = "|"
    if not skip_metadata:
        line += f" offset: {r['offset']} {r['timestampType']}: {r['timestamp']} keySize: {r['keySize']} valueSize: {r['valueSize']}"
        if "sequence" in r:
            line += f" sequence: {r['sequence']} headerKeys: [{','.join(key for key, _ in r['headers'])}]"
        else:
            line += f" isValid: {_java(r['isValid'])} crc: {r['crc']}"
        if "control" in r:
            line += _control(r["control"])
    if contents and "control" not in r:
        line += "".join(
            f" {title}: {_text(r[name])}"
            for title, name in (("key", "key"), ("payload", "value"))
            if r[name] is not None
        )
    return "" if line == "|" else line


def _control(control: Any) -> str:
    if isinstance(control, Exception):
        return f" {control}"
    if control.value is None:
        return f" controlType: {control.name}({control.type})"
    if control.name in CONTROL_TITLES:
        return f" {CONTROL_TITLES[control.name]} {json_text(control.value)}"
    return f" endTxnMarker: {control.name} coordinatorEpoch: {control.value['coordinatorEpoch']}"


def _snapshot(s: Row) -> str:
    shown = {name: value for name, value in s.items() if name != "type"} | {
        "currentTxnFirstOffset": _optional(s["currentTxnFirstOffset"])
    }
    return " ".join(f"{name}: {value}" for name, value in shown.items())


def _fields(item: Row) -> str:
    return " ".join(f"{name}: {value}" for name, value in item.items() if name != "type")


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _java(value: bool) -> str:
    return "true" if value else "false"


def _text(value: bytes | str) -> str:
    return decode_header_key(value) if isinstance(value, bytes) else value


LINES: dict[str, Callable[[Row], str]] = {
    "batch": _batch,
    "index": _fields,
    "timeindex": _fields,
    "txnindex": _fields,
    "snapshot": _snapshot,
    "empty": lambda item: f"{item['path']} is empty.",
    "sane": lambda item: f"{item['path']} passed sanity check.",
    "rest": lambda item: f"Found {item['bytes']} invalid bytes at the end of {item['file']}",
}
