"""Answer requests that concern committed offsets: OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

import time
from sys import getsizeof
from typing import Any, NamedTuple
from uuid import UUID

from ...internal_topics.decode import read_member
from ...messages.classes import ZERO_UUID
from ...protocol import (
    ErrorCode,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ..catalog import Catalog
from ..handlers import Handlers, RequestContext, distinct
from .consumer_state import ConsumerGroup
from .coordinator import AnyGroup, Coordinator
from .offsets import CLASSIC, CLASSIC_PROTOCOL, COMMIT_BYTES, CONSUMER, Commit, GroupFacts, PartitionKey
from .offsets_file import GroupsFileFullError
from .rebalance import GROUP_BYTES, State

WITH_EPOCHS = 9
"""First version of OffsetCommit that members of a consumer group (KIP-848) can use."""
BY_TOPIC_ID = 10
"""First version of OffsetCommit and OffsetFetch that identifies topics by topic id."""
NO_COMMIT = Commit(-1)


class FetchedTopic(NamedTuple):
    name: str
    topic_id: UUID
    error: ErrorCode
    partitions: list[tuple[int, Commit]]


class OffsetApis:
    """Handles OffsetCommit, OffsetFetch and OffsetDelete requests."""

    def __init__(self, catalog: Catalog, coordinator: Coordinator) -> None:
        self._catalog = catalog
        self._coordinator = coordinator

    def handlers(self) -> Handlers:
        """Return the supported APIs: a dict from API key to lowest version, highest version and handler."""
        return {8: (0, 10, self._commit), 9: (0, 10, self._fetch), 47: (0, 0, self._delete)}

    # OffsetCommit

    async def _commit(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        names = [await self._name_of(topic, context.api_version) for topic in request.topics]
        commits: dict[PartitionKey, Commit] = {}
        results = []
        for name, topic in zip(names, request.topics, strict=True):
            numbers = []
            for p in topic.partitions:
                failed = self._commit_error(name, p)
                if not failed:
                    assert name is not None
                    commits[name, p.partition_index] = _commit_of(p)
                numbers.append((p.partition_index, failed))
            results.append((topic, numbers))
        # A request without valid partitions must not create a group.
        group, error = self._group_to_commit(request, context.api_version) if commits else (None, ErrorCode.NONE)
        if group is not None and not error:
            error = self._store(group, commits)
        response = OffsetCommitResponse()
        for topic, numbers in results:
            partitions = [
                OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=number, error_code=failed or error)
                for number, failed in numbers
            ]
            response.topics.append(
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=partitions
                )
            )
        return response

    def _group_to_commit(self, request: OffsetCommitRequest, version: int) -> tuple[AnyGroup | None, ErrorCode]:
        """Return the group of an OffsetCommit request, and an error code if the request is refused."""
        # A commit without a generation creates the group if it does not exist: consumers with
        # manual assignment (`assign` instead of `subscribe`) commit in this way.
        size = sum(COMMIT_BYTES + getsizeof(p.committed_metadata or "") for t in request.topics for p in t.partitions)
        group = self._coordinator.find(request.group_id)
        if not self._coordinator.has_memory(size + (0 if group else GROUP_BYTES + getsizeof(request.group_id))):
            return None, ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        if group is None:
            if request.generation_id_or_member_epoch >= 0:
                known = version >= WITH_EPOCHS
                return None, ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
            group = self._coordinator.find_or_create(request.group_id)
            if group is None:
                return None, ErrorCode.POLICY_VIOLATION
            self._coordinator.changed(group)
        error = group.commit_error(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            version >= WITH_EPOCHS,
        )
        return group, error

    def _commit_error(self, topic: str | None, partition: Any) -> ErrorCode:
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self._catalog.partition(topic, partition.partition_index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Kafka counts UTF-16 code units, as Java's `String.length()` does.
        metadata = partition.committed_metadata or ""
        if len(metadata.encode("utf-16-le")) // 2 > self._coordinator.limits.metadata_length:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.INVALID_REQUEST if partition.committed_offset < 0 else ErrorCode.NONE

    def _store(self, group: AnyGroup, commits: dict[PartitionKey, Commit]) -> ErrorCode:
        kind = CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC
        facts = GroupFacts(group.protocol_type, group.generation, kind)
        try:
            self._coordinator.offsets.commit(group.group_id, facts, commits)
        except OSError as error:
            return self._write_failed(error)
        return ErrorCode.NONE

    def _write_failed(self, error: OSError) -> ErrorCode:
        self._catalog.settings.on_message(f"the groups file cannot be written: {error}")
        full = isinstance(error, GroupsFileFullError)
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if full else ErrorCode.COORDINATOR_NOT_AVAILABLE

    # OffsetFetch

    async def _fetch(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        version = context.api_version
        if version >= 8:
            groups = distinct(request.groups, lambda group: group.group_id)
            return OffsetFetchResponse(groups=[await self._fetched_group(group, version) for group in groups])
        response = OffsetFetchResponse()
        for found in await self._fetched(request.group_id, request.topics, version):
            partitions = [
                OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=number,
                    committed_offset=commit.offset,
                    committed_leader_epoch=commit.leader_epoch,
                    metadata=commit.metadata,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    if version == 0 and commit is NO_COMMIT
                    else ErrorCode.NONE,
                )
                for number, commit in found.partitions
            ]
            response.topics.append(OffsetFetchResponse.OffsetFetchResponseTopic(name=found.name, partitions=partitions))
        return response

    async def _fetched_group(self, group: Any, version: int) -> Any:
        """Return the part of an OffsetFetch response for one group; an outdated member epoch is an error."""
        known = self._coordinator.find_consumer(group.group_id)
        if known is not None and (group.member_id is not None or group.member_epoch >= 0):
            error = known.commit_error(group.member_id or "", None, group.member_epoch)
            if error:
                return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
        topics = []
        for found in await self._fetched(group.group_id, group.topics, version):
            partitions = [
                OffsetFetchResponse.OffsetFetchResponsePartitions(
                    partition_index=number,
                    committed_offset=commit.offset,
                    committed_leader_epoch=commit.leader_epoch,
                    metadata=commit.metadata,
                    error_code=found.error,
                )
                for number, commit in found.partitions
            ]
            topics.append(
                OffsetFetchResponse.OffsetFetchResponseTopics(
                    name=found.name, topic_id=found.topic_id, partitions=partitions
                )
            )
        return OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)

    async def _fetched(self, group_id: str, topics: list[Any] | None, version: int) -> list[FetchedTopic]:
        """Return the committed offsets of a group for `topics`, or for all topics if `topics` is None."""
        commits = self._coordinator.offsets.of_group(group_id)
        if topics is None:
            return await self._all_fetched(commits, version)
        fetched = []
        for topic in topics:
            name = await self._name_of(topic, version)
            error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
            found = [(number, commits.get((name or "", number), NO_COMMIT)) for number in topic.partition_indexes]
            fetched.append(FetchedTopic(name or "", getattr(topic, "topic_id", ZERO_UUID), error, found))
        return fetched

    async def _all_fetched(self, commits: Any, version: int) -> list[FetchedTopic]:
        by_topic: dict[str, list[tuple[int, Commit]]] = {}
        for (name, number), commit in sorted(commits.items()):
            by_topic.setdefault(name, []).append((number, commit))
        fetched = []
        for name, found in by_topic.items():
            topic_id = ZERO_UUID
            if version >= BY_TOPIC_ID:
                topic = self._catalog.topic(name)
                if topic is None:
                    continue  # omit a deleted topic, because the response identifies topics only by their ids
                topic_id = await self._catalog.run(getattr, topic, "topic_id")
            fetched.append(FetchedTopic(name, topic_id, ErrorCode.NONE, found))
        return fetched

    # OffsetDelete

    async def _delete(self, request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
        group = self._coordinator.find(request.group_id)
        if not request.group_id:
            return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        if group is None:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state != State.EMPTY and group.protocol_type != CLASSIC_PROTOCOL:
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        subscribed, commits = _subscribed_topics(group), self._coordinator.offsets.of_group(request.group_id)
        deleted: list[PartitionKey] = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                key, error = (topic.name, p.partition_index), ErrorCode.NONE
                if key not in commits and self._catalog.partition(*key) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif subscribed is None or topic.name in subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif key in commits:
                    deleted.append(key)
                partitions.append(
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=p.partition_index, error_code=error
                    )
                )
            response.topics.append(
                OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)
            )
        try:
            self._coordinator.offsets.delete_offsets(request.group_id, deleted)
        except OSError as problem:
            return OffsetDeleteResponse(error_code=self._write_failed(problem))
        return response

    async def _name_of(self, topic: Any, version: int) -> str | None:
        """Return the name of a topic in a request, or None if the request contains an unknown topic id."""
        if version < BY_TOPIC_ID:
            return str(topic.name)
        found = await self._catalog.run(self._catalog.topic_by_id, topic.topic_id)
        return None if found is None else found.name


def _commit_of(partition: Any) -> Commit:
    return Commit(
        partition.committed_offset,
        max(partition.committed_leader_epoch, -1),
        partition.committed_metadata or "",
        int(time.time() * 1000),
    )


def _subscribed_topics(group: AnyGroup) -> set[str] | None:
    """Return the topics to which the members of a group subscribe, or None if a subscription cannot be read."""
    if isinstance(group, ConsumerGroup):
        return group.subscribed_topics
    topics: set[str] = set()
    for member in group.members:
        for _, metadata in member.protocols:
            found = read_member(metadata, "Subscription")
            if found is None:
                return None
            topics.update(getattr(found[0], "topics", ()))
    return topics
