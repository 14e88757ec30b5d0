"""Find the valid batches of each replica of a partition, and decide which batches a merge may use.

Replicas can diverge after an unclean leader election, or if a broker fails before its followers
have fetched its last batches. A merge treats the replica with the latest leader epoch as the
leader. Every other replica contributes only the offsets that it would keep as a follower of this
leader (KIP-101, KIP-279).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...constants import MAGIC_V2, MAX_OFFSET, NO_END
from ...types import IntArray, distinct
from ..damage import DamageColumns
from ..findings import Damage
from ..formats import HIGH_WATERMARKS, Epochs, common_end, joined_epochs, trusted_epochs
from ..reading import MISSING_END, BatchDamage, PartitionLog, without_losses
from .salvage_pieces import holes_of, offsets_of

HEADER = np.dtype(
    [
        ("first", "i8"),
        ("last", "i8"),
        ("position", "i8"),
        ("count", "i8"),
        ("shift", "i8"),
        ("size", "i4"),
        ("epoch", "i4"),
        ("crc", "u4"),
        ("segment", "i4"),
        ("replica", "i2"),
        ("magic", "i1"),
        ("corrupted", "?"),
    ],
    align=True,
)
"""NumPy dtype of the batch headers of several replicas.

- `first`, `last`: the first and the last offset of the batch
- `position`, `size`: the position and the size of the batch in its segment file, in bytes
- `segment`: index into `Replica.log.segments`
- `replica`: index into the list of replicas
- `shift`: what must be added to the base offset in the batch header, because it is corrupted. Usually 0
- `corrupted`: whether the base offset or the leader epoch in the batch header is corrupted
"""
Headers = npt.NDArray[np.void]  # NumPy array with dtype HEADER
Ranges = list[tuple[int, int]]
"""Ranges of offsets: pairs of the first and the last offset, in ascending order, without overlaps."""


@dataclass
class Replica:
    """A replica of a partition, with its valid batches, damage and leader epochs."""

    log: PartitionLog
    damaged: Sequence[Damage]
    headers: Headers  # valid batches, in offset order
    epochs: Epochs = field(default_factory=list)  # with their first offsets
    end: int = 0  # log end offset
    usable_end: int = 0  # exclusive; below `end` if the replica has diverged from the leader

    @property
    def path(self) -> str:
        return str(self.log.directory.path)

    @property
    def checkpoint(self) -> Epochs:
        """The leader epochs in the `leader-epoch-checkpoint` file of the replica. Empty if there is no such file."""
        return self.log.leader_epoch_checkpoint or []

    @property
    def start(self) -> int:
        """Base offset of the first segment. If its name contains no offset, the offset of the first valid batch."""
        first = self.log.segments[0].base_offset if self.log.segments else None
        if first is None:
            first = int(self.headers["first"][0]) if len(self.headers) else 0
        return first

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch of the replica, or -1 if the replica has no leader epochs."""
        return self.epochs[-1][0] if self.epochs else -1

    @property
    def diverged(self) -> bool:
        """Whether the replica's last batches contradict the leader. A merge does not use such batches."""
        return self.usable_end < self.end

    def usable_headers(self) -> Headers:
        """Return the valid batches whose last offset is below `usable_end`."""
        return self.headers[self.headers["last"] < self.usable_end]

    def valid_ranges(self) -> Ranges:
        """Return the offset ranges without lost records. Records that compaction removed do not count as lost."""
        rows = self.usable_headers()
        if not self.log.compacted:
            return joined_ranges(rows["first"], rows["last"])
        whole = [(self.start, self.usable_end - 1)] if self.start < self.usable_end else []
        return without_ranges(whole, self.damaged_ranges())

    def damaged_ranges(self) -> Ranges:
        """Return the offset ranges that may be lost because of damage."""
        lost = DamageColumns.of(self.damaged)
        return joined_ranges(np.maximum(lost.first, self.start)[~lost.empty], lost.last[~lost.empty])


def joined_ranges(firsts: IntArray, lasts: IntArray) -> Ranges:
    """Merge ranges of offsets that overlap or are adjacent."""
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], lasts[order]
    firsts, lasts = firsts[lasts >= firsts], lasts[lasts >= firsts]
    if not len(firsts):
        return []
    reached = np.maximum.accumulate(lasts)
    begins = np.flatnonzero(np.concatenate(([True], firsts[1:] - 1 > reached[:-1])))
    ends = np.append(begins[1:], len(firsts)) - 1
    return list(zip(firsts[begins].tolist(), reached[ends].tolist(), strict=True))


def without_ranges(ranges: Ranges, removed: Ranges) -> Ranges:
    """Remove the offset ranges `removed` from the offset ranges `ranges`."""
    left: Ranges = []
    at = 0
    for range_first, range_last in ranges:
        start = range_first
        while at and removed[at - 1][1] >= start:
            at -= 1
        while at < len(removed) and removed[at][0] <= range_last:
            first, last = removed[at]
            if start < first:
                left.append((start, first - 1))
            start = max(start, last + 1)
            at += 1
        if start <= range_last:
            left.append((start, range_last))
    return left


def read_replica(log: PartitionLog, damaged: Sequence[Damage]) -> Replica:
    """Read the headers of all valid batches, outside the damage that was found. OSError: a segment has changed."""
    numbers = {segment.name: i for i, segment in enumerate(log.segments)}
    holes = holes_of(without_losses(damaged))
    changed = BatchDamage()
    tables: list[Headers] = []
    for part in log.parts(0, NO_END, changed):
        if changed.found:
            break
        rows = np.zeros(len(part.table), HEADER)
        rows["first"], rows["last"], rows["count"] = offsets_of(part.buffer, part.table, log.max_batch_bytes)
        rows["position"] = part.table["position"] + part.position
        for name in ("size", "crc", "magic"):
            rows[name] = part.table[name]
        rows["epoch"] = np.where(part.table["magic"] >= MAGIC_V2, part.table["leader_epoch"], -1)
        rows["segment"] = numbers[part.plan.segment.name]
        keep = rows["first"] <= rows["last"]
        cuts = holes.get(part.plan.segment.name)
        if cuts is not None:
            following = np.searchsorted(cuts[:, 1], rows["position"], "right")
            starts = np.append(cuts[:, 0], np.iinfo(np.int64).max)[following]
            keep &= starts >= rows["position"] + rows["size"]
        tables.append(rows[keep])
    if changed.found:
        path = str(log.directory.path / changed.found[0].file)
        raise OSError(errno.EIO, f"the file changed while it was salvaged ({changed.found[0].message})", path)
    headers = np.concatenate(tables) if tables else np.zeros(0, HEADER)
    headers = headers[np.argsort(headers["first"], kind="stable")]
    return Replica(log, damaged, headers, end=log.next_offset)


def _groups(*keys: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Sort and group rows that are equal in all keys but the first. Return the order and the bounds of each group."""
    order = np.lexsort(keys)
    differs = np.ones(len(order), bool)
    differs[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys[1:]], axis=0)
    starts = np.flatnonzero(differs)
    return order, starts, np.append(starts[1:], len(order))


def _confirmed(replica: Replica, marks: Sequence[int]) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Return the base offset of each batch, and whether a neighbour, the file name or a high watermark confirms it."""
    # If the last batch does not continue the previous one, although nothing between them is damaged, and the offset
    # that continues it ends the batch at a high watermark, this offset is returned.
    rows = replica.headers
    firsts = rows["first"].copy()
    expected = np.concatenate(([replica.start], rows["last"] + 1))[:-1]
    bases = np.array([-1 if s.base_offset is None else s.base_offset for s in replica.log.segments], np.int64)
    found = (firsts == expected) | (firsts == bases[rows["segment"]])
    found[:-1] |= rows["last"][:-1] + 1 == firsts[1:]
    if not found[-1:].all():
        end = expected[-1] + rows["last"][-1] + 1 - firsts[-1]
        if end in marks and all((d.last_offset or -1) < expected[-1] for d in replica.damaged):
            firsts[-1], found[-1] = expected[-1], True
    return firsts, found


def _repair_offsets(replicas: Sequence[Replica]) -> None:
    """Replace the offset of a batch if another replica, or the high watermark, proves that it is corrupted."""
    # The CRC of a batch does not cover its base offset. An unconfirmed batch gets the offset at which another replica
    # has it. If no replica confirms an offset, one that continues any batch is used, otherwise the lowest.
    rows = np.concatenate([r.headers for r in replicas])
    if not len(rows):
        return
    rows["replica"] = np.repeat(np.arange(len(replicas)), [len(r.headers) for r in replicas])
    marks = [r.log.directory.checkpoints.get(HIGH_WATERMARKS, 0) for r in replicas]
    found = [_confirmed(r, marks) for r in replicas]
    firsts, confirmed = (np.concatenate(columns) for columns in zip(*found, strict=True))
    if (confirmed & (firsts == rows["first"])).all():
        return
    runs = rows["last"] - rows["first"]
    continues = np.isin(firsts, rows["last"] + 1)
    order, starts, ends = _groups(firsts, *(rows[n] for n in ("count", "size", "magic", "crc")), runs)
    differing = firsts[order[starts]] != firsts[order[ends - 1]]
    for start, end in zip(starts[differing].tolist(), ends[differing].tolist(), strict=True):
        same = order[start:end]
        if len(distinct(rows["replica"][same])) < len(same):
            continue  # the log itself contains equal batches
        known, doubtful = same[confirmed[same]], same[~confirmed[same]]
        if not len(known):
            known = np.append(same[continues[same]], same)[:1]
        if len(distinct(firsts[known])) == 1:
            firsts[doubtful] = firsts[known[0]]
    rows["shift"] = firsts - rows["first"]
    for i, replica in enumerate(replicas):
        own: Headers = rows[rows["replica"] == i]
        own["first"] += own["shift"]
        own["last"] += own["shift"]
        moved = own[np.argsort(own["first"], kind="stable")]
        if moved["shift"].any() and (moved["first"][1:] > moved["last"][:-1]).all():
            if replica.end == replica.headers["last"][-1] + 1:
                replica.end = max(replica.log.segments[-1].base_offset or 0, int(moved["last"][-1]) + 1)
            replica.headers = moved


def _repair_epochs(replicas: Sequence[Replica]) -> None:
    """Replace corrupted leader epochs in batches that several replicas contain."""
    # The CRC of a batch does not cover its leader epoch. The lowest epoch is used, because a corrupted high epoch would
    # give its replica priority. `trusted_epochs` ignores a corrupted low epoch, because epochs never decrease.
    rows = np.concatenate([r.headers for r in replicas])
    if not len(rows):
        return
    order, starts, ends = _groups(rows["epoch"], *(rows[n] for n in ("magic", "crc", "last", "first")))
    epochs = np.empty(len(rows), np.int32)
    epochs[order] = np.repeat(rows["epoch"][order[starts]], ends - starts)
    start = 0
    for replica in replicas:
        replica.headers["epoch"] = epochs[start : start + len(replica.headers)]
        start += len(replica.headers)


def _runs(headers: Headers) -> list[tuple[int, int, int]]:
    """Return (epoch, first offset, last offset) for each sequence of consecutive batches with the same leader epoch."""
    rows = headers[headers["epoch"] >= 0]
    if not len(rows):
        return []
    starts = np.concatenate(([0], np.flatnonzero(rows["epoch"][1:] != rows["epoch"][:-1]) + 1))
    ends = np.append(starts[1:], len(rows)) - 1
    columns = rows["epoch"][starts], rows["first"][starts], rows["last"][ends]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _cautious_epochs(leader: Replica, replicas: Sequence[Replica]) -> Epochs:
    """Return the leader epochs in the leader's log, each with its earliest possible start offset."""
    # It is exact if a checkpoint contains it. Otherwise, the first batches may be lost, and it is the offset after the
    # last valid batch of the previous epoch.
    exact = {epoch: offset for r in replicas for epoch, offset in {*r.checkpoint} & {*r.epochs}}
    found: Epochs = []
    for epoch, offset in leader.epochs:
        if epoch not in exact and found:
            rows = leader.headers[: np.searchsorted(leader.headers["first"], offset)]
            offset = int(rows["last"][-1]) + 1 if len(rows) else offset
        found.append((epoch, min(offset, exact.get(epoch, offset))))
    return found


def ranked(replicas: Sequence[Replica]) -> list[Replica]:
    """Order replicas by leader epoch and end offset, the leader first. Set the `usable_end` of each replica."""
    # Without leader epochs, only records before the high watermark are used, because such a follower truncates its log
    # to it; if it is also unknown, records before the leader's end offset.
    _repair_offsets(replicas)
    stored = {id(replica): replica.headers["epoch"].copy() for replica in replicas}
    _repair_epochs(replicas)
    for replica in replicas:
        replica.epochs = trusted_epochs(replica.checkpoint, _runs(replica.headers))
    found = sorted(replicas, key=lambda r: (-r.latest_epoch, -r.end, r.path))
    leader = found[0]
    leader.usable_end = leader.end
    epochs = _cautious_epochs(leader, found)
    for replica in found[1:]:
        common = common_end(epochs, leader.end, replica.epochs, replica.end)
        if common is None:
            high_watermark = replica.log.directory.checkpoints.get(HIGH_WATERMARKS, 0)
            common = min(high_watermark if high_watermark > 0 else replica.end, leader.end)
        # usable_end can exceed the log end offset of the leader if the last batches of the leader are lost.
        # The leader epoch checkpoint can still contain the epochs of lost batches.
        replica.usable_end = min(common, replica.end)
    history = np.array(joined_epochs(usable_epochs(r) for r in found), np.int64).reshape(-1, 2)
    for i, (replica, epochs_in_file) in enumerate((r, stored[id(r)]) for r in found):
        replica.headers["replica"] = i
        at = np.searchsorted(history[:, 1], replica.headers["first"], "right") - 1
        wrong = (at >= 0) & (epochs_in_file >= 0)
        if len(history):
            wrong &= epochs_in_file != history[at, 0]
        replica.headers["corrupted"] = wrong | (replica.headers["shift"] != 0)
    return found


def usable_epochs(replica: Replica) -> Epochs:
    """Return the leader epochs of a replica that start at `usable_end` or earlier."""
    return [(epoch, offset) for epoch, offset in replica.epochs if offset <= replica.usable_end]


def damaged_end(replica: Replica) -> tuple[int, int] | None:
    """Return the first offset and the bytes of the damage after the last valid batch, or None."""
    # The end of a diverged replica is not used.
    spans = [d for d in replica.damaged if d.last_offset is None]
    if not spans or replica.diverged:
        return None
    return min([replica.end, *(d.first_offset or 0 for d in spans)]), sum(d.length for d in spans)


def missing_end(replicas: Sequence[Replica], end: int) -> int:
    """Return the end of the offsets that the checkpoints of the replicas contain and the merged log, up to `end`, lacks."""
    spans = (d for replica in replicas if not replica.diverged for d in replica.damaged)
    return max([end, *((d.last_offset or 0) + 1 for d in spans if d.code == MISSING_END)])


def bytes_from(headers: Headers, offset: int) -> int:
    """Return the total size of the batches that start at `offset` or later."""
    return int(headers["size"][headers["first"] >= offset].astype(np.int64).sum())


def lost_ranges(replicas: Sequence[Replica], merged: Headers, start: int, end: int) -> list[tuple[int, int | None]]:
    """Return the ranges of offsets that are valid in no replica, or only in batches that were not chosen."""
    # If a replica's damaged end is larger than the merged log from the first damaged offset (in bytes), all offsets
    # after the merged log are lost (last offset None). Offsets before its first batch are lost only if a replica is
    # damaged there: compaction may have removed them.
    valid = [pair for replica in replicas for pair in replica.valid_ranges()]
    covered = joined_ranges(np.array([v[0] for v in valid], np.int64), np.array([v[1] for v in valid], np.int64))
    missing = without_ranges([(start, end - 1)] if start < end else [], covered)
    if len(merged) and start < merged["first"][0]:
        damaged = [pair for replica in replicas for pair in replica.damaged_ranges()]
        spans = joined_ranges(np.array([d[0] for d in damaged], np.int64), np.array([d[1] for d in damaged], np.int64))
        missing = without_ranges(missing, without_ranges([(start, int(merged["first"][0]) - 1)], spans))
    usable = np.concatenate([replica.usable_headers() for replica in replicas])
    chosen = joined_ranges(merged["first"], merged["last"])
    omitted = without_ranges(joined_ranges(usable["first"], usable["last"]), chosen)
    if omitted:
        both = np.array([*missing, *omitted], np.int64)
        missing = joined_ranges(both[:, 0], both[:, 1])
    lost: list[tuple[int, int | None]] = [*missing]
    for offset, size in filter(None, map(damaged_end, replicas)):
        if bytes_from(merged, offset) < size:
            begins = lost.pop()[0] if lost and lost[-1][1] == end - 1 else end
            lost.append((min(begins, MAX_OFFSET), None))
            break
    return lost
