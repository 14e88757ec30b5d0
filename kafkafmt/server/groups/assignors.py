"""Implement the server-side assignors, which assign partitions to the members of a consumer group (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush

PartitionKey = tuple[str, int]
"""A partition, as the tuple of topic name and partition number."""
Assignment = dict[str, set[PartitionKey]]
"""The partitions that are assigned to each member, by member id."""
Topics = Mapping[str, tuple[int, ...]]
"""The partition numbers of each topic, by topic name."""


def assign_range(members: Mapping[str, frozenset[str]], topics: Topics, before: Assignment) -> Assignment:
    """Assign consecutive partitions of each topic to each member. Kafka's counterpart is ``RangeAssignor``."""
    assigned: Assignment = {member: set() for member in members}
    for topic, numbers in topics.items():
        subscribed = sorted(member for member, names in members.items() if topic in names)
        if not subscribed:
            continue
        least, more = divmod(len(numbers), len(subscribed))
        start = 0
        for index, member in enumerate(subscribed):
            end = start + least + (index < more)
            assigned[member].update((topic, number) for number in numbers[start:end])
            start = end
    return assigned


def assign_uniform(members: Mapping[str, frozenset[str]], topics: Topics, before: Assignment) -> Assignment:
    """Balance the partitions per member, and move as few as possible. Kafka's counterpart is ``UniformAssignor``."""
    assigned: Assignment = {member: set() for member in members}
    if not members:
        return assigned
    least, more = divmod(sum(map(len, topics.values())), len(members))
    existing = {(topic, number) for topic, numbers in topics.items() for number in numbers}
    kept: set[PartitionKey] = set()
    for member in sorted(members, key=lambda m: (-len(before.get(m, ())), m)):
        valid = [p for p in sorted(before.get(member, ())) if p[0] in members[member] and p in existing]
        share = least + (more > 0 and len(valid) > least)
        more -= share > least
        assigned[member].update(valid[:share])
        kept.update(valid[:share])
    for topic, numbers in topics.items():
        free = [(topic, number) for number in numbers if (topic, number) not in kept]
        loads = [(len(assigned[member]), member) for member in members if topic in members[member]]
        heapify(loads)
        for partition in free if loads else ():
            load, member = heappop(loads)
            assigned[member].add(partition)
            heappush(loads, (load + 1, member))
    return assigned


ASSIGNORS: dict[str, Callable[[Mapping[str, frozenset[str]], Topics, Assignment], Assignment]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""The server-side assignors by name. As in Kafka's ``group.consumer.assignors``, the first one is the default."""
DEFAULT_ASSIGNOR = "uniform"
