"""Answer DescribeTransactions, ListTransactions and DescribeProducers requests.

The states of transactional ids are read from `__transaction_state`, if the directories contain it.
"""

from __future__ import annotations

import time
from threading import Lock

from ..constants import CONTROL_BIT, NO_END
from ..errors import KafkaFormatError
from ..log import PartitionLog
from ..log.format import file_view, files
from ..log.format.names import file_name, snapshot_offset_of
from ..log.format.producers import Producers, marker_reader, read_markers
from ..log.format.snapshots import ProducerEntry, read_snapshot
from ..protocol import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ErrorCode,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from .catalog import Catalog
from .handlers import Handlers, RequestContext, distinct
from .internal_topics import TRANSACTION_STATES, Transaction, read_transactions
from .served_partition import ServedPartition
from .settings import ServerSettings

FRESH_SECONDS = 30.0
"""Time in seconds after which `__transaction_state` is read again."""


class TransactionApis:
    """Answers requests that describe transactions and producers.

    ListTransactions version 2 is not supported. Its requests contain a regular expression, which a
    client could use to block the server.
    """

    def __init__(self, catalog: Catalog, settings: ServerSettings) -> None:
        self._catalog = catalog
        self._settings = settings
        self._lock = Lock()
        self._known: dict[str, Transaction] = {}
        self._read_at = float("-inf")

    def handlers(self) -> Handlers:
        """Return the lowest version, the highest version and the handler of each API, by API key."""
        return {
            61: (0, 0, self._describe_producers),
            65: (0, 0, self._describe_transactions),
            66: (0, 1, self._list_transactions),
        }

    async def _describe_transactions(
        self, request: DescribeTransactionsRequest, context: RequestContext
    ) -> DescribeTransactionsResponse:
        known = await self._catalog.run(self._transactions)
        make = DescribeTransactionsResponse
        response = make()
        for name in dict.fromkeys(request.transactional_ids):
            found = known.get(name)
            if found is None:
                error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                response.transaction_states.append(make.TransactionState(error_code=error, transactional_id=name))
                continue
            response.transaction_states.append(
                make.TransactionState(
                    transactional_id=name,
                    transaction_state=found.state,
                    transaction_timeout_ms=found.timeout,
                    transaction_start_time_ms=found.start,
                    producer_id=found.producer_id,
                    producer_epoch=found.producer_epoch,
                    topics=[make.TopicData(topic=t, partitions=list(numbers)) for t, numbers in found.partitions],
                )
            )
        return response

    async def _list_transactions(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> ListTransactionsResponse:
        known = await self._catalog.run(self._transactions)
        states, producers = set(request.state_filters), set(request.producer_id_filters)
        started_before = time.time() * 1000 - request.duration_filter
        make = ListTransactionsResponse
        return make(
            unknown_state_filters=sorted(states.difference(TRANSACTION_STATES)),
            transaction_states=[
                make.TransactionState(
                    transactional_id=t.transactional_id, producer_id=t.producer_id, transaction_state=t.state
                )
                for t in known.values()
                if (not states or t.state in states)
                and (not producers or t.producer_id in producers)
                and (request.duration_filter < 0 or 0 <= t.start < started_before)
            ],
        )

    def _transactions(self) -> dict[str, Transaction]:
        """Return the latest state of each transactional id. The states are read again after FRESH_SECONDS."""
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_SECONDS:
                try:
                    self._known = read_transactions(self._settings)
                except (KafkaFormatError, OSError) as error:
                    self._settings.on_message(f"the transactions of the log directories cannot be read: {error}")
                self._read_at = time.monotonic()
            return self._known

    async def _describe_producers(
        self, request: DescribeProducersRequest, context: RequestContext
    ) -> DescribeProducersResponse:
        make = DescribeProducersResponse
        response = make()
        for topic in distinct(request.topics, lambda topic: topic.name):
            found = make.TopicResponse(name=topic.name)
            for number in dict.fromkeys(topic.partition_indexes):
                served = self._catalog.partition(topic.name, number)
                if served is None:
                    result = make.PartitionResponse(
                        partition_index=number, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                else:
                    result = await self._catalog.run(self._producers, served)
                found.partitions.append(result)
            response.topics.append(found)
        return response

    def _producers(self, served: ServedPartition) -> DescribeProducersResponse.PartitionResponse:
        make = DescribeProducersResponse
        if served.missing:
            return make.PartitionResponse(partition_index=served.number)
        try:
            entries = read_producers(served.log, self._settings.max_batch_bytes)
        except (KafkaFormatError, OSError) as error:
            return make.PartitionResponse(
                partition_index=served.number, error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error)
            )
        return make.PartitionResponse(
            partition_index=served.number,
            active_producers=[
                make.ProducerState(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=entry.txn_first_offset,
                )
                for entry in entries
            ],
        )


def read_producers(log: PartitionLog, max_batch_bytes: int) -> list[ProducerEntry]:
    """Return the state of each producer at the end of a log, ordered by producer id.

    The states come from the latest readable producer snapshot, and are updated with the batches after
    the snapshot. Damaged batches are skipped.
    """
    start, producers = _latest_snapshot(log)
    reader = marker_reader(max_batch_bytes)
    for part in log.parts(start, NO_END, lambda _: None):
        table = part.table[part.table["base_offset"] >= start]
        control = table[(table["attributes"] & CONTROL_BIT) != 0]
        producers.add(table, read_markers(reader, part.buffer, control))
    return sorted(producers.entries.values())


def _latest_snapshot(log: PartitionLog) -> tuple[int, Producers]:
    """Return the offset and the producers of the latest readable producer snapshot.

    If no snapshot can be read, the offset is 0, and there are no producers.
    """
    folder = log.directory.path
    offsets = {o for name in files.list_directory(folder)[1] if (o := snapshot_offset_of(name)) is not None}
    bases = {segment.base_offset for segment in log.segments}
    for offset in sorted(offsets & bases, reverse=True):
        try:
            return offset, Producers(
                read_snapshot(file_view.read_bytes(folder / file_name(offset, ".snapshot")) or b"")
            )
        except KafkaFormatError:
            continue
    return 0, Producers()
