"""Answer Fetch requests with unchanged batches from the segment files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ..constants import MAGIC_V0, MAGIC_V1, MAGIC_V2
from ..errors import InvalidError, KafkaFormatError
from ..protocol import ErrorCode
from ..protocol.apis import FETCH
from .catalog import Catalog, existing
from .checked_batches import Omitted, Span
from .fetch_answer import UNKNOWN_OFFSET, Answer, FetchAnswers
from .fetch_frames import NEWEST_VERSION, SESSION_VERSION, TOPIC_ID_VERSION
from .fetch_request import TopicKey, WantedFetch, wanted_fetch
from .handlers import Connection, Handlers, RequestContext, nothing_reserved
from .memory import SHARE
from .record_data import empty_batch, in_format
from .served_partition import ServedPartition
from .sessions import FetchedPartition, FetchSession, FetchSessions

POLL = 0.1
"""Minimum time in seconds between two checks for new batches while a client waits."""
MOST_CHECKS = 1000
"""Largest number of checks per second, for all waiting clients. Each check takes about 0.1 ms."""
SLOW_POLL_FACTOR = 10
"""Lower limit for the pause between two checks, as a multiple of the duration of a check."""
MOST_IN_LOOP = 1000
"""The event loop answers requests with at most so many partitions, at about 10 µs each. A thread answers others."""
MOST_WAIT = 30.0
"""Longest time in seconds that a client can wait for new batches. It is the default timeout of a consumer's request."""
FREE_WAITING = 32
"""Requests with up to this number of partitions can always wait."""
MOST_WAITING = 200_000
"""Largest number of partitions in all other requests that wait. Each takes about 1 KB of memory."""
READ_COMMITTED_LEVEL = 1
MAGIC_V2_VERSION = 4
"""Lowest version of Fetch whose clients read record format 2."""
MAGIC_V1_VERSION = 2
"""Lowest version of Fetch whose clients read record format 1."""
CONVERTED_BYTES = 4 << 20
"""Largest number of bytes of one partition that are converted for one response. Converted batches are in memory."""
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class FetchApi:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._limits = catalog.settings.limits
        self.sessions: FetchSessions = FetchSessions(self._limits.max_sessions)
        self._waiting = 0
        """Number of clients that wait for new batches."""
        self._waiting_partitions = 0
        """Number of partitions in the requests of these clients, except for small requests."""

    def handlers(self) -> Handlers:
        return {FETCH: (0, NEWEST_VERSION, self.fetch)}

    async def fetch(self, request: Any, context: RequestContext) -> FetchAnswers:
        version = context.api_version
        started = self.start(wanted_fetch(request, version >= TOPIC_ID_VERSION), version)
        del request
        return started.known() or await started.complete(context.connection, context.release)

    def start(self, request: WantedFetch, version: int) -> StartedFetch:
        """Start to answer a Fetch request: find or create its fetch session."""
        if version >= SESSION_VERSION:
            session = self.sessions.find(request, version >= TOPIC_ID_VERSION)
        else:
            session = FetchSession()
            session.update(request)
        if isinstance(session, FetchSession):
            session.check_unknown(self.catalog.generation)
        request.topics, request.forgotten = [], []  # the session contains them
        return StartedFetch(self, request, version, session)

    def read_ahead(self, answers: list[Answer]) -> None:
        """Start to check the batches that clients will probably request next."""
        for answer in answers:
            served = answer.served
            if not answer.spans or served is None:
                continue
            offset = served.to_read_ahead(answer.wanted.request.fetch_offset, answer.next_offset)
            if offset is not None:
                self.catalog.start(served.read_ahead, offset)

    async def changed(
        self, session: FetchSession, answers: list[Answer], deadline: float, connection: Connection
    ) -> bool:
        """Wait for a change of a partition."""
        # Return False after the deadline, if the client leaves, or if too many wait.
        count = len(session) if len(session) > FREE_WAITING else 0
        if count > min(MOST_WAITING // SHARE, MOST_WAITING - self._waiting_partitions):
            return False
        loop = asyncio.get_running_loop()
        changes = [(answer.served, answer.changes) for answer in answers if answer.served is not None]
        pause = POLL
        self._waiting += 1
        self._waiting_partitions += count
        try:
            while (left := deadline - loop.time()) > 0 and not connection.gone:
                await asyncio.sleep(min(max(pause, self._waiting / MOST_CHECKS), left))
                if any(served.changes != before for served, before in changes):
                    return True
                if session.unknown and session.generation != self.catalog.generation:
                    return True
                # Many clients can wait for the same partition. One check of the partition is enough for all of them.
                due = [(served, before) for served, before in changes if served.seconds_since_check() >= POLL / 2]
                started = loop.time()
                if len(due) > 0 and await self.catalog.run(_any_changed, due):
                    return True
                pause = max(POLL, SLOW_POLL_FACTOR * (loop.time() - started))
            return False
        finally:
            self._waiting -= 1
            self._waiting_partitions -= count

    def collect(
        self, session: FetchSession, request: WantedFetch, version: int, known_only: bool
    ) -> list[Answer] | None:
        # If `known_only`, return None instead of reading a file.
        answers: list[Answer] = []
        left = max(min(request.max_bytes, self._limits.max_fetch_bytes), 0)
        filled = False
        for wanted in session:
            answer = self._answer(wanted, request.isolation_level, version, left, not filled, known_only)
            if answer is None:
                return None
            left = max(left - answer.size, 0)
            filled = filled or answer.size > 0
            answers.append(answer)
        return answers

    def _answer(
        self, wanted: FetchedPartition, isolation: int, version: int, left: int, first: bool, known_only: bool
    ) -> Answer | None:
        """Return the answer for one partition, with at most `left` bytes; if `first` is True, at least one batch."""
        topic = self.catalog.topic_by_key(wanted.topic)
        served = existing(topic, wanted.request.partition)
        answer = Answer(wanted, served)
        by_id = isinstance(wanted.topic, bytes)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if served is None:
            known_topic = topic is not None and wanted.request.partition not in topic.partitions
            answer.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known_topic else unknown
            return answer
        answer.changes = served.changes
        committed = isolation == READ_COMMITTED_LEVEL
        offset = wanted.request.fetch_offset
        try:
            known = served.known_offsets()
            if known is None or (committed and known[2] is None):
                if known_only:
                    return None
                end, stable = served.high_watermark(), served.last_stable_offset() if committed else None
                known = served.log_start_offset, end, stable
            if served.deleted:
                answer.error = unknown
                return answer
            answer.log_start_offset, answer.high_watermark, stable = known
            answer.last_stable_offset = UNKNOWN_OFFSET if stable is None else stable
            if wanted.request.current_leader_epoch >= 0:
                answer.error = wrong_epoch(served, wanted.request.current_leader_epoch)
            if not answer.error and not answer.log_start_offset <= offset <= answer.high_watermark:
                answer.error = ErrorCode.OFFSET_OUT_OF_RANGE
            end = answer.last_stable_offset if committed else answer.high_watermark
            if answer.error or offset >= end or not (left or first):
                return answer
            room = min(max(wanted.request.partition_max_bytes, 0), left)
            omitted: Omitted = ()
            fetched = served.fetch(offset, end, room, first, known_only)
            if fetched is None:
                return None
            if fetched.damaged:
                answer.error = ErrorCode.CORRUPT_MESSAGE
                return answer
            if committed and fetched.spans and not fetched.transactional:
                answer.aborted = []  # the response contains no transactional batches
            elif committed and fetched.spans:
                aborted = served.aborted(offset, fetched.next_offset, known_only)
                if aborted is None:
                    return None
                answer.aborted = aborted.listed
                if aborted.unmarked:
                    omitted = aborted.unmarked
                    fetched = served.fetch(offset, fetched.next_offset, room, first, known_only, omitted)
                    if fetched is None:
                        return None
            answer.spans, answer.size, answer.next_offset = fetched.spans, fetched.size, fetched.next_offset
            magic = MAGIC_V2 if version >= MAGIC_V2_VERSION else MAGIC_V1 if version >= MAGIC_V1_VERSION else MAGIC_V0
            converting = magic < MAGIC_V2 or fetched.converted
            if converting and fetched.size > CONVERTED_BYTES:
                fetched = served.fetch(offset, fetched.next_offset, CONVERTED_BYTES, True, known_only, omitted)
                if fetched is None:
                    return None
                answer.spans, answer.size, answer.next_offset = fetched.spans, fetched.size, fetched.next_offset
            if fetched.spans and converting:
                if known_only:
                    return None
                settings = self.catalog.settings
                skip = served.report_batch if settings.on_error == "skip" else None
                answer.data = in_format(self.catalog.resources, fetched.spans, magic, settings.max_batch_bytes, skip)
                answer.spans, answer.size = None, len(answer.data)
            if answer.spans:
                self._open_files(answer.spans)
            if not answer.size and fetched.next_offset > offset and magic == MAGIC_V2:
                answer.data = empty_batch(offset, fetched.next_offset, max(served.leader_epoch(), 0))
                answer.size = len(answer.data)
        except InvalidError:
            answer.error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except KafkaFormatError as error:
            self.catalog.settings.on_message(f"{served.topic}-{served.number}: offset {offset} is damaged: {error}")
            answer.error = ErrorCode.CORRUPT_MESSAGE
        except OSError as error:
            self.catalog.settings.on_message(f"{served.topic}-{served.number}: offset {offset} cannot be read: {error}")
            answer.error = ErrorCode.KAFKA_STORAGE_ERROR
        if answer.error:
            answer.spans, answer.data, answer.size, answer.aborted = None, b"", 0, None
        return answer

    def _open_files(self, spans: list[Span]) -> None:
        """Open the segments of a response before its first byte is sent."""
        # Later errors cannot be reported to the client.
        files = self.catalog.resources.files
        last = None
        for span in spans:
            if last is None or span.path is not last.path or span.inode != last.inode:
                files.release(files.acquire(span.path, span.inode))
            last = span

    def response(self, session: FetchSession, answers: list[Answer]) -> FetchAnswers:
        """Return a Fetch response with the given answers. In a fetch session, unchanged partitions are omitted."""
        topics: dict[TopicKey, list[Answer]] = {}
        for answer in answers:
            wanted = answer.wanted
            if session.incremental and not answer.error and not answer.size and answer.offsets == wanted.sent:
                continue
            wanted.sent = None if answer.error else answer.offsets
            if answer.error in UNKNOWN and session.session_id:
                session.set_unknown(wanted)
            if answer.size:
                session.served(wanted)
            topics.setdefault(wanted.topic, []).append(answer)
        return FetchAnswers(session.session_id, topics)


class StartedFetch:
    """A Fetch request that is being answered."""

    __slots__ = ("_api", "_request", "_session", "_version")

    def __init__(self, api: FetchApi, request: WantedFetch, version: int, session: FetchSession | ErrorCode) -> None:
        self._api = api
        self._request = request
        self._version = version
        self._session = session

    def known(self) -> FetchAnswers | None:
        """Return the response. If files must be read, or if the client must wait, return None."""
        session = self._session
        if isinstance(session, ErrorCode):
            return FetchAnswers(error=session)
        if len(session.partitions) > MOST_IN_LOOP:
            return None
        answers = self._api.collect(session, self._request, self._version, True)
        if answers is None or not (self._request.max_wait_ms <= 0 or self._is_enough(session, answers)):
            return None
        return self._respond(session, answers)

    async def complete(self, connection: Connection, release: Callable[[], None] = nothing_reserved) -> FetchAnswers:
        """Return the response. If less than `min_bytes` is available, wait at most `max_wait_ms` for more data."""
        session, api, loop = self._session, self._api, asyncio.get_running_loop()
        assert isinstance(session, FetchSession)
        deadline = loop.time() + min(max(self._request.max_wait_ms, 0) / 1000, MOST_WAIT)
        while True:
            collect = partial(api.collect, session, self._request, self._version)
            answers = collect(True) if len(session.partitions) <= MOST_IN_LOOP else None
            if answers is None:
                answers = await api.catalog.run(collect, False)
            assert answers is not None
            if self._is_enough(session, answers) or loop.time() >= deadline:
                return self._respond(session, answers)
            release()
            if not await api.changed(session, answers, deadline, connection):
                return self._respond(session, answers)
            session.check_unknown(api.catalog.generation)

    def _is_enough(self, session: FetchSession, answers: list[Answer]) -> bool:
        size = 0
        for answer in answers:
            if answer.error:
                return True
            size += answer.size
        return size >= self._request.min_bytes or not len(session)

    def _respond(self, session: FetchSession, answers: list[Answer]) -> FetchAnswers:
        self._api.read_ahead(answers)
        return self._api.response(session, answers)


def wrong_epoch(served: ServedPartition, current_leader_epoch: int) -> ErrorCode:
    """Return the error code for the leader epoch in a request, or NONE if the epoch is current or unknown."""
    if current_leader_epoch < 0 or (known := served.leader_epoch()) < 0 or current_leader_epoch == known:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if current_leader_epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH


def _any_changed(changes: list[tuple[ServedPartition, int]]) -> bool:
    """Return whether a partition has changed or cannot be read. In both cases, the client needs a response."""
    try:
        return any(served.check() != before for served, before in changes)
    except (KafkaFormatError, OSError):
        return True
