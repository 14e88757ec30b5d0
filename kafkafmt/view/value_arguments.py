"""Check the keyword arguments that decode keys and values, such as `decode` and `schema`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..log import PartitionDir
from ..support.text import shown
from .selection_arguments import SelectionArguments

if TYPE_CHECKING:
    import pyarrow as pa

    from ..log.catalog import Source
    from ..registry import SchemaRegistry
    from ..values import ValueDecoding


class ValueArguments(TypedDict, total=False):
    """Keyword arguments that decode keys and values. `Partition.to_arrow` describes them."""

    decode: bool | Literal["key", "value"] | Sequence[Literal["key", "value"]]
    registry: SchemaRegistry | Source | None
    schema: str | int
    raw: bool
    on_undecodable: Literal["keep", "fail"]


class ArrowArguments(SelectionArguments, ValueArguments, total=False):
    """Keyword arguments that select records and decode their keys and values."""


@dataclass(frozen=True)
class ArrowPlan:
    """The columns of an Arrow result, and how keys and values are decoded for it."""

    schema: pa.Schema
    decoding: ValueDecoding | None = None

    def decoders(self) -> Mapping[str, Any]:
        """Return new decoders for the decoded sides, for one thread."""
        return {} if self.decoding is None else self.decoding.decoders(self.schema.names)

    def selected(self, names: Sequence[str]) -> ArrowPlan:
        """Return a plan for some of the columns, or for others that are not decoded."""
        from ..arrow.builder import selected_schema

        return ArrowPlan(selected_schema(self.schema, names), self.decoding)


def split_arguments(given: ArrowArguments) -> tuple[SelectionArguments, ValueArguments]:
    """Return the arguments that select records, and those that decode values."""
    values: Any = {name: value for name, value in given.items() if name in ValueArguments.__annotations__}
    selection: Any = {name: value for name, value in given.items() if name not in values}
    return selection, values


def plan_topic(directories: Iterable[PartitionDir], columns: Sequence[str] | None, values: ValueArguments) -> ArrowPlan:
    """Return the columns of an Arrow result of several partitions. If values are decoded, they need the same topic."""
    first: dict[str, PartitionDir] = {}
    for directory in directories:
        first.setdefault(directory.topic, directory)
    if len(first) > 1 and values.get("decode", False) is not False:
        raise ValueError(f"decode needs a single topic, but {len(first)} topics are read; choose one")
    return plan_columns(next(iter(first.values()), None), columns, values)


def plan_columns(directory: PartitionDir | None, columns: Sequence[str] | None, values: ValueArguments) -> ArrowPlan:
    """Return the columns of an Arrow result. By default, the schemas are those in the same log directory."""
    from ..arrow.builder import schema_of

    options: dict[str, Any] = dict(values)
    decode, registry = options.pop("decode", False), options.pop("registry", None)
    if decode is False:
        if options or registry is not None:
            name = next(iter(options), "registry")
            raise ValueError(f"{name} needs decode; pass decode=True too")
        return ArrowPlan(schema_of(columns))
    if directory is None:
        raise ValueError("decode needs a topic, but there is no partition")
    from ..registry import SchemaRegistry, schemas
    from ..values import plan_decoding

    if not isinstance(registry, SchemaRegistry):
        registry = schemas(directory.path.parent if registry is None else registry)
    if decode is not True and not isinstance(decode, str) and not isinstance(decode, Sequence):
        raise TypeError(f'decode is {shown(decode)}; it must be True, "key", "value" or a list of both')
    decoding = plan_decoding(directory.topic, registry, decode, columns, **options)
    return ArrowPlan(decoding.schema, decoding)
