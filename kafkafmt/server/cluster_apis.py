"""Answer ApiVersions, Metadata and DescribeCluster requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import protocol
from ..log.formats import is_topic_name
from ..protocol import ErrorCode
from ..protocol.apis import API_VERSIONS
from .catalog import Catalog, Topic
from .handlers import Handlers, HandlerSet, RequestContext, distinct

METADATA, DESCRIBE_CLUSTER = 3, 60
NEWEST_API_VERSIONS = 4
READ_OPERATIONS = 1 << 3 | 1 << 8 | 1 << 10
"""Bit set of the operations READ, DESCRIBE and DESCRIBE_CONFIGS of Kafka's ``AclOperation``."""
NOT_REQUESTED = -(2**31)
BROKERS_ENDPOINT = 1


def missing_topic_error(name: str) -> ErrorCode:
    # A client requests an unknown topic again and again, but stops if the name cannot belong to any
    # topic.
    valid = is_topic_name(name)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION


class ClusterApis:
    """Answers ApiVersions, Metadata and DescribeCluster requests."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._answered: HandlerSet | None = None

    def handlers(self) -> Handlers:
        """Return the lowest version, the highest version and the handler of each API, by API key."""
        return {
            METADATA: (0, 13, self.metadata),
            API_VERSIONS: (0, NEWEST_API_VERSIONS, self.api_versions),
            DESCRIBE_CLUSTER: (0, 2, self.describe_cluster),
        }

    def announce(self, answered: HandlerSet) -> None:
        """Set the list of APIs that ApiVersions responses contain."""
        self._answered = answered

    async def api_versions(self, _: Any, context: RequestContext) -> Any:
        # If the request has an unsupported version, the connection encodes the response in version
        # 0 (KIP-511).
        make = protocol.ApiVersionsResponse.ApiVersion
        keys = [] if self._answered is None else list(self._answered.versions())
        response = protocol.ApiVersionsResponse(
            api_keys=[make(api_key=key, min_version=low, max_version=high) for key, low, high in keys]
        )
        if not 0 <= context.api_version <= NEWEST_API_VERSIONS:
            response.error_code = ErrorCode.UNSUPPORTED_VERSION
            response.api_keys = [k for k in response.api_keys if k.api_key == API_VERSIONS]
        return response

    async def metadata(self, request: Any, context: RequestContext) -> Any:
        return await self._catalog.run(self._metadata, request, context.api_version)

    def _metadata(self, request: Any, version: int) -> Any:
        self._catalog.refresh()
        cluster = self._catalog.cluster
        make = protocol.MetadataResponse
        broker = make.MetadataResponseBroker(node_id=cluster.node_id, host=cluster.host, port=cluster.port)
        operations = READ_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        return make(
            brokers=[broker],
            cluster_id=cluster.cluster_id,
            controller_id=cluster.node_id,
            topics=list(self._described(request, version)),
            cluster_authorized_operations=operations,
        )

    def _described(self, request: Any, version: int) -> Iterator[Any]:
        """Yield the description of each requested topic."""
        operations = READ_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
        if request.topics is None or (version == 0 and not request.topics):
            for topic in self._catalog.topics:
                yield self._topic(topic, operations)
            return
        unknown = protocol.MetadataResponse.MetadataResponseTopic
        for wanted in distinct(request.topics, lambda topic: (topic.name, topic.topic_id)):
            if wanted.name is None or (not wanted.name and wanted.topic_id.int):
                found = self._catalog.topic_by_id(wanted.topic_id)
                error = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                found = self._catalog.topic(wanted.name)
                error = missing_topic_error(wanted.name)
            if found is not None:
                yield self._topic(found, operations)
            else:
                name = wanted.name if wanted.name is not None or version >= 12 else ""
                yield unknown(error_code=error, name=name, topic_id=wanted.topic_id)

    def _topic(self, topic: Topic, operations: int) -> Any:
        make = protocol.MetadataResponse
        node = self._catalog.cluster.node_id
        return make.MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            topic_authorized_operations=operations,
            partitions=[
                make.MetadataResponsePartition(
                    partition_index=number,
                    leader_id=node,
                    leader_epoch=served.leader_epoch(),
                    replica_nodes=[node],
                    isr_nodes=[node],
                    offline_replicas=[],
                )
                for number, served in topic.partitions.items()
            ],
        )

    async def describe_cluster(self, request: Any, _: RequestContext) -> Any:
        cluster, make = self._catalog.cluster, protocol.DescribeClusterResponse
        if request.endpoint_type != BROKERS_ENDPOINT:
            return make(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="this server has only broker endpoints",
                endpoint_type=request.endpoint_type,
            )
        operations = READ_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        return make(
            cluster_id=cluster.cluster_id,
            controller_id=cluster.node_id,
            brokers=[make.DescribeClusterBroker(broker_id=cluster.node_id, host=cluster.host, port=cluster.port)],
            cluster_authorized_operations=operations,
        )
