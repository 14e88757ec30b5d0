"""Load the consumer groups of the log directories while the server already answers requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from ...errors import KafkaFormatError
from ...log.groups import CommittedOffset, Group, GroupState
from ...protocol import ErrorCode
from ..catalog import Catalog
from ..handlers import Handler, RequestContext
from .coordinator import Coordinator
from .refusals import REFUSALS

LOAD_WAIT = 2.0
"""Seconds that a request waits for the groups."""


class SeedGroups(Protocol):
    """Interface of the consumer groups and committed offsets that were read from log directories."""

    offsets: list[CommittedOffset]
    groups: list[Group]


class GroupLoader:
    """Loads the groups of the log directories in a thread, because `__consumer_offsets` can be large."""

    def __init__(self, catalog: Catalog, coordinator: Coordinator, read: Callable[[], SeedGroups] | None) -> None:
        self._catalog = catalog
        self._coordinator = coordinator
        self._read = read
        self._loading: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Start loading the groups unless this method was called before. The event loop must be running."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
        return self._loading

    def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()

    def when_loaded(self, api_key: int, handler: Handler) -> Handler:
        """Return a handler that waits until the groups are loaded before it calls `handler`."""
        # A request waits for up to LOAD_WAIT seconds. Then the response contains
        # COORDINATOR_LOAD_IN_PROGRESS, and the client retries. Handlers of APIs that need no groups
        # are returned unchanged.
        refuse = REFUSALS.get(api_key)
        if refuse is None:
            return handler

        async def answer(request: Any, context: RequestContext) -> Any:
            loading = self.start()
            if not loading.done():
                await asyncio.wait([loading], timeout=LOAD_WAIT)
            if not loading.done():
                return refuse(request, context.api_version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            answering = handler(request, context)
            del request  # the handler can then delete the request before it waits
            return await answering

        return answer

    def _within_logs(self, commits: list[CommittedOffset]) -> list[CommittedOffset]:
        """Lower committed offsets that are higher than the end of the log, which the option `at` selects."""
        # A consumer would otherwise get OFFSET_OUT_OF_RANGE, and could start again at the first
        # record. The leader epoch of such a commit is removed, because the log may not have
        # contained it.
        found = []
        for commit in commits:
            served = self._catalog.partition(commit.topic, commit.partition)
            try:
                if served is not None and not served.missing and commit.offset > (end := served.high_watermark()):
                    commit = commit._replace(offset=end, leader_epoch=None)
            except (KafkaFormatError, OSError):
                pass  # a client gets the error when it reads the partition
            found.append(commit)
        return found

    async def _load(self) -> None:
        seed: SeedGroups = GroupState([], [])
        on_message = self._catalog.settings.on_message
        if self._read is not None:
            try:
                seed = await self._catalog.run(self._read)
                if self._catalog.settings.at is not None:
                    seed = GroupState(await self._catalog.run(self._within_logs, seed.offsets), seed.groups)
            except (KafkaFormatError, OSError) as error:
                on_message(f"the committed offsets of the log directories cannot be read: {error}")
        try:
            self._coordinator.offsets.start(seed.offsets, seed.groups)
        except OSError as error:
            on_message(f"the groups file cannot be written: {error}")
        self._coordinator.add_known_groups()
