"""Answer ListOffsets and OffsetForLeaderEpoch requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from .. import protocol
from ..errors import KafkaFormatError
from ..log.formats import end_offset_for
from ..protocol import ErrorCode
from .catalog import Catalog
from .fetch import READ_COMMITTED_LEVEL, wrong_epoch
from .handlers import Handlers, RequestContext, distinct
from .served_partition import ServedPartition

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 2, 23
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
"""Special values of the timestamp in a ListOffsets request, as in Kafka's ``ListOffsetsRequest``."""
LOWEST_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Lowest version of ListOffsets that defines each special value."""
UNKNOWN = -1
LEADER_EPOCH_VERSION = 4

Key = tuple[str, int]
Found = tuple[int, int, int]
"""Timestamp, offset and leader epoch of a ListOffsets result. An unknown value is -1."""


class OffsetApis:
    """Answers ListOffsets and OffsetForLeaderEpoch requests."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def handlers(self) -> Handlers:
        """Return the lowest version, the highest version and the handler of each API, by API key."""
        return {
            LIST_OFFSETS: (0, 11, self.list_offsets),
            OFFSET_FOR_LEADER_EPOCH: (0, 4, self.offset_for_leader_epoch),
        }

    async def list_offsets(self, request: Any, context: RequestContext) -> Any:
        return await self._catalog.run(self._list_offsets, request, context.api_version)

    def _list_offsets(self, request: Any, version: int) -> Any:
        make = protocol.ListOffsetsResponse.ListOffsetsTopicResponse
        committed = request.isolation_level == READ_COMMITTED_LEVEL
        topics = []
        repeated = _repeated((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
        for topic in request.topics:
            partitions = [self._listed(topic.name, wanted, committed, version, repeated) for wanted in topic.partitions]
            topics.append(make(name=topic.name, partitions=partitions))
        return protocol.ListOffsetsResponse(topics=topics)

    def _listed(self, topic: str, wanted: Any, committed: bool, version: int, repeated: set[Key]) -> Any:
        """Return the response for one partition. If the request contains the partition twice, return INVALID_REQUEST, as in Kafka."""
        answer = protocol.ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
        if (topic, wanted.partition_index) in repeated:
            answer.error_code = ErrorCode.INVALID_REQUEST
            return answer
        served = self._catalog.partition(topic, wanted.partition_index)
        if served is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return answer
        answer.error_code = wrong_epoch(served, wanted.current_leader_epoch)
        if not answer.error_code and _is_undefined(wanted.timestamp, version):
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        if answer.error_code:
            return answer
        try:
            timestamp, offset, epoch = _find(served, wanted.timestamp, committed)
        except (KafkaFormatError, OSError) as error:
            if served.deleted:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                return answer
            self._catalog.settings.on_message(
                f"{topic}-{served.number}: the offset for a timestamp cannot be determined: {error}"
            )
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return answer
        if served.deleted:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif version == 0:
            answer.old_style_offsets = [offset][: max(wanted.max_num_offsets, 0)] if offset >= 0 else []
        else:
            answer.timestamp, answer.offset = timestamp, offset
            if version >= LEADER_EPOCH_VERSION:
                answer.leader_epoch = epoch
        return answer

    async def offset_for_leader_epoch(self, request: Any, _: RequestContext) -> Any:
        """Return the end offset of the requested leader epoch for each partition."""
        return await self._catalog.run(self._end_offsets, request)

    def _end_offsets(self, request: Any) -> Any:
        make = protocol.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = []
        for topic in distinct(request.topics, lambda topic: topic.topic):
            partitions = [
                self._end_offset(topic.topic, wanted)
                for wanted in distinct(topic.partitions, lambda p: (p.partition, p.leader_epoch))
            ]
            topics.append(make(topic=topic.topic, partitions=partitions))
        return protocol.OffsetForLeaderEpochResponse(topics=topics)

    def _end_offset(self, topic: str, wanted: Any) -> Any:
        answer = protocol.OffsetForLeaderEpochResponse.EpochEndOffset(partition=wanted.partition)
        served = self._catalog.partition(topic, wanted.partition)
        if served is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return answer
        answer.error_code = wrong_epoch(served, wanted.current_leader_epoch)
        if answer.error_code:
            return answer
        try:
            found = end_offset_for(served.leader_epochs(), wanted.leader_epoch, served.high_watermark())
        except (KafkaFormatError, OSError) as error:
            self._catalog.settings.on_message(f"{topic}-{served.number}: leader epochs cannot be read: {error}")
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return answer
        if served.deleted:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif found is not None:
            answer.leader_epoch, answer.end_offset = found
        return answer


def _repeated(partitions: Iterable[Key]) -> set[Key]:
    """Return the partitions that occur more than once."""
    counts = Counter(partitions)
    return {key for key, count in counts.items() if count > 1} if len(counts) < counts.total() else set()


def _is_undefined(timestamp: int, version: int) -> bool:
    """Return whether a version of ListOffsets does not support the special negative `timestamp`."""
    # Kafka's rule is in ``ReplicaManager.isListOffsetsTimestampUnsupported``.
    return timestamp < 0 and version < LOWEST_VERSIONS.get(timestamp, version + 1)


def _find(served: ServedPartition, timestamp: int, committed: bool) -> Found:
    """Return the ListOffsets result for `timestamp`: a time in ms, or a special value such as LATEST."""
    if timestamp == LATEST:
        end = served.last_stable_offset() if committed else served.high_watermark()
        return UNKNOWN, end, served.leader_epoch()
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = served.first_offset()
        return UNKNOWN, start, served.epoch_of(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN, UNKNOWN, UNKNOWN
    found = served.find_max_timestamp() if timestamp == MAX_TIMESTAMP else served.find_timestamp(timestamp)
    if found is None or (committed and found.offset >= served.last_stable_offset()):
        return UNKNOWN, UNKNOWN, UNKNOWN
    return found.timestamp, found.offset, served.epoch_of(found.offset)
