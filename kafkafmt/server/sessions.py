"""Keep fetch sessions (KIP-227), so that clients need not list all their partitions in each request."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..protocol import ErrorCode
from .fetch_request import PartitionRequest, TopicKey, WantedFetch

FINAL_EPOCH = -1
"""Epoch of a request that is not part of a session, or that ends one."""
INITIAL_EPOCH = 0
"""Epoch of a request that asks for a new session."""
MOST_PARTITIONS = 100_000
"""Largest number of partitions in one session, and in all sessions together. Each takes about 500 bytes of memory."""

Key = tuple[TopicKey, int]
"""Name or id of a topic, and number of a partition."""


@dataclass(slots=True)
class FetchedPartition:
    """A partition that a client reads."""

    topic: TopicKey  # name or id, whichever the client sent
    request: PartitionRequest
    # high watermark, last stable offset and log start offset of the latest response
    sent: tuple[int, int, int] | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.request.partition


@dataclass(slots=True)
class FetchSession:
    """The partitions that a client reads in one fetch session, in the order in which the next request reads them."""

    session_id: int = 0  # 0: the client does not use a session
    epoch: int = 0  # of the next request
    incremental: bool = False  # a response contains only partitions that have changed
    by_id: bool = False  # the client names topics by their ids
    partitions: OrderedDict[Key, FetchedPartition] = field(default_factory=OrderedDict)
    # Partitions whose error a response has contained. They need no time until the client requests them
    # again or the served partitions change: a small request could else cause thousands of errors.
    unknown: OrderedDict[Key, FetchedPartition] = field(default_factory=OrderedDict)
    generation: int = 0  # `Catalog.generation` when the partitions were last checked

    def __len__(self) -> int:
        return len(self.partitions) + len(self.unknown)

    def __iter__(self) -> Iterator[FetchedPartition]:
        return iter(list(self.partitions.values()))

    def served(self, partition: FetchedPartition) -> None:
        """Move a partition to the end of the session, so that the next response starts with the other partitions."""
        if len(self.partitions) > 1 and partition.key in self.partitions:
            self.partitions.move_to_end(partition.key)

    def set_unknown(self, partition: FetchedPartition) -> None:
        """Skip a partition that does not exist in further responses."""
        if self.partitions.pop(partition.key, None) is not None:
            self.unknown[partition.key] = partition

    def check_unknown(self, generation: int) -> None:
        """Check unknown partitions again if the served partitions have changed. `generation` is `Catalog.generation`."""
        if generation != self.generation:
            self.generation = generation
            self.partitions |= self.unknown
            self.unknown.clear()

    def update(self, request: WantedFetch) -> None:
        """Add, change and remove partitions as specified by a fetch request."""
        for topic, partitions in request.topics:
            for wanted in partitions:
                key = topic, wanted.partition
                known = self.partitions.get(key)
                if known is None:
                    self.partitions[key] = FetchedPartition(topic, wanted)
                    self.unknown.pop(key, None)
                else:
                    known.request = wanted
        for topic, numbers in request.forgotten:
            for number in numbers:
                self.partitions.pop((topic, number), None)
                self.unknown.pop((topic, number), None)


class FetchSessions:
    """The fetch sessions. Beyond `capacity`, the least recently used are dropped. Kafka's is ``FetchSessionCache``."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0
        """Total number of partitions in all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: WantedFetch, by_id: bool) -> FetchSession | ErrorCode:
        """Return the fetch session for a request, or an error code. `by_id`: the request names topics by their ids."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._drop(session_id)
            session = FetchSession(by_id=by_id)
            session.update(request)
            wanted = epoch == INITIAL_EPOCH and 0 < len(session) <= MOST_PARTITIONS
            return self._created(session) if wanted else session
        found = self._sessions.get(session_id)
        if found is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if found.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if epoch != found.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self._sessions.move_to_end(session_id)
        found.epoch = found.epoch + 1 if found.epoch < 2**31 - 1 else 1
        found.incremental = True
        if request.topics or request.forgotten:
            before = len(found)
            found.update(request)
            self._partitions += len(found) - before
            if len(found) > MOST_PARTITIONS:
                self._drop(session_id)
                # After this error, the client sends its next request without a session id.
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if not len(found):  # As in Kafka, a session ends if the client forgets all partitions.
                self._drop(session_id)
                return FetchSession(by_id=by_id)
            self._limit()
        return found

    def _created(self, session: FetchSession) -> FetchSession:
        """Assign an id to a new session, and store the session."""
        while not session.session_id or session.session_id in self._sessions:
            session.session_id = random.randint(1, 2**31 - 1)
        session.epoch = 1
        self._sessions[session.session_id] = session
        self._partitions += len(session)
        self._limit()
        return session

    def _drop(self, session_id: int) -> None:
        ended = self._sessions.pop(session_id, None)
        if ended is not None:
            self._partitions -= len(ended)

    def _limit(self) -> None:
        """Drop the least recently used sessions if there are too many, or if they have too many partitions."""
        sessions = self._sessions
        while len(sessions) > self._capacity or (self._partitions > MOST_PARTITIONS and len(sessions) > 1):
            self._drop(next(iter(sessions)))
