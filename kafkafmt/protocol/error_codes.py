"""Define the error codes in Kafka's responses."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Error codes in responses. For example, ``ErrorCode(6)`` is NOT_LEADER_OR_FOLLOWER.

    Attributes
    ----------
    message : str
        The meaning of the code.
    retriable : bool
        Whether the same request may succeed later.

    Notes
    -----
    The names are those in Kafka's enum ``Errors``. Unknown codes are also accepted. The name of an
    unknown code contains its number, as in UNKNOWN_999. Unknown codes are not retriable.
    """

    message: str
    retriable: bool

    def __new__(cls, code: int, message: str = "", retriable: bool = False) -> ErrorCode:
        """Create an enum member with the attributes `message` and `retriable`."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.message = message
        made.retriable = retriable
        return made

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        if not isinstance(value, int) or not -(2**15) <= value < 2**15:
            return None
        made = int.__new__(cls, value)
        made._value_, made._name_ = value, f"UNKNOWN_{value}".replace("-", "MINUS_")
        made.message, made.retriable = "this release of kafkafmt does not define the code", False
        cls._value2member_map_[value] = made
        return made

    UNKNOWN_SERVER_ERROR = (-1, "the broker had an unexpected error")
    NONE = (0, "no error")
    OFFSET_OUT_OF_RANGE = (1, "the offset is outside the range of the partition's log")
    CORRUPT_MESSAGE = (2, "the record data does not match its checksum or is not valid", True)
    UNKNOWN_TOPIC_OR_PARTITION = (3, "the broker does not host this topic partition", True)
    INVALID_FETCH_SIZE = (4, "the fetch size is not valid")
    LEADER_NOT_AVAILABLE = (5, "the partition currently has no leader", True)
    NOT_LEADER_OR_FOLLOWER = (6, "the broker is not the leader of the partition, or is not one of its replicas", True)
    REQUEST_TIMED_OUT = (7, "the request took longer than its timeout", True)
    BROKER_NOT_AVAILABLE = (8, "the broker is not available")
    REPLICA_NOT_AVAILABLE = (9, "the replica is not available on this broker", True)
    MESSAGE_TOO_LARGE = (10, "a batch is larger than the broker or the topic allows")
    STALE_CONTROLLER_EPOCH = (11, "the controller epoch in the request is not the current one")
    OFFSET_METADATA_TOO_LARGE = (12, "the metadata of a committed offset is too long")
    NETWORK_EXCEPTION = (13, "the connection was closed before the response arrived", True)
    COORDINATOR_LOAD_IN_PROGRESS = (14, "the coordinator is still loading its state", True)
    COORDINATOR_NOT_AVAILABLE = (15, "the coordinator is not available", True)
    NOT_COORDINATOR = (16, "this broker is not the coordinator", True)
    INVALID_TOPIC_EXCEPTION = (17, "the topic's name is not valid, or the operation is not allowed for this topic")
    RECORD_LIST_TOO_LARGE = (18, "the records are larger than a segment")
    NOT_ENOUGH_REPLICAS = (19, "the partition has fewer in-sync replicas than required", True)
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "the records were written, but to fewer in-sync replicas than required",
        True,
    )
    INVALID_REQUIRED_ACKS = (21, "acks must be -1, 0 or 1")
    ILLEGAL_GENERATION = (22, "the generation id is not the current generation of the group")
    INCONSISTENT_GROUP_PROTOCOL = (23, "the group does not support any of the member's protocols")
    INVALID_GROUP_ID = (24, "the group id is not valid")
    UNKNOWN_MEMBER_ID = (25, "the group has no such member")
    INVALID_SESSION_TIMEOUT = (26, "the session timeout is outside the range that the broker allows")
    REBALANCE_IN_PROGRESS = (27, "the group is rebalancing; join it again")
    INVALID_COMMIT_OFFSET_SIZE = (28, "the offset commit is larger than the broker allows")
    TOPIC_AUTHORIZATION_FAILED = (29, "the client is not authorized for this topic")
    GROUP_AUTHORIZATION_FAILED = (30, "the client is not authorized for this group")
    CLUSTER_AUTHORIZATION_FAILED = (31, "the client is not authorized for this cluster")
    INVALID_TIMESTAMP = (32, "a record's timestamp is outside the range that the topic allows")
    UNSUPPORTED_SASL_MECHANISM = (33, "the broker does not support this SASL mechanism")
    ILLEGAL_SASL_STATE = (34, "the request is not allowed in the current state of SASL authentication")
    UNSUPPORTED_VERSION = (35, "the broker does not support this version of the API")
    TOPIC_ALREADY_EXISTS = (36, "a topic with this name already exists")
    INVALID_PARTITIONS = (37, "the number of partitions is not valid")
    INVALID_REPLICATION_FACTOR = (38, "the replication factor is below 1 or above the number of brokers")
    INVALID_REPLICA_ASSIGNMENT = (39, "the assignment of replicas is not valid")
    INVALID_CONFIG = (40, "the configuration is not valid")
    NOT_CONTROLLER = (41, "this broker is not the controller", True)
    INVALID_REQUEST = (42, "the request violates the protocol or is inconsistent")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, "the broker's message format does not support the request")
    POLICY_VIOLATION = (44, "the request violates a policy of the broker")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, "the sequence number does not follow the producer's previous one")
    DUPLICATE_SEQUENCE_NUMBER = (46, "a batch with the same sequence number was already written")
    INVALID_PRODUCER_EPOCH = (47, "the producer epoch is not the current one")
    INVALID_TXN_STATE = (48, "the state of the transaction does not allow the request")
    INVALID_PRODUCER_ID_MAPPING = (49, "the producer id does not belong to this transactional id")
    INVALID_TRANSACTION_TIMEOUT = (50, "the transaction timeout is longer than the broker allows")
    CONCURRENT_TRANSACTIONS = (51, "another operation on the same transaction is in progress", True)
    TRANSACTION_COORDINATOR_FENCED = (52, "a newer transaction coordinator has taken over")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, "the client is not authorized for this transactional id")
    SECURITY_DISABLED = (54, "the broker's security features are disabled")
    OPERATION_NOT_ATTEMPTED = (55, "the operation was not attempted, because another part of the request failed")
    KAFKA_STORAGE_ERROR = (56, "the broker cannot access the log on disk", True)
    LOG_DIR_NOT_FOUND = (57, "the broker does not have this log directory")
    SASL_AUTHENTICATION_FAILED = (58, "authentication failed")
    UNKNOWN_PRODUCER_ID = (59, "the broker has no state for this producer id")
    REASSIGNMENT_IN_PROGRESS = (60, "the partition is being reassigned")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, "delegation tokens are disabled")
    DELEGATION_TOKEN_NOT_FOUND = (62, "there is no such delegation token")
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, "the principal is neither the owner nor a renewer of the delegation token")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, "delegation tokens cannot be requested on this connection")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, "the client is not authorized for this delegation token")
    DELEGATION_TOKEN_EXPIRED = (66, "the delegation token has expired")
    INVALID_PRINCIPAL_TYPE = (67, "this type of principal is not supported")
    NON_EMPTY_GROUP = (68, "the group still has members")
    GROUP_ID_NOT_FOUND = (69, "there is no such group")
    FETCH_SESSION_ID_NOT_FOUND = (70, "the broker does not have a fetch session with this id", True)
    INVALID_FETCH_SESSION_EPOCH = (71, "the fetch session epoch is not the expected one", True)
    LISTENER_NOT_FOUND = (72, "the leader has no listener that matches the listener of the request", True)
    TOPIC_DELETION_DISABLED = (73, "topic deletion is disabled")
    FENCED_LEADER_EPOCH = (74, "the leader epoch in the request is older than the broker's leader epoch", True)
    UNKNOWN_LEADER_EPOCH = (75, "the leader epoch in the request is newer than the broker's leader epoch", True)
    UNSUPPORTED_COMPRESSION_TYPE = (76, "the codec is not supported in this version of the request")
    STALE_BROKER_EPOCH = (77, "the broker's epoch has changed")
    OFFSET_NOT_AVAILABLE = (78, "the high watermark has not reached the start of the leader's epoch yet", True)
    MEMBER_ID_REQUIRED = (79, "the member must join the group again, with the member id in the response")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, "the preferred leader is not available", True)
    GROUP_MAX_SIZE_REACHED = (81, "the group already has the maximum number of members")
    FENCED_INSTANCE_ID = (82, "another member with the same group instance id has joined the group")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, "no replica that is eligible to become the leader is available", True)
    ELECTION_NOT_NEEDED = (84, "the partition does not need a leader election", True)
    NO_REASSIGNMENT_IN_PROGRESS = (85, "the partition is not being reassigned")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, "a member of the group is subscribed to the topic")
    INVALID_RECORD = (87, "a record failed the broker's validation")
    UNSTABLE_OFFSET_COMMIT = (88, "a transaction that commits these offsets is still open", True)
    THROTTLING_QUOTA_EXCEEDED = (89, "the quota for this type of request is exceeded", True)
    PRODUCER_FENCED = (90, "a newer producer with the same transactional id has started")
    RESOURCE_NOT_FOUND = (91, "there is no such resource")
    DUPLICATE_RESOURCE = (92, "the resource already exists, or is named twice in the request")
    UNACCEPTABLE_CREDENTIAL = (93, "the credential does not meet the requirements")
    INCONSISTENT_VOTER_SET = (94, "the voters in the request differ from the voters of the quorum")
    INVALID_UPDATE_VERSION = (95, "the new version is not valid")
    FEATURE_UPDATE_FAILED = (96, "the features could not be updated")
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, "the principal of a forwarded request cannot be read")
    SNAPSHOT_NOT_FOUND = (98, "there is no such snapshot")
    POSITION_OUT_OF_RANGE = (99, "the position is outside the snapshot")
    UNKNOWN_TOPIC_ID = (100, "the broker does not host a topic with this id", True)
    DUPLICATE_BROKER_REGISTRATION = (101, "another broker is registered with this id")
    BROKER_ID_NOT_REGISTERED = (102, "no broker is registered with this id")
    INCONSISTENT_TOPIC_ID = (103, "the topic id differs from the one in the log", True)
    INCONSISTENT_CLUSTER_ID = (104, "the cluster id in the request differs from the cluster id of the broker")
    TRANSACTIONAL_ID_NOT_FOUND = (105, "there is no such transactional id")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, "the fetch session mixes topic ids and topic names", True)
    INELIGIBLE_REPLICA = (107, "the replica is currently not allowed to join the in-sync replicas")
    NEW_LEADER_ELECTED = (108, "the request caused the election of another leader")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, "the offset has moved to tiered storage")
    FENCED_MEMBER_EPOCH = (110, "the coordinator has fenced this member; join the group again")
    UNRELEASED_INSTANCE_ID = (111, "another member still uses this instance id")
    UNSUPPORTED_ASSIGNOR = (112, "the group does not support this assignor")
    STALE_MEMBER_EPOCH = (113, "the member's epoch is not the current one")
    MISMATCHED_ENDPOINT_TYPE = (114, "the request was sent to the wrong type of endpoint")
    UNSUPPORTED_ENDPOINT_TYPE = (115, "this type of endpoint is not supported")
    UNKNOWN_CONTROLLER_ID = (116, "there is no controller with this id")
    UNKNOWN_SUBSCRIPTION_ID = (117, "the telemetry subscription id is not the current one")
    TELEMETRY_TOO_LARGE = (118, "the telemetry data is larger than the broker allows")
    INVALID_REGISTRATION = (119, "the controller rejected the registration as invalid")
    TRANSACTION_ABORTABLE = (120, "the transaction must be aborted")
    INVALID_RECORD_STATE = (121, "the state of the record does not allow the acknowledgement")
    SHARE_SESSION_NOT_FOUND = (122, "the broker does not have this share session", True)
    INVALID_SHARE_SESSION_EPOCH = (123, "the share session epoch is not the expected one", True)
    FENCED_STATE_EPOCH = (124, "the state epoch of the share group is not the current one")
    INVALID_VOTER_KEY = (125, "the voter's id and directory id do not match those of the receiving node")
    DUPLICATE_VOTER = (126, "the voter is already in the quorum")
    VOTER_NOT_FOUND = (127, "the quorum has no such voter")
    INVALID_REGULAR_EXPRESSION = (128, "the regular expression is not valid")
    REBOOTSTRAP_REQUIRED = (129, "the client's metadata is too old; it must start from its bootstrap servers again")
    STREAMS_INVALID_TOPOLOGY = (130, "the Streams topology is not valid")
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, "the epoch of the Streams topology is not valid")
    STREAMS_TOPOLOGY_FENCED = (132, "the Streams topology is out of date")
    SHARE_SESSION_LIMIT_REACHED = (133, "the broker already has the maximum number of share sessions", True)
    GROUP_DELETION_FAILED = (134, "the group was not deleted; the error message contains the reason")
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "the Streams topology description was not stored; the error message contains the reason",
    )
    CONTROLLER_ID_NOT_REGISTERED = (136, "no controller is registered with this id")
