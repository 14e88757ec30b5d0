# Written by scripts/make_stubs.py from the schemas: do not edit, run `make stubs`.
"""Types of the message classes, for type checkers and IDEs. The classes exist at run time in `kafkafmt.protocol`.

The docstring of a field contains the wire type, if the field is a number, and the versions that
have the field, if not all versions have it. If a version does not have the field, writing a value
other than the default raises an error. If the field is "ignorable", the value is omitted instead.
"""

from dataclasses import dataclass
from uuid import UUID

from ..messages import RecordBytes
from .message_classes import Message

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddRaftVoterRequest",
    "AddRaftVoterResponse",
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ControlledShutdownRequest",
    "ControlledShutdownResponse",
    "ControllerRegistrationRequest",
    "ControllerRegistrationResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "EnvelopeRequest",
    "EnvelopeResponse",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaderAndIsrRequest",
    "LeaderAndIsrResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
    "RemoveRaftVoterRequest",
    "RemoveRaftVoterResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
    "RequestHeader",
    "ResponseHeader",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "StopReplicaRequest",
    "StopReplicaResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "UpdateMetadataRequest",
    "UpdateMetadataResponse",
    "UpdateRaftVoterRequest",
    "UpdateRaftVoterResponse",
    "VoteRequest",
    "VoteResponse",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]

@dataclass(kw_only=True, slots=True, repr=False)
class RequestHeader(Message):
    """Header of a request, versions 0 to 2."""

    api_key: int = 0
    """int16"""
    api_version: int = 0
    """int16"""
    correlation_id: int = 0
    """int32"""
    client_id: str | None = ""
    """versions 1 to 2; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ResponseHeader(Message):
    """Header of a response, versions 0 to 1."""

    correlation_id: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ProduceRequest(Message):
    """Produce request (API key 0), versions 0 to 13."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionProduceData(Message):
        index: int = 0
        """int32"""
        records: RecordBytes | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicProduceData(Message):
        name: str = ""
        """versions 0 to 12; ignorable"""
        topic_id: UUID = ...
        """version 13; ignorable"""
        partition_data: list[ProduceRequest.PartitionProduceData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    transactional_id: str | None = None
    """versions 3 to 13"""
    acks: int = 0
    """int16"""
    timeout_ms: int = 0
    """int32"""
    topic_data: list[ProduceRequest.TopicProduceData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ProduceResponse(Message):
    """Produce response (API key 0), versions 0 to 13."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class BatchIndexAndErrorMessage(Message):
        batch_index: int = 0
        """int32; versions 8 to 13"""
        batch_index_error_message: str | None = None
        """versions 8 to 13"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderIdAndEpoch(Message):
        leader_id: int = -1
        """int32; versions 10 to 13"""
        leader_epoch: int = -1
        """int32; versions 10 to 13"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionProduceResponse(Message):
        index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        base_offset: int = 0
        """int64"""
        log_append_time_ms: int = -1
        """int64; versions 2 to 13; ignorable"""
        log_start_offset: int = -1
        """int64; versions 5 to 13; ignorable"""
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ...
        """versions 8 to 13; ignorable"""
        error_message: str | None = None
        """versions 8 to 13; ignorable"""
        current_leader: ProduceResponse.LeaderIdAndEpoch = ...
        """versions 10 to 13; tag 0"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicProduceResponse(Message):
        name: str = ""
        """versions 0 to 12; ignorable"""
        topic_id: UUID = ...
        """version 13; ignorable"""
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32; versions 10 to 13"""
        host: str = ""
        """versions 10 to 13"""
        port: int = 0
        """int32; versions 10 to 13"""
        rack: str | None = None
        """versions 10 to 13"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    responses: list[ProduceResponse.TopicProduceResponse] = ...
    throttle_time_ms: int = 0
    """int32; versions 1 to 13; ignorable"""
    node_endpoints: list[ProduceResponse.NodeEndpoint] = ...
    """versions 10 to 13; tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class FetchRequest(Message):
    """Fetch request (API key 1), versions 0 to 18."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReplicaState(Message):
        replica_id: int = -1
        """int32; versions 15 to 18"""
        replica_epoch: int = -1
        """int64; versions 15 to 18"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class FetchPartition(Message):
        partition: int = 0
        """int32"""
        current_leader_epoch: int = -1
        """int32; versions 9 to 18; ignorable"""
        fetch_offset: int = 0
        """int64"""
        last_fetched_epoch: int = -1
        """int32; versions 12 to 18"""
        log_start_offset: int = -1
        """int64; versions 5 to 18; ignorable"""
        partition_max_bytes: int = 0
        """int32"""
        replica_directory_id: UUID = ...
        """versions 17 to 18; ignorable; tag 0"""
        high_watermark: int = 9223372036854775807
        """int64; version 18; ignorable; tag 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class FetchTopic(Message):
        topic: str = ""
        """versions 0 to 12; ignorable"""
        topic_id: UUID = ...
        """versions 13 to 18; ignorable"""
        partitions: list[FetchRequest.FetchPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ForgottenTopic(Message):
        topic: str = ""
        """versions 7 to 12; ignorable"""
        topic_id: UUID = ...
        """versions 13 to 18; ignorable"""
        partitions: list[int] = ...
        """int32; versions 7 to 18"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = None
    """versions 12 to 18; ignorable; tag 0"""
    replica_id: int = -1
    """int32; versions 0 to 14"""
    replica_state: FetchRequest.ReplicaState = ...
    """versions 15 to 18; tag 1"""
    max_wait_ms: int = 0
    """int32"""
    min_bytes: int = 0
    """int32"""
    max_bytes: int = 2147483647
    """int32; versions 3 to 18; ignorable"""
    isolation_level: int = 0
    """int8; versions 4 to 18; ignorable"""
    session_id: int = 0
    """int32; versions 7 to 18; ignorable"""
    session_epoch: int = -1
    """int32; versions 7 to 18; ignorable"""
    topics: list[FetchRequest.FetchTopic] = ...
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ...
    """versions 7 to 18"""
    rack_id: str = ""
    """versions 11 to 18; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class FetchResponse(Message):
    """Fetch response (API key 1), versions 0 to 18."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class EpochEndOffset(Message):
        epoch: int = -1
        """int32; versions 12 to 18"""
        end_offset: int = -1
        """int64; versions 12 to 18"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderIdAndEpoch(Message):
        leader_id: int = -1
        """int32; versions 12 to 18"""
        leader_epoch: int = -1
        """int32; versions 12 to 18"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class SnapshotId(Message):
        end_offset: int = -1
        """int64"""
        epoch: int = -1
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AbortedTransaction(Message):
        producer_id: int = 0
        """int64; versions 4 to 18"""
        first_offset: int = 0
        """int64; versions 4 to 18"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        high_watermark: int = 0
        """int64"""
        last_stable_offset: int = -1
        """int64; versions 4 to 18; ignorable"""
        log_start_offset: int = -1
        """int64; versions 5 to 18; ignorable"""
        diverging_epoch: FetchResponse.EpochEndOffset = ...
        """versions 12 to 18; tag 0"""
        current_leader: FetchResponse.LeaderIdAndEpoch = ...
        """versions 12 to 18; tag 1"""
        snapshot_id: FetchResponse.SnapshotId = ...
        """versions 12 to 18; tag 2"""
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ...
        """versions 4 to 18; ignorable"""
        preferred_read_replica: int = -1
        """int32; versions 11 to 18"""
        records: RecordBytes | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class FetchableTopicResponse(Message):
        topic: str = ""
        """versions 0 to 12; ignorable"""
        topic_id: UUID = ...
        """versions 13 to 18; ignorable"""
        partitions: list[FetchResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32; versions 16 to 18"""
        host: str = ""
        """versions 16 to 18"""
        port: int = 0
        """int32; versions 16 to 18"""
        rack: str | None = None
        """versions 16 to 18"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 1 to 18; ignorable"""
    error_code: int = 0
    """int16; versions 7 to 18; ignorable"""
    session_id: int = 0
    """int32; versions 7 to 18"""
    responses: list[FetchResponse.FetchableTopicResponse] = ...
    @property
    def topics(self) -> list[FetchResponse.FetchableTopicResponse]:
        """Another name of `responses`."""
    @topics.setter
    def topics(self, value: list[FetchResponse.FetchableTopicResponse]) -> None: ...
    node_endpoints: list[FetchResponse.NodeEndpoint] = ...
    """versions 16 to 18; tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListOffsetsRequest(Message):
    """ListOffsets request (API key 2), versions 0 to 11."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ListOffsetsPartition(Message):
        partition_index: int = 0
        """int32"""
        current_leader_epoch: int = -1
        """int32; versions 4 to 11; ignorable"""
        timestamp: int = 0
        """int64"""
        max_num_offsets: int = 1
        """int32; version 0"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ListOffsetsTopic(Message):
        name: str = ""
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    replica_id: int = 0
    """int32"""
    isolation_level: int = 0
    """int8; versions 2 to 11"""
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = ...
    timeout_ms: int = 0
    """int32; versions 10 to 11; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListOffsetsResponse(Message):
    """ListOffsets response (API key 2), versions 0 to 11."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ListOffsetsPartitionResponse(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        old_style_offsets: list[int] = ...
        """int64; version 0"""
        timestamp: int = -1
        """int64; versions 1 to 11"""
        offset: int = -1
        """int64; versions 1 to 11"""
        leader_epoch: int = -1
        """int32; versions 4 to 11"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ListOffsetsTopicResponse(Message):
        name: str = ""
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 2 to 11; ignorable"""
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class MetadataRequest(Message):
    """Metadata request (API key 3), versions 0 to 13."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class MetadataRequestTopic(Message):
        topic_id: UUID = ...
        """versions 10 to 13; ignorable"""
        name: str | None = ""
        """null in versions 10 to 13"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[MetadataRequest.MetadataRequestTopic] | None = ...
    """null in versions 1 to 13"""
    allow_auto_topic_creation: bool = True
    """versions 4 to 13"""
    include_cluster_authorized_operations: bool = False
    """versions 8 to 10"""
    include_topic_authorized_operations: bool = False
    """versions 8 to 13"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class MetadataResponse(Message):
    """Metadata response (API key 3), versions 0 to 13."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class MetadataResponseBroker(Message):
        node_id: int = 0
        """int32"""
        host: str = ""
        port: int = 0
        """int32"""
        rack: str | None = None
        """versions 1 to 13; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class MetadataResponsePartition(Message):
        error_code: int = 0
        """int16"""
        partition_index: int = 0
        """int32"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = -1
        """int32; versions 7 to 13; ignorable"""
        replica_nodes: list[int] = ...
        """int32"""
        isr_nodes: list[int] = ...
        """int32"""
        offline_replicas: list[int] = ...
        """int32; versions 5 to 13; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class MetadataResponseTopic(Message):
        error_code: int = 0
        """int16"""
        name: str | None = ""
        """null in versions 12 to 13"""
        topic_id: UUID = ...
        """versions 10 to 13; ignorable"""
        is_internal: bool = False
        """versions 1 to 13; ignorable"""
        partitions: list[MetadataResponse.MetadataResponsePartition] = ...
        topic_authorized_operations: int = -2147483648
        """int32; versions 8 to 13"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 3 to 13; ignorable"""
    brokers: list[MetadataResponse.MetadataResponseBroker] = ...
    cluster_id: str | None = None
    """versions 2 to 13; ignorable"""
    controller_id: int = -1
    """int32; versions 1 to 13; ignorable"""
    topics: list[MetadataResponse.MetadataResponseTopic] = ...
    cluster_authorized_operations: int = -2147483648
    """int32; versions 8 to 10"""
    error_code: int = 0
    """int16; version 13; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class LeaderAndIsrRequest(Message):
    """LeaderAndIsr request (API key 4), versions 0 to 7."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderAndIsrPartitionState(Message):
        topic_name: str = ""
        """versions 0 to 1; ignorable"""
        partition_index: int = 0
        """int32"""
        controller_epoch: int = 0
        """int32"""
        leader: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        isr: list[int] = ...
        """int32"""
        partition_epoch: int = 0
        """int32"""
        replicas: list[int] = ...
        """int32"""
        adding_replicas: list[int] = ...
        """int32; versions 3 to 7; ignorable"""
        removing_replicas: list[int] = ...
        """int32; versions 3 to 7; ignorable"""
        is_new: bool = False
        """versions 1 to 7; ignorable"""
        leader_recovery_state: int = 0
        """int8; versions 6 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderAndIsrTopicState(Message):
        topic_name: str = ""
        """versions 2 to 7"""
        topic_id: UUID = ...
        """versions 5 to 7; ignorable"""
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = ...
        """versions 2 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderAndIsrLiveLeader(Message):
        broker_id: int = 0
        """int32"""
        host_name: str = ""
        port: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    controller_id: int = 0
    """int32"""
    is_kraft_controller: bool = False
    """version 7"""
    controller_epoch: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64; versions 2 to 7; ignorable"""
    type: int = 0
    """int8; versions 5 to 7"""
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = ...
    """versions 0 to 1"""
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = ...
    """versions 2 to 7"""
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class LeaderAndIsrResponse(Message):
    """LeaderAndIsr response (API key 4), versions 0 to 7."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderAndIsrPartitionError(Message):
        topic_name: str = ""
        """versions 0 to 4; ignorable"""
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderAndIsrTopicError(Message):
        topic_id: UUID = ...
        """versions 5 to 7"""
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = ...
        """versions 5 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = ...
    """versions 0 to 4"""
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = ...
    """versions 5 to 7"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StopReplicaRequest(Message):
    """StopReplica request (API key 5), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class StopReplicaPartitionV0(Message):
        topic_name: str = ""
        """version 0"""
        partition_index: int = 0
        """int32; version 0"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class StopReplicaTopicV1(Message):
        name: str = ""
        """versions 1 to 2"""
        partition_indexes: list[int] = ...
        """int32; versions 1 to 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class StopReplicaPartitionState(Message):
        partition_index: int = 0
        """int32; versions 3 to 4"""
        leader_epoch: int = -1
        """int32; versions 3 to 4"""
        delete_partition: bool = False
        """versions 3 to 4"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class StopReplicaTopicState(Message):
        topic_name: str = ""
        """versions 3 to 4"""
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = ...
        """versions 3 to 4"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    controller_id: int = 0
    """int32"""
    is_kraft_controller: bool = False
    """version 4"""
    controller_epoch: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64; versions 1 to 4; ignorable"""
    delete_partitions: bool = False
    """versions 0 to 2"""
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = ...
    """version 0"""
    topics: list[StopReplicaRequest.StopReplicaTopicV1] = ...
    """versions 1 to 2"""
    topic_states: list[StopReplicaRequest.StopReplicaTopicState] = ...
    """versions 3 to 4"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StopReplicaResponse(Message):
    """StopReplica response (API key 5), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class StopReplicaPartitionError(Message):
        topic_name: str = ""
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UpdateMetadataRequest(Message):
    """UpdateMetadata request (API key 6), versions 0 to 8."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class UpdateMetadataPartitionState(Message):
        topic_name: str = ""
        """versions 0 to 4; ignorable"""
        partition_index: int = 0
        """int32"""
        controller_epoch: int = 0
        """int32"""
        leader: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        isr: list[int] = ...
        """int32"""
        zk_version: int = 0
        """int32"""
        replicas: list[int] = ...
        """int32"""
        offline_replicas: list[int] = ...
        """int32; versions 4 to 8; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class UpdateMetadataTopicState(Message):
        topic_name: str = ""
        """versions 5 to 8"""
        topic_id: UUID = ...
        """versions 7 to 8; ignorable"""
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = ...
        """versions 5 to 8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class UpdateMetadataEndpoint(Message):
        port: int = 0
        """int32; versions 1 to 8"""
        host: str = ""
        """versions 1 to 8"""
        listener: str = ""
        """versions 3 to 8; ignorable"""
        security_protocol: int = 0
        """int16; versions 1 to 8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class UpdateMetadataBroker(Message):
        id: int = 0
        """int32"""
        v0_host: str = ""
        """version 0; ignorable"""
        v0_port: int = 0
        """int32; version 0; ignorable"""
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = ...
        """versions 1 to 8; ignorable"""
        rack: str | None = ""
        """versions 2 to 8; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    controller_id: int = 0
    """int32"""
    is_kraft_controller: bool = False
    """version 8"""
    type: int = 0
    """int8; version 8; tag 0"""
    controller_epoch: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64; versions 5 to 8; ignorable"""
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = ...
    """versions 0 to 4"""
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = ...
    """versions 5 to 8"""
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UpdateMetadataResponse(Message):
    """UpdateMetadata response (API key 6), versions 0 to 8."""

    error_code: int = 0
    """int16"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ControlledShutdownRequest(Message):
    """ControlledShutdown request (API key 7), versions 0 to 3."""

    broker_id: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64; versions 2 to 3; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ControlledShutdownResponse(Message):
    """ControlledShutdown response (API key 7), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class RemainingPartition(Message):
        topic_name: str = ""
        partition_index: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetCommitRequest(Message):
    """OffsetCommit request (API key 8), versions 0 to 10."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetCommitRequestPartition(Message):
        partition_index: int = 0
        """int32"""
        committed_offset: int = 0
        """int64"""
        committed_leader_epoch: int = -1
        """int32; versions 6 to 10; ignorable"""
        commit_timestamp: int = -1
        """int64; version 1"""
        committed_metadata: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetCommitRequestTopic(Message):
        name: str = ""
        """versions 0 to 9; ignorable"""
        topic_id: UUID = ...
        """version 10; ignorable"""
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    """int32; versions 1 to 10; ignorable"""
    member_id: str = ""
    """versions 1 to 10; ignorable"""
    group_instance_id: str | None = None
    """versions 7 to 10"""
    retention_time_ms: int = -1
    """int64; versions 2 to 4; ignorable"""
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetCommitResponse(Message):
    """OffsetCommit response (API key 8), versions 0 to 10."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetCommitResponsePartition(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetCommitResponseTopic(Message):
        name: str = ""
        """versions 0 to 9; ignorable"""
        topic_id: UUID = ...
        """version 10; ignorable"""
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 3 to 10; ignorable"""
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetFetchRequest(Message):
    """OffsetFetch request (API key 9), versions 0 to 10."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchRequestTopic(Message):
        name: str = ""
        """versions 0 to 7"""
        partition_indexes: list[int] = ...
        """int32; versions 0 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchRequestTopics(Message):
        name: str = ""
        """versions 8 to 9; ignorable"""
        topic_id: UUID = ...
        """version 10; ignorable"""
        partition_indexes: list[int] = ...
        """int32; versions 8 to 10"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchRequestGroup(Message):
        group_id: str = ""
        """versions 8 to 10"""
        member_id: str | None = None
        """versions 9 to 10; ignorable"""
        member_epoch: int = -1
        """int32; versions 9 to 10; ignorable"""
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ...
        """versions 8 to 10"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    """versions 0 to 7"""
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ...
    """versions 0 to 7; null in versions 2 to 7"""
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ...
    """versions 8 to 10"""
    require_stable: bool = False
    """versions 7 to 10"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetFetchResponse(Message):
    """OffsetFetch response (API key 9), versions 0 to 10."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchResponsePartition(Message):
        partition_index: int = 0
        """int32; versions 0 to 7"""
        committed_offset: int = 0
        """int64; versions 0 to 7"""
        committed_leader_epoch: int = -1
        """int32; versions 5 to 7; ignorable"""
        metadata: str | None = ""
        """versions 0 to 7"""
        error_code: int = 0
        """int16; versions 0 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchResponseTopic(Message):
        name: str = ""
        """versions 0 to 7"""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ...
        """versions 0 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchResponsePartitions(Message):
        partition_index: int = 0
        """int32; versions 8 to 10"""
        committed_offset: int = 0
        """int64; versions 8 to 10"""
        committed_leader_epoch: int = -1
        """int32; versions 8 to 10; ignorable"""
        metadata: str | None = ""
        """versions 8 to 10"""
        error_code: int = 0
        """int16; versions 8 to 10"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchResponseTopics(Message):
        name: str = ""
        """versions 8 to 9; ignorable"""
        topic_id: UUID = ...
        """version 10; ignorable"""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ...
        """versions 8 to 10"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetFetchResponseGroup(Message):
        group_id: str = ""
        """versions 8 to 10"""
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ...
        """versions 8 to 10"""
        error_code: int = 0
        """int16; versions 8 to 10"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 3 to 10; ignorable"""
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ...
    """versions 0 to 7"""
    error_code: int = 0
    """int16; versions 2 to 7; ignorable"""
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ...
    """versions 8 to 10"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class FindCoordinatorRequest(Message):
    """FindCoordinator request (API key 10), versions 0 to 6."""

    key: str = ""
    """versions 0 to 3"""
    key_type: int = 0
    """int8; versions 1 to 6"""
    coordinator_keys: list[str] = ...
    """versions 4 to 6"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class FindCoordinatorResponse(Message):
    """FindCoordinator response (API key 10), versions 0 to 6."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class Coordinator(Message):
        key: str = ""
        """versions 4 to 6"""
        node_id: int = 0
        """int32; versions 4 to 6"""
        host: str = ""
        """versions 4 to 6"""
        port: int = 0
        """int32; versions 4 to 6"""
        error_code: int = 0
        """int16; versions 4 to 6"""
        error_message: str | None = ""
        """versions 4 to 6; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 1 to 6; ignorable"""
    error_code: int = 0
    """int16; versions 0 to 3"""
    error_message: str | None = ""
    """versions 1 to 3; ignorable"""
    node_id: int = 0
    """int32; versions 0 to 3"""
    host: str = ""
    """versions 0 to 3"""
    port: int = 0
    """int32; versions 0 to 3"""
    coordinators: list[FindCoordinatorResponse.Coordinator] = ...
    """versions 4 to 6"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class JoinGroupRequest(Message):
    """JoinGroup request (API key 11), versions 0 to 9."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class JoinGroupRequestProtocol(Message):
        name: str = ""
        metadata: bytes = b""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    session_timeout_ms: int = 0
    """int32"""
    rebalance_timeout_ms: int = -1
    """int32; versions 1 to 9; ignorable"""
    member_id: str = ""
    group_instance_id: str | None = None
    """versions 5 to 9"""
    protocol_type: str = ""
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ...
    reason: str | None = None
    """versions 8 to 9; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class JoinGroupResponse(Message):
    """JoinGroup response (API key 11), versions 0 to 9."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class JoinGroupResponseMember(Message):
        member_id: str = ""
        group_instance_id: str | None = None
        """versions 5 to 9; ignorable"""
        metadata: bytes = b""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 2 to 9; ignorable"""
    error_code: int = 0
    """int16"""
    generation_id: int = -1
    """int32"""
    protocol_type: str | None = None
    """versions 7 to 9; ignorable"""
    protocol_name: str | None = ""
    """null in versions 7 to 9"""
    leader: str = ""
    skip_assignment: bool = False
    """version 9"""
    member_id: str = ""
    members: list[JoinGroupResponse.JoinGroupResponseMember] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class HeartbeatRequest(Message):
    """Heartbeat request (API key 12), versions 0 to 4."""

    group_id: str = ""
    generation_id: int = 0
    """int32"""
    member_id: str = ""
    group_instance_id: str | None = None
    """versions 3 to 4"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class HeartbeatResponse(Message):
    """Heartbeat response (API key 12), versions 0 to 4."""

    throttle_time_ms: int = 0
    """int32; versions 1 to 4; ignorable"""
    error_code: int = 0
    """int16"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class LeaveGroupRequest(Message):
    """LeaveGroup request (API key 13), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class MemberIdentity(Message):
        member_id: str = ""
        """versions 3 to 5"""
        group_instance_id: str | None = None
        """versions 3 to 5"""
        reason: str | None = None
        """version 5; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    member_id: str = ""
    """versions 0 to 2"""
    members: list[LeaveGroupRequest.MemberIdentity] = ...
    """versions 3 to 5"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class LeaveGroupResponse(Message):
    """LeaveGroup response (API key 13), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class MemberResponse(Message):
        member_id: str = ""
        """versions 3 to 5"""
        group_instance_id: str | None = ""
        """versions 3 to 5"""
        error_code: int = 0
        """int16; versions 3 to 5"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 1 to 5; ignorable"""
    error_code: int = 0
    """int16"""
    members: list[LeaveGroupResponse.MemberResponse] = ...
    """versions 3 to 5"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class SyncGroupRequest(Message):
    """SyncGroup request (API key 14), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class SyncGroupRequestAssignment(Message):
        member_id: str = ""
        assignment: bytes = b""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    generation_id: int = 0
    """int32"""
    member_id: str = ""
    group_instance_id: str | None = None
    """versions 3 to 5"""
    protocol_type: str | None = None
    """version 5; ignorable"""
    protocol_name: str | None = None
    """version 5; ignorable"""
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class SyncGroupResponse(Message):
    """SyncGroup response (API key 14), versions 0 to 5."""

    throttle_time_ms: int = 0
    """int32; versions 1 to 5; ignorable"""
    error_code: int = 0
    """int16"""
    protocol_type: str | None = None
    """version 5; ignorable"""
    protocol_name: str | None = None
    """version 5; ignorable"""
    assignment: bytes = b""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeGroupsRequest(Message):
    """DescribeGroups request (API key 15), versions 0 to 6."""

    groups: list[str] = ...
    include_authorized_operations: bool = False
    """versions 3 to 6"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeGroupsResponse(Message):
    """DescribeGroups response (API key 15), versions 0 to 6."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedGroupMember(Message):
        member_id: str = ""
        group_instance_id: str | None = None
        """versions 4 to 6; ignorable"""
        client_id: str = ""
        client_host: str = ""
        member_metadata: bytes = b""
        member_assignment: bytes = b""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedGroup(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        """version 6"""
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list[DescribeGroupsResponse.DescribedGroupMember] = ...
        authorized_operations: int = -2147483648
        """int32; versions 3 to 6"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 1 to 6; ignorable"""
    groups: list[DescribeGroupsResponse.DescribedGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListGroupsRequest(Message):
    """ListGroups request (API key 16), versions 0 to 5."""

    states_filter: list[str] = ...
    """versions 4 to 5"""
    types_filter: list[str] = ...
    """version 5"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListGroupsResponse(Message):
    """ListGroups response (API key 16), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ListedGroup(Message):
        group_id: str = ""
        protocol_type: str = ""
        group_state: str = ""
        """versions 4 to 5; ignorable"""
        group_type: str = ""
        """version 5; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 1 to 5; ignorable"""
    error_code: int = 0
    """int16"""
    groups: list[ListGroupsResponse.ListedGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class SaslHandshakeRequest(Message):
    """SaslHandshake request (API key 17), versions 0 to 1."""

    mechanism: str = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class SaslHandshakeResponse(Message):
    """SaslHandshake response (API key 17), versions 0 to 1."""

    error_code: int = 0
    """int16"""
    mechanisms: list[str] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ApiVersionsRequest(Message):
    """ApiVersions request (API key 18), versions 0 to 5."""

    client_software_name: str = ""
    """versions 3 to 5; ignorable"""
    client_software_version: str = ""
    """versions 3 to 5; ignorable"""
    cluster_id: str | None = None
    """version 5; ignorable"""
    node_id: int = -1
    """int32; version 5; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ApiVersionsResponse(Message):
    """ApiVersions response (API key 18), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ApiVersion(Message):
        api_key: int = 0
        """int16"""
        min_version: int = 0
        """int16"""
        max_version: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class SupportedFeatureKey(Message):
        name: str = ""
        """versions 3 to 5"""
        min_version: int = 0
        """int16; versions 3 to 5"""
        max_version: int = 0
        """int16; versions 3 to 5"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class FinalizedFeatureKey(Message):
        name: str = ""
        """versions 3 to 5"""
        max_version_level: int = 0
        """int16; versions 3 to 5"""
        min_version_level: int = 0
        """int16; versions 3 to 5"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    api_keys: list[ApiVersionsResponse.ApiVersion] = ...
    throttle_time_ms: int = 0
    """int32; versions 1 to 5; ignorable"""
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ...
    """versions 3 to 5; ignorable; tag 0"""
    finalized_features_epoch: int = -1
    """int64; versions 3 to 5; ignorable; tag 1"""
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ...
    """versions 3 to 5; ignorable; tag 2"""
    zk_migration_ready: bool = False
    """versions 3 to 5; ignorable; tag 3"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreateTopicsRequest(Message):
    """CreateTopics request (API key 19), versions 0 to 7."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatableReplicaAssignment(Message):
        partition_index: int = 0
        """int32"""
        broker_ids: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatableTopicConfig(Message):
        name: str = ""
        value: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatableTopic(Message):
        name: str = ""
        num_partitions: int = 0
        """int32"""
        replication_factor: int = 0
        """int16"""
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ...
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[CreateTopicsRequest.CreatableTopic] = ...
    timeout_ms: int = 60000
    """int32"""
    validate_only: bool = False
    """versions 1 to 7"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreateTopicsResponse(Message):
    """CreateTopics response (API key 19), versions 0 to 7."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatableTopicConfigs(Message):
        name: str = ""
        """versions 5 to 7"""
        value: str | None = ""
        """versions 5 to 7"""
        read_only: bool = False
        """versions 5 to 7"""
        config_source: int = -1
        """int8; versions 5 to 7; ignorable"""
        is_sensitive: bool = False
        """versions 5 to 7"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatableTopicResult(Message):
        name: str = ""
        topic_id: UUID = ...
        """version 7; ignorable"""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        """versions 1 to 7; ignorable"""
        topic_config_error_code: int = 0
        """int16; versions 5 to 7; ignorable; tag 0"""
        num_partitions: int = -1
        """int32; versions 5 to 7; ignorable"""
        replication_factor: int = -1
        """int16; versions 5 to 7; ignorable"""
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...
        """versions 5 to 7; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 2 to 7; ignorable"""
    topics: list[CreateTopicsResponse.CreatableTopicResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteTopicsRequest(Message):
    """DeleteTopics request (API key 20), versions 0 to 6."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteTopicState(Message):
        name: str | None = None
        """version 6"""
        topic_id: UUID = ...
        """version 6"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[DeleteTopicsRequest.DeleteTopicState] = ...
    """version 6"""
    topic_names: list[str] = ...
    """versions 0 to 5; ignorable"""
    timeout_ms: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteTopicsResponse(Message):
    """DeleteTopics response (API key 20), versions 0 to 6."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeletableTopicResult(Message):
        name: str | None = ""
        """null in version 6"""
        topic_id: UUID = ...
        """version 6; ignorable"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        """versions 5 to 6; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 1 to 6; ignorable"""
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteRecordsRequest(Message):
    """DeleteRecords request (API key 21), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteRecordsPartition(Message):
        partition_index: int = 0
        """int32"""
        offset: int = 0
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteRecordsTopic(Message):
        name: str = ""
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ...
    timeout_ms: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteRecordsResponse(Message):
    """DeleteRecords response (API key 21), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteRecordsPartitionResult(Message):
        partition_index: int = 0
        """int32"""
        low_watermark: int = 0
        """int64"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteRecordsTopicResult(Message):
        name: str = ""
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class InitProducerIdRequest(Message):
    """InitProducerId request (API key 22), versions 0 to 6."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    """int32"""
    producer_id: int = -1
    """int64; versions 3 to 6"""
    producer_epoch: int = -1
    """int16; versions 3 to 6"""
    enable2_pc: bool = False
    """version 6"""
    keep_prepared_txn: bool = False
    """version 6"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class InitProducerIdResponse(Message):
    """InitProducerId response (API key 22), versions 0 to 6."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    producer_id: int = -1
    """int64"""
    producer_epoch: int = 0
    """int16"""
    ongoing_txn_producer_id: int = -1
    """int64; version 6"""
    ongoing_txn_producer_epoch: int = -1
    """int16; version 6"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetForLeaderEpochRequest(Message):
    """OffsetForLeaderEpoch request (API key 23), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetForLeaderPartition(Message):
        partition: int = 0
        """int32"""
        current_leader_epoch: int = -1
        """int32; versions 2 to 4; ignorable"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetForLeaderTopic(Message):
        topic: str = ""
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    replica_id: int = -2
    """int32; versions 3 to 4; ignorable"""
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetForLeaderEpochResponse(Message):
    """OffsetForLeaderEpoch response (API key 23), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class EpochEndOffset(Message):
        error_code: int = 0
        """int16"""
        partition: int = 0
        """int32"""
        leader_epoch: int = -1
        """int32; versions 1 to 4; ignorable"""
        end_offset: int = -1
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetForLeaderTopicResult(Message):
        topic: str = ""
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32; versions 2 to 4; ignorable"""
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AddPartitionsToTxnRequest(Message):
    """AddPartitionsToTxn request (API key 24), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AddPartitionsToTxnTopic(Message):
        name: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AddPartitionsToTxnTransaction(Message):
        transactional_id: str = ""
        """versions 4 to 5"""
        producer_id: int = 0
        """int64; versions 4 to 5"""
        producer_epoch: int = 0
        """int16; versions 4 to 5"""
        verify_only: bool = False
        """versions 4 to 5"""
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...
        """versions 4 to 5"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ...
    """versions 4 to 5"""
    v3_and_below_transactional_id: str = ""
    """versions 0 to 3"""
    v3_and_below_producer_id: int = 0
    """int64; versions 0 to 3"""
    v3_and_below_producer_epoch: int = 0
    """int16; versions 0 to 3"""
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...
    """versions 0 to 3"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AddPartitionsToTxnResponse(Message):
    """AddPartitionsToTxn response (API key 24), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AddPartitionsToTxnPartitionResult(Message):
        partition_index: int = 0
        """int32"""
        partition_error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AddPartitionsToTxnTopicResult(Message):
        name: str = ""
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AddPartitionsToTxnResult(Message):
        transactional_id: str = ""
        """versions 4 to 5"""
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...
        """versions 4 to 5"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16; versions 4 to 5; ignorable"""
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ...
    """versions 4 to 5"""
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...
    """versions 0 to 3"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AddOffsetsToTxnRequest(Message):
    """AddOffsetsToTxn request (API key 25), versions 0 to 4."""

    transactional_id: str = ""
    producer_id: int = 0
    """int64"""
    producer_epoch: int = 0
    """int16"""
    group_id: str = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AddOffsetsToTxnResponse(Message):
    """AddOffsetsToTxn response (API key 25), versions 0 to 4."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class EndTxnRequest(Message):
    """EndTxn request (API key 26), versions 0 to 5."""

    transactional_id: str = ""
    producer_id: int = 0
    """int64"""
    producer_epoch: int = 0
    """int16"""
    committed: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class EndTxnResponse(Message):
    """EndTxn response (API key 26), versions 0 to 5."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    producer_id: int = -1
    """int64; version 5; ignorable"""
    producer_epoch: int = -1
    """int16; version 5; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class WriteTxnMarkersRequest(Message):
    """WriteTxnMarkers request (API key 27), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class WritableTxnMarkerTopic(Message):
        name: str = ""
        partition_indexes: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class WritableTxnMarker(Message):
        producer_id: int = 0
        """int64"""
        producer_epoch: int = 0
        """int16"""
        transaction_result: bool = False
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ...
        coordinator_epoch: int = 0
        """int32"""
        transaction_version: int = 0
        """int8; version 2; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class WriteTxnMarkersResponse(Message):
    """WriteTxnMarkers response (API key 27), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class WritableTxnMarkerTopicResult(Message):
        name: str = ""
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class WritableTxnMarkerResult(Message):
        producer_id: int = 0
        """int64"""
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class TxnOffsetCommitRequest(Message):
    """TxnOffsetCommit request (API key 28), versions 0 to 6."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TxnOffsetCommitRequestPartition(Message):
        partition_index: int = 0
        """int32"""
        committed_offset: int = 0
        """int64"""
        committed_leader_epoch: int = -1
        """int32; versions 2 to 6; ignorable"""
        committed_metadata: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TxnOffsetCommitRequestTopic(Message):
        name: str = ""
        """versions 0 to 5; ignorable"""
        topic_id: UUID = ...
        """version 6; ignorable"""
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    """int64"""
    producer_epoch: int = 0
    """int16"""
    generation_id_or_member_epoch: int = -1
    """int32; versions 3 to 6"""
    @property
    def generation_id(self) -> int:
        """Another name of `generation_id_or_member_epoch`."""
    @generation_id.setter
    def generation_id(self, value: int) -> None: ...
    member_id: str = ""
    """versions 3 to 6"""
    group_instance_id: str | None = None
    """versions 3 to 6"""
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class TxnOffsetCommitResponse(Message):
    """TxnOffsetCommit response (API key 28), versions 0 to 6."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TxnOffsetCommitResponsePartition(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TxnOffsetCommitResponseTopic(Message):
        name: str = ""
        """versions 0 to 5; ignorable"""
        topic_id: UUID = ...
        """version 6; ignorable"""
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeAclsRequest(Message):
    """DescribeAcls request (API key 29), versions 0 to 3."""

    resource_type_filter: int = 0
    """int8"""
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    """int8; versions 1 to 3"""
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    """int8"""
    permission_type: int = 0
    """int8"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeAclsResponse(Message):
    """DescribeAcls response (API key 29), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AclDescription(Message):
        principal: str = ""
        host: str = ""
        operation: int = 0
        """int8"""
        permission_type: int = 0
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeAclsResource(Message):
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        pattern_type: int = 3
        """int8; versions 1 to 3"""
        acls: list[DescribeAclsResponse.AclDescription] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    resources: list[DescribeAclsResponse.DescribeAclsResource] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreateAclsRequest(Message):
    """CreateAcls request (API key 30), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AclCreation(Message):
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        resource_pattern_type: int = 3
        """int8; versions 1 to 3"""
        principal: str = ""
        host: str = ""
        operation: int = 0
        """int8"""
        permission_type: int = 0
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    creations: list[CreateAclsRequest.AclCreation] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreateAclsResponse(Message):
    """CreateAcls response (API key 30), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AclCreationResult(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    results: list[CreateAclsResponse.AclCreationResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteAclsRequest(Message):
    """DeleteAcls request (API key 31), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteAclsFilter(Message):
        resource_type_filter: int = 0
        """int8"""
        resource_name_filter: str | None = ""
        pattern_type_filter: int = 3
        """int8; versions 1 to 3"""
        principal_filter: str | None = ""
        host_filter: str | None = ""
        operation: int = 0
        """int8"""
        permission_type: int = 0
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteAclsResponse(Message):
    """DeleteAcls response (API key 31), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteAclsMatchingAcl(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        pattern_type: int = 3
        """int8; versions 1 to 3"""
        principal: str = ""
        host: str = ""
        operation: int = 0
        """int8"""
        permission_type: int = 0
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteAclsFilterResult(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeConfigsRequest(Message):
    """DescribeConfigs request (API key 32), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeConfigsResource(Message):
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        configuration_keys: list[str] | None = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ...
    include_synonyms: bool = False
    """versions 1 to 4"""
    include_documentation: bool = False
    """versions 3 to 4"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeConfigsResponse(Message):
    """DescribeConfigs response (API key 32), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeConfigsSynonym(Message):
        name: str = ""
        """versions 1 to 4"""
        value: str | None = ""
        """versions 1 to 4"""
        source: int = 0
        """int8; versions 1 to 4"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeConfigsResourceResult(Message):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        is_default: bool = False
        """version 0"""
        config_source: int = -1
        """int8; versions 1 to 4; ignorable"""
        is_sensitive: bool = False
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ...
        """versions 1 to 4; ignorable"""
        config_type: int = 0
        """int8; versions 3 to 4; ignorable"""
        documentation: str | None = ""
        """versions 3 to 4; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeConfigsResult(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterConfigsRequest(Message):
    """AlterConfigs request (API key 33), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterableConfig(Message):
        name: str = ""
        value: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterConfigsResource(Message):
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        configs: list[AlterConfigsRequest.AlterableConfig] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    resources: list[AlterConfigsRequest.AlterConfigsResource] = ...
    validate_only: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterConfigsResponse(Message):
    """AlterConfigs response (API key 33), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterConfigsResourceResponse(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterReplicaLogDirsRequest(Message):
    """AlterReplicaLogDirs request (API key 34), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterReplicaLogDirTopic(Message):
        name: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterReplicaLogDir(Message):
        path: str = ""
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterReplicaLogDirsResponse(Message):
    """AlterReplicaLogDirs response (API key 34), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterReplicaLogDirPartitionResult(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterReplicaLogDirTopicResult(Message):
        topic_name: str = ""
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeLogDirsRequest(Message):
    """DescribeLogDirs request (API key 35), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribableLogDirTopic(Message):
        topic: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeLogDirsResponse(Message):
    """DescribeLogDirs response (API key 35), versions 0 to 5."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeLogDirsPartition(Message):
        partition_index: int = 0
        """int32"""
        partition_size: int = 0
        """int64"""
        offset_lag: int = 0
        """int64"""
        is_future_key: bool = False
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeLogDirsTopic(Message):
        name: str = ""
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeLogDirsResult(Message):
        error_code: int = 0
        """int16"""
        log_dir: str = ""
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ...
        total_bytes: int = -1
        """int64; versions 4 to 5; ignorable"""
        usable_bytes: int = -1
        """int64; versions 4 to 5; ignorable"""
        is_cordoned: bool = False
        """version 5; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16; versions 3 to 5; ignorable"""
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class SaslAuthenticateRequest(Message):
    """SaslAuthenticate request (API key 36), versions 0 to 2."""

    auth_bytes: bytes = b""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class SaslAuthenticateResponse(Message):
    """SaslAuthenticate response (API key 36), versions 0 to 2."""

    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    """int64; versions 1 to 2; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreatePartitionsRequest(Message):
    """CreatePartitions request (API key 37), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatePartitionsAssignment(Message):
        broker_ids: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatePartitionsTopic(Message):
        name: str = ""
        count: int = 0
        """int32"""
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ...
    timeout_ms: int = 0
    """int32"""
    validate_only: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreatePartitionsResponse(Message):
    """CreatePartitions response (API key 37), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatePartitionsTopicResult(Message):
        name: str = ""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreateDelegationTokenRequest(Message):
    """CreateDelegationToken request (API key 38), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CreatableRenewers(Message):
        principal_type: str = ""
        principal_name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    owner_principal_type: str | None = ""
    """version 3"""
    owner_principal_name: str | None = ""
    """version 3"""
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = ...
    max_lifetime_ms: int = 0
    """int64"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class CreateDelegationTokenResponse(Message):
    """CreateDelegationToken response (API key 38), versions 0 to 3."""

    error_code: int = 0
    """int16"""
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    """version 3"""
    token_requester_principal_name: str = ""
    """version 3"""
    issue_timestamp_ms: int = 0
    """int64"""
    expiry_timestamp_ms: int = 0
    """int64"""
    max_timestamp_ms: int = 0
    """int64"""
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class RenewDelegationTokenRequest(Message):
    """RenewDelegationToken request (API key 39), versions 0 to 2."""

    hmac: bytes = b""
    renew_period_ms: int = 0
    """int64"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class RenewDelegationTokenResponse(Message):
    """RenewDelegationToken response (API key 39), versions 0 to 2."""

    error_code: int = 0
    """int16"""
    expiry_timestamp_ms: int = 0
    """int64"""
    throttle_time_ms: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ExpireDelegationTokenRequest(Message):
    """ExpireDelegationToken request (API key 40), versions 0 to 2."""

    hmac: bytes = b""
    expiry_time_period_ms: int = 0
    """int64"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ExpireDelegationTokenResponse(Message):
    """ExpireDelegationToken response (API key 40), versions 0 to 2."""

    error_code: int = 0
    """int16"""
    expiry_timestamp_ms: int = 0
    """int64"""
    throttle_time_ms: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeDelegationTokenRequest(Message):
    """DescribeDelegationToken request (API key 41), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeDelegationTokenOwner(Message):
        principal_type: str = ""
        principal_name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeDelegationTokenResponse(Message):
    """DescribeDelegationToken response (API key 41), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedDelegationTokenRenewer(Message):
        principal_type: str = ""
        principal_name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedDelegationToken(Message):
        principal_type: str = ""
        principal_name: str = ""
        token_requester_principal_type: str = ""
        """version 3"""
        token_requester_principal_name: str = ""
        """version 3"""
        issue_timestamp: int = 0
        """int64"""
        expiry_timestamp: int = 0
        """int64"""
        max_timestamp: int = 0
        """int64"""
        token_id: str = ""
        hmac: bytes = b""
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = ...
    throttle_time_ms: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteGroupsRequest(Message):
    """DeleteGroups request (API key 42), versions 0 to 3."""

    groups_names: list[str] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteGroupsResponse(Message):
    """DeleteGroups response (API key 42), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeletableGroupResult(Message):
        group_id: str = ""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        """version 3; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    results: list[DeleteGroupsResponse.DeletableGroupResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ElectLeadersRequest(Message):
    """ElectLeaders request (API key 43), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartitions(Message):
        topic: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    election_type: int = 0
    """int8; versions 1 to 2"""
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ...
    timeout_ms: int = 60000
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ElectLeadersResponse(Message):
    """ElectLeaders response (API key 43), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResult(Message):
        partition_id: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReplicaElectionResult(Message):
        topic: str = ""
        partition_result: list[ElectLeadersResponse.PartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16; versions 1 to 2"""
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class IncrementalAlterConfigsRequest(Message):
    """IncrementalAlterConfigs request (API key 44), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterableConfig(Message):
        name: str = ""
        config_operation: int = 0
        """int8"""
        value: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterConfigsResource(Message):
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ...
    validate_only: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class IncrementalAlterConfigsResponse(Message):
    """IncrementalAlterConfigs response (API key 44), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterConfigsResourceResponse(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        resource_type: int = 0
        """int8"""
        resource_name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterPartitionReassignmentsRequest(Message):
    """AlterPartitionReassignments request (API key 45), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReassignablePartition(Message):
        partition_index: int = 0
        """int32"""
        replicas: list[int] | None = None
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReassignableTopic(Message):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    timeout_ms: int = 60000
    """int32"""
    allow_replication_factor_change: bool = True
    """version 1"""
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterPartitionReassignmentsResponse(Message):
    """AlterPartitionReassignments response (API key 45), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReassignablePartitionResponse(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReassignableTopicResponse(Message):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    allow_replication_factor_change: bool = True
    """version 1; ignorable"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListPartitionReassignmentsRequest(Message):
    """ListPartitionReassignments request (API key 46), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ListPartitionReassignmentsTopics(Message):
        name: str = ""
        partition_indexes: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    timeout_ms: int = 60000
    """int32"""
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListPartitionReassignmentsResponse(Message):
    """ListPartitionReassignments response (API key 46), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OngoingPartitionReassignment(Message):
        partition_index: int = 0
        """int32"""
        replicas: list[int] = ...
        """int32"""
        adding_replicas: list[int] = ...
        """int32"""
        removing_replicas: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OngoingTopicReassignment(Message):
        name: str = ""
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetDeleteRequest(Message):
    """OffsetDelete request (API key 47), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetDeleteRequestPartition(Message):
        partition_index: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetDeleteRequestTopic(Message):
        name: str = ""
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class OffsetDeleteResponse(Message):
    """OffsetDelete response (API key 47), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetDeleteResponsePartition(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OffsetDeleteResponseTopic(Message):
        name: str = ""
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    throttle_time_ms: int = 0
    """int32"""
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeClientQuotasRequest(Message):
    """DescribeClientQuotas request (API key 48), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ComponentData(Message):
        entity_type: str = ""
        match_type: int = 0
        """int8"""
        match: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    components: list[DescribeClientQuotasRequest.ComponentData] = ...
    strict: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeClientQuotasResponse(Message):
    """DescribeClientQuotas response (API key 48), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class EntityData(Message):
        entity_type: str = ""
        entity_name: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ValueData(Message):
        key: str = ""
        value: float = 0.0
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class EntryData(Message):
        entity: list[DescribeClientQuotasResponse.EntityData] = ...
        values: list[DescribeClientQuotasResponse.ValueData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    entries: list[DescribeClientQuotasResponse.EntryData] | None = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterClientQuotasRequest(Message):
    """AlterClientQuotas request (API key 49), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class EntityData(Message):
        entity_type: str = ""
        entity_name: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class OpData(Message):
        key: str = ""
        value: float = 0.0
        remove: bool = False
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class EntryData(Message):
        entity: list[AlterClientQuotasRequest.EntityData] = ...
        ops: list[AlterClientQuotasRequest.OpData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    entries: list[AlterClientQuotasRequest.EntryData] = ...
    validate_only: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterClientQuotasResponse(Message):
    """AlterClientQuotas response (API key 49), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class EntityData(Message):
        entity_type: str = ""
        entity_name: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class EntryData(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        entity: list[AlterClientQuotasResponse.EntityData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    entries: list[AlterClientQuotasResponse.EntryData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeUserScramCredentialsRequest(Message):
    """DescribeUserScramCredentials request (API key 50), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class UserName(Message):
        name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeUserScramCredentialsResponse(Message):
    """DescribeUserScramCredentials response (API key 50), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CredentialInfo(Message):
        mechanism: int = 0
        """int8"""
        iterations: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeUserScramCredentialsResult(Message):
        user: str = ""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterUserScramCredentialsRequest(Message):
    """AlterUserScramCredentials request (API key 51), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ScramCredentialDeletion(Message):
        name: str = ""
        mechanism: int = 0
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ScramCredentialUpsertion(Message):
        name: str = ""
        mechanism: int = 0
        """int8"""
        iterations: int = 0
        """int32"""
        salt: bytes = b""
        salted_password: bytes = b""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ...
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterUserScramCredentialsResponse(Message):
    """AlterUserScramCredentials response (API key 51), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterUserScramCredentialsResult(Message):
        user: str = ""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class VoteRequest(Message):
    """Vote request (API key 52), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        replica_epoch: int = 0
        """int32"""
        replica_id: int = 0
        """int32"""
        replica_directory_id: UUID = ...
        """versions 1 to 2; ignorable"""
        voter_directory_id: UUID = ...
        """versions 1 to 2; ignorable"""
        last_offset_epoch: int = 0
        """int32"""
        last_offset: int = 0
        """int64"""
        pre_vote: bool = False
        """version 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[VoteRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = None
    voter_id: int = -1
    """int32; versions 1 to 2; ignorable"""
    topics: list[VoteRequest.TopicData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class VoteResponse(Message):
    """Vote response (API key 52), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        vote_granted: bool = False
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[VoteResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32; versions 1 to 2"""
        host: str = ""
        """versions 1 to 2"""
        port: int = 0
        """uint16; versions 1 to 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    topics: list[VoteResponse.TopicData] = ...
    node_endpoints: list[VoteResponse.NodeEndpoint] = ...
    """versions 1 to 2; tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class BeginQuorumEpochRequest(Message):
    """BeginQuorumEpoch request (API key 53), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        voter_directory_id: UUID = ...
        """version 1; ignorable"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[BeginQuorumEpochRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderEndpoint(Message):
        name: str = ""
        """version 1"""
        host: str = ""
        """version 1"""
        port: int = 0
        """uint16; version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = None
    voter_id: int = -1
    """int32; version 1; ignorable"""
    topics: list[BeginQuorumEpochRequest.TopicData] = ...
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = ...
    """version 1; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class BeginQuorumEpochResponse(Message):
    """BeginQuorumEpoch response (API key 53), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[BeginQuorumEpochResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32; version 1"""
        host: str = ""
        """version 1"""
        port: int = 0
        """uint16; version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    topics: list[BeginQuorumEpochResponse.TopicData] = ...
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = ...
    """version 1; tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class EndQuorumEpochRequest(Message):
    """EndQuorumEpoch request (API key 54), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReplicaInfo(Message):
        candidate_id: int = 0
        """int32; version 1"""
        candidate_directory_id: UUID = ...
        """version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        preferred_successors: list[int] = ...
        """int32; version 0; ignorable"""
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = ...
        """version 1; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[EndQuorumEpochRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderEndpoint(Message):
        name: str = ""
        """version 1"""
        host: str = ""
        """version 1"""
        port: int = 0
        """uint16; version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = None
    topics: list[EndQuorumEpochRequest.TopicData] = ...
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = ...
    """version 1; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class EndQuorumEpochResponse(Message):
    """EndQuorumEpoch response (API key 54), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[EndQuorumEpochResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32; version 1"""
        host: str = ""
        """version 1"""
        port: int = 0
        """uint16; version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    topics: list[EndQuorumEpochResponse.TopicData] = ...
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = ...
    """version 1; tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeQuorumRequest(Message):
    """DescribeQuorum request (API key 55), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[DescribeQuorumRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[DescribeQuorumRequest.TopicData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeQuorumResponse(Message):
    """DescribeQuorum response (API key 55), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReplicaState(Message):
        replica_id: int = 0
        """int32"""
        replica_directory_id: UUID = ...
        """version 2"""
        log_end_offset: int = 0
        """int64"""
        last_fetch_timestamp: int = -1
        """int64; versions 1 to 2; ignorable"""
        last_caught_up_timestamp: int = -1
        """int64; versions 1 to 2; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        """version 2; ignorable"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        high_watermark: int = 0
        """int64"""
        current_voters: list[DescribeQuorumResponse.ReplicaState] = ...
        observers: list[DescribeQuorumResponse.ReplicaState] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        partitions: list[DescribeQuorumResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Listener(Message):
        name: str = ""
        """version 2"""
        host: str = ""
        """version 2"""
        port: int = 0
        """uint16; version 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Node(Message):
        node_id: int = 0
        """int32; version 2"""
        listeners: list[DescribeQuorumResponse.Listener] = ...
        """version 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    """version 2; ignorable"""
    topics: list[DescribeQuorumResponse.TopicData] = ...
    nodes: list[DescribeQuorumResponse.Node] = ...
    """version 2"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterPartitionRequest(Message):
    """AlterPartition request (API key 56), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class BrokerState(Message):
        broker_id: int = 0
        """int32; version 3"""
        broker_epoch: int = -1
        """int64; version 3"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        new_isr: list[int] = ...
        """int32; versions 0 to 2"""
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = ...
        """version 3"""
        leader_recovery_state: int = 0
        """int8; versions 1 to 3"""
        partition_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        """versions 0 to 1; ignorable"""
        topic_id: UUID = ...
        """versions 2 to 3; ignorable"""
        partitions: list[AlterPartitionRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    broker_id: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64"""
    topics: list[AlterPartitionRequest.TopicData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterPartitionResponse(Message):
    """AlterPartition response (API key 56), versions 0 to 3."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        isr: list[int] = ...
        """int32"""
        leader_recovery_state: int = 0
        """int8; versions 1 to 3; ignorable"""
        partition_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_name: str = ""
        """versions 0 to 1; ignorable"""
        topic_id: UUID = ...
        """versions 2 to 3; ignorable"""
        partitions: list[AlterPartitionResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    topics: list[AlterPartitionResponse.TopicData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UpdateFeaturesRequest(Message):
    """UpdateFeatures request (API key 57), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class FeatureUpdateKey(Message):
        feature: str = ""
        max_version_level: int = 0
        """int16"""
        allow_downgrade: bool = False
        """version 0"""
        upgrade_type: int = 1
        """int8; versions 1 to 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    timeout_ms: int = 60000
    """int32"""
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ...
    validate_only: bool = False
    """versions 1 to 2"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UpdateFeaturesResponse(Message):
    """UpdateFeatures response (API key 57), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class UpdatableFeatureResult(Message):
        feature: str = ""
        error_code: int = 0
        """int16"""
        error_message: str | None = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...
    """versions 0 to 1; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class EnvelopeRequest(Message):
    """Envelope request (API key 58), version 0."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class EnvelopeResponse(Message):
    """Envelope response (API key 58), version 0."""

    response_data: bytes | None = None
    error_code: int = 0
    """int16"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class FetchSnapshotRequest(Message):
    """FetchSnapshot request (API key 59), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class SnapshotId(Message):
        end_offset: int = 0
        """int64"""
        epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionSnapshot(Message):
        partition: int = 0
        """int32"""
        current_leader_epoch: int = 0
        """int32"""
        snapshot_id: FetchSnapshotRequest.SnapshotId = ...
        position: int = 0
        """int64"""
        replica_directory_id: UUID = ...
        """version 1; ignorable; tag 0"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicSnapshot(Message):
        name: str = ""
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = None
    """tag 0"""
    replica_id: int = -1
    """int32"""
    max_bytes: int = 2147483647
    """int32"""
    topics: list[FetchSnapshotRequest.TopicSnapshot] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class FetchSnapshotResponse(Message):
    """FetchSnapshot response (API key 59), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class SnapshotId(Message):
        end_offset: int = 0
        """int64"""
        epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderIdAndEpoch(Message):
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionSnapshot(Message):
        index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        snapshot_id: FetchSnapshotResponse.SnapshotId = ...
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = ...
        """tag 0"""
        size: int = 0
        """int64"""
        position: int = 0
        """int64"""
        unaligned_records: RecordBytes = b""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicSnapshot(Message):
        name: str = ""
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32; version 1"""
        host: str = ""
        """version 1"""
        port: int = 0
        """uint16; version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    topics: list[FetchSnapshotResponse.TopicSnapshot] = ...
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = ...
    """version 1; tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeClusterRequest(Message):
    """DescribeCluster request (API key 60), versions 0 to 2."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    """int8; versions 1 to 2"""
    include_fenced_brokers: bool = False
    """version 2"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeClusterResponse(Message):
    """DescribeCluster response (API key 60), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeClusterBroker(Message):
        broker_id: int = 0
        """int32"""
        host: str = ""
        port: int = 0
        """int32"""
        rack: str | None = None
        is_fenced: bool = False
        """version 2"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    endpoint_type: int = 1
    """int8; versions 1 to 2"""
    cluster_id: str = ""
    controller_id: int = -1
    """int32"""
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ...
    cluster_authorized_operations: int = -2147483648
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeProducersRequest(Message):
    """DescribeProducers request (API key 61), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicRequest(Message):
        name: str = ""
        partition_indexes: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[DescribeProducersRequest.TopicRequest] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeProducersResponse(Message):
    """DescribeProducers response (API key 61), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ProducerState(Message):
        producer_id: int = 0
        """int64"""
        producer_epoch: int = 0
        """int32"""
        last_sequence: int = -1
        """int32"""
        last_timestamp: int = -1
        """int64"""
        coordinator_epoch: int = 0
        """int32"""
        current_txn_start_offset: int = -1
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResponse(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        active_producers: list[DescribeProducersResponse.ProducerState] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicResponse(Message):
        name: str = ""
        partitions: list[DescribeProducersResponse.PartitionResponse] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    topics: list[DescribeProducersResponse.TopicResponse] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class BrokerRegistrationRequest(Message):
    """BrokerRegistration request (API key 62), versions 0 to 4."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class Listener(Message):
        name: str = ""
        host: str = ""
        port: int = 0
        """uint16"""
        security_protocol: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Feature(Message):
        name: str = ""
        min_supported_version: int = 0
        """int16"""
        max_supported_version: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    broker_id: int = 0
    """int32"""
    cluster_id: str = ""
    incarnation_id: UUID = ...
    listeners: list[BrokerRegistrationRequest.Listener] = ...
    features: list[BrokerRegistrationRequest.Feature] = ...
    rack: str | None = ""
    is_migrating_zk_broker: bool = False
    """versions 1 to 4"""
    log_dirs: list[UUID] = ...
    """versions 2 to 4; ignorable"""
    previous_broker_epoch: int = -1
    """int64; versions 3 to 4; ignorable"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class BrokerRegistrationResponse(Message):
    """BrokerRegistration response (API key 62), versions 0 to 4."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    broker_epoch: int = -1
    """int64"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class BrokerHeartbeatRequest(Message):
    """BrokerHeartbeat request (API key 63), versions 0 to 2."""

    broker_id: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64"""
    current_metadata_offset: int = 0
    """int64"""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[UUID] = ...
    """versions 1 to 2; tag 0"""
    cordoned_log_dirs: list[UUID] | None = None
    """version 2; tag 1"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class BrokerHeartbeatResponse(Message):
    """BrokerHeartbeat response (API key 63), versions 0 to 2."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UnregisterBrokerRequest(Message):
    """UnregisterBroker request (API key 64), version 0."""

    broker_id: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UnregisterBrokerResponse(Message):
    """UnregisterBroker response (API key 64), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeTransactionsRequest(Message):
    """DescribeTransactions request (API key 65), version 0."""

    transactional_ids: list[str] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeTransactionsResponse(Message):
    """DescribeTransactions response (API key 65), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TransactionState(Message):
        error_code: int = 0
        """int16"""
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: int = 0
        """int32"""
        transaction_start_time_ms: int = 0
        """int64"""
        producer_id: int = 0
        """int64"""
        producer_epoch: int = 0
        """int16"""
        topics: list[DescribeTransactionsResponse.TopicData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListTransactionsRequest(Message):
    """ListTransactions request (API key 66), versions 0 to 2."""

    state_filters: list[str] = ...
    producer_id_filters: list[int] = ...
    """int64"""
    duration_filter: int = -1
    """int64; versions 1 to 2"""
    transactional_id_pattern: str | None = None
    """version 2"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListTransactionsResponse(Message):
    """ListTransactions response (API key 66), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TransactionState(Message):
        transactional_id: str = ""
        producer_id: int = 0
        """int64"""
        transaction_state: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    unknown_state_filters: list[str] = ...
    transaction_states: list[ListTransactionsResponse.TransactionState] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AllocateProducerIdsRequest(Message):
    """AllocateProducerIds request (API key 67), version 0."""

    broker_id: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AllocateProducerIdsResponse(Message):
    """AllocateProducerIds response (API key 67), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    producer_id_start: int = 0
    """int64"""
    producer_id_len: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ConsumerGroupHeartbeatRequest(Message):
    """ConsumerGroupHeartbeat request (API key 68), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartitions(Message):
        topic_id: UUID = ...
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    """int32"""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """int32"""
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    """version 1"""
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ConsumerGroupHeartbeatResponse(Message):
    """ConsumerGroupHeartbeat response (API key 68), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartitions(Message):
        topic_id: UUID = ...
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Assignment(Message):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    """int32"""
    heartbeat_interval_ms: int = 0
    """int32"""
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ConsumerGroupDescribeRequest(Message):
    """ConsumerGroupDescribe request (API key 69), versions 0 to 1."""

    group_ids: list[str] = ...
    include_authorized_operations: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ConsumerGroupDescribeResponse(Message):
    """ConsumerGroupDescribe response (API key 69), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartitions(Message):
        topic_id: UUID = ...
        topic_name: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Assignment(Message):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Member(Message):
        member_id: str = ""
        instance_id: str | None = None
        rack_id: str | None = None
        member_epoch: int = 0
        """int32"""
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = ...
        subscribed_topic_regex: str | None = None
        assignment: ConsumerGroupDescribeResponse.Assignment = ...
        target_assignment: ConsumerGroupDescribeResponse.Assignment = ...
        member_type: int = -1
        """int8; version 1; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedGroup(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        """int32"""
        assignment_epoch: int = 0
        """int32"""
        assignor_name: str = ""
        members: list[ConsumerGroupDescribeResponse.Member] = ...
        authorized_operations: int = -2147483648
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ControllerRegistrationRequest(Message):
    """ControllerRegistration request (API key 70), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class Listener(Message):
        name: str = ""
        host: str = ""
        port: int = 0
        """uint16"""
        security_protocol: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Feature(Message):
        name: str = ""
        min_supported_version: int = 0
        """int16"""
        max_supported_version: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    controller_id: int = 0
    """int32"""
    incarnation_id: UUID = ...
    zk_migration_ready: bool = False
    listeners: list[ControllerRegistrationRequest.Listener] = ...
    features: list[ControllerRegistrationRequest.Feature] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ControllerRegistrationResponse(Message):
    """ControllerRegistration response (API key 70), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class GetTelemetrySubscriptionsRequest(Message):
    """GetTelemetrySubscriptions request (API key 71), version 0."""

    client_instance_id: UUID = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class GetTelemetrySubscriptionsResponse(Message):
    """GetTelemetrySubscriptions response (API key 71), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    client_instance_id: UUID = ...
    subscription_id: int = 0
    """int32"""
    accepted_compression_types: list[int] = ...
    """int8"""
    push_interval_ms: int = 0
    """int32"""
    telemetry_max_bytes: int = 0
    """int32"""
    delta_temporality: bool = False
    requested_metrics: list[str] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class PushTelemetryRequest(Message):
    """PushTelemetry request (API key 72), version 0."""

    client_instance_id: UUID = ...
    subscription_id: int = 0
    """int32"""
    terminating: bool = False
    compression_type: int = 0
    """int8"""
    metrics: bytes = b""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class PushTelemetryResponse(Message):
    """PushTelemetry response (API key 72), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AssignReplicasToDirsRequest(Message):
    """AssignReplicasToDirs request (API key 73), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_id: UUID = ...
        partitions: list[AssignReplicasToDirsRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DirectoryData(Message):
        id: UUID = ...
        topics: list[AssignReplicasToDirsRequest.TopicData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    broker_id: int = 0
    """int32"""
    broker_epoch: int = -1
    """int64"""
    directories: list[AssignReplicasToDirsRequest.DirectoryData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AssignReplicasToDirsResponse(Message):
    """AssignReplicasToDirs response (API key 73), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicData(Message):
        topic_id: UUID = ...
        partitions: list[AssignReplicasToDirsResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DirectoryData(Message):
        id: UUID = ...
        topics: list[AssignReplicasToDirsResponse.TopicData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    directories: list[AssignReplicasToDirsResponse.DirectoryData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListConfigResourcesRequest(Message):
    """ListConfigResources request (API key 74), versions 0 to 1."""

    resource_types: list[int] = ...
    """int8; version 1"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ListConfigResourcesResponse(Message):
    """ListConfigResources response (API key 74), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class ConfigResource(Message):
        resource_name: str = ""
        resource_type: int = 16
        """int8; version 1; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeTopicPartitionsRequest(Message):
    """DescribeTopicPartitions request (API key 75), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicRequest(Message):
        name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Cursor(Message):
        topic_name: str = ""
        partition_index: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ...
    response_partition_limit: int = 2000
    """int32"""
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeTopicPartitionsResponse(Message):
    """DescribeTopicPartitions response (API key 75), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeTopicPartitionsResponsePartition(Message):
        error_code: int = 0
        """int16"""
        partition_index: int = 0
        """int32"""
        leader_id: int = 0
        """int32"""
        leader_epoch: int = -1
        """int32"""
        replica_nodes: list[int] = ...
        """int32"""
        isr_nodes: list[int] = ...
        """int32"""
        eligible_leader_replicas: list[int] | None = None
        """int32"""
        last_known_elr: list[int] | None = None
        """int32"""
        offline_replicas: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeTopicPartitionsResponseTopic(Message):
        error_code: int = 0
        """int16"""
        name: str | None = ""
        topic_id: UUID = ...
        is_internal: bool = False
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ...
        topic_authorized_operations: int = -2147483648
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Cursor(Message):
        topic_name: str = ""
        partition_index: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ...
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareGroupHeartbeatRequest(Message):
    """ShareGroupHeartbeat request (API key 76), versions 0 to 1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    """int32"""
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareGroupHeartbeatResponse(Message):
    """ShareGroupHeartbeat response (API key 76), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartitions(Message):
        topic_id: UUID = ...
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Assignment(Message):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    """int32"""
    heartbeat_interval_ms: int = 0
    """int32"""
    assignment: ShareGroupHeartbeatResponse.Assignment | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareGroupDescribeRequest(Message):
    """ShareGroupDescribe request (API key 77), versions 0 to 1."""

    group_ids: list[str] = ...
    include_authorized_operations: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareGroupDescribeResponse(Message):
    """ShareGroupDescribe response (API key 77), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartitions(Message):
        topic_id: UUID = ...
        topic_name: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Assignment(Message):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Member(Message):
        member_id: str = ""
        rack_id: str | None = None
        member_epoch: int = 0
        """int32"""
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = ...
        assignment: ShareGroupDescribeResponse.Assignment = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedGroup(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        """int32"""
        assignment_epoch: int = 0
        """int32"""
        assignor_name: str = ""
        members: list[ShareGroupDescribeResponse.Member] = ...
        authorized_operations: int = -2147483648
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareFetchRequest(Message):
    """ShareFetch request (API key 78), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AcknowledgementBatch(Message):
        first_offset: int = 0
        """int64"""
        last_offset: int = 0
        """int64"""
        acknowledge_types: list[int] = ...
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class FetchPartition(Message):
        partition_index: int = 0
        """int32"""
        partition_max_bytes: int = 0
        """int32; version 0"""
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class FetchTopic(Message):
        topic_id: UUID = ...
        partitions: list[ShareFetchRequest.FetchPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ForgottenTopic(Message):
        topic_id: UUID = ...
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    """int32"""
    max_wait_ms: int = 0
    """int32"""
    min_bytes: int = 0
    """int32"""
    max_bytes: int = 2147483647
    """int32"""
    max_records: int = 0
    """int32; versions 1 to 2"""
    batch_size: int = 0
    """int32; versions 1 to 2"""
    share_acquire_mode: int = 0
    """int8; version 2; ignorable"""
    is_renew_ack: bool = False
    """version 2"""
    topics: list[ShareFetchRequest.FetchTopic] = ...
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareFetchResponse(Message):
    """ShareFetch response (API key 78), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderIdAndEpoch(Message):
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AcquiredRecords(Message):
        first_offset: int = 0
        """int64"""
        last_offset: int = 0
        """int64"""
        delivery_count: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        acknowledge_error_code: int = 0
        """int16"""
        acknowledge_error_message: str | None = None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = ...
        records: RecordBytes | None = b""
        """null in version 0"""
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ShareFetchableTopicResponse(Message):
        topic_id: UUID = ...
        partitions: list[ShareFetchResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32"""
        host: str = ""
        port: int = 0
        """int32"""
        rack: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    """int32; versions 1 to 2"""
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ...
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareAcknowledgeRequest(Message):
    """ShareAcknowledge request (API key 79), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AcknowledgementBatch(Message):
        first_offset: int = 0
        """int64"""
        last_offset: int = 0
        """int64"""
        acknowledge_types: list[int] = ...
        """int8"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AcknowledgePartition(Message):
        partition_index: int = 0
        """int32"""
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AcknowledgeTopic(Message):
        topic_id: UUID = ...
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    """int32"""
    is_renew_ack: bool = False
    """version 2"""
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ShareAcknowledgeResponse(Message):
    """ShareAcknowledge response (API key 79), versions 0 to 2."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class LeaderIdAndEpoch(Message):
        leader_id: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ShareAcknowledgeTopicResponse(Message):
        topic_id: UUID = ...
        partitions: list[ShareAcknowledgeResponse.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class NodeEndpoint(Message):
        node_id: int = 0
        """int32"""
        host: str = ""
        port: int = 0
        """int32"""
        rack: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    """int32; version 2; ignorable"""
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = ...
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AddRaftVoterRequest(Message):
    """AddRaftVoter request (API key 80), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class Listener(Message):
        name: str = ""
        host: str = ""
        port: int = 0
        """uint16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = ""
    timeout_ms: int = 0
    """int32"""
    voter_id: int = 0
    """int32"""
    voter_directory_id: UUID = ...
    listeners: list[AddRaftVoterRequest.Listener] = ...
    ack_when_committed: bool = True
    """version 1"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AddRaftVoterResponse(Message):
    """AddRaftVoter response (API key 80), versions 0 to 1."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class RemoveRaftVoterRequest(Message):
    """RemoveRaftVoter request (API key 81), version 0."""

    cluster_id: str | None = ""
    voter_id: int = 0
    """int32"""
    voter_directory_id: UUID = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class RemoveRaftVoterResponse(Message):
    """RemoveRaftVoter response (API key 81), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UpdateRaftVoterRequest(Message):
    """UpdateRaftVoter request (API key 82), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class Listener(Message):
        name: str = ""
        host: str = ""
        port: int = 0
        """uint16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class KRaftVersionFeature(Message):
        min_supported_version: int = 0
        """int16"""
        max_supported_version: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    cluster_id: str | None = ""
    current_leader_epoch: int = 0
    """int32"""
    voter_id: int = 0
    """int32"""
    voter_directory_id: UUID = ...
    listeners: list[UpdateRaftVoterRequest.Listener] = ...
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UpdateRaftVoterResponse(Message):
    """UpdateRaftVoter response (API key 82), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class CurrentLeader(Message):
        leader_id: int = -1
        """int32"""
        leader_epoch: int = -1
        """int32"""
        host: str = ""
        port: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    current_leader: UpdateRaftVoterResponse.CurrentLeader = ...
    """tag 0"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class InitializeShareGroupStateRequest(Message):
    """InitializeShareGroupState request (API key 83), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition: int = 0
        """int32"""
        state_epoch: int = 0
        """int32"""
        start_offset: int = 0
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class InitializeStateData(Message):
        topic_id: UUID = ...
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class InitializeShareGroupStateResponse(Message):
    """InitializeShareGroupState response (API key 83), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResult(Message):
        partition: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class InitializeStateResult(Message):
        topic_id: UUID = ...
        partitions: list[InitializeShareGroupStateResponse.PartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ReadShareGroupStateRequest(Message):
    """ReadShareGroupState request (API key 84), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReadStateData(Message):
        topic_id: UUID = ...
        partitions: list[ReadShareGroupStateRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[ReadShareGroupStateRequest.ReadStateData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ReadShareGroupStateResponse(Message):
    """ReadShareGroupState response (API key 84), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class StateBatch(Message):
        first_offset: int = 0
        """int64"""
        last_offset: int = 0
        """int64"""
        delivery_state: int = 0
        """int8"""
        delivery_count: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResult(Message):
        partition: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        state_epoch: int = 0
        """int32"""
        start_offset: int = 0
        """int64"""
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReadStateResult(Message):
        topic_id: UUID = ...
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    results: list[ReadShareGroupStateResponse.ReadStateResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class WriteShareGroupStateRequest(Message):
    """WriteShareGroupState request (API key 85), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class StateBatch(Message):
        first_offset: int = 0
        """int64"""
        last_offset: int = 0
        """int64"""
        delivery_state: int = 0
        """int8"""
        delivery_count: int = 0
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition: int = 0
        """int32"""
        state_epoch: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        start_offset: int = 0
        """int64"""
        delivery_complete_count: int = -1
        """int32; version 1; ignorable"""
        state_batches: list[WriteShareGroupStateRequest.StateBatch] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class WriteStateData(Message):
        topic_id: UUID = ...
        partitions: list[WriteShareGroupStateRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[WriteShareGroupStateRequest.WriteStateData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class WriteShareGroupStateResponse(Message):
    """WriteShareGroupState response (API key 85), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResult(Message):
        partition: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class WriteStateResult(Message):
        topic_id: UUID = ...
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    results: list[WriteShareGroupStateResponse.WriteStateResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteShareGroupStateRequest(Message):
    """DeleteShareGroupState request (API key 86), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteStateData(Message):
        topic_id: UUID = ...
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteShareGroupStateResponse(Message):
    """DeleteShareGroupState response (API key 86), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResult(Message):
        partition: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteStateResult(Message):
        topic_id: UUID = ...
        partitions: list[DeleteShareGroupStateResponse.PartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ReadShareGroupStateSummaryRequest(Message):
    """ReadShareGroupStateSummary request (API key 87), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionData(Message):
        partition: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReadStateSummaryData(Message):
        topic_id: UUID = ...
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class ReadShareGroupStateSummaryResponse(Message):
    """ReadShareGroupStateSummary response (API key 87), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class PartitionResult(Message):
        partition: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        state_epoch: int = 0
        """int32"""
        leader_epoch: int = 0
        """int32"""
        start_offset: int = 0
        """int64"""
        delivery_complete_count: int = -1
        """int32; version 1; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class ReadStateSummaryResult(Message):
        topic_id: UUID = ...
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StreamsGroupHeartbeatRequest(Message):
    """StreamsGroupHeartbeat request (API key 88), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class KeyValue(Message):
        key: str = ""
        value: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicInfo(Message):
        name: str = ""
        partitions: int = 0
        """int32"""
        replication_factor: int = 0
        """int16"""
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class CopartitionGroup(Message):
        source_topics: list[int] = ...
        """int16"""
        source_topic_regex: list[int] = ...
        """int16"""
        repartition_source_topics: list[int] = ...
        """int16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Subtopology(Message):
        subtopology_id: str = ""
        source_topics: list[str] = ...
        source_topic_regex: list[str] = ...
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ...
        repartition_sink_topics: list[str] = ...
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ...
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Topology(Message):
        epoch: int = 0
        """int32"""
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TaskIds(Message):
        subtopology_id: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Endpoint(Message):
        host: str = ""
        port: int = 0
        """uint16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TaskOffset(Message):
        subtopology_id: str = ""
        partition: int = 0
        """int32"""
        offset: int = 0
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    """int32"""
    endpoint_information_epoch: int = 0
    """int32"""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """int32"""
    topology: StreamsGroupHeartbeatRequest.Topology | None = None
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = None
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = None
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = None
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = None
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = None
    shutdown_application: bool = False
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StreamsGroupHeartbeatResponse(Message):
    """StreamsGroupHeartbeat response (API key 88), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class Status(Message):
        status_code: int = 0
        """int8"""
        status_detail: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TaskIds(Message):
        subtopology_id: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Endpoint(Message):
        host: str = ""
        port: int = 0
        """uint16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicPartition(Message):
        topic: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class EndpointToPartitions(Message):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = ...
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    """int32"""
    heartbeat_interval_ms: int = 0
    """int32"""
    acceptable_recovery_lag_legacy: int = 0
    """int32; version 0"""
    task_offset_interval_ms: int = 0
    """int32"""
    acceptable_recovery_lag: int = -1
    """int64; version 1; ignorable"""
    status: list[StreamsGroupHeartbeatResponse.Status] | None = ...
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = None
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = None
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = None
    topology_description_required: bool = False
    """version 1"""
    endpoint_information_epoch: int = 0
    """int32"""
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StreamsGroupDescribeRequest(Message):
    """StreamsGroupDescribe request (API key 89), versions 0 to 1."""

    group_ids: list[str] = ...
    include_authorized_operations: bool = False
    include_topology_description: bool = False
    """version 1"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StreamsGroupDescribeResponse(Message):
    """StreamsGroupDescribe response (API key 89), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class KeyValue(Message):
        key: str = ""
        value: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopicInfo(Message):
        name: str = ""
        partitions: int = 0
        """int32"""
        replication_factor: int = 0
        """int16"""
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Subtopology(Message):
        subtopology_id: str = ""
        source_topics: list[str] = ...
        repartition_sink_topics: list[str] = ...
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Topology(Message):
        epoch: int = 0
        """int32"""
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Endpoint(Message):
        host: str = ""
        port: int = 0
        """uint16"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TaskOffset(Message):
        subtopology_id: str = ""
        partition: int = 0
        """int32"""
        offset: int = 0
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TaskIds(Message):
        subtopology_id: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Assignment(Message):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class Member(Message):
        member_id: str = ""
        member_epoch: int = 0
        """int32"""
        instance_id: str | None = None
        rack_id: str | None = None
        client_id: str = ""
        client_host: str = ""
        topology_epoch: int = 0
        """int32"""
        process_id: str = ""
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = ...
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ...
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ...
        assignment: StreamsGroupDescribeResponse.Assignment = ...
        target_assignment: StreamsGroupDescribeResponse.Assignment = ...
        is_classic: bool = False
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescriptionNode(Message):
        name: str = ""
        """version 1"""
        node_type: int = 0
        """int8; version 1"""
        source_topics: list[str] = ...
        """version 1"""
        sink_topic: str | None = None
        """version 1"""
        stores: list[str] = ...
        """version 1"""
        successors: list[str] = ...
        """version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescriptionSubtopology(Message):
        subtopology_id: str = ""
        """version 1"""
        nodes: list[StreamsGroupDescribeResponse.TopologyDescriptionNode] = ...
        """version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescriptionGlobalStore(Message):
        source: StreamsGroupDescribeResponse.TopologyDescriptionNode = ...
        """version 1"""
        processor: StreamsGroupDescribeResponse.TopologyDescriptionNode = ...
        """version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescription(Message):
        subtopologies: list[StreamsGroupDescribeResponse.TopologyDescriptionSubtopology] = ...
        """version 1"""
        global_stores: list[StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore] = ...
        """version 1"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribedGroup(Message):
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        """int32"""
        assignment_epoch: int = 0
        """int32"""
        topology: StreamsGroupDescribeResponse.Topology | None = None
        members: list[StreamsGroupDescribeResponse.Member] = ...
        authorized_operations: int = -2147483648
        """int32"""
        topology_description: StreamsGroupDescribeResponse.TopologyDescription | None = None
        """version 1"""
        topology_description_status: int = 0
        """int8; version 1"""
        assignor_name: str | None = None
        """version 1; ignorable"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeShareGroupOffsetsRequest(Message):
    """DescribeShareGroupOffsets request (API key 90), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeShareGroupOffsetsRequestTopic(Message):
        topic_name: str = ""
        partitions: list[int] = ...
        """int32"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeShareGroupOffsetsRequestGroup(Message):
        group_id: str = ""
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DescribeShareGroupOffsetsResponse(Message):
    """DescribeShareGroupOffsets response (API key 90), versions 0 to 1."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeShareGroupOffsetsResponsePartition(Message):
        partition_index: int = 0
        """int32"""
        start_offset: int = 0
        """int64"""
        leader_epoch: int = 0
        """int32"""
        lag: int = -1
        """int64; version 1; ignorable"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeShareGroupOffsetsResponseTopic(Message):
        topic_name: str = ""
        topic_id: UUID = ...
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class DescribeShareGroupOffsetsResponseGroup(Message):
        group_id: str = ""
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = ...
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterShareGroupOffsetsRequest(Message):
    """AlterShareGroupOffsets request (API key 91), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterShareGroupOffsetsRequestPartition(Message):
        partition_index: int = 0
        """int32"""
        start_offset: int = 0
        """int64"""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterShareGroupOffsetsRequestTopic(Message):
        topic_name: str = ""
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class AlterShareGroupOffsetsResponse(Message):
    """AlterShareGroupOffsets response (API key 91), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterShareGroupOffsetsResponsePartition(Message):
        partition_index: int = 0
        """int32"""
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class AlterShareGroupOffsetsResponseTopic(Message):
        topic_name: str = ""
        topic_id: UUID = ...
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteShareGroupOffsetsRequest(Message):
    """DeleteShareGroupOffsets request (API key 92), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteShareGroupOffsetsRequestTopic(Message):
        topic_name: str = ""
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class DeleteShareGroupOffsetsResponse(Message):
    """DeleteShareGroupOffsets response (API key 92), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class DeleteShareGroupOffsetsResponseTopic(Message):
        topic_name: str = ""
        topic_id: UUID = ...
        error_code: int = 0
        """int16"""
        error_message: str | None = None
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StreamsGroupTopologyDescriptionUpdateRequest(Message):
    """StreamsGroupTopologyDescriptionUpdate request (API key 93), version 0."""

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescriptionNode(Message):
        name: str = ""
        node_type: int = 0
        """int8"""
        source_topics: list[str] = ...
        sink_topic: str | None = None
        stores: list[str] = ...
        successors: list[str] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescriptionSubtopology(Message):
        subtopology_id: str = ""
        nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescriptionGlobalStore(Message):
        source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = ...
        processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    @dataclass(kw_only=True, slots=True, repr=False)
    class TopologyDescription(Message):
        subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology] = ...
        global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore] = ...
        unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

    group_id: str = ""
    member_id: str = ""
    topology_epoch: int = 0
    """int32"""
    topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription = ...
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    """StreamsGroupTopologyDescriptionUpdate response (API key 93), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = None
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UnregisterControllerRequest(Message):
    """UnregisterController request (API key 94), version 0."""

    controller_id: int = 0
    """int32"""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()

@dataclass(kw_only=True, slots=True, repr=False)
class UnregisterControllerResponse(Message):
    """UnregisterController response (API key 94), version 0."""

    throttle_time_ms: int = 0
    """int32"""
    error_code: int = 0
    """int16"""
    error_message: str | None = ""
    unknown_tagged_fields: tuple[tuple[int, bytes], ...] = ()
