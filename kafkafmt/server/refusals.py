"""Refuse requests that would write to a cluster, because the server is read-only.

If the response to a write request has a field for an error message, the server returns
POLICY_VIOLATION and a message that clients show. Responses to transaction requests have no field
for an error message. For transaction requests, the server returns an authorization error, because
clients do not retry after this error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import protocol
from ..protocol import ErrorCode
from ..protocol.apis import api
from ..support.text import plain
from .handlers import Handlers, RequestContext
from .settings import ServerSettings

MESSAGE = "kafkafmt serve is read-only: it serves log directories and cannot write to them"
REFUSED = ErrorCode.POLICY_VIOLATION
NO_ACKS = 0
Refuse = Callable[[Any, int], Any]


def _produce(request: Any, version: int) -> Any:
    if request.acks == NO_ACKS:
        return None
    make = protocol.ProduceResponse
    return make(
        responses=[
            make.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    make.PartitionProduceResponse(
                        index=data.index, error_code=REFUSED, base_offset=-1, error_message=MESSAGE
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _create_topics(request: Any, version: int) -> Any:
    make = protocol.CreateTopicsResponse
    topics = [make.CreatableTopicResult(name=t.name, error_code=REFUSED, error_message=MESSAGE) for t in request.topics]
    return make(topics=topics)


def _delete_topics(request: Any, version: int) -> Any:
    make = protocol.DeleteTopicsResponse
    result = make.DeletableTopicResult
    named = [result(name=name, error_code=REFUSED, error_message=MESSAGE) for name in request.topic_names]
    states = [
        result(name=t.name, topic_id=t.topic_id, error_code=REFUSED, error_message=MESSAGE) for t in request.topics
    ]
    return make(responses=named + states)


def _delete_records(request: Any, version: int) -> Any:
    make = protocol.DeleteRecordsResponse
    topic = make.DeleteRecordsTopicResult
    return make(
        topics=[
            topic(
                name=t.name,
                partitions=[
                    make.DeleteRecordsPartitionResult(
                        partition_index=p.partition_index, low_watermark=-1, error_code=REFUSED
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def _init_producer_id(request: Any, version: int) -> Any:
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if request.transactional_id is not None:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return protocol.InitProducerIdResponse(error_code=error, producer_epoch=-1)


def _add_partitions_to_txn(request: Any, version: int) -> Any:
    make = protocol.AddPartitionsToTxnResponse

    def refused(topics: list[Any]) -> list[Any]:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        result, partition = make.AddPartitionsToTxnTopicResult, make.AddPartitionsToTxnPartitionResult
        return [
            result(
                name=t.name,
                results_by_partition=[partition(partition_index=n, partition_error_code=error) for n in t.partitions],
            )
            for t in topics
        ]

    if version <= 3:
        return make(results_by_topic_v3_and_below=refused(request.v3_and_below_topics))
    return make(
        results_by_transaction=[
            make.AddPartitionsToTxnResult(transactional_id=t.transactional_id, topic_results=refused(t.topics))
            for t in request.transactions
        ]
    )


def _add_offsets_to_txn(request: Any, version: int) -> Any:
    return protocol.AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _end_txn(request: Any, version: int) -> Any:
    return protocol.EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1)


def _txn_offset_commit(request: Any, version: int) -> Any:
    make = protocol.TxnOffsetCommitResponse
    topic = make.TxnOffsetCommitResponseTopic
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return make(
        topics=[
            topic(
                name=t.name,
                topic_id=t.topic_id,
                partitions=[
                    make.TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )


def _create_acls(request: Any, version: int) -> Any:
    make = protocol.CreateAclsResponse
    return make(results=[make.AclCreationResult(error_code=REFUSED, error_message=MESSAGE) for _ in request.creations])


def _delete_acls(request: Any, version: int) -> Any:
    make = protocol.DeleteAclsResponse
    results = [make.DeleteAclsFilterResult(error_code=REFUSED, error_message=MESSAGE) for _ in request.filters]
    return make(filter_results=results)


def _alter_configs(request: Any, version: int) -> Any:
    name = type(request).API.name
    make: Any = protocol.AlterConfigsResponse if name == "AlterConfigs" else protocol.IncrementalAlterConfigsResponse
    return make(
        responses=[
            make.AlterConfigsResourceResponse(
                error_code=REFUSED,
                error_message=MESSAGE,
                resource_type=r.resource_type,
                resource_name=r.resource_name,
            )
            for r in request.resources
        ]
    )


def _create_partitions(request: Any, version: int) -> Any:
    make = protocol.CreatePartitionsResponse
    result = make.CreatePartitionsTopicResult
    return make(results=[result(name=t.name, error_code=REFUSED, error_message=MESSAGE) for t in request.topics])


def _elect_leaders(request: Any, version: int) -> Any:
    make = protocol.ElectLeadersResponse
    result = make.ReplicaElectionResult
    # The message is in the results of partitions. Clients ignore these results if the response has an error code.
    return make(
        error_code=REFUSED if version >= 1 and not request.topic_partitions else ErrorCode.NONE,
        replica_election_results=[
            result(
                topic=t.topic,
                partition_result=[
                    make.PartitionResult(partition_id=n, error_code=REFUSED, error_message=MESSAGE)
                    for n in t.partitions
                ],
            )
            for t in request.topic_partitions or []
        ],
    )


def _alter_reassignments(request: Any, version: int) -> Any:
    make = protocol.AlterPartitionReassignmentsResponse
    result = make.ReassignableTopicResponse
    # Kafka's Admin client requires a result for each partition, even if the response contains an error code.
    return make(
        error_code=REFUSED,
        error_message=MESSAGE,
        responses=[
            result(
                name=t.name,
                partitions=[
                    make.ReassignablePartitionResponse(
                        partition_index=p.partition_index, error_code=REFUSED, error_message=MESSAGE
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ],
    )


def _alter_client_quotas(request: Any, version: int) -> Any:
    make = protocol.AlterClientQuotasResponse
    return make(
        entries=[
            make.EntryData(
                error_code=REFUSED,
                error_message=MESSAGE,
                entity=[make.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in entry.entity],
            )
            for entry in request.entries
        ]
    )


_REFUSED: dict[int, Refuse] = {
    0: _produce,
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    22: _init_producer_id,
    24: _add_partitions_to_txn,
    25: _add_offsets_to_txn,
    26: _end_txn,
    28: _txn_offset_commit,
    30: _create_acls,
    31: _delete_acls,
    33: _alter_configs,
    37: _create_partitions,
    43: _elect_leaders,
    44: _alter_configs,
    45: _alter_reassignments,
    49: _alter_client_quotas,
}


class Refusals:
    """Returns an error response to each request that would write to a cluster. Each connection logs an API once."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings

    def handlers(self) -> Handlers:
        """Return for each refused API the lowest and the highest version and the handler."""
        found = {}
        for key in _REFUSED:
            known = api(key)
            assert known is not None
            found[key] = known.versions.first, known.versions.last, self.refuse
        return found

    async def refuse(self, request: Any, context: RequestContext) -> Any:
        """Return an error response. For each API and connection, log only the first refused request."""
        seen = context.connection.attributes.setdefault("refused", set())
        if context.api_key not in seen:
            seen.add(context.api_key)
            host, port = context.connection.peer
            name, client = type(request).API.name, plain(context.client_id or "")
            self._settings.on_message(f"{host}:{port} ({client}): {name} refused, because the server is read-only")
        return _REFUSED[context.api_key](request, context.api_version)
