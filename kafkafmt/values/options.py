"""Check the arguments that choose how keys and values are decoded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from ..arrow.builder import SCHEMA, schema_of
from ..log.catalog import like
from ..support.arguments import one_of
from ..support.text import shown
from .decoder import SideDecoder
from .flat_layout import FlatLayout
from .plan import ValuePlan
from .sides import SIDES, side_of
from .types import Record
from .value_columns import Column, Fields, finished_type
from .writers import Writers

OnUndecodable: TypeAlias = Literal["keep", "fail"]


class ValueDecoding:
    """How the keys and values of a topic are decoded, and the Arrow schema of the result."""

    # `plans` has a plan for each decoded side. A side without one keeps its bytes.

    def __init__(
        self, plans: Mapping[str, ValuePlan], schema: pa.Schema, raw: bool, fails: bool, is_flat: bool
    ) -> None:
        self.plans: Mapping[str, ValuePlan] = plans
        self.schema: pa.Schema = schema
        self.flat: FlatLayout | None = FlatLayout(schema, plans) if is_flat else None
        """The final arrangement of the columns of `schema`, if they are not nested."""
        self._raw, self._fails = raw, fails

    def decoders(self, columns: Collection[str], with_extents: bool = False) -> dict[str, SideDecoder]:
        """Return new decoders of the sides that the columns need, for one thread."""
        parts = ("", "_rest", "_error", "_raw")
        needed = {side for side in SIDES if {f"{side}{part}" for part in parts} & set(columns)}
        return {
            side: SideDecoder(plan, side, self._raw, self._fails, with_extents=with_extents)
            for side, plan in self.plans.items()
            if side in needed
        }


def plan_decoding(
    topic: str,
    writers: Mapping[str, Writers],
    columns: Sequence[str] | None = None,
    *,
    raw: bool = False,
    on_undecodable: OnUndecodable = "keep",
    layout: str = "nested",
) -> ValueDecoding:
    """Return how the keys and values of a topic are decoded. `writers` has the schemas of each decoded side."""
    one_of("on_undecodable", on_undecodable, ("keep", "fail"))
    is_flat = one_of("layout", layout, ("nested", "flat")) == "flat"
    names, fields = _split_columns(columns)
    plans = {}
    for side, found in writers.items():
        if side in names:
            plans[side] = ValuePlan(found, fields.get(side))
            _check_fields(plans[side].root, fields.get(side), side)
    for side in fields:
        if side not in plans:
            raise ValueError(f"{side} is not decoded, so it has no fields; there is no subject {topic}-{side}")
    keeps = on_undecodable == "keep"
    return ValueDecoding(plans, _arrow_schema(names, plans, keeps, raw), raw, not keeps, is_flat)


def _split_columns(columns: Sequence[str] | None) -> tuple[list[str], dict[str, Any]]:
    """Return the names of the columns, and the chosen fields of the sides: "value.a.b" is {"value": {"a": {"b": None}}}."""
    if columns is None:
        return list(SCHEMA.names), {}
    names: dict[str, None] = {}
    fields: dict[str, Any] = {}
    whole: set[str] = set()
    for column in columns:
        side = side_of(column)
        names.setdefault(side)
        if column in SIDES:
            whole.add(column)
        elif side != column:
            _add(fields.setdefault(side, {}), column.split(".")[1:])
    for side in whole:
        fields.pop(side, None)
    return list(names), fields


def _add(fields: dict[str, Any], path: list[str]) -> None:
    first, *rest = path
    if not rest or (first in fields and fields[first] is None):
        fields[first] = None
    else:
        _add(fields.setdefault(first, {}), rest)


def _check_fields(column: Column, fields: Fields, place: str) -> None:
    """Check that each chosen field exists. ValueError: the message names the nearest one."""
    while column.type.kind in ("array", "map"):
        child = column.children[0][1]
        column = child if column.type.kind == "array" else child.children[1][1]
    if fields is None:
        return
    members = dict(column.children)
    known = [f.name for f in column.type.fields] if isinstance(column.type, Record) else list(members)
    for name, chosen in fields.items():
        if name not in members:
            raise ValueError(f"{place} has no field {shown(name)}: {like('field', name, known)}")
        _check_fields(members[name], chosen, f"{place}.{name}")


def _arrow_schema(names: Sequence[str], plans: Mapping[str, ValuePlan], keeps: bool, raw: bool) -> pa.Schema:
    added = {f"{side}_{part}" for side in plans for part in ("rest", "error", "raw")}
    plain = schema_of([name for name in names if name not in added])
    fields = []
    for field in plain:
        if field.name not in plans:
            fields.append(field)
            continue
        root = plans[field.name].root
        fields.append(pa.field(field.name, finished_type(root)))
        if root.rest is not None:
            fields.append(pa.field(f"{field.name}_rest", pa.string()))
        if keeps:
            fields.append(pa.field(f"{field.name}_error", pa.string()))
        if keeps or raw:
            fields.append(pa.field(f"{field.name}_raw", pa.binary()))
    return pa.schema(fields)
