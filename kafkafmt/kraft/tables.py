"""Format a cluster's metadata as text tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from .commands import number
from .diff import HIDDEN, MetadataDifference
from .models import Endpoint, MetadataTopic, Row

DEFAULT = "(default)"
"""Text for a default entity, such as the default user, which has no name."""


class Table(NamedTuple):
    """Columns of a text table: functions that return the text of a cell for a row, by name."""

    columns: dict[str, Callable[[Any], str]]
    right: tuple[str, ...] = ()  # aligned to the right


def ids(numbers: Iterable[int]) -> str:
    """Return node ids as text, such as `1,2,3`."""
    return ",".join(map(str, numbers))


def _address(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{endpoint.port}"


def _addresses(row: Any) -> str:
    return ", ".join(map(_address, row.endpoints))


def _entity(name: str | None) -> str:
    return "" if name is None else name or DEFAULT


def _broker_state(row: Any) -> str:
    words = ["fenced" if row.fenced else "active"] + (["shutting down"] if row.in_controlled_shutdown else [])
    return ", ".join(words)


def _time(ms: int | None) -> str:
    """Format a time as ISO text in UTC. If `datetime` cannot represent it, return the number of milliseconds."""
    if ms is None or ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def _optional(value: object) -> str:
    return "" if value is None else str(value)


def _factors(topic: MetadataTopic) -> str:
    return ids(sorted({len(p.replicas) for p in topic.partitions}))


def _offline(topic: MetadataTopic) -> str:
    return str(sum(p.leader < 0 for p in topic.partitions) or "")


def _out_of_sync(topic: MetadataTopic) -> str:
    return str(sum(len(p.isr) < len(p.replicas) for p in topic.partitions) or "")


TABLES = {
    "topics": Table(
        {
            "topic": lambda t: t.name,
            "topic id": lambda t: t.topic_id,
            "partitions": lambda t: str(len(t.partitions)),
            "replicas": _factors,
            "without leader": _offline,
            "not in sync": _out_of_sync,
        },
        ("partitions", "replicas", "without leader", "not in sync"),
    ),
    "partitions": Table(
        {
            "partition": lambda p: f"{p.topic}-{p.partition}",
            "leader": lambda p: "none" if p.leader < 0 else str(p.leader),
            "epoch": lambda p: str(p.leader_epoch),
            "replicas": lambda p: ids(p.replicas),
            "isr": lambda p: ids(p.isr),
            "adding": lambda p: ids(p.adding_replicas),
            "removing": lambda p: ids(p.removing_replicas),
            "elr": lambda p: ids(p.elr),
            "last known elr": lambda p: ids(p.last_known_elr),
        },
        ("leader", "epoch"),
    ),
    "configs": Table(
        {
            "type": lambda c: c.resource_type,
            "name": lambda c: _entity(c.resource_name),
            "config": lambda c: c.name,
            "value": lambda c: HIDDEN if c.sensitive else c.value,
        }
    ),
    "acls": Table(
        {
            "permission": lambda a: a.permission,
            "principal": lambda a: a.principal,
            "host": lambda a: a.host,
            "operation": lambda a: a.operation,
            "resource": lambda a: a.resource_type,
            "name": lambda a: a.resource_name,
            "pattern": lambda a: a.pattern_type,
        }
    ),
    "brokers": Table(
        {
            "broker": lambda b: str(b.id),
            "epoch": lambda b: str(b.epoch),
            "state": _broker_state,
            "rack": lambda b: b.rack or "",
            "listeners": _addresses,
            "log directories": lambda b: ", ".join(b.log_dirs),
            "cordoned": lambda b: ", ".join(b.cordoned_log_dirs),
        },
        ("broker", "epoch"),
    ),
    "quotas": Table(
        {
            "user": lambda q: _entity(q.user),
            "client id": lambda q: _entity(q.client_id),
            "ip": lambda q: _entity(q.ip),
            "quota": lambda q: q.key,
            "value": lambda q: number(q.value),
        },
        ("value",),
    ),
    "scram": Table(
        {"user": lambda s: s.user, "mechanism": lambda s: s.mechanism, "iterations": lambda s: str(s.iterations)},
        ("iterations",),
    ),
    "features": Table({"feature": lambda f: f.name, "level": lambda f: str(f.level)}, ("level",)),
    "voters": Table(
        {
            "voter": lambda v: str(v.id),
            "directory": lambda v: v.directory_id or "",
            "listeners": _addresses,
            "source": lambda v: v.source,
        },
        ("voter",),
    ),
    "controllers": Table({"controller": lambda c: str(c.id), "listeners": _addresses}, ("controller",)),
    "delegation_tokens": Table(
        {
            "token": lambda t: t.token_id,
            "owner": lambda t: t.owner,
            "requester": lambda t: t.requester,
            "renewers": lambda t: ", ".join(t.renewers),
            "issued (UTC)": lambda t: _time(t.issue_timestamp),
            "expires": lambda t: _time(t.expiration_timestamp),
        }
    ),
    "cluster": Table(
        {
            "cluster id": lambda c: c.cluster_id or "",
            "node": lambda c: _optional(c.node_id),
            "offset": lambda c: str(c.end_offset),
            "committed": lambda c: str(c.committed_offset),
            "time (UTC)": lambda c: _time(c.timestamp),
            "leader epoch": lambda c: _optional(c.leader_epoch),
            "next producer id": lambda c: _optional(c.next_producer_id),
            "snapshot": lambda c: c.snapshot or "",
        },
        ("node", "offset", "committed", "leader epoch", "next producer id"),
    ),
}
"""Columns of each table, by the name of the table."""


def cells(view: str, rows: Iterable[Row]) -> list[tuple[str, ...]]:
    columns = TABLES[view].columns.values()
    return [tuple(cell(row) for cell in columns) for row in rows]


def difference_text(difference: MetadataDifference) -> str:
    """Return a line of text that describes a difference between two states."""
    name = " ".join(str(part) or DEFAULT for part in difference.key.values() if part is not None)
    line = f"{difference.change:8} {difference.view:10} {name}"
    changes = [f"{field}: {_shown(old)} -> {_shown(new)}" for field, (old, new) in difference.fields.items()]
    return f"{line}  {'; '.join(changes)}" if changes else line


def _shown(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return ids(value) or "none"
    return str(value)
