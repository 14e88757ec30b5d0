"""Decode the keys and values of a query into the columns of its schema.

The driver reads the schemas of the registry, and decides the columns. Spark sends both to the tasks.
Each process plans the decoding of a topic once.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ...arrow.builder import ArrowBuilder, selected_schema
from ...log import NoLogError, PartitionDir, PartitionLog
from ...log.damage import ReadLimits
from ...registry import SchemaRegistry, schemas
from ...registry.api import schemas_of_logs
from ...support.paths import without_secrets
from ...support.text import counted, plain
from ...values import UndecodableError
from ...values.decoder import SideDecoder
from ...values.prepare import side_writers
from ...values.sample import Sample
from ...values.sides import SIDES
from ...values.topic_decoding import TopicDecoding
from ...values.writers import SchemaProblem
from ..messages import say
from ..option_text import OptionError, input_of
from ..schema import STANDARD, WITH_HEADERS
from ..value_types import BEYOND, Converter, check_nullable, check_type, field_paths, spark_type
from .options import Options
from .planning import discovered

ADDED = {f"{side}_{part}": side for side in SIDES for part in ("rest", "error", "raw")}
"""Columns that follow a decoded side, with this side."""


class Sources(NamedTuple):
    """The schemas with which a query decodes, and the partitions of the topics that it reads."""

    registry: SchemaRegistry
    topics: dict[str, list[PartitionDir]]


def read_sources(options: Options) -> Sources:
    """Read the schemas on the driver. By default, they are those in one of the log directories of the query."""
    found = discovered(options, lambda _: None)  # planning reports the messages
    chosen = options.select(found.partitions)
    if not chosen:
        raise OptionError("decode needs a topic, but the query reads none")
    topics: dict[str, list[PartitionDir]] = {}
    for directory in sorted(chosen, key=lambda d: d.key):
        topics.setdefault(directory.topic, []).append(directory)
    if not any(given.has_subject for given in options.decode.values()):
        return Sources(SchemaRegistry([]), topics)
    try:
        if options.registry is not None:
            registry = schemas(_registry_path(options.registry), on_message=say)
        else:
            registry = schemas_of_logs(found, chosen, say)
    except NoLogError as error:
        raise OptionError(f"{error}; choose others with registry") from None
    except OSError as error:
        place = "" if options.registry is None else f" of {plain(without_secrets(options.registry))}"
        raise OptionError(f"the schemas{place} cannot be read: {error}") from None
    return Sources(registry, topics)


def _registry_path(text: str) -> str:
    return text if text.startswith(("http://", "https://")) else input_of(text)


def default_schema(options: Options, sources: Sources) -> StructType:
    """Return the schema of a query that decodes, unless the user gives one."""
    columns = options.columns or (WITH_HEADERS if options.include_headers else STANDARD)
    return _columns(_planned(options, sources, columns)[0])


def plan_query(options: Options, sources: Sources, schema: StructType) -> QueryDecoding:
    """Return how a query decodes. OptionError: the schema does not fit to the schemas of the registry."""
    if not schema.fields:
        raise OptionError("the schema has no columns; name at least one column")
    planned = _planned(options, sources, _columns_of(schema))
    columns = _columns(planned[0])
    names = schema.fieldNames()
    try:
        if twice := next((n for n in names if names.count(n) > 1), None):
            raise ValueError(f"the schema contains the column {twice} twice")
        for field in schema:
            check_nullable(field.nullable, field.name)
            check_type(field.dataType, columns[field.name].dataType, field.name)
    except ValueError as error:
        raise OptionError(str(error)) from None
    return QueryDecoding(planned, sources.registry, options, schema)


def _columns_of(schema: StructType) -> tuple[str, ...]:
    """Return the columns and fields that a schema contains."""
    found = dict.fromkeys(p for f in schema for p in (field_paths(f.name, f.dataType) if f.name in SIDES else [f.name]))
    for side in {ADDED[name] for name in schema.fieldNames() if name in ADDED} - set(schema.fieldNames()):
        found[side] = None
    return tuple(found)


def _planned(options: Options, sources: Sources, columns: Sequence[str]) -> list[TopicDecoding]:
    """Plan the decoding of the topics. OptionError: their columns differ."""
    planned: list[TopicDecoding] = []
    problems: dict[str, OptionError] = {}
    for topic, directories in sources.topics.items():
        sample = Sample(PartitionLog(d, ReadLimits(options.max_batch_bytes)) for d in directories)
        try:
            planned.append(_topic_decoding(topic, options, sources.registry, columns, sample))
            _columns(planned[-1])
        except OptionError as error:
            problems[topic] = error
    planned = [decoding for decoding in planned if decoding.topic not in problems]
    if not planned:
        raise next(iter(problems.values()))
    for topic in problems:
        raise _different(planned[0].topic, topic)
    for other in planned:
        _check_same(planned[0], other)
    return planned


def _topic_decoding(
    topic: str, options: Options, registry: SchemaRegistry, columns: Sequence[str], sample: Sample | None = None
) -> TopicDecoding:
    """Return how a topic is decoded. OptionError: it has no schemas."""
    try:
        writers = side_writers(
            topic, options.decode, lambda: registry, schema=options.schema, framing=options.framing, sample=sample
        )
    except (SchemaProblem, LookupError, ValueError) as error:
        raise OptionError(f"topic {plain(topic)} cannot be decoded: {error}") from None
    return TopicDecoding(topic, writers, tuple(columns), raw=options.raw)


def _check_same(first: TopicDecoding, other: TopicDecoding) -> None:
    """Check that two topics have the same columns."""
    if _columns(first) != _columns(other):
        raise _different(first.topic, other.topic)


def _different(first: str, other: str) -> OptionError:
    return OptionError(
        f"decode needs topics with the same columns, but those of {plain(first)} and {plain(other)} differ; choose one "
        "of them with subscribe"
    )


def _columns(decoding: TopicDecoding) -> StructType:
    """Return the decoded columns of a topic. OptionError: the options do not fit to its schemas."""
    try:
        found = StructType()
        for field in decoding.plan.schema:
            found.add(field.name, spark_type(field.type))
        return found
    except (SchemaProblem, LookupError, ValueError, TypeError) as error:
        raise OptionError(f"topic {plain(decoding.topic)} cannot be decoded: {error}") from None


class QueryDecoding:
    """How the keys and values of a query are decoded. Picklable, because Spark sends it to tasks."""

    def __init__(
        self, planned: Sequence[TopicDecoding], registry: SchemaRegistry, options: Options, schema: StructType
    ) -> None:
        self._packed = zlib.compress(pickle.dumps(({d.topic: d for d in planned}, registry)))
        self._options = options
        self.schema: StructType = schema

    def of(self, topic: str) -> TopicDecoding:
        """Return the decoding of a topic. OptionError: its columns differ from those of the query."""
        planned, registry = _unpacked(self._packed)
        if topic not in planned:  # the topic is newer than the query
            first = next(iter(planned.values()))
            try:
                found = _topic_decoding(topic, self._options, registry, first.columns or ())
                _check_same(first, found)
            except OptionError:
                raise _different(first.topic, topic) from None
            planned[topic] = found
        return planned[topic]


@lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> tuple[dict[str, TopicDecoding], SchemaRegistry]:
    """Return the decodings of topics that this process has planned, and the schemas."""
    found: tuple[dict[str, TopicDecoding], SchemaRegistry] = pickle.loads(zlib.decompress(packed))
    return found


class TaskDecoding:
    """Decodes the records of one task, and converts them to the columns of the query."""

    def __init__(self, decoding: QueryDecoding, options: Options) -> None:
        self._decoding = decoding
        self._mode = options.mode
        self._converter = Converter(decoding.schema)
        self._decoders: dict[str, dict[str, SideDecoder]] = {}
        self._not_shown = Counter[str]()

    def builder(self, topic: str, partition: int, more: Collection[str]) -> ArrowBuilder:
        """Return a builder for the records of a partition, with additional columns."""
        topic_decoding = self._decoding.of(topic)
        if topic not in self._decoders:
            self._decoders[topic] = topic_decoding.decoders()
        schema = topic_decoding.plan.schema
        names = dict.fromkeys([*schema.names, "offset", *more])
        return ArrowBuilder(topic, partition, selected_schema(schema, names), decoders=self._decoders[topic])

    def convert(self, rows: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """Return rows with the columns and types of the query. FAILFAST: UndecodableError if one was not decoded."""
        for side in self._decoders[topic]:
            errors = rows.column(f"{side}_error")
            if errors.null_count == len(rows):
                continue
            if self._mode == "FAILFAST":
                self._fail(rows, topic, partition)
            if self._mode == "DROPMALFORMED":
                rows = rows.filter(errors.is_null())
            elif f"{side}_error" not in self._converter.schema.names:
                self._not_shown[side] += len(rows) - errors.null_count
        found = self._converter.convert(rows)
        if self._converter.beyond and self._mode == "FAILFAST":
            raise ValueError(f"{topic}-{partition}: a timestamp {BEYOND}")
        return found

    def _fail(self, rows: pa.RecordBatch, topic: str, partition: int) -> NoReturn:
        """Raise UndecodableError for the first record that was not decoded."""
        found = {side: rows.column(f"{side}_error").is_valid() for side in self._decoders[topic]}
        row, side = min(
            (pc.index(is_error, True).as_py(), side) for side, is_error in found.items() if is_error.true_count
        )
        text, offset = rows.column(f"{side}_error")[row].as_py(), rows.column("offset")[row].as_py()
        code, _, position = text.partition(" at byte ")
        code, _, message = (code, "", code.replace("_", " ")) if position else text.partition(": ")
        place = f"{topic}-{partition}: the {side} of the record at offset {offset}"
        raise UndecodableError(code, f"{place} cannot be decoded: {message}", int(position or 0))

    def report(self) -> None:
        """Log what the columns of the query do not show."""
        if self._mode != "PERMISSIVE":
            return
        for side, count in self._not_shown.items():
            say(f"{counted(count, side)} cannot be decoded; select the column {side}_error to get the reasons")
        if self._converter.beyond:
            say(f"{counted(self._converter.beyond, 'timestamp')} {BEYOND}, so null")
