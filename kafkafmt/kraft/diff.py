"""Compare the metadata of two clusters, or of one cluster at two points in time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from ..support import arguments
from ..support.notebook import html_table
from ..support.report import Report
from .models import MetadataTables, MetadataTopic, Row

KEYS: dict[str, tuple[str, ...]] = {
    "topics": ("name",),
    "partitions": ("topic", "partition"),
    "configs": ("resource_type", "resource_name", "name"),
    "acls": ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"),
    "brokers": ("id",),
    "quotas": ("user", "client_id", "ip", "key"),
    "scram": ("user", "mechanism"),
    "features": ("name",),
    "voters": ("id",),
    "controllers": ("id",),
    "delegation_tokens": ("token_id",),
}
"""Attributes that identify a row of each table. Only these tables can be compared."""
DIFF_VIEWS = tuple(KEYS)
PER_CLUSTER = ("topic_id", "directories", "leader_epoch", "partition_epoch")
"""Attributes that always differ between clusters. They are compared only if both states belong to one cluster."""
HIDDEN = "(hidden)"
"""Text that replaces a sensitive value."""


@dataclass(frozen=True)
class MetadataDifference:
    """A row that was added, removed or changed between two states of a cluster's metadata.

    Attributes
    ----------
    view : str
        Table of the row, such as "topics".
    key : dict
        Values of the attributes that identify the row.
    change : {"added", "removed", "changed"}
        "added" if the row exists only in the second state, "removed" if it exists only in the first
        state, and "changed" if it exists in both states.
    fields : dict of (object, object)
        Attributes that differ. Each is mapped to a pair of its values in the first and in the
        second state. The dict is empty unless `change` is "changed". Sensitive values are replaced
        with "(hidden)".
    """

    view: str
    key: dict[str, Any]
    change: str
    fields: dict[str, tuple[Any, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as the dict that ``kafkafmt metadata diff --format json`` prints."""
        changed = {name: list(pair) for name, pair in self.fields.items()}
        return {"view": self.view, "key": self.key, "change": self.change, "fields": changed}


@dataclass(frozen=True)
class MetadataDiff(Report):
    """Differences between two states of a cluster's metadata, as returned by `ClusterMetadata.diff`.

    Attributes
    ----------
    differences : tuple of MetadataDifference
        The differences, ordered by table and key.
    same_cluster : bool
        Whether both states have the same cluster id. If False, epochs and the ids of topics and
        directories are not compared.
    """

    command = "metadata"

    differences: tuple[MetadataDifference, ...]
    same_cluster: bool

    @property
    def equal(self) -> bool:
        """Whether no differences were found."""
        return not self.differences

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt metadata diff``. It is 0 if no differences were found, otherwise 1."""
        return 0 if self.equal else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the dict that ``kafkafmt metadata diff --format json`` prints."""
        return {"equal": self.equal, "differences": [d.to_dict() for d in self.differences]}

    def _repr_html_(self) -> str:
        rows = [(d.change, d.view, *map(str, (d.key, d.fields))) for d in self.differences]
        return html_table(f"{len(rows)} differences", ("change", "table", "row", "fields"), rows)


def compare(first: MetadataTables, second: MetadataTables, views: str | Iterable[str] | None = None) -> MetadataDiff:
    """Return the differences between two states. `ClusterMetadata.diff` describes the arguments."""
    given = DIFF_VIEWS if views is None else [views] if isinstance(views, str) else list(views)
    chosen = {arguments.one_of("views", name, DIFF_VIEWS) for name in given}
    same = first.info.cluster_id is not None and first.info.cluster_id == second.info.cluster_id
    ignored = () if same else PER_CLUSTER
    differences = []
    for view in DIFF_VIEWS:
        if view in chosen:
            differences += _compare(view, first.view(view), second.view(view), ignored)
    return MetadataDiff(tuple(differences), same)


def _compare(view: str, old: Iterable[Row], new: Iterable[Row], ignored: tuple[str, ...]) -> list[MetadataDifference]:
    """Return the differences between the rows of a table in two states."""
    before, after = ({_key(view, row): row for row in rows} for rows in (old, new))
    found = []
    for key in sorted(before.keys() | after.keys(), key=lambda values: [(v is not None, v) for v in values]):
        named = dict(zip(KEYS[view], key, strict=True))
        if key not in before:
            found.append(MetadataDifference(view, named, "added", {}))
        elif key not in after:
            found.append(MetadataDifference(view, named, "removed", {}))
        elif view != "acls" and (changed := _changes(before[key], after[key], ignored)):
            found.append(MetadataDifference(view, named, "changed", changed))
    return found


def _key(view: str, row: Row) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in KEYS[view])


def _changes(old: Row, new: Row, ignored: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """Return the attributes that differ between two rows, with the values in both rows."""
    a, b = _compared(old), _compared(new)
    changed = {name: (a[name], b[name]) for name in a if name not in ignored and a[name] != b[name]}
    if not changed and getattr(old, "_digest", None) != getattr(new, "_digest", None):
        return {"value": (HIDDEN, HIDDEN)}
    return changed


def _compared(row: Row) -> dict[str, Any]:
    """Return the attributes to compare. For a topic, these are the id, partition count and replication factors."""
    if isinstance(row, MetadataTopic):
        factors = sorted({len(p.replicas) for p in row.partitions})
        return {"topic_id": row.topic_id, "partitions": len(row.partitions), "replication_factors": factors}
    values = row.to_dict()
    if values.get("sensitive"):
        values["value"] = HIDDEN
    return {f.name: values[f.name] for f in fields(row) if f.name in values}  # type: ignore[arg-type]
