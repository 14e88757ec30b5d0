"""Decode the keys and values of the records that `kafkafmt cat` tests and prints."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import click

from .._backend import core
from ..log import PartitionDir
from ..log.damage import ReadLimits
from ..log.finding import JsonEquals
from ..log.reading import PartitionLog
from ..registry import SchemaRegistry, schemas
from ..support.text import encode_json
from ..types import Buffer, RecordColumns, byte_view
from ..values.errors import NoSchemasError
from ..values.prepare import side_writers
from ..values.record_decoder import Decoded, RecordDecoder
from ..values.record_test import RecordTest
from ..values.sample import Sample
from ..values.sides import Formats
from ..values.where import Test
from ..values.writers import Writers
from .output import tell
from .record_lines import LineFormat, Template, json_row


class TopicDecoder:
    """Decodes the records of one topic. A side without schemas keeps its bytes."""

    def __init__(
        self,
        writers: Mapping[str, Writers],
        where: Test | None,
        value_json: tuple[JsonEquals, ...],
        undecodable: Counter[str],
        renew: Callable[[], Mapping[str, Writers]] | None = None,
    ) -> None:
        self.decoders: dict[str, RecordDecoder] = {
            side: RecordDecoder(found, side, None if renew is None else partial(_renewed, renew, side))
            for side, found in writers.items()
        }
        self.test: RecordTest = RecordTest(self.decoders, where, value_json)
        self._undecodable = undecodable

    def json_lines(
        self, place: Any, source: Buffer, columns: RecordColumns, first: int, end: int, text: Callable[[bytes], str]
    ) -> bytes:
        """Return some records as JSON lines."""
        lines = []
        for record in core.make_records(source, columns)[first:end]:
            row = json_row(place, record, text)
            for side, decoder in self.decoders.items():
                decoded = decoder.decode(getattr(record, side), record.headers)
                row[side] = decoded.value
                row |= self._about(side, decoded, getattr(record, side))
            lines.append(encode_json(row) + "\n")
        return "".join(lines).encode()

    def _about(self, side: str, decoded: Decoded, raw: bytes | None) -> Mapping[str, Any]:
        if decoded.error is not None:
            self._undecodable[decoded.error.code] += 1
            error, rest = decoded.error.to_dict(), base64.b64encode(raw or b"").decode()
            return {f"{side}_error": error, f"{side}_raw": rest}
        return {f"{side}_schema": decoded.schema_dict()} if decoded.schema is not None else {}

    def text_lines(
        self,
        template: Template,
        given: LineFormat,
        encoding: str,
        source: Buffer,
        columns: RecordColumns,
        first: int,
        end: int,
    ) -> bytes:
        """Return some records as lines of text, in which JSON replaces the decoded keys and values."""
        texts, size = [bytes(byte_view(source))], len(byte_view(source))
        shown = copy(columns)
        for side, decoder in self.decoders.items():
            positions = getattr(columns, f"{side}_position").copy()
            lengths = getattr(columns, f"{side}_length").copy()
            for row, record in enumerate(core.make_records(source, columns)[first:end], first):
                decoded = decoder.decode(getattr(record, side), record.headers)
                if decoded.error is not None:
                    self._undecodable[decoded.error.code] += 1
                elif lengths[row] >= 0:
                    text = json.dumps(decoded.value, ensure_ascii=False, separators=(",", ":")).encode()
                    texts.append(text)
                    positions[row], lengths[row] = size, len(text)
                    size += len(text)
            setattr(shown, f"{side}_position", positions)
            setattr(shown, f"{side}_length", lengths)
        separator = given.separator.encode()
        return core.format_records(b"".join(texts), shown, template, given.style, encoding, separator, first, end)


def _renewed(renew: Callable[[], Mapping[str, Writers]], side: str) -> Writers:
    return renew()[side]


class TopicDecoders:
    """The decoders of the topics that `cat` prints. The schemas are read from each log directory, or from `source`."""

    def __init__(
        self,
        source: str | None,
        formats: Formats,
        framing: str,
        where: Test | None,
        value_json: tuple[JsonEquals, ...],
        directories: Iterable[PartitionDir],
        limits: ReadLimits,
        follow: bool,
    ) -> None:
        self._source, self._formats, self._framing = source, formats, framing
        self._where, self._value_json, self._limits, self._follow = where, value_json, limits, follow
        self._registries: dict[str, SchemaRegistry] = {}
        self._decoders: dict[str, TopicDecoder] = {}
        self.undecodable: Counter[str] = Counter()
        self._check(directories)

    def _check(self, directories: Iterable[PartitionDir]) -> None:
        """Plan all topics. Raise a usage error if no topic has schemas. Print the topics that have none, if others do."""
        by_topic: dict[str, list[PartitionDir]] = {}
        for directory in directories:
            by_topic.setdefault(directory.topic, []).append(directory)
        without: list[str] = []
        problem = ""
        for topic, partitions in by_topic.items():
            try:
                self._decoders[topic] = self._decoder(self._writers(partitions), partitions)
            except NoSchemasError as error:
                without, problem = [*without, topic], problem or str(error)
                self._decoders[topic] = self._decoder({})
            except (LookupError, ValueError) as error:
                raise click.UsageError(f"topic {topic} cannot be decoded: {error}") from None
        if without and len(without) == len(by_topic):
            raise click.UsageError(problem)
        if without:
            tell(f"topics without schemas are not decoded: {', '.join(without)}")

    def of(self, directory: PartitionDir) -> TopicDecoder:
        """Return the decoder of the topic of a partition, which can be new."""
        if directory.topic not in self._decoders:
            self._check([directory])
        return self._decoders[directory.topic]

    def _decoder(self, writers: Mapping[str, Writers], directories: Sequence[PartitionDir] = ()) -> TopicDecoder:
        def renew() -> Mapping[str, Writers]:
            self._registries.clear()
            return self._writers(directories)

        return TopicDecoder(writers, self._where, self._value_json, self.undecodable, renew if self._follow else None)

    def _writers(self, directories: Sequence[PartitionDir]) -> Mapping[str, Writers]:
        sample = Sample([PartitionLog(directory, self._limits) for directory in directories])
        first = directories[0]
        return side_writers(
            first.topic,
            self._formats,
            lambda: self._registry(first),
            framing=self._framing,
            sample=sample,
            any_subject=True,
        )

    def _registry(self, directory: PartitionDir) -> SchemaRegistry:
        place = directory.path.parent if self._source is None else self._source
        if str(place) not in self._registries:
            self._registries[str(place)] = schemas(place, on_message=tell)
        return self._registries[str(place)]
