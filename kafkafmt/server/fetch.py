"""Answer Fetch requests with unchanged batches from the segment files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import protocol
from ..constants import MAGIC_V0, MAGIC_V1, MAGIC_V2
from ..errors import InvalidError, KafkaFormatError
from ..protocol import ErrorCode
from ..protocol.apis import FETCH
from .catalog import Catalog
from .checked_batches import Span
from .file_records import FileRecords
from .handlers import Handlers, RequestContext
from .record_data import empty_batch, in_format
from .served_partition import ServedPartition
from .sessions import FetchedPartition, FetchSession, FetchSessions

POLL = 0.1
"""Minimum time in seconds between two checks for new batches while a client waits."""
SLOW_POLL_FACTOR = 10
"""Lower limit for the pause between two checks, as a multiple of the duration of a check."""
MOST_IN_LOOP = 1000
"""The event loop itself answers requests with at most this number of partitions.

Each partition takes about 10 µs. Therefore, a thread answers requests with more partitions.
"""
READ_COMMITTED_LEVEL = 1
NEWEST_VERSION = 18
SESSION_VERSION = 7
TOPIC_ID_VERSION = 13
MAGIC_V2_VERSION = 4
"""Lowest version of Fetch whose clients read record format 2."""
MAGIC_V1_VERSION = 2
"""Lowest version of Fetch whose clients read record format 1."""
UNKNOWN_OFFSET = -1
CONVERTED_BYTES = 4 << 20
"""Largest number of bytes of one partition that are converted for one response. Converted batches are in memory."""


@dataclass
class FileResponse:
    """A Fetch response that contains placeholders for bytes of segments.

    Attributes
    ----------
    body : Message
        The Fetch response with placeholders instead of record data.
    records : FileRecords
        The bytes to send in place of the placeholders.
    """

    body: Any
    records: FileRecords


@dataclass
class Answer:
    """The answer for one partition of a Fetch request.

    Attributes
    ----------
    wanted : FetchedPartition
        The client's request for the partition.
    served : ServedPartition or None
        The partition, or None if it does not exist.
    error : ErrorCode
        The error, or NONE.
    high_watermark, last_stable_offset, log_start_offset : int
        The offsets in the response, or -1.
    aborted : list of (int, int) or None
        Producer id and first offset of each aborted transaction. None if the client reads uncommitted.
    spans : list of Span or None
        Batches that are sent from a file.
    data : bytes
        Batches that are not sent from a file.
    size : int
        Number of bytes of the batches.
    next_offset : int
        The offset that the client will request next, or -1 if it is unknown.
    changes : int
        `ServedPartition.changes` before the partition was read.
    """

    wanted: FetchedPartition
    served: ServedPartition | None
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    aborted: list[tuple[int, int]] | None = None
    spans: list[Span] | None = None
    data: bytes = b""
    size: int = 0
    next_offset: int = UNKNOWN_OFFSET
    changes: int = 0

    @property
    def offsets(self) -> tuple[int, int, int]:
        """High watermark, last stable offset and log start offset."""
        return self.high_watermark, self.last_stable_offset, self.log_start_offset


class FetchApi:
    """Answers Fetch requests.

    Parameters
    ----------
    catalog : Catalog
        The partitions.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._limits = catalog.settings.limits
        self.sessions: FetchSessions = FetchSessions(self._limits.max_sessions)
        self._reading: set[asyncio.Task[None]] = set()
        """Tasks that check batches before a client asks for them."""

    def handlers(self) -> Handlers:
        """Return the handler of Fetch."""
        return {FETCH: (0, NEWEST_VERSION, self.fetch)}

    async def fetch(self, request: Any, context: RequestContext) -> Any:
        """Return a `FileResponse`. If less than `min_bytes` is available, wait at most `max_wait_ms` for more data."""
        version = context.api_version
        by_id = version >= TOPIC_ID_VERSION
        if version >= SESSION_VERSION:
            found = self.sessions.find(request, by_id)
        else:
            found = FetchSession()
            found.update(request)
        if isinstance(found, ErrorCode):
            return FileResponse(protocol.FetchResponse(error_code=found), FileRecords())
        collect = partial(self._collect, found, request, version)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(request.max_wait_ms, 0) / 1000
        while True:
            answers = collect(True) if len(found.partitions) <= MOST_IN_LOOP else None
            if answers is None:
                answers = await self._catalog.run(collect, False)
            assert answers is not None
            enough = sum(answer.size for answer in answers) >= request.min_bytes
            done = enough or not answers or any(answer.error for answer in answers) or loop.time() >= deadline
            if done or not await self._changed(answers, deadline, context):
                self._read_ahead(answers)
                return self._response(found, answers, version)

    def _read_ahead(self, answers: list[Answer]) -> None:
        """Start to check the batches that clients will probably request next."""
        for answer in answers:
            served = answer.served
            if not answer.spans or served is None:
                continue
            offset = served.to_read_ahead(answer.wanted.request.fetch_offset, answer.next_offset)
            if offset is not None:
                task = asyncio.create_task(self._catalog.run(served.read_ahead, offset))
                self._reading.add(task)
                task.add_done_callback(self._reading.discard)

    async def _changed(self, answers: list[Answer], deadline: float, context: RequestContext) -> bool:
        """Wait until one of the partitions changes, and return True.

        If no partition changes before the deadline, or if the client closes the connection, return
        False.
        """
        loop = asyncio.get_running_loop()
        changes = [(answer.served, answer.changes) for answer in answers if answer.served is not None]
        pause = POLL
        while (left := deadline - loop.time()) > 0 and not context.connection.gone:
            await asyncio.sleep(min(pause, left))
            if any(served.changes != before for served, before in changes):
                return True
            # Many clients can wait for the same partition. One check of the partition is enough for all of them.
            due = [(served, before) for served, before in changes if served.seconds_since_check() >= POLL / 2]
            started = loop.time()
            if len(due) > 0 and await self._catalog.run(_any_changed, due):
                return True
            pause = max(POLL, SLOW_POLL_FACTOR * (loop.time() - started))
        return False

    def _served(self, wanted: FetchedPartition) -> ServedPartition | None:
        name = wanted.topic
        if isinstance(name, str):
            return self._catalog.partition(name, wanted.request.partition)
        topic = self._catalog.topic_by_id(name)
        return None if topic is None else topic.partitions.get(wanted.request.partition)

    def _collect(self, session: FetchSession, request: Any, version: int, known_only: bool) -> list[Answer] | None:
        """Return the response data for each partition of a fetch session.

        If `known_only` is True, return None instead of reading a file.
        """
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
        """Return the part of a Fetch response for one partition, with at most `left` bytes of batches.

        If `first` is True, the first batch is included even if it is larger.
        """
        served = self._served(wanted)
        answer = Answer(wanted, served)
        if served is None:
            by_id = not isinstance(wanted.topic, str)
            answer.error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return answer
        answer.changes = served.changes
        committed = isolation == READ_COMMITTED_LEVEL
        offset = wanted.request.fetch_offset
        try:
            known = served.known_offsets()
            if known is None or (committed and known[1] is None):
                if known_only:
                    return None
                known = served.high_watermark(), served.last_stable_offset() if committed else None
            answer.high_watermark, stable = known
            answer.last_stable_offset = UNKNOWN_OFFSET if stable is None else stable
            answer.log_start_offset = served.log_start_offset
            answer.error = wrong_epoch(served, wanted.request.current_leader_epoch)
            if not answer.error and not answer.log_start_offset <= offset <= answer.high_watermark:
                answer.error = ErrorCode.OFFSET_OUT_OF_RANGE
            end = answer.last_stable_offset if committed else answer.high_watermark
            if answer.error or offset >= end or not (left or first):
                return answer
            room = min(max(wanted.request.partition_max_bytes, 0), left)
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
                    fetched = served.fetch(offset, fetched.next_offset, room, first, known_only, aborted.unmarked)
                    if fetched is None:
                        return None
            answer.spans, answer.size, answer.next_offset = fetched.spans, fetched.size, fetched.next_offset
            magic = MAGIC_V2 if version >= MAGIC_V2_VERSION else MAGIC_V1 if version >= MAGIC_V1_VERSION else MAGIC_V0
            converting = magic < MAGIC_V2 or any(span.legacy for span in fetched.spans)
            if converting and fetched.size > CONVERTED_BYTES:
                fetched = served.fetch(offset, fetched.next_offset, CONVERTED_BYTES, True, known_only)
                if fetched is None:
                    return None
                answer.spans, answer.size = fetched.spans, fetched.size
            if fetched.spans and converting:
                if known_only:
                    return None
                settings = self._catalog.settings
                skip = served.report_batch if settings.on_error == "skip" else None
                answer.data = in_format(self._catalog.resources, fetched.spans, magic, settings.max_batch_bytes, skip)
                answer.spans, answer.size = None, len(answer.data)
            if answer.spans:
                self._open_files(answer.spans)
            if not answer.size and fetched.next_offset > offset and magic == MAGIC_V2:
                answer.data = empty_batch(offset, fetched.next_offset, max(served.leader_epoch(), 0))
                answer.size = len(answer.data)
        except InvalidError:
            answer.error = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        except KafkaFormatError as error:
            self._catalog.settings.on_message(f"{served.topic}-{served.number}: offset {offset} is damaged: {error}")
            answer.error = ErrorCode.CORRUPT_MESSAGE
        except OSError as error:
            self._catalog.settings.on_message(
                f"{served.topic}-{served.number}: offset {offset} cannot be read: {error}"
            )
            answer.error = ErrorCode.KAFKA_STORAGE_ERROR
        if answer.error:
            answer.spans, answer.data, answer.size, answer.aborted = None, b"", 0, None
        return answer

    def _open_files(self, spans: list[Span]) -> None:
        """Open the segments of a response before the server sends the first byte of the response.

        After the server has sent the first byte, the server can no longer report an error to the
        client.
        """
        files = self._catalog.resources.files
        for path, inode in dict.fromkeys(span[:2] for span in spans):
            files.release(files.acquire(path, inode))

    def _response(self, session: FetchSession, answers: list[Answer], version: int) -> FileResponse:
        """Return a Fetch response with the given answers. In a fetch session, unchanged partitions are omitted."""
        records = FileRecords()
        topics: dict[Any, list[Answer]] = {}
        for answer in answers:
            wanted = answer.wanted
            if session.incremental and not answer.error and not answer.size and answer.offsets == wanted.sent:
                continue
            wanted.sent = None if answer.error else answer.offsets
            if answer.size:
                session.served(wanted)
            topics.setdefault(wanted.topic, []).append(answer)
        by_id = version >= TOPIC_ID_VERSION
        make = protocol.FetchResponse.FetchableTopicResponse
        return FileResponse(
            protocol.FetchResponse(
                session_id=session.session_id,
                responses=[
                    make(
                        topic="" if by_id else name,
                        topic_id=name if by_id else make().topic_id,
                        partitions=[_partition_data(answer, records) for answer in found],
                    )
                    for name, found in topics.items()
                ],
            ),
            records,
        )


def _partition_data(answer: Answer, records: FileRecords) -> Any:
    make = protocol.FetchResponse.PartitionData
    aborted = None
    if answer.aborted is not None:
        aborted = [
            protocol.FetchResponse.AbortedTransaction(producer_id=p, first_offset=first) for p, first in answer.aborted
        ]
    data: Any = answer.data
    if answer.spans and answer.served is not None:
        data = records.add(answer.served, answer.spans)
    return make(
        partition_index=answer.wanted.request.partition,
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=aborted,
        records=data,
    )


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
