"""Define `metadata`, which reads the state of a KRaft cluster, and the class of its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..constants import DEFAULT_MAX_BATCH_BYTES, MAX_OFFSET, NO_END
from ..errors import StructureError
from ..log import Damage, DamagedLogError, PartitionLog
from ..log.catalog import Source, single_path
from ..log.damage import ReadLimits
from ..log.reading import Time
from ..log.verifying import error_text
from ..messages.as_json import uuid_text
from ..support import arguments
from ..support.notebook import html_table
from ..support.report import Report
from ..support.text import offset_range
from .commands import write_commands
from .diff import MetadataDiff, compare
from .image import ZK_MIGRATION_STATES, Image
from .models import (
    VIEWS,
    ClusterInfo,
    MetadataFeature,
    MetadataQuota,
    MetadataTables,
    MetadataTopic,
    MetadataVoter,
    ReplayProblem,
    acl_order,
)
from .replay import QUORUM_FILE, Replay, UnusableSnapshotError, header_of, static_voters
from .source import MetadataSource, SnapshotFile, find_source


class MetadataRangeError(ValueError):
    """Raised if the metadata log does not contain the state at the requested offset or time."""


@dataclass(frozen=True)
class ClusterMetadata(Report, MetadataTables):
    """The state of a KRaft cluster, rebuilt from its metadata log by `kafkafmt.metadata`.

    No attribute contains a secret: sensitive configs have no value, and SCRAM credentials have
    neither salt nor keys.

    Attributes
    ----------
    path : str
        Path of the metadata log.
    topics : tuple of MetadataTopic
        Topics with their partitions, ordered by name.
    configs : tuple of MetadataConfig
        Dynamic configs, ordered by resource and name.
    acls : tuple of MetadataAcl
        Access control entries, ordered by resource, principal and operation.
    brokers, controllers : tuple of MetadataBroker, tuple of MetadataController
        Registered brokers and controllers, ordered by id.
    quotas : tuple of MetadataQuota
        Client quotas, ordered by entity and name.
    scram : tuple of MetadataScram
        SCRAM users, ordered by name and mechanism.
    features : tuple of MetadataFeature
        Finalized features, ordered by name.
    voters : tuple of MetadataVoter
        Voters of the controller quorum, ordered by id.
    delegation_tokens : tuple of MetadataToken
        Delegation tokens, ordered by id.
    cluster : tuple of ClusterInfo
        One row with facts about the cluster and the metadata log. `info` is this row.
    damaged : tuple of Damage
        Damaged range of bytes in the metadata log. Only records before the damage were applied.
        Empty if the log is not damaged.
    problems : tuple of ReplayProblem
        Metadata records that could not be applied.
    messages : tuple of str
        Warnings and notes, for example about damage or uncommitted records.
    """

    command = "metadata"

    damaged: tuple[Damage, ...] = ()
    problems: tuple[ReplayProblem, ...] = ()
    messages: tuple[str, ...] = field(default=(), compare=False)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt metadata``. It is 1 if the log is damaged or a record was not applied.

        Otherwise, it is 0.
        """
        return 1 if self.damaged or self.problems else 0

    def to_dict(self, view: str | None = None) -> dict[str, Any]:
        """Return the dict that ``kafkafmt metadata --format json`` prints.

        Parameters
        ----------
        view : str, optional
            Name of the only table to include. By default, all tables are included.
        """
        names = VIEWS if view is None else (view,)
        return {name: [row.to_dict() for row in self.view(name)] for name in names}

    def diff(self, other: ClusterMetadata, *, views: str | Iterable[str] | None = None) -> MetadataDiff:
        """Compare with the metadata of another cluster, or of this cluster at a later time.

        Parameters
        ----------
        other : ClusterMetadata
            State that `kafkafmt.metadata` returned. It is the later state.
        views : str or iterable of str, optional
            Names of the tables to compare: topics, partitions, configs, acls, brokers, quotas,
            scram, features, voters, controllers or delegation_tokens. By default, all these tables.

        Returns
        -------
        MetadataDiff
            The rows that were added, removed or changed in `other`.

        Raises
        ------
        ValueError
            A table does not exist.

        Notes
        -----
        If the cluster ids differ or are unknown, the ids of topics and directories and the epochs
        of partitions are not compared. The ids of ACLs are never compared. SCRAM credentials and
        sensitive configs are compared, but their values are not shown.
        """
        return compare(self, other, views)

    def commands(self) -> str:
        """Return a shell script that recreates topics, configs, quotas and ACLs on another cluster.

        Returns
        -------
        str
            The script. It takes the options ``--bootstrap-server`` and ``--command-config`` of
            Kafka's tools. Comments list what the script cannot recreate: sensitive configs, SCRAM
            users, delegation tokens, and names that Kafka's tools cannot represent.

        Notes
        -----
        The new topics have the same numbers of partitions and replicas. The other cluster assigns
        the replicas to brokers. Topics that brokers create by themselves, such as
        ``__consumer_offsets``, are omitted.
        """
        return write_commands(self)

    def _repr_html_(self) -> str:
        rows = [(name, len(self.view(name))) for name in VIEWS[:-1]]
        return html_table(f"{self.path} at offset {self.info.end_offset}", ("table", "rows"), rows)


def metadata(
    path: Source,
    *,
    at: int | None = None,
    at_time: Time | None = None,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    on_message: Callable[[str], None] | None = None,
) -> ClusterMetadata:
    """Read the state of a KRaft cluster from the metadata log of one of its nodes.

    Parameters
    ----------
    path : str, os.PathLike, Log, Topic or Partition
        Log directory of a broker or a controller, the directory `__cluster_metadata-0` in it, or a
        snapshot (`*.checkpoint`). It can be a URL. An open log, topic or partition must have a
        single path.
    at : int, optional
        Return the state after all records with offsets below `at`. By default, all records of the
        log are applied.
    at_time : int, timezone-aware datetime or str, optional
        Return the state at this time. Records with this timestamp are included. An int is a number
        of milliseconds since 1970-01-01 UTC.
    max_batch_bytes : int, default 134217728 (128 MiB)
        Largest size of one batch, in bytes after decompression.
    on_message : callable, optional
        Function that is called with each message, as soon as the message is created.
        `ClusterMetadata.messages` contains all messages.

    Returns
    -------
    ClusterMetadata
        The state. If the log is damaged, it is the state before the damage, and
        `ClusterMetadata.damaged` contains the damaged range of bytes.

    Raises
    ------
    OSError
        The path cannot be read. The subclass `NoLogError` is raised if the path contains no
        metadata log.
    StructureError
        There is no log, and no snapshot is usable.
    TypeError, ValueError
        An argument is wrong, or the files do not contain the state at `at` or `at_time`.

    Notes
    -----
    The function loads the newest usable snapshot before `at`, and applies the records after this
    snapshot. The rules are those of Kafka's ``MetadataLoader``, ``MetadataDelta`` and
    ``MetadataImage``. The files do not contain the high watermark. Only records with offsets below
    `ClusterInfo.committed_offset` are certainly committed.
    """
    offset = arguments.optional_integer("at", at, 0, "an offset")
    millis = None if at_time is None else arguments.millis("at_time", at_time)
    if offset is not None and millis is not None:
        raise ValueError("at and at_time cannot both be given")
    limits = ReadLimits(arguments.integer("max_batch_bytes", max_batch_bytes, 1))
    reader = _Reader(single_path("path", path), limits, on_message)
    return reader.read(offset, millis)


class _Reader:
    def __init__(
        self, path: str | os.PathLike[str], limits: ReadLimits, on_message: Callable[[str], None] | None
    ) -> None:
        self.messages: list[str] = []
        self._on_message = on_message
        self._limits = limits
        self._source: MetadataSource = find_source(path, self._tell)
        log = self._source.log
        self._log_start = 0 if log is None else log.segments[0].base_offset or 0

    def _tell(self, message: str) -> None:
        self.messages.append(message)
        if self._on_message is not None:
            self._on_message(message)

    def read(self, offset: int | None, millis: int | None) -> ClusterMetadata:
        """Return the state at an offset or a time, or the latest state."""
        source, damaged = self._source, list[Damage]()
        replay, snapshot = self._start(offset, millis)
        if source.log is not None:
            try:
                replay.follow(source.log, NO_END if offset is None else offset, millis, self._limits)
            except DamagedLogError as error:
                damaged.append(error.damage)
                self._tell(f"{error.message}; only records before offset {replay.end_offset} were applied")
        if offset is not None and replay.end_offset < offset and not damaged and not replay.problems:
            raise MetadataRangeError(f"offset {offset} is after the end of the metadata log, {replay.end_offset}")
        for problem in replay.problems:
            self._tell(f"offset {problem.offset}: {problem.message}")
        if replay.open_transaction is not None:
            self._tell(
                f"the transaction that begins at offset {replay.open_transaction} is incomplete; its records were not applied"
            )
        voters = replay.voters or static_voters(_voter_ids(source.quorum), QUORUM_FILE)
        info = self._info(replay, snapshot, voters)
        if info.committed_offset < info.end_offset:
            self._tell(
                f"{offset_range(info.committed_offset, info.end_offset - 1)} of the metadata log may be uncommitted"
            )
        return _build(str(source.path), replay, voters, info, tuple(damaged), tuple(self.messages))

    def _start(self, offset: int | None, millis: int | None) -> tuple[Replay, SnapshotFile | None]:
        """Load the newest usable snapshot not after the offset or time, or an empty state if there is none."""
        unusable: list[str] = []
        others = self._source.log is not None or len(self._source.snapshots) > 1
        for snapshot in self._source.snapshots:
            if offset is not None and snapshot.end_offset > offset:
                continue
            replay = Replay()
            try:
                if millis is not None and header_of(snapshot, self._limits.max_batch_bytes).timestamp > millis:
                    continue
                replay.load(snapshot, self._limits.max_batch_bytes)
            except (UnusableSnapshotError, OSError) as error:
                if isinstance(error, OSError) and not others:
                    raise
                unusable.append(error_text(error) if isinstance(error, OSError) else str(error))
                self._tell(f"snapshot not used: {unusable[-1]}")
                continue
            return replay, snapshot
        snapshots = self._source.snapshots
        if self._source.log is not None and (unusable or not snapshots or not self._log_start):
            return Replay(), None
        if unusable:
            raise StructureError(f"{self._source.path}: no snapshot is usable, and there is no log: {unusable[0]}")
        oldest = snapshots[-1]
        raise MetadataRangeError(
            f"{self._source.path}: the requested state is older than the oldest snapshot, {oldest.path.name}, "
            f"which contains offsets below {oldest.end_offset}"
        )

    def _info(self, replay: Replay, snapshot: SnapshotFile | None, voters: tuple[MetadataVoter, ...]) -> ClusterInfo:
        source, end = self._source, replay.end_offset
        committed = end
        if len(voters) != 1:
            committed = min(end, max((s.end_offset for s in source.snapshots), default=0))
        epochs = [] if source.log is None else PartitionLog(source.log, self._limits).leader_epochs
        epoch = max((e for e, start in epochs if start < end), default=None if snapshot is None else snapshot.epoch)
        node = source.properties.get("node.id", source.properties.get("broker.id"))
        return ClusterInfo(
            cluster_id=source.properties.get("cluster.id"),
            node_id=None if node is None else int(node),
            snapshot=None if snapshot is None else snapshot.path.name,
            end_offset=end,
            committed_offset=committed,
            timestamp=replay.timestamp,
            leader_epoch=epoch,
            quorum_leader_id=_number(source.quorum.get("leaderId")),
            quorum_leader_epoch=_number(source.quorum.get("leaderEpoch")),
            next_producer_id=replay.image.next_producer_id,
            zk_migration_state=_zk_state(replay.image.zk_migration_state),
        )


def _build(
    path: str,
    replay: Replay,
    voters: tuple[MetadataVoter, ...],
    info: ClusterInfo,
    damaged: tuple[Damage, ...],
    messages: tuple[str, ...],
) -> ClusterMetadata:
    """Convert the state of a cluster to sorted tables."""
    image = replay.image
    return ClusterMetadata(
        path=path,
        topics=_topics(image),
        configs=tuple(c[name] for _, c in sorted(image.configs.items()) for name in sorted(c)),
        acls=tuple(sorted(image.acls.values(), key=acl_order)),
        brokers=tuple(image.brokers[n] for n in sorted(image.brokers)),
        quotas=tuple(sorted(_quotas(image), key=_quota_order)),
        scram=tuple(image.scram[key] for key in sorted(image.scram)),
        features=tuple(MetadataFeature(name, image.features[name]) for name in sorted(image.features)),
        voters=voters,
        controllers=tuple(image.controllers[n] for n in sorted(image.controllers)),
        delegation_tokens=tuple(image.tokens[token] for token in sorted(image.tokens)),
        cluster=(info,),
        damaged=damaged,
        problems=tuple(replay.problems),
        messages=messages,
    )


def _topics(image: Image) -> tuple[MetadataTopic, ...]:
    found = sorted(image.topics.items(), key=lambda item: (item[1].name, item[0]))
    return tuple(
        MetadataTopic(topic.name, uuid_text(number), tuple(topic.partitions[n] for n in sorted(topic.partitions)))
        for number, topic in found
    )


def _quotas(image: Image) -> list[MetadataQuota]:
    rows = []
    for entity, limits in image.quotas.items():
        # In a record, a null name stands for the default user, client id or IP address.
        parts = {kind: name or "" for kind, name in entity}
        names = (parts.get("user"), parts.get("client-id"), parts.get("ip"))
        rows += [MetadataQuota(*names, key, value) for key, value in limits.items()]
    return rows


def _quota_order(quota: MetadataQuota) -> tuple[str, ...]:
    return (quota.user or "", quota.client_id or "", quota.ip or "", quota.key)


def _voter_ids(quorum: dict[str, Any]) -> list[int]:
    """Return the ids of the voters in the file `quorum-state`. Invalid ids are omitted."""
    found = quorum.get("currentVoters")
    listed = [v.get("voterId") for v in found if isinstance(v, dict)] if isinstance(found, list) else []
    return [number for number in map(_number, listed) if number is not None]


def _number(value: Any) -> int | None:
    """Check a node id or epoch from a JSON file. If it is missing, invalid or -1, return None."""
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_OFFSET
    return value if valid else None


def _zk_state(number: int) -> str:
    return ZK_MIGRATION_STATES[number] if 0 <= number < len(ZK_MIGRATION_STATES) else f"UNKNOWN({number})"
