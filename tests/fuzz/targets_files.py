"""Fuzz the functions that read indexes, snapshots, checkpoints and properties."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from kafkafmt.log.formats import checkpoints, index_entries, leader_epochs, names, snapshots

from . import seeds
from .case import Case, of_bytes
from .mutate_files import mutate_entries, mutate_file
from .outcome import Failed, attempt, check, plain, same
from .target import target


def entries_case(chance: Random) -> Case:
    suffix = chance.choice(("index", "timeindex", "txnindex"))
    data = mutate_entries(chance, chance.choice(seeds.side_files(suffix)), suffix)
    return of_bytes(data, suffix=suffix, base=chance.choice((0, 0, 100, 2**40, 2**63 - 1)))


@target("indexes", entries_case, quick=100)
def indexes(case: Case) -> Any:
    """Check that the entries in use increase, and that writing the entries of a valid file restores it."""
    suffix, base, data = case.params["suffix"], case.params["base"], case.data
    if suffix == "txnindex":
        rows = index_entries.read_transaction_index(data)
        same(
            index_entries.transaction_index_bytes(e[1:] for e in rows.tolist() if e[0] == 0),
            rows[rows["version"] == 0].tobytes(),
            "bytes",
        )
        return plain(rows)
    read = index_entries.read_offset_index if suffix == "index" else index_entries.read_time_index
    whole = index_entries.all_offset_entries if suffix == "index" else index_entries.all_time_entries
    first, second = read(data, base)
    check(bool((first[1:] > first[:-1]).all()) and bool((second[1:] >= second[:-1]).all()), "entries in use increase")
    every = whole(data, base)
    same(
        [c[: len(first)].tolist() for c in every],
        [first.tolist(), second.tolist()],
        "the entries in use are the first ones",
    )
    return plain([first, second, *every])


def snapshot_case(chance: Random) -> Case:
    return of_bytes(mutate_entries(chance, chance.choice(seeds.side_files("snapshot")), "snapshot"))


@target("snapshots", snapshot_case, quick=100)
def snapshot(case: Case) -> Any:
    found = attempt(snapshots.read_snapshot, case.data)
    if isinstance(found, Failed):
        return found
    read = snapshots.read_snapshot(case.data)
    [p.first_sequence for p in read]
    size = 10 + 46 * len(read)
    same(snapshots.snapshot_bytes(read)[6:], case.data[6:size], "entries, written back")
    return found


TEXTS: dict[str, Callable[[str, str], Any]] = {
    "recovery-point-offset-checkpoint": checkpoints.read_offset_checkpoint,
    "replication-offset-checkpoint": checkpoints.read_offset_checkpoint,
    "log-start-offset-checkpoint": checkpoints.read_offset_checkpoint,
    "cleaner-offset-checkpoint": checkpoints.read_offset_checkpoint,
    "leader-epoch-checkpoint": checkpoints.read_leader_epochs,
    "partition.metadata": checkpoints.read_partition_metadata,
    "meta.properties": checkpoints.read_meta_properties,
    ".kafka_cleanshutdown": checkpoints.read_clean_shutdown,
}


def text_case(chance: Random) -> Case:
    name = chance.choice(list(TEXTS))
    return of_bytes(mutate_file(chance, name, chance.choice(seeds.named_files(name))), name=name)


@target("checkpoints", text_case, quick=150)
def texts(case: Case) -> Any:
    """Check that values do not change if they are written and read again."""
    name, text = case.params["name"], case.data.decode(errors="replace")
    found = attempt(TEXTS[name], text, name)
    if isinstance(found, Failed):
        return found
    value: Any = TEXTS[name](text, name)
    if name == "leader-epoch-checkpoint":
        same(
            checkpoints.read_leader_epochs(checkpoints.leader_epochs_text(value)),
            value,
            "epochs, written and read again",
        )
        believed = leader_epochs.believable_epochs(value)
        check(all(a < b for a, b in itertools.pairwise(believed)), "epochs rise")
        for epoch in (-1, 0, 1, 5):
            leader_epochs.end_offset_for(believed, epoch, 100)
    elif name == "meta.properties":
        same(
            checkpoints.read_meta_properties(checkpoints.meta_properties_text(value)),
            value,
            "properties, written and read again",
        )
    elif name.endswith("checkpoint"):
        text = attempt(
            checkpoints.offset_checkpoint_text, value, also=(ValueError,)
        )  # names that brokers do not accept are never written
        if not isinstance(text, Failed):
            same(checkpoints.read_offset_checkpoint(text, name), value, "offsets, written and read again")
    return found


def names_case(chance: Random) -> Case:
    parts = ("orders", "-", "-", "0", "12", ".", "delete", "stray", "future", "0" * 20, ".log", ".snapshot", "\n", "é", "-1", "²", "٣",
             "9" * 20, "2147483648", "__x", "..")  # fmt: skip
    return Case({"name": "".join(chance.choice(parts) for _ in range(chance.randrange(1, 7)))})


@target("names", names_case, quick=100)
def partition_names(case: Case) -> Any:
    name = case.params["name"]
    parsed = names.parse_partition_name(name)
    if parsed.parsed and parsed.state == "live":
        check(name.startswith(parsed.topic) and 0 <= parsed.partition < 2**31, f"{name!r} is {parsed}")
    return [list(parsed), names.base_offset_of(name), names.snapshot_offset_of(name)]
