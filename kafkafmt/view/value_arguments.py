"""Check the keyword arguments that decode keys and values, such as `decode` and `schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from .selection_arguments import SelectionArguments

if TYPE_CHECKING:
    import pyarrow as pa

    from ..arrow.builder import ArrowBuilder
    from ..log.catalog import Source
    from ..log.reading import PartitionLog, Selection
    from ..registry import SchemaRegistry
    from ..values import ValueDecoding
    from ..values.flat_layout import FlatLayout
    from ..values.sides import Decode
    from ..values.writers import Writers


class ValueArguments(TypedDict, total=False):
    """Keyword arguments that decode keys and values. `Partition.to_arrow` describes them."""

    decode: Decode
    registry: SchemaRegistry | Source | None
    schema: str | int
    framing: str
    layout: Literal["nested", "flat"]
    raw: bool
    on_undecodable: Literal["keep", "fail"]


class ArrowArguments(SelectionArguments, ValueArguments, total=False):
    """Keyword arguments that select records and decode their keys and values."""


@dataclass(frozen=True)
class ArrowPlan:
    """The columns of an Arrow result, and how keys and values are decoded for it."""

    built: pa.Schema
    """Schema of the batches that an `ArrowBuilder` returns."""
    decoding: ValueDecoding | None = None
    flat: FlatLayout | None = None
    with_extents: bool = False
    """Whether the decoders remember the first and last offset of each schema."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self.built if self.flat is None else self.flat.schema

    def builder(self, topic: str, partition: int) -> ArrowBuilder:
        """Return a new builder, for one thread. The result needs its batches in the form that `arranged` returns."""
        from ..arrow.builder import ArrowBuilder

        return ArrowBuilder(topic, partition, self.built, decoders=self.decoders())

    def arranged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(batches) if self.flat is None else map(self.flat.arrange, batches)

    def decoders(self) -> Mapping[str, Any]:
        """Return new decoders for the decoded sides, for one thread."""
        return {} if self.decoding is None else self.decoding.decoders(self.built.names, self.with_extents)

    def selected(self, names: Sequence[str]) -> ArrowPlan:
        """Return a plan for at least some of the columns, or for others that are not decoded."""
        from ..arrow.builder import selected_schema
        from ..values.flat_layout import FlatLayout

        if self.flat is None or self.decoding is None:
            return ArrowPlan(selected_schema(self.built, names), self.decoding)
        built = selected_schema(self.built, self.flat.needed(self.built, names) or self.built.names[:1])
        return ArrowPlan(built, self.decoding, FlatLayout(built, self.decoding.plans))


def split_arguments(given: ArrowArguments) -> tuple[SelectionArguments, ValueArguments]:
    """Return the arguments that select records, and those that decode values."""
    values: Any = {name: value for name, value in given.items() if name in ValueArguments.__annotations__}
    selection: Any = {name: value for name, value in given.items() if name not in values}
    return selection, values


def plan_topic(
    logs: Sequence[PartitionLog], columns: Sequence[str] | None, values: ValueArguments, selection: Selection
) -> ArrowPlan:
    """Return the columns of an Arrow result of several partitions. If values are decoded, they need the same topic.

    By default, the schemas are those in the same log directory. Types without a schema are those of the
    first selected records.
    """
    from ..arrow.builder import schema_of

    options: dict[str, Any] = dict(values)
    decode, registry = options.pop("decode", False), options.pop("registry", None)
    if decode is False:
        if options or registry is not None:
            name = next(iter(options), "registry")
            raise ValueError(f"{name} needs decode; pass decode=True too")
        return ArrowPlan(schema_of(columns))
    topics = {log.directory.topic for log in logs}
    if len(topics) != 1:
        found = f"{len(topics)} topics are read; choose one" if topics else "there is no partition"
        raise ValueError(f"decode needs a single topic, but {found}")
    from ..values import plan_decoding

    how = {name: options.pop(name) for name in ("schema", "framing") if name in options}
    writers = topic_writers(logs, decode, registry, selection, **how)
    decoding = plan_decoding(topics.pop(), writers, columns, **options)
    return ArrowPlan(decoding.schema, decoding, decoding.flat)


def topic_writers(
    logs: Sequence[PartitionLog],
    decode: Decode,
    registry: SchemaRegistry | Source | None,
    selection: Selection,
    **how: Any,
) -> Mapping[str, Writers]:
    """Return the schemas of the sides to decode. By default, they are those in the log directory of the topic."""
    from ..registry import SchemaRegistry, schemas
    from ..values.prepare import side_writers
    from ..values.sample import Sample
    from ..values.sides import side_formats

    def read_registry() -> SchemaRegistry:
        if isinstance(registry, SchemaRegistry):
            return registry
        return schemas(logs[0].directory.path.parent if registry is None else registry)

    topic = logs[0].directory.topic
    return side_writers(topic, side_formats(decode), read_registry, sample=Sample(logs, selection), **how)
