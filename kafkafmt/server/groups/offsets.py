"""Store the committed offsets of all groups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from sys import getsizeof
from typing import NamedTuple

from ...log.groups import CommittedOffset, Group
from .offsets_file import FULL_INTERVAL, Entry, GroupsFile, GroupsFileFullError

COMMIT_BYTES = 400
"""Approximate memory of a commit without its metadata, in bytes."""
CLASSIC_PROTOCOL = "consumer"
CLASSIC, CONSUMER = "classic", "consumer"
"""Names of the two group protocols: the classic protocol, and the protocol of KIP-848."""


class Commit(NamedTuple):
    offset: int  # of the next record that the group will read
    leader_epoch: int = -1  # of the last record that the group has read, or -1
    metadata: str = ""  # text that the client added
    timestamp: int = -1  # in ms since 1970-01-01 UTC


PartitionKey = tuple[str, int]
"""A partition, as the tuple of topic name and partition number."""


class GroupFacts(NamedTuple):
    """The properties of a group that the server keeps after all members have left."""

    protocol_type: str | None = None  # of the members, such as "consumer"
    generation: int = 0  # of a classic group, or the group epoch (KIP-848)
    type: str = CLASSIC  # of the latest members; "consumer" is the protocol of KIP-848


class CommittedOffsets:
    """The committed offsets of all groups, in memory and optionally in a file."""

    # `size` is bytes, without loaded commits.

    def __init__(self, file: GroupsFile | None = None) -> None:
        self.facts: dict[str, GroupFacts] = {}
        self.size: int = 0
        self._groups: dict[str, dict[PartitionKey, Commit]] = {}
        self._seed: dict[str, dict[PartitionKey, Commit]] = {}
        self._seed_facts: dict[str, GroupFacts] = {}
        self._file = file
        self._rewritten_full = float("-inf")
        """Time of the latest rewrite of a full groups file, on the monotonic clock."""
        self._entries = [] if file is None else file.load()

    def start(self, offsets: Iterable[CommittedOffset] = (), groups: Iterable[Group] = ()) -> None:
        """Load the offsets and groups of the log directories, and apply the changes in the groups file."""
        for group in groups:
            if group.type == CLASSIC:
                self.facts[group.group] = GroupFacts(group.protocol_type, max(group.epoch, 0))
            elif group.type == CONSUMER:
                self.facts[group.group] = GroupFacts(CLASSIC_PROTOCOL, max(group.epoch, 0), CONSUMER)
        for c in offsets:
            commit = Commit(c.offset, -1 if c.leader_epoch is None else c.leader_epoch, c.metadata, c.commit_timestamp)
            self._groups.setdefault(c.group, {})[c.topic, c.partition] = commit
        self._seed = {group: dict(commits) for group, commits in self._groups.items()}
        self._seed_facts = dict(self.facts)
        for entry in self._entries:
            self._apply(entry)
        self._entries.clear()
        if self._file is not None:
            self._file.rewrite(self._changes())

    def group_ids(self) -> set[str]:
        """Return the names of all groups that have committed offsets or have had members."""
        return self._groups.keys() | self.facts.keys()

    def of_group(self, group_id: str) -> Mapping[PartitionKey, Commit]:
        return self._groups.get(group_id, {})

    def commit(self, group_id: str, facts: GroupFacts, commits: Mapping[PartitionKey, Commit]) -> None:
        """Store the commits of a group."""
        # On return, they are in the groups file; if that fails, they are not in memory either.
        entries = [_entry(group_id, key, commit) for key, commit in commits.items()]
        if self.facts.get(group_id) != facts:
            entries.insert(0, _facts_entry(group_id, facts))
        self._store(entries)

    def delete_offsets(self, group_id: str, partitions: Iterable[PartitionKey]) -> None:
        """Delete committed offsets of a group, or raise OSError if the groups file cannot be written."""
        self._store([Entry(group_id, topic, partition) for topic, partition in partitions])

    def delete_group(self, group_id: str) -> None:
        """Delete a group and its committed offsets, or raise OSError if the groups file cannot be written."""
        if group_id in self._groups or group_id in self.facts:
            self._store([Entry(group_id)])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _store(self, entries: list[Entry]) -> None:
        if self._file is not None:
            self._append(self._file, entries)
        for entry in entries:
            self._apply(entry)
        if self._file is not None and self._file.needs_rewrite():
            with suppress(OSError):  # a failed rewrite loses nothing, because the file already contains the changes
                self._file.rewrite(self._changes())

    def _append(self, file: GroupsFile, entries: Sequence[Entry]) -> None:
        """Append entries to the groups file. If the file is full, rewrite it without outdated lines first."""
        try:
            file.append(entries)
        except GroupsFileFullError:
            now = time.monotonic()
            if now - self._rewritten_full < FULL_INTERVAL:
                raise
            self._rewritten_full = now
            file.rewrite(self._changes())
            file.append(entries)

    def _apply(self, entry: Entry) -> None:
        group_id, topic, partition = entry.group, entry.topic, entry.partition
        if entry.protocol_type is not None:
            self.facts[group_id] = GroupFacts(entry.protocol_type or None, entry.generation, entry.type)
        elif topic is None:
            self.size -= sum(self._cost(group_id, key, c) for key, c in self.of_group(group_id).items())
            self._groups.pop(group_id, None)
            self.facts.pop(group_id, None)
        else:
            key = topic, partition
            commits = self._groups.setdefault(group_id, {})
            self.size -= self._cost(group_id, key, commits.pop(key, None))
            if entry.offset is not None:
                commits[key] = Commit(entry.offset, entry.leader_epoch, entry.metadata, entry.timestamp)
                self.size += self._cost(group_id, key, commits[key])
            if not commits:
                del self._groups[group_id]

    def _cost(self, group_id: str, key: PartitionKey, commit: Commit | None) -> int:
        if commit is None or self._seed.get(group_id, {}).get(key) is commit:
            return 0
        return COMMIT_BYTES + getsizeof(commit.metadata)

    def _changes(self) -> Iterator[Entry]:
        """Yield entries for the groups file, which describe how the current state differs from the log directories."""
        for group_id in (self._seed.keys() | self._seed_facts.keys()) - self.group_ids():
            yield Entry(group_id)
        for group_id, facts in self.facts.items():
            if facts != self._seed_facts.get(group_id):
                yield _facts_entry(group_id, facts)
        for group_id in self.group_ids():
            now, seed = self.of_group(group_id), self._seed.get(group_id, {})
            yield from (Entry(group_id, *key) for key in seed.keys() - now.keys())
            yield from (_entry(group_id, key, commit) for key, commit in now.items() if seed.get(key) != commit)


def _entry(group_id: str, key: PartitionKey, commit: Commit) -> Entry:
    return Entry(group_id, *key, commit.offset, commit.leader_epoch, commit.metadata, commit.timestamp)


def _facts_entry(group_id: str, facts: GroupFacts) -> Entry:
    return Entry(group_id, protocol_type=facts.protocol_type or "", generation=facts.generation, type=facts.type)
