"""Decide how the keys and values of each topic of an export are decoded, and how Parquet stores them.

The driver reads the registry. Spark sends it to the tasks together with the options, and each
process plans the decoding of a topic once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import pyarrow as pa

from ..log import Discovery, NoLogError, PartitionDir
from ..log.catalog import Source
from ..log.damage import ReadLimits
from ..log.reading import PartitionLog
from ..registry import SchemaRegistry, schemas
from ..registry.api import schemas_of_logs
from ..support.text import counted, plain
from ..values import ValueDecoding
from ..values.decoder import SideDecoder
from ..values.errors import NoSchemasError
from ..values.nested import EMPTY_MEMBER, convert
from ..values.prepare import side_writers
from ..values.sample import Sample
from ..values.sides import SIDES
from ..values.topic_decoding import TopicDecoding
from ..values.writers import SchemaProblem
from .errors import DecodingError
from .options import DIRECTORY_COLUMNS, ExportOptions
from .report import SchemaRecords, SideDecoded, TotalDecoded


class ExportDecoding(TopicDecoding):
    """How the keys and values of a topic are decoded, and how Parquet stores them."""

    @cached_property
    def plan(self) -> ValueDecoding:
        """How keys and values are decoded. DecodingError: the options do not fit to the schemas of the topic."""
        try:
            return super().plan
        except (SchemaProblem, LookupError, ValueError) as error:
            raise DecodingError(f"topic {plain(self.topic)} cannot be decoded: {error}") from error

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns as Parquet stores them."""
        return pa.schema([pa.field(f.name, stored_type(f.type)) for f in self.plan.schema])

    def counts(self, decoders: dict[str, SideDecoder]) -> dict[str, SideCounts]:
        """Return what these decoders have counted."""
        found = {}
        for side, decoder in decoders.items():
            known = self.plan.plans[side].schemas
            named = {number: known[number] for number in decoder.records}
            records = Counter[SchemaKey]()
            for number, schema in named.items():
                if schema is not None:
                    records[schema.schema_id, schema.subject, schema.version] += decoder.records[number]
            found[side] = SideCounts(decoder.records.total(), records, Counter(decoder.undecodable))
        return found


SchemaKey = tuple[int | None, str, int]
"""Id, subject and version of a schema."""


@dataclass
class SideCounts:
    """Numbers of keys or values that were decoded, also by schema, and that could not be decoded, by error code."""

    decoded: int = 0
    records: Counter[SchemaKey] = field(default_factory=Counter)
    undecodable: Counter[str] = field(default_factory=Counter)


def plan_topics(
    options: ExportOptions, found: Discovery, chosen: Sequence[PartitionDir], on_message: Callable[[str], None]
) -> dict[str, ExportDecoding]:
    """Return how each topic with schemas is decoded. The columns are those of `options.columns`."""
    if not options.decode or not chosen:
        return {}
    by_topic: dict[str, list[PartitionDir]] = {}
    for directory in chosen:
        by_topic.setdefault(directory.topic, []).append(directory)

    @cache
    def registry() -> SchemaRegistry:
        given = options.registry
        return given if isinstance(given, SchemaRegistry) else _read_registry(given, found, chosen, on_message)

    plans: dict[str, ExportDecoding] = {}
    problem: Exception | None = None
    for topic, directories in by_topic.items():
        sample = Sample([PartitionLog(d, ReadLimits(options.max_batch_bytes)) for d in directories], options.selection)
        try:
            writers = side_writers(
                topic, options.decode, registry, schema=options.schema, framing=options.framing, sample=sample
            )
        except NoSchemasError as error:
            problem = problem or error
            continue
        except (SchemaProblem, LookupError, ValueError) as error:
            raise DecodingError(f"topic {plain(topic)} cannot be decoded: {error}") from error
        plans[topic] = ExportDecoding(topic, writers, options.columns, options.layout)
        flat = plans[topic].plan.flat
        if flat is not None and not options.single_file:
            _check_levels(topic, flat.fields, options.partition_by)
    if not plans:
        more = f", and none of {counted(len(by_topic) - 1, 'other topic')}" if len(by_topic) > 1 else ""
        raise DecodingError(f"{problem}{more}")
    for topic in by_topic:
        if topic not in plans:
            on_message(
                f"topic {plain(topic)} has no schemas in the registry; its keys and values are exported as bytes"
            )
    if options.single_file:
        _check_same(plans, list(by_topic))
    return plans


def _read_registry(
    source: Source | None, found: Discovery, chosen: Sequence[PartitionDir], on_message: Callable[[str], None]
) -> SchemaRegistry:
    """Read the schemas. By default, they are those of the topic ``_schemas`` in one of the log directories."""
    if source is not None:
        return schemas(source, on_message=on_message)
    try:
        return schemas_of_logs(found, chosen, on_message)
    except NoLogError as error:
        raise DecodingError(f"{error}; choose others with registry") from None


def _check_levels(topic: str, fields: Iterable[str], partition_by: str | None) -> None:
    """Check that no field has the name of a column that readers derive from the names of directories."""
    levels = {*DIRECTORY_COLUMNS, *(["date", "hour"] if partition_by else [])}
    for name in fields:
        if name.lower() in levels:
            raise DecodingError(
                f"topic {plain(topic)} has the field {plain(name)}, which is also the name of a directory level; choose "
                "columns, or the layout nested"
            )


def _check_same(plans: dict[str, ExportDecoding], topics: Sequence[str]) -> None:
    """Check that the topics of a single file have the same columns."""
    first = next(iter(plans))
    for topic in topics:
        if topic not in plans or plans[topic].stored != plans[first].stored:
            raise DecodingError(
                f"topics {plain(first)} and {plain(topic)} have different columns, so they cannot be in the same file; "
                "choose one of them, or a directory as output"
            )


def total_decoded(sides: Sequence[str], results: Iterable[dict[str, SideCounts]]) -> TotalDecoded:
    """Add the counts of all tasks."""
    totals = {side: SideCounts() for side in sides}
    for result in results:
        for side, counts in result.items():
            totals[side].decoded += counts.decoded
            totals[side].records.update(counts.records)
            totals[side].undecodable.update(counts.undecodable)
    return TotalDecoded(*(_side(totals[side]) if side in totals else None for side in SIDES))


def _side(counts: SideCounts) -> SideDecoded:
    by_subject = sorted(counts.records.items(), key=lambda item: (item[0][1], item[0][2]))
    return SideDecoded(
        counts.decoded,
        sum(counts.undecodable.values()),
        dict(sorted(counts.undecodable.items())),
        tuple(SchemaRecords(*key, records) for key, records in by_subject if records),
    )


def stored_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with which Parquet stores a column. It has no struct without fields and no empty fixed type."""
    if pa.types.is_struct(type_):
        members = [type_.field(i) for i in range(type_.num_fields)]
        fields = [pa.field(f.name, stored_type(f.type), f.nullable) for f in members]
        return pa.struct(fields or [pa.field(EMPTY_MEMBER, pa.bool_())])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, stored_type(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(stored_type(type_.value_type))
    return pa.binary() if type_ == pa.binary(0) else type_


def stored_array(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return an array with the type of `stored_type`."""
    return convert(array, type_, lambda leaf, wanted: leaf.cast(wanted))
