"""Answer DescribeConfigs and ListConfigResources requests.

Topic configs are read from the metadata log of a KRaft cluster, if the directories contain one.
Broker configs describe the options and limits of the kafkafmt server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from threading import Lock
from typing import NamedTuple

from ..errors import KafkaFormatError
from ..protocol import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ErrorCode,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..support.text import plain, shown
from .catalog import Catalog
from .groups import GroupLimits
from .handlers import Handlers, RequestContext, distinct
from .settings import ServerSettings

KnownConfigs = Mapping[str, Mapping[str, str]]
"""Explicit values of topic configs, by topic name and config name."""
FRESH_SECONDS = 30.0
"""Time in seconds after which the topic configs are read again."""


class Resource(IntEnum):
    """Resource types that have configs. The values are those of Kafka's ``ConfigResource.Type``."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Source of a config's value. The numbers are those of Kafka's ``DescribeConfigsResponse.ConfigSource``."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Type(IntEnum):
    """Type of a config. The numbers are those of Kafka's ``DescribeConfigsResponse.ConfigType``."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Definition(NamedTuple):
    """Definition of a topic config: its type, default value, broker config name, and documentation."""

    type: Type
    default: str
    broker_name: str
    documentation: str


TOPIC_CONFIGS = {
    "cleanup.policy": Definition(
        Type.LIST, "delete", "log.cleanup.policy", "Whether old segments are deleted, compacted, or both."
    ),
    "compression.type": Definition(
        Type.STRING, "producer", "compression.type", "Codec of the stored batches. 'producer' keeps the codec of the producer."
    ),
    "delete.retention.ms": Definition(
        Type.LONG, "86400000", "log.cleaner.delete.retention.ms", "Time for which compaction keeps tombstones."
    ),
    "file.delete.delay.ms": Definition(
        Type.LONG, "60000", "log.segment.delete.delay.ms", "Time between the removal of a segment and the deletion of its files."
    ),
    "flush.messages": Definition(
        Type.LONG, "9223372036854775807", "log.flush.interval.messages", "Number of records after which the log is flushed to disk."
    ),
    "flush.ms": Definition(
        Type.LONG, "9223372036854775807", "log.flush.interval.ms", "Time after which the log is flushed to disk."
    ),
    "index.interval.bytes": Definition(
        Type.INT, "4096", "log.index.interval.bytes", "Number of bytes between two entries of the offset index."
    ),
    "local.retention.bytes": Definition(
        Type.LONG, "-2", "log.local.retention.bytes", "Largest size of the local segments of a tiered partition. -2 means the value of retention.bytes."
    ),
    "local.retention.ms": Definition(
        Type.LONG, "-2", "log.local.retention.ms", "Largest age of the local segments of a tiered partition. -2 means the value of retention.ms."
    ),
    "max.compaction.lag.ms": Definition(
        Type.LONG, "9223372036854775807", "log.cleaner.max.compaction.lag.ms", "Largest time for which a record can stay uncompacted."
    ),
    "max.message.bytes": Definition(
        Type.INT, "1048588", "message.max.bytes", "Largest size of a batch, after compression."
    ),
    "message.timestamp.after.max.ms": Definition(
        Type.LONG, "3600000", "log.message.timestamp.after.max.ms", "Largest time by which a record's timestamp can be after the broker's time."
    ),
    "message.timestamp.before.max.ms": Definition(
        Type.LONG, "9223372036854775807", "log.message.timestamp.before.max.ms",
        "Largest time by which a record's timestamp can be before the broker's time.",
    ),
    "message.timestamp.type": Definition(
        Type.STRING, "CreateTime", "log.message.timestamp.type", "Whether producers or the broker set the timestamps."
    ),
    "min.cleanable.dirty.ratio": Definition(
        Type.DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", "Smallest share of uncompacted bytes at which the log is compacted again."
    ),
    "min.compaction.lag.ms": Definition(
        Type.LONG, "0", "log.cleaner.min.compaction.lag.ms", "Shortest age at which a record can be compacted."
    ),
    "min.insync.replicas": Definition(
        Type.INT, "1", "min.insync.replicas", "Number of replicas that acks=all requires."
    ),
    "preallocate": Definition(
        Type.BOOLEAN, "false", "log.preallocate", "Whether segments are created with their full size."
    ),
    "remote.storage.enable": Definition(
        Type.BOOLEAN, "false", "", "Whether segments are moved to tiered storage."
    ),
    "retention.bytes": Definition(
        Type.LONG, "-1", "log.retention.bytes", "Size after which old segments are deleted. -1 means never."
    ),
    "retention.ms": Definition(
        Type.LONG, "604800000", "log.retention.ms", "Age after which segments are deleted. -1 means never."
    ),
    "segment.bytes": Definition(Type.INT, "1073741824", "log.segment.bytes", "Largest size of a segment."),
    "segment.index.bytes": Definition(
        Type.INT, "10485760", "log.index.size.max.bytes", "Largest size of an offset index."
    ),
    "segment.jitter.ms": Definition(
        Type.LONG, "0", "log.roll.jitter.ms", "Largest random time that is subtracted from segment.ms."
    ),
    "segment.ms": Definition(Type.LONG, "604800000", "log.roll.ms", "Age after which a new segment is started."),
    "unclean.leader.election.enable": Definition(
        Type.BOOLEAN, "false", "unclean.leader.election.enable",
        "Whether a replica that is not in sync can become the leader.",
    ),
}  # fmt: skip

Config = DescribeConfigsResponse.DescribeConfigsResourceResult
Synonym = DescribeConfigsResponse.DescribeConfigsSynonym


class ConfigApis:
    """Answers DescribeConfigs and ListConfigResources requests."""

    def __init__(
        self, catalog: Catalog, settings: ServerSettings, known_configs: Callable[[], KnownConfigs | None] | None
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._read_configs = known_configs
        self._lock = Lock()
        self._known: KnownConfigs | None = None
        self._read_at = float("-inf")

    def handlers(self) -> Handlers:
        """Return the lowest version, the highest version and the handler of each API, by API key."""
        return {32: (0, 4, self._describe), 74: (0, 1, self._list)}

    async def _describe(self, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
        return await self._catalog.run(self._described, request, context.api_version)

    async def _list(self, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
        wanted = set(request.resource_types) or set(Resource)
        if context.api_version == 0:
            wanted = {Resource.CLIENT_METRICS}
        unknown = wanted - set(Resource)
        if unknown:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        node = str(self._catalog.cluster.node_id)
        names = {
            Resource.TOPIC: [topic.name for topic in self._catalog.topics],
            Resource.BROKER: [node],
            Resource.BROKER_LOGGER: [node],
        }
        make = ListConfigResourcesResponse.ConfigResource
        return ListConfigResourcesResponse(
            config_resources=[
                make(resource_name=name, resource_type=kind)
                for kind, found in names.items()
                if kind in wanted
                for name in found
            ]
        )

    def _described(self, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse:
        results = []
        for resource in distinct(request.resources, lambda r: (r.resource_type, r.resource_name)):
            result = DescribeConfigsResponse.DescribeConfigsResult(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            try:
                configs = list(self._configs_of(resource.resource_type, resource.resource_name))
            except ConfigError as error:
                result.error_code, result.error_message = error.code, str(error)
                configs = []
            keys = set(resource.configuration_keys or ())
            for config in configs:
                if keys and config.name not in keys:  # As in Kafka, an empty list of keys selects all configs.
                    continue
                config.is_default = version == 0 and config.config_source == Source.DEFAULT
                if not request.include_synonyms:
                    config.synonyms = []
                if not request.include_documentation:
                    config.documentation = None
                result.configs.append(config)
            results.append(result)
        return DescribeConfigsResponse(results=results)

    def _configs_of(self, kind: int, name: str) -> Iterator[Config]:
        if kind == Resource.TOPIC:
            if self._catalog.topic(name) is None:
                raise ConfigError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {shown(name)} is not served")
            yield from self._topic_configs(name)
        elif kind == Resource.BROKER:
            if name not in ("", str(self._catalog.cluster.node_id)):
                raise ConfigError(ErrorCode.INVALID_REQUEST, f"broker {shown(name)} does not exist")
            if name:
                yield from self._broker_configs()
        elif kind not in tuple(Resource):
            raise ConfigError(ErrorCode.INVALID_REQUEST, f"resource type {kind} is not supported")

    def _topic_configs(self, name: str) -> Iterator[Config]:
        known = self._known_configs()
        if known is None:
            return
        explicit = dict(known.get(name, {}))
        for key, definition in TOPIC_CONFIGS.items():
            default = Synonym(name=definition.broker_name or key, value=definition.default, source=Source.DEFAULT)
            value = explicit.pop(key, None)
            source = Source.DEFAULT if value is None else Source.TOPIC
            own = [] if value is None else [Synonym(name=key, value=value, source=Source.TOPIC)]
            yield Config(
                name=key,
                value=definition.default if value is None else value,
                config_source=source,
                synonyms=[*own, default],
                config_type=definition.type,
                documentation=definition.documentation,
            )
        for key, value in sorted(explicit.items()):
            synonyms = [Synonym(name=key, value=value, source=Source.TOPIC)]
            yield Config(name=key, value=value, config_source=Source.TOPIC, synonyms=synonyms)

    def _broker_configs(self) -> Iterator[Config]:
        cluster, limits = self._catalog.cluster, GroupLimits()
        directories = {plain(str(served.directory.path.parent)): None for served in self._catalog.partitions}
        address = f"PLAINTEXT://{cluster.host}:{cluster.port}"
        for name, value, kind, documentation in (
            ("advertised.listeners", address, Type.STRING, "Address to which clients connect."),
            ("auto.create.topics.enable", "false", Type.BOOLEAN, "Topics cannot be created."),
            ("broker.id", str(cluster.node_id), Type.INT, "Id of the broker."),
            ("default.replication.factor", "1", Type.INT, "Each partition has one replica."),
            ("delete.topic.enable", "false", Type.BOOLEAN, "Topics cannot be deleted."),
            ("group.max.session.timeout.ms", _ms(limits.max_session_timeout), Type.INT, "Longest session of a member."),
            ("group.max.size", str(limits.members), Type.INT, "Largest number of members of a group."),
            (
                "group.min.session.timeout.ms",
                _ms(limits.min_session_timeout),
                Type.INT,
                "Shortest session of a member.",
            ),
            ("log.dirs", ",".join(directories), Type.STRING, "Directories that are served."),
            ("node.id", str(cluster.node_id), Type.INT, "Id of the broker."),
            ("offset.metadata.max.bytes", str(limits.metadata_length), Type.INT, "Largest metadata of a commit."),
        ):
            yield Config(
                name=name,
                value=value,
                read_only=True,
                config_source=Source.STATIC_BROKER,
                synonyms=[Synonym(name=name, value=value, source=Source.STATIC_BROKER)],
                config_type=kind,
                documentation=documentation,
            )

    def _known_configs(self) -> KnownConfigs | None:
        """Return the topic configs in the metadata log. They are read again after FRESH_SECONDS."""
        with self._lock:
            if self._read_configs is not None and time.monotonic() - self._read_at > FRESH_SECONDS:
                try:
                    self._known = self._read_configs()
                except (KafkaFormatError, OSError) as error:
                    self._settings.on_message(f"the configs of the topics cannot be read: {error}")
                self._read_at = time.monotonic()
            return self._known


class ConfigError(Exception):
    """Raised if the configs of a resource cannot be described. `code` is the error code for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
