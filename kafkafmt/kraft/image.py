"""Apply metadata records to the state of a KRaft cluster.

The rules are those of Kafka's `MetadataDelta`, `TopicsDelta`, `ClusterDelta`, `ConfigurationsDelta`
and similar classes. A record contradicts the state, for example, if it changes a partition that
does not exist. In this case, `ReplayError` is raised, and the state does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from ..messages import SchemaMessage
from ..messages.as_json import uuid_text
from .models import (
    Endpoint,
    MetadataAcl,
    MetadataBroker,
    MetadataConfig,
    MetadataController,
    MetadataPartition,
    MetadataScram,
    MetadataToken,
    SupportedFeature,
)
from .sensitive import digest, is_sensitive

NO_LEADER_CHANGE = -2
RECOVERY_STATES = ("RECOVERED", "RECOVERING")
RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
ACL_RESOURCES = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
PATTERN_TYPES = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
OPERATIONS = ("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
              "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT")  # fmt: skip
PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_MECHANISMS = ("UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ZK_MIGRATION_STATES = ("NONE", "MIGRATION", "PRE_MIGRATION", "POST_MIGRATION", "ZK")
QuotaEntity = tuple[tuple[str, str | None], ...]


class ReplayError(ValueError):
    """Raised if a metadata record contradicts the state to which it is applied."""


@dataclass
class TopicImage:
    name: str
    partitions: dict[int, MetadataPartition] = field(default_factory=dict)


@dataclass
class Image:
    """The state of a KRaft cluster. The method `apply` changes it."""

    topics: dict[UUID, TopicImage] = field(default_factory=dict)  # by id
    # by type and name of the resource, and by the name of the config
    configs: dict[tuple[str, str], dict[str, MetadataConfig]] = field(default_factory=dict)
    acls: dict[UUID, MetadataAcl] = field(default_factory=dict)  # by id
    brokers: dict[int, MetadataBroker] = field(default_factory=dict)  # by node id
    controllers: dict[int, MetadataController] = field(default_factory=dict)  # by node id
    # by entity (sorted pairs of type and name), and by the name of the quota
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, str], MetadataScram] = field(default_factory=dict)  # by user and mechanism
    features: dict[str, int] = field(default_factory=dict)  # finalized levels by name
    tokens: dict[str, MetadataToken] = field(default_factory=dict)  # by id
    next_producer_id: int | None = None  # first producer id that has not been allocated
    zk_migration_state: int = 0  # state of a migration from ZooKeeper
    _ids_by_name: dict[str, UUID] = field(default_factory=dict, compare=False)
    _with_elr: dict[UUID, set[int]] = field(default_factory=dict, compare=False)
    """Partitions with eligible leader replicas (ELRs), by topic id, to clear ELRs in linear time."""

    def apply(self, record: SchemaMessage) -> None:
        """Apply a metadata record. If the record contradicts the state, raise ReplayError and keep the state."""
        change = _CHANGES.get(type(record).__name__)
        if change is None:
            raise ReplayError(f"records of type {type(record).__name__} are not supported")
        change(self, record)

    def _topic(self, r: Any) -> None:
        self.topics[r.topic_id] = TopicImage(r.name)
        self._ids_by_name[r.name] = r.topic_id
        self._with_elr.pop(r.topic_id, None)

    def _remove_topic(self, r: Any) -> None:
        name = self._find_topic(r.topic_id).name
        del self.topics[r.topic_id]
        self._ids_by_name.pop(name, None)
        self._with_elr.pop(r.topic_id, None)
        self.configs.pop(("topic", name), None)

    def _find_topic(self, topic_id: UUID) -> TopicImage:
        if topic_id not in self.topics:
            raise ReplayError(f"there is no topic with id {uuid_text(topic_id)}")
        return self.topics[topic_id]

    def _partition(self, r: Any) -> None:
        topic = self._find_topic(r.topic_id)
        made = MetadataPartition(
            topic.name,
            uuid_text(r.topic_id),
            r.partition_id,
            r.leader,
            r.leader_epoch,
            r.partition_epoch,
            tuple(r.replicas),
            tuple(r.isr),
            tuple(r.adding_replicas),
            tuple(r.removing_replicas),
            tuple(r.eligible_leader_replicas or ()),
            tuple(r.last_known_elr or ()),
            _directories(tuple(map(uuid_text, r.directories)), len(r.replicas)),
            _recovery_state(r.leader_recovery_state),
        )
        self._set_partition(r.topic_id, topic, made)

    def _set_partition(self, topic_id: UUID, topic: TopicImage, partition: MetadataPartition) -> None:
        topic.partitions[partition.partition] = partition
        if partition.elr or partition.last_known_elr:
            self._with_elr.setdefault(topic_id, set()).add(partition.partition)
        elif topic_id in self._with_elr:
            self._with_elr[topic_id].discard(partition.partition)

    def _change_partition(self, r: Any) -> None:
        topic = self._find_topic(r.topic_id)
        old = topic.partitions.get(r.partition_id)
        if old is None:
            raise ReplayError(f"topic {topic.name} has no partition {r.partition_id}")
        self._set_partition(r.topic_id, topic, _merged(old, r))

    def _clear_elr(self, r: Any) -> None:
        """Clear the eligible leader replicas of a topic. If the record names no topic, clear those of all topics."""
        if r.topic_name and r.topic_name not in self._ids_by_name:
            raise ReplayError(f"there is no topic {r.topic_name}")
        for topic_id in [self._ids_by_name[r.topic_name]] if r.topic_name else list(self._with_elr):
            topic = self.topics[topic_id]
            for number in self._with_elr.pop(topic_id, ()):
                old = topic.partitions[number]
                topic.partitions[number] = replace(
                    old, elr=(), last_known_elr=(), partition_epoch=old.partition_epoch + 1
                )

    def _config(self, r: Any) -> None:
        key = RESOURCE_TYPES.get(r.resource_type, str(r.resource_type)), r.resource_name
        configs = self.configs.setdefault(key, {})
        if r.value is None:
            configs.pop(r.name, None)
        elif is_sensitive(r.name):
            hashed = digest(r.value.encode("utf-8", "surrogatepass"))
            configs[r.name] = MetadataConfig(*key, r.name, None, True, hashed)
        else:
            configs[r.name] = MetadataConfig(*key, r.name, r.value, False)
        if not configs:
            del self.configs[key]

    def _acl(self, r: Any) -> None:
        self.acls[r.id] = MetadataAcl(
            uuid_text(r.id),
            _name(ACL_RESOURCES, r.resource_type),
            r.resource_name,
            _name(PATTERN_TYPES, r.pattern_type),
            r.principal,
            r.host,
            _name(OPERATIONS, r.operation),
            _name(PERMISSIONS, r.permission_type),
        )

    def _remove_acl(self, r: Any) -> None:
        if self.acls.pop(r.id, None) is None:
            raise ReplayError(f"there is no ACL with id {uuid_text(r.id)}")

    def _register_broker(self, r: Any) -> None:
        self.brokers[r.broker_id] = MetadataBroker(
            r.broker_id,
            r.broker_epoch,
            uuid_text(r.incarnation_id),
            r.rack,
            r.fenced,
            r.in_controlled_shutdown,
            r.is_migrating_zk_broker,
            _endpoints(r.end_points),
            _features(r.features),
            _ids(r.log_dirs),
            _ids(r.cordoned_log_dirs or ()),
        )

    def _unregister_broker(self, r: Any) -> None:
        self.brokers.pop(r.broker_id, None)

    def _fence(self, r: Any) -> None:
        self.brokers[r.id] = replace(self._find_broker(r.id, r.epoch), fenced=True)

    def _unfence(self, r: Any) -> None:
        self.brokers[r.id] = replace(self._find_broker(r.id, r.epoch), fenced=False)

    def _change_broker(self, r: Any) -> None:
        changes: dict[str, Any] = {}
        if r.fenced not in (-1, 0, 1) or r.in_controlled_shutdown not in (0, 1):
            raise ReplayError(
                f"a BrokerRegistrationChangeRecord of broker {r.broker_id} has an unknown value for fenced or "
                "inControlledShutdown"
            )
        if r.fenced:
            changes["fenced"] = r.fenced == 1
        if r.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = True
        if r.log_dirs:
            changes["log_dirs"] = _ids(r.log_dirs)
        if r.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = _ids(r.cordoned_log_dirs)
        self.brokers[r.broker_id] = replace(self._find_broker(r.broker_id, r.broker_epoch), **changes)

    def _find_broker(self, number: int, epoch: int) -> MetadataBroker:
        broker = self.brokers.get(number)
        if broker is None:
            raise ReplayError(f"broker {number} is not registered")
        if broker.epoch != epoch:
            raise ReplayError(f"broker {number} has epoch {broker.epoch}, but the record names epoch {epoch}")
        return broker

    def _register_controller(self, r: Any) -> None:
        self.controllers[r.controller_id] = MetadataController(
            r.controller_id,
            uuid_text(r.incarnation_id),
            r.zk_migration_ready,
            _endpoints(r.end_points),
            _features(r.features),
        )

    def _unregister_controller(self, r: Any) -> None:
        self.controllers.pop(r.controller_id, None)

    def _quota(self, r: Any) -> None:
        # A quota entity has at most one user, one client id and one IP address.
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in r.entity))
        limits = self.quotas.setdefault(entity, {})
        if r.remove:
            limits.pop(r.key, None)
        else:
            limits[r.key] = r.value
        if not limits:
            del self.quotas[entity]

    def _scram(self, r: Any) -> None:
        key = r.name, _name(SCRAM_MECHANISMS, r.mechanism)
        hashed = digest(bytes(r.salt), bytes(r.stored_key), bytes(r.server_key))
        self.scram[key] = MetadataScram(*key, r.iterations, hashed)

    def _remove_scram(self, r: Any) -> None:
        self.scram.pop((r.name, _name(SCRAM_MECHANISMS, r.mechanism)), None)

    def _feature(self, r: Any) -> None:
        if r.feature_level:
            self.features[r.name] = r.feature_level
        else:
            self.features.pop(r.name, None)

    def _producer_ids(self, r: Any) -> None:
        self.next_producer_id = r.next_producer_id

    def _token(self, r: Any) -> None:
        self.tokens[r.token_id] = MetadataToken(
            r.token_id,
            r.owner,
            r.requester,
            tuple(r.renewers),
            r.issue_timestamp,
            r.expiration_timestamp,
            r.max_timestamp,
        )

    def _remove_token(self, r: Any) -> None:
        self.tokens.pop(r.token_id, None)

    def _zk_migration(self, r: Any) -> None:
        self.zk_migration_state = r.zk_migration_state

    def _nothing(self, r: Any) -> None:
        pass


_CHANGES: dict[str, Callable[[Image, Any], None]] = {
    "TopicRecord": Image._topic,
    "RemoveTopicRecord": Image._remove_topic,
    "PartitionRecord": Image._partition,
    "PartitionChangeRecord": Image._change_partition,
    "ClearElrRecord": Image._clear_elr,
    "ConfigRecord": Image._config,
    "AccessControlEntryRecord": Image._acl,
    "RemoveAccessControlEntryRecord": Image._remove_acl,
    "RegisterBrokerRecord": Image._register_broker,
    "UnregisterBrokerRecord": Image._unregister_broker,
    "FenceBrokerRecord": Image._fence,
    "UnfenceBrokerRecord": Image._unfence,
    "BrokerRegistrationChangeRecord": Image._change_broker,
    "RegisterControllerRecord": Image._register_controller,
    "UnregisterControllerRecord": Image._unregister_controller,
    "ClientQuotaRecord": Image._quota,
    "UserScramCredentialRecord": Image._scram,
    "RemoveUserScramCredentialRecord": Image._remove_scram,
    "FeatureLevelRecord": Image._feature,
    "ProducerIdsRecord": Image._producer_ids,
    "DelegationTokenRecord": Image._token,
    "RemoveDelegationTokenRecord": Image._remove_token,
    "ZkMigrationStateRecord": Image._zk_migration,
    "NoOpRecord": Image._nothing,
}
"""Methods that apply a record, by the type of the record. replay.py handles the records of transactions."""


def _merged(old: MetadataPartition, r: Any) -> MetadataPartition:
    """Apply a change to a partition, as ``PartitionRegistration.merge`` does."""
    # A null field in the record leaves the field of the partition unchanged. The leader -2 keeps
    # the leader and its epoch. Any other leader, even the same one, increases the epoch.
    replicas = old.replicas if r.replicas is None else tuple(r.replicas)
    directories = old.directories if r.directories is None else tuple(map(uuid_text, r.directories))
    elected = r.leader != NO_LEADER_CHANGE
    return replace(
        old,
        leader=r.leader if elected else old.leader,
        leader_epoch=old.leader_epoch + elected,
        partition_epoch=old.partition_epoch + 1,
        replicas=replicas,
        isr=old.isr if r.isr is None else tuple(r.isr),
        adding_replicas=old.adding_replicas if r.adding_replicas is None else tuple(r.adding_replicas),
        removing_replicas=old.removing_replicas if r.removing_replicas is None else tuple(r.removing_replicas),
        elr=old.elr if r.eligible_leader_replicas is None else tuple(r.eligible_leader_replicas),
        last_known_elr=old.last_known_elr if r.last_known_elr is None else tuple(r.last_known_elr),
        directories=_directories(directories, len(replicas)),
        leader_recovery_state=old.leader_recovery_state
        if r.leader_recovery_state == -1
        else _recovery_state(r.leader_recovery_state),
    )


MIGRATING = uuid_text(UUID(int=0))
"""Id that indicates that the log directory of a replica is not known. Kafka's name is ``DirectoryId.MIGRATING``."""


def _directories(given: tuple[str, ...], replicas: int) -> tuple[str, ...]:
    """Return the directory of each replica. If no directory is known, return MIGRATING for each replica."""
    if all(directory == MIGRATING for directory in given):
        return (MIGRATING,) * replicas
    if len(given) != replicas:
        raise ReplayError(f"the record names {len(given)} directories for {replicas} replicas")
    return given


def _recovery_state(number: int) -> str:
    if number not in (0, 1):
        raise ReplayError(f"leader recovery state {number} is unknown")
    return RECOVERY_STATES[number]


def _name(names: tuple[str, ...], number: int) -> str:
    """Return the name of an enum value. If it has no name, return "UNKNOWN(n)"."""
    return names[number] if 0 < number < len(names) else f"UNKNOWN({number})"


def _ids(numbers: Any) -> tuple[str, ...]:
    """Convert ids to text, and sort them, because their order in a record has no meaning."""
    return tuple(sorted(map(uuid_text, numbers)))


def _endpoints(listeners: Any) -> tuple[Endpoint, ...]:
    """Convert listeners to endpoints, and sort them by name, because their order in a record has no meaning."""
    made = [Endpoint(e.name, e.host, e.port, _protocol(e.security_protocol)) for e in listeners]
    return tuple(sorted(made, key=lambda e: e.name))


def _protocol(number: int) -> str:
    return SECURITY_PROTOCOLS[number] if 0 <= number < len(SECURITY_PROTOCOLS) else f"UNKNOWN({number})"


def _features(features: Any) -> tuple[SupportedFeature, ...]:
    """Convert supported features, and sort them by name, because their order in a record has no meaning."""
    made = [SupportedFeature(f.name, f.min_supported_version, f.max_supported_version) for f in features]
    return tuple(sorted(made, key=lambda f: f.name))
