"""Answer requests that describe topics, log directories, configs, transactions and producers.

The server has no ACLs or quotas, but it also answers requests that describe them. Tools such as
kafka-ui and ``kafka-configs`` send such requests and report an error if they are not answered.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from ..protocol import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ErrorCode,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..support.text import plain
from .catalog import Catalog, Topic
from .cluster_apis import READ_OPERATIONS, missing_topic_error
from .configs import ConfigApis, KnownConfigs
from .handlers import Handler, Handlers, RequestContext
from .settings import ServerSettings
from .transaction_apis import TransactionApis

MAX_PARTITIONS = 2000
"""Partitions in a DescribeTopicPartitions response, as in Kafka's ``max.request.partition.size.limit``."""


class DescribeApis:
    """Answers requests that describe topics, log directories, configs, transactions and producers."""

    # `known_configs` runs in a worker thread. It returns None if there is no metadata log.

    def __init__(
        self, catalog: Catalog, settings: ServerSettings, known_configs: Callable[[], KnownConfigs | None] | None = None
    ) -> None:
        self._catalog = catalog
        self._configs = ConfigApis(catalog, settings, known_configs)
        self._transactions = TransactionApis(catalog, settings)

    def handlers(self) -> Handlers:
        """Return the lowest version, the highest version and the handler of each API, by API key."""
        own: dict[int, tuple[int, int, Handler]] = {
            29: (0, 3, self._describe_acls),
            35: (0, 5, self._describe_log_dirs),
            46: (0, 0, self._list_partition_reassignments),
            48: (0, 1, self._describe_client_quotas),
            50: (0, 0, self._describe_user_scram_credentials),
            75: (0, 0, self._describe_topic_partitions),
        }
        return {**own, **self._configs.handlers(), **self._transactions.handlers()}

    # Log directories

    async def _describe_log_dirs(
        self, request: DescribeLogDirsRequest, context: RequestContext
    ) -> DescribeLogDirsResponse:
        return await self._catalog.run(self._log_dirs, request)

    def _log_dirs(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        self._catalog.refresh()
        wanted = None if request.topics is None else {(t.topic, p) for t in request.topics for p in t.partitions}
        make = DescribeLogDirsResponse
        results: dict[str, DescribeLogDirsResponse.DescribeLogDirsResult] = {}
        for topic in self._catalog.topics:
            found: dict[str, DescribeLogDirsResponse.DescribeLogDirsTopic] = {}
            for number, served in topic.partitions.items():
                if served.missing:
                    continue
                folder = served.directory.path.parent
                result = results.get(str(folder))
                if result is None:
                    total, usable = _disk_space(folder)
                    result = make.DescribeLogDirsResult(
                        log_dir=plain(str(folder)), total_bytes=total, usable_bytes=usable
                    )
                    results[str(folder)] = result
                if wanted is not None and (topic.name, number) not in wanted:
                    continue
                if str(folder) not in found:
                    found[str(folder)] = make.DescribeLogDirsTopic(name=topic.name)
                    result.topics.append(found[str(folder)])
                partition = make.DescribeLogDirsPartition(partition_index=number, partition_size=served.size())
                found[str(folder)].partitions.append(partition)
        return make(results=list(results.values()))

    # Topics

    async def _describe_topic_partitions(
        self, request: DescribeTopicPartitionsRequest, context: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        return await self._catalog.run(self._topic_partitions, request)

    def _topic_partitions(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        """Describe topics in the order of their names, like Kafka's ``DescribeTopicPartitionsRequestHandler``."""
        self._catalog.refresh()
        make = DescribeTopicPartitionsResponse
        response = make()
        names = {t.name for t in request.topics} or {topic.name for topic in self._catalog.topics}
        first_topic, first_partition = "", 0
        if request.cursor is not None:
            first_topic, first_partition = request.cursor.topic_name, max(request.cursor.partition_index, 0)
        left = min(max(request.response_partition_limit, 1), MAX_PARTITIONS)
        for name in sorted(name for name in names if name >= first_topic):
            if not left:
                response.next_cursor = make.Cursor(topic_name=name, partition_index=0)
                break
            topic = self._catalog.topic(name)
            if topic is None:
                error = missing_topic_error(name)
                response.topics.append(make.DescribeTopicPartitionsResponseTopic(error_code=error, name=name))
                continue
            numbers = [n for n in topic.partitions if name > first_topic or n >= first_partition]
            response.topics.append(self._described_topic(topic, numbers[:left]))
            if len(numbers) > left:
                response.next_cursor = make.Cursor(topic_name=name, partition_index=numbers[left])
                break
            left -= len(numbers)
        return response

    def _described_topic(
        self, topic: Topic, numbers: list[int]
    ) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
        make, node = DescribeTopicPartitionsResponse, self._catalog.cluster.node_id
        return make.DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            topic_authorized_operations=READ_OPERATIONS,
            partitions=[
                make.DescribeTopicPartitionsResponsePartition(
                    partition_index=number,
                    leader_id=node,
                    leader_epoch=topic.partitions[number].leader_epoch(),
                    replica_nodes=[node],
                    isr_nodes=[node],
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                    offline_replicas=[],
                )
                for number in numbers
            ],
        )

    async def _list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse()

    # Security and quotas

    async def _describe_acls(self, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="kafkafmt serve has no authorizer"
        )

    async def _describe_client_quotas(
        self, request: DescribeClientQuotasRequest, context: RequestContext
    ) -> DescribeClientQuotasResponse:
        return DescribeClientQuotasResponse(entries=[])

    async def _describe_user_scram_credentials(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext
    ) -> DescribeUserScramCredentialsResponse:
        make = DescribeUserScramCredentialsResponse
        return make(
            results=[
                make.DescribeUserScramCredentialsResult(
                    user=user.name,
                    error_code=ErrorCode.RESOURCE_NOT_FOUND,
                    error_message="kafkafmt serve does not list credentials",
                )
                for user in request.users or ()
            ]
        )


def _disk_space(folder: object) -> tuple[int, int]:
    """Return the total and the free size of the file system in bytes, or -1 for both if they are unknown."""
    if not isinstance(folder, Path):
        return -1, -1
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return -1, -1
    return usage.total, usage.free
