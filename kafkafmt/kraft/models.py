"""Define classes for a cluster's metadata, such as topics, partitions and brokers.

All classes are frozen dataclasses. No object contains a secret, such as the value of a config in
`sensitive.SENSITIVE`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..support import arguments


class Row:
    """Base class of a row in a table of a cluster's metadata."""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as the dict that ``kafkafmt metadata --format json`` prints."""
        # Use vars(), because it is much faster than dataclasses.fields(). The order of the attributes is the same.
        return {name: _json_value(value) for name, value in vars(self).items() if name[0] != "_"}


def _json_value(value: Any) -> Any:
    """Convert a value to a JSON type: tuples become lists, rows become dicts, and infinite floats become text."""
    if isinstance(value, tuple):
        return [item.to_dict() if isinstance(item, Row) else item for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # JSON cannot represent infinite floats.
        return str(value)
    return value


@dataclass(frozen=True)
class MetadataPartition(Row):
    """A partition of a topic.

    Attributes
    ----------
    topic, topic_id : str
        Name and id of the topic.
    partition : int
        Number of the partition.
    leader : int
        Id of the broker that leads the partition; -1 if there is no leader.
    leader_epoch, partition_epoch : int
        Number of leader changes, and number of changes of any kind.
    replicas, isr : tuple of int
        Ids of the brokers that have a replica, and ids of those whose replica is in sync.
    adding_replicas, removing_replicas : tuple of int
        Replicas that a reassignment adds or removes.
    elr, last_known_elr : tuple of int
        Eligible leader replicas (KIP-966).
    directories : tuple of str
        Id of the log directory of each replica, in the order of `replicas`.
    leader_recovery_state : str
        "RECOVERED", or "RECOVERING" after an unclean election.
    """

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    directories: tuple[str, ...]
    leader_recovery_state: str


@dataclass(frozen=True)
class MetadataTopic(Row):
    """A topic.

    Attributes
    ----------
    name, topic_id : str
        Name and id of the topic.
    partitions : tuple of MetadataPartition
        The partitions, ordered by number.
    """

    name: str
    topic_id: str
    partitions: tuple[MetadataPartition, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the topic as the dict that ``kafkafmt metadata --format json`` prints.

        The dicts of the partitions do not repeat the name and the id of the topic.
        """
        kept = [
            {name: value for name, value in p.to_dict().items() if name not in ("topic", "topic_id")}
            for p in self.partitions
        ]
        return {"name": self.name, "topic_id": self.topic_id, "partitions": kept}


@dataclass(frozen=True)
class MetadataConfig(Row):
    """A dynamic config.

    Attributes
    ----------
    resource_type : str
        "topic", "broker", "broker_logger", "client_metrics" or "group". For other types, the number
        of the type.
    resource_name : str
        Name of the resource. "" stands for the default of all brokers.
    name : str
        Name of the config.
    value : str or None
        Value of the config. None if the config is sensitive.
    sensitive : bool
        Whether the config can contain a secret.
    """

    resource_type: str
    resource_name: str
    name: str
    value: str | None
    sensitive: bool
    _digest: bytes | None = field(default=None, repr=False)
    """Keyed hash of a sensitive value. It is used to compare two states. The key exists only in this process."""


@dataclass(frozen=True)
class MetadataAcl(Row):
    """An access control entry. Types and operations have the names of Kafka's enums, such as "READ".

    Attributes
    ----------
    id : str
        Id of the entry.
    resource_type, resource_name, pattern_type : str
        The resources to which the entry applies.
    principal, host : str
        The users and hosts to which the entry applies.
    operation, permission : str
        The operation, and "ALLOW" or "DENY".
    """

    id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True)
class Endpoint(Row):
    """A listener of a broker, a controller or a voter.

    Attributes
    ----------
    name : str
        Name of the listener.
    host, port : str and int
        Address of the listener.
    security_protocol : str or None
        Name of the security protocol. None for voters.
    """

    name: str
    host: str
    port: int
    security_protocol: str | None = None


@dataclass(frozen=True)
class SupportedFeature(Row):
    """A feature, and the range of its levels that a broker or a controller supports."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True)
class MetadataBroker(Row):
    """A registered broker.

    Attributes
    ----------
    id, epoch : int
        Id and epoch of the broker.
    incarnation_id : str
        Id that the broker generates at each start.
    rack : str or None
        Rack of the broker.
    fenced, in_controlled_shutdown, is_migrating_zk_broker : bool
        State of the broker.
    endpoints : tuple of Endpoint
        Listeners of the broker.
    features : tuple of SupportedFeature
        Features that the broker supports.
    log_dirs, cordoned_log_dirs : tuple of str
        Ids of the broker's log directories, and ids of those that get no new partitions.
    """

    id: int
    epoch: int
    incarnation_id: str
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    log_dirs: tuple[str, ...]
    cordoned_log_dirs: tuple[str, ...]


@dataclass(frozen=True)
class MetadataController(Row):
    """A registered controller.

    Attributes
    ----------
    id : int
        Id of the controller.
    incarnation_id : str
        Id that the controller generates at each start.
    zk_migration_ready : bool
        Whether the controller is ready for a migration from ZooKeeper.
    endpoints : tuple of Endpoint
        Listeners of the controller.
    features : tuple of SupportedFeature
        Features that the controller supports.
    """

    id: int
    incarnation_id: str
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]


@dataclass(frozen=True)
class MetadataQuota(Row):
    """A client quota.

    Attributes
    ----------
    user, client_id, ip : str or None
        The clients to which the quota applies. None means that the quota does not depend on the
        attribute. "" stands for the default user, client id or IP address.
    key : str
        Name of the quota, such as "producer_byte_rate".
    value : float
        The limit.
    """

    user: str | None
    client_id: str | None
    ip: str | None
    key: str
    value: float


@dataclass(frozen=True)
class MetadataScram(Row):
    """A SCRAM credential, without its salt and keys.

    Attributes
    ----------
    user, mechanism : str
        Name of the user, and "SCRAM-SHA-256" or "SCRAM-SHA-512".
    iterations : int
        Number of iterations of the hash.
    """

    user: str
    mechanism: str
    iterations: int
    _digest: bytes | None = field(default=None, repr=False)
    """Keyed hash of the salt and keys. It is used to compare two states."""


@dataclass(frozen=True)
class MetadataFeature(Row):
    """The finalized level of a feature, such as "metadata.version" or "kraft.version"."""

    name: str
    level: int


@dataclass(frozen=True)
class MetadataVoter(Row):
    """A voter of the controller quorum.

    Attributes
    ----------
    id : int
        Id of the controller.
    directory_id : str or None
        Id of the controller's metadata log directory. None if the quorum is static.
    endpoints : tuple of Endpoint
        Listeners of the controller. The tuple is empty if the quorum is static.
    source : str
        Record or file from which the voter was read: "voters record" (dynamic quorum), "leader
        change" or "quorum-state".
    """

    id: int
    directory_id: str | None
    endpoints: tuple[Endpoint, ...]
    source: str


@dataclass(frozen=True)
class MetadataToken(Row):
    """A delegation token. Its HMAC is not stored in the metadata.

    Attributes
    ----------
    token_id, owner, requester : str
        Id of the token, and the principals that own and requested it.
    renewers : tuple of str
        Principals that may renew the token.
    issue_timestamp, expiration_timestamp, max_timestamp : int
        Times in milliseconds since 1970-01-01 UTC.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiration_timestamp: int
    max_timestamp: int


@dataclass(frozen=True)
class ClusterInfo(Row):
    """Properties of the cluster, and of the metadata log that was replayed to rebuild the state of the cluster.

    Attributes
    ----------
    cluster_id : str or None
        Id of the cluster, from `meta.properties`.
    node_id : int or None
        Id of the node to which the directory belongs, from `meta.properties`.
    snapshot : str or None
        File name of the snapshot from which the state was rebuilt. None if only the log was used.
    end_offset : int
        All records with lower offsets were applied.
    committed_offset : int
        All records with lower offsets are certainly committed. Later records may be uncommitted,
        because the files do not contain the high watermark. If the quorum has one voter, this is
        equal to `end_offset`.
    timestamp : int or None
        Timestamp of the last applied record, in milliseconds since 1970-01-01 UTC.
    leader_epoch : int or None
        Leader epoch of the last applied record.
    quorum_leader_id, quorum_leader_epoch : int or None
        Leader and epoch of the latest election that this node has seen, from the file
        `quorum-state`. They do not depend on the requested offset or time.
    next_producer_id : int or None
        The first producer id that has not been allocated.
    zk_migration_state : str
        State of a migration from ZooKeeper, such as "NONE".
    """

    cluster_id: str | None
    node_id: int | None
    snapshot: str | None
    end_offset: int
    committed_offset: int
    timestamp: int | None
    leader_epoch: int | None
    quorum_leader_id: int | None
    quorum_leader_epoch: int | None
    next_producer_id: int | None
    zk_migration_state: str


@dataclass(frozen=True)
class ReplayProblem:
    """A record of the metadata log that could not be applied.

    Attributes
    ----------
    offset : int
        Offset of the record.
    message : str
        Description of the problem.
    """

    offset: int
    message: str


VIEWS = (
    "topics",
    "partitions",
    "configs",
    "acls",
    "brokers",
    "quotas",
    "scram",
    "features",
    "voters",
    "controllers",
    "delegation_tokens",
    "cluster",
)
"""Names of the tables of a cluster's metadata."""


@dataclass(frozen=True)
class MetadataTables:
    """The tables of a cluster's metadata. `ClusterMetadata` describes them."""

    path: str
    topics: tuple[MetadataTopic, ...]
    configs: tuple[MetadataConfig, ...]
    acls: tuple[MetadataAcl, ...]
    brokers: tuple[MetadataBroker, ...]
    quotas: tuple[MetadataQuota, ...]
    scram: tuple[MetadataScram, ...]
    features: tuple[MetadataFeature, ...]
    voters: tuple[MetadataVoter, ...]
    controllers: tuple[MetadataController, ...]
    delegation_tokens: tuple[MetadataToken, ...]
    cluster: tuple[ClusterInfo, ...]

    @cached_property
    def partitions(self) -> tuple[MetadataPartition, ...]:
        """All partitions, ordered by topic and number."""
        return tuple(p for topic in self.topics for p in topic.partitions)

    @property
    def info(self) -> ClusterInfo:
        """Facts about the cluster and the metadata log."""
        return self.cluster[0]

    def view(self, name: str) -> tuple[Row, ...]:
        """Return the rows of a table.

        Parameters
        ----------
        name : str
            Name of the table: topics, partitions, configs, acls, brokers, quotas, scram, features,
            voters, controllers, delegation_tokens or cluster.

        Raises
        ------
        ValueError
            No table has this name.
        """
        rows: tuple[Row, ...] = getattr(self, arguments.one_of("name", name, VIEWS))
        return rows


def acl_order(acl: MetadataAcl) -> tuple[str, ...]:
    """Return a sort key for an access control entry. Entries are sorted by resource, principal and operation."""
    return (acl.resource_type, acl.resource_name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission, acl.id)  # fmt: skip
