"""Find the schemas with which the keys and values of a topic were written. pyarrow is not needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from ..log.catalog import like
from ..registry import SchemaRegistry, schemas
from ..registry.models import AVRO, PROTOBUF
from ..registry.models import JSON as JSON_SCHEMA
from .errors import NoSchemasError
from .framing import CONFLUENT, NONE, framing_of
from .json.infer import infer_type
from .json.writer import JsonWriter
from .plain import PlainWriter
from .record_decoder import Decoded, RecordDecoder
from .sample import INFERRED, LOOKED_AT, Sample
from .sides import PLAIN, UNION, Formats, SideFormat
from .types import JSON_TEXT, Simple, ValueType
from .writers import OneWriter, SubjectWriters, Writers

TYPES = {"avro": AVRO, "protobuf": PROTOBUF, "json": JSON_SCHEMA}


def side_writers(
    topic: str,
    formats: Formats,
    registry: Callable[[], SchemaRegistry],
    *,
    schema: str | int = UNION,
    framing: str = "auto",
    sample: Sample | None = None,
    any_subject: bool = False,
) -> dict[str, Writers]:
    """Return the schemas of each side to decode. A side without schemas is left out.

    With `any_subject`, the values of a side can have several subjects. `registry` is called if a side needs it.
    NoSchemasError: no side has schemas. ValueError: an argument is wrong.
    """
    found: dict[str, Writers] = {}
    finder = _Finder(topic, cache(registry), schema, framing, sample or Sample(), any_subject)
    for side, given in formats.items():
        writers = finder.writers(side, given)
        if writers is not None:
            found[side] = writers
    if formats and not found:
        wanted = " or ".join(f"{topic}-{side}" for side in formats)
        known = like("subject", f"{topic}-value", finder.subjects)
        raise NoSchemasError(f"there is no subject {wanted}: {known}")
    return found


class _Finder:
    def __init__(
        self,
        topic: str,
        registry: Callable[[], SchemaRegistry],
        schema: str | int,
        framing: str,
        sample: Sample,
        any_subject: bool,
    ) -> None:
        self._topic, self._registry, self._schema, self._sample = topic, registry, schema, sample
        self._framing, self._file_framing = framing_of(framing, CONFLUENT), framing_of(framing, NONE)
        self._any_subject = any_subject

    @property
    def subjects(self) -> list[str]:
        return self._registry().subjects(deleted=True)

    def writers(self, side: str, given: SideFormat) -> Writers | None:
        if given.format in PLAIN:
            return OneWriter(PlainWriter(given.format))
        if given.is_inferred:
            return OneWriter(JsonWriter(self._inferred(side)))
        if not given.has_subject:
            return self._of_file(side, given)
        subject = given.name or f"{self._topic}-{side}"
        if given.name and given.name not in self.subjects:
            raise ValueError(f"there is no subject {given.name}: {like('subject', given.name, self.subjects)}")
        if subject not in self.subjects:
            named = self._in_values(side)
            if not named:
                return None
            if len(named) > 1 and not self._any_subject:
                raise ValueError(
                    f"the {side}s of {self._topic} have the subjects {' and '.join(named)}; choose one, such as "
                    f'decode={{"{side}": "auto:{named[0]}"}}'
                )
            subject = named[0]
        message = given.message or self._message(side, subject)
        return SubjectWriters(self._registry(), subject, self._schema, self._framing, message=message)

    def _inferred(self, side: str) -> ValueType:
        """Return a type for JSON values. It does not matter if single records are decoded."""
        if self._any_subject:
            return Simple(JSON_TEXT)
        values = (getattr(record, side) for record in self._sample.records(INFERRED))
        return infer_type(value for value in values if value is not None)

    def _of_file(self, side: str, given: SideFormat) -> Writers:
        """Return the schema in a file. All values were written with it, unless their prefix has its fingerprint."""
        found = list(schemas(given.name))
        if len(found) != 1:
            raise ValueError(f"{given.name} contains {len(found)} schemas; specify the file of one")
        registry = SchemaRegistry([replace(found[0], schema_type=TYPES[given.format], error=None)])
        framing = self._file_framing
        is_fixed = framing.name != "single-object"
        return SubjectWriters(registry, found[0].subject, self._schema, framing, is_fixed, given.message)

    def _message(self, side: str, subject: str) -> str:
        """Return the name of the Protobuf message of the first value, or "" if there is none."""
        versions = self._registry().get_versions(subject, deleted=True) if subject in self.subjects else []
        kinds = {self._registry().get_version(subject, number).schema_type for number in versions}
        if PROTOBUF not in kinds or self._any_subject:
            return ""
        decoded = self._decoded(side, subject)
        return next((found.message for found in decoded if found.message is not None), "")

    def _in_values(self, side: str) -> Sequence[str]:
        """Return the subjects of the schemas that the first values name, if all of them can be decoded."""
        # Serializers name a subject after the topic by default, and otherwise after the type.
        found: dict[str, None] = {}
        for decoded in self._decoded(side, f"{self._topic}-{side}") if self._framing is not NONE else ():
            if decoded.error is not None or decoded.schema is None:
                return []
            found[decoded.schema.subject] = None
        return list(found)

    def _decoded(self, side: str, subject: str) -> Iterator[Decoded]:
        """Decode the first keys or values that are not null."""
        decoder = RecordDecoder(SubjectWriters(self._registry(), subject, self._schema, self._framing), side)
        for record in self._sample.records(LOOKED_AT):
            raw: bytes | None = getattr(record, side)
            if raw is not None:
                yield decoder.decode(raw, record.headers)
