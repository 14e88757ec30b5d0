"""Answer DescribeTransactions, ListTransactions and DescribeProducers requests.

The states of transactional ids are read from `__transaction_state`, if the directories contain it.
"""

from __future__ import annotations

import time
from threading import Lock

from ..errors import KafkaFormatError
from ..internal_topics.decode import TRANSACTION_STATES
from ..protocol import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ErrorCode,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ..support.text import plain
from .catalog import Catalog
from .handlers import Handlers, RequestContext, distinct
from .internal_topics import Transaction, read_transactions
from .served_partition import ServedPartition
from .settings import ServerSettings

FRESH_SECONDS = 30.0
"""Time in seconds after which `__transaction_state` is read again."""


class TransactionApis:
    """Answers requests that describe transactions and producers."""

    # ListTransactions version 2 is not supported: its requests contain a regular expression, which
    # a client could use to block the server.

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
                and (request.duration_filter < 0 or t.start < started_before)
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
            entries = served.producers()
        except (KafkaFormatError, OSError) as error:
            return make.PartitionResponse(
                partition_index=served.number, error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=plain(str(error))
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
