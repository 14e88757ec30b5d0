"""Read Kafka's internal topics in the served directories.

To answer requests about consumer groups and transactions, the server reads internal topics even if
it does not serve them to clients.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..constants import READ_COMMITTED
from ..errors import KafkaFormatError
from ..internal_topics.decode import TRANSACTION_STATES, UnknownTypeError, read_coordinator_record
from ..kraft.cluster_metadata import metadata
from ..log import Damage, NoLogError, PartitionLog, discover
from ..log.damage import ReadLimits
from ..log.groups import GROUPS_TOPIC, GroupState, read_group_state
from ..log.reading import Selection
from ..support.paths import input_path
from ..support.text import counted
from .settings import ServerSettings

TRANSACTIONS_TOPIC = "__transaction_state"


class Transaction(NamedTuple):
    """Latest state of a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str  # one of `TRANSACTION_STATES`
    timeout: int  # in ms
    start: int  # in ms since 1970-01-01 UTC; -1: none has started
    partitions: tuple[tuple[str, tuple[int, ...]], ...]


def read_groups(settings: ServerSettings) -> GroupState:
    """Return the groups and commits of the served directories, before the time `at` if there is one."""
    # Damage is reported.
    logs = _internal_logs(settings, GROUPS_TOPIC)
    at = settings.at
    time = at.n - 1 if at is not None and at.kind == "time" else None
    state = read_group_state(logs, partial(_report, settings), time)
    if state.unreadable:
        settings.on_message(f"ignored {counted(state.unreadable, 'record')} of {GROUPS_TOPIC} in an unknown format")
    return state


def read_topic_configs(settings: ServerSettings) -> dict[str, dict[str, str]] | None:
    """Return the explicit configs of each topic, without secrets, or None if there is no metadata log."""
    # If several directories contain a metadata log, the log with the highest end offset is used.
    states = []
    for path in settings.paths:
        with contextlib.suppress(NoLogError):
            states.append(metadata(path, max_batch_bytes=settings.max_batch_bytes, on_message=settings.on_message))
    if not states:
        return None
    latest = max(states, key=lambda state: state.cluster[0].end_offset)
    found: dict[str, dict[str, str]] = {topic.name: {} for topic in latest.topics}
    for config in latest.configs:
        if config.resource_type == "topic" and config.value is not None:
            found.setdefault(config.resource_name, {})[config.name] = config.value
    return found


def read_transactions(settings: ServerSettings) -> dict[str, Transaction]:
    """Return the latest state of each transactional id, before the time `at` if there is one."""
    found: dict[str, Transaction] = {}
    for log in _internal_logs(settings, TRANSACTIONS_TOPIC):
        for key, value in _records(log, settings):
            try:
                record = read_coordinator_record(TRANSACTIONS_TOPIC, key, value)
            except (UnknownTypeError, KafkaFormatError):
                continue
            name = record.key.transactional_id
            found.pop(name, None)
            if record.value is not None:
                found[name] = _transaction(name, record.value)
    return dict(sorted(found.items()))


def _transaction(name: str, value: Any) -> Transaction:
    status = value.transaction_status
    state = TRANSACTION_STATES[status] if 0 <= status < len(TRANSACTION_STATES) else f"Unknown{status}"
    partitions = tuple((p.topic, tuple(p.partition_ids)) for p in value.transaction_partitions or ())
    return Transaction(
        name,
        value.producer_id,
        value.producer_epoch,
        state,
        value.transaction_timeout_ms,
        value.transaction_start_timestamp_ms,
        partitions,
    )


def _records(log: PartitionLog, settings: ServerSettings) -> Iterator[tuple[bytes, bytes | None]]:
    at = settings.at
    end = at if at is not None and at.kind == "time" else None
    interval = Selection(end=end, isolation=READ_COMMITTED).resolve(log)
    for record in log.records(interval, past_open=True, on_damage=partial(_report, settings, log)):
        yield record.key or b"", record.value


def _internal_logs(settings: ServerSettings, topic: str) -> list[PartitionLog]:
    # Only the directories of `topic` are listed, because a log directory can contain thousands of
    # others.
    name = re.compile(re.escape(topic) + r"-\d+")
    paths: list[Any] = []
    for given in settings.paths:
        path = input_path(given)
        if isinstance(path, Path) and path.is_dir() and not name.fullmatch(path.name):
            paths += [path / entry for entry in sorted(os.listdir(path)) if name.fullmatch(entry)]
        else:
            paths.append(given)
    try:
        found = discover(paths, "longest").partitions if paths else []
    except NoLogError:
        return []
    limits = ReadLimits(settings.max_batch_bytes)
    return [PartitionLog(d, limits) for d in found if d.topic == topic and d.readable]


def _report(settings: ServerSettings, log: PartitionLog, damage: Damage) -> None:
    settings.on_message(f"{log.directory.path}: {damage.file}: a damaged span is skipped: {damage.message}")
