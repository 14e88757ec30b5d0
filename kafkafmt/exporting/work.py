"""Store the state of each partition during an export, and decide which parts of it are exported again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..log import Damage, PartitionLog, SegmentFile
from ..log.damage import SegmentPlan
from ..log.reading import OffsetInterval
from ..log.transactions import Doubt
from ..spark.source.pieces import Piece
from ..spark.source.splits import Split, make_splits, may_hold, stable_part
from .bundles import Bundle
from .tasks import BundleResult, Manifest

Key = tuple[str, int]
"""A topic and a partition number."""


@dataclass
class Work:
    log: PartitionLog
    interval: OffsetInterval
    """Range of offsets to export."""
    topic_id: str | None = None
    """Topic id when the export started. None if it is not known."""
    planned: dict[str, SegmentPlan] = field(default_factory=dict)
    """Plans (valid batches and damage) of segments that could not be exported in one pass, by file name."""
    exported: list[tuple[Split, Manifest]] = field(default_factory=list)
    """The exported splits (ranges of the partition), with counts and damage."""
    files: list[tuple[int, int]] = field(default_factory=list)
    """Number of records and bytes for each file. The size of a file is divided among its partitions."""
    damaged: list[Damage] = field(default_factory=list)

    @property
    def segments(self) -> list[SegmentFile]:
        """Segments that may contain records in the offset range to export."""
        return [s for s in self.log.segments if may_hold(s, self.interval)]

    @property
    def splits(self) -> list[Split]:
        """The exported splits (ranges of the partition)."""
        return [split for split, _ in self.exported]

    @property
    def manifests(self) -> list[Manifest]:
        """Results for each exported split (range of the partition), such as counts and damage."""
        return [manifest for _, manifest in self.exported]

    @property
    def next_offset(self) -> int:
        """Offset at which the next export continues: after the last batch, and at most the last stable offset."""
        ends = [e.last_offset + 1 for s in self.splits for p in s.pieces for e in p.runs]
        end = min(max(ends, default=self.interval.low), self.interval.high)
        if self.interval.committed:
            end = min(end, self.log.open_transactions.last_stable_offset)
        return max(end, self.interval.low)

    @property
    def doubts(self) -> Sequence[Doubt]:
        """Transactions with an unknown outcome that contain selected records."""
        if not self.interval.committed or not self.log.knows_transactions:
            return []
        return self.log.transactions.within(self.interval.low, self.interval.high - 1).doubts

    def unread(self, piece: Piece) -> Piece:
        """Return a copy of a piece (a part of a segment), so that the piece can be exported again."""
        # The plan is kept if a task has planned the complete segment. The transactions in the
        # piece's offsets are added if they are known.
        transactions = piece.transactions
        if self.interval.committed and self.log.knows_transactions:
            transactions = self.log.transactions.within(piece.segment.base_offset or 0, piece.last_offset)
        plan = piece.plan if piece.segment.name in self.planned else None
        return replace(piece, plan=plan, transactions=transactions)

    def lost(self) -> list[Damage]:
        """Return the selected offsets that no file contains."""
        losses, found = self.log.losses, list[Damage | None]()
        for plan in self.planned.values():
            self.log.keep_plan(plan)
        for plan in self.plans():
            runs = plan.runs
            if runs and not runs[0].position:
                found.append(losses.before(plan.segment, runs[0].first_offset))
            found.append(losses.after(plan.segment, runs[-1].last_offset + 1 if runs else -1))
        interval = stable_part(self.log, self.interval)
        return [d for one in [*found, losses.at_end()] for d in interval.overlapping(one)]

    def plans(self) -> list[SegmentPlan]:
        """Return the plan of each segment, from planning tasks and the batches that export tasks have confirmed."""
        # If two tasks read the same offset, raise OSError.
        plans = {s.name: self.planned.get(s.name) or SegmentPlan(s, 0, [], [], []) for s in self.segments}
        runs = {name: list(plan.runs) for name, plan in plans.items()}
        for confirmed in (plan for manifest in self.manifests for plan in manifest.plans):
            plan = plans[confirmed.segment.name]
            plan.size = max(plan.size, confirmed.size)
            runs[confirmed.segment.name] += confirmed.runs
        for name, plan in plans.items():
            plan.runs = sorted(runs[name], key=lambda e: e.first_offset)
            for before, after in itertools.pairwise(plan.runs):
                if after.first_offset <= before.last_offset:
                    raise OSError(f"{plan.segment.path}: two tasks delivered offset {after.first_offset}")
        return list(plans.values())


class Works:
    """State of all partitions of an export, and results of the completed bundles (groups of splits)."""

    def __init__(self, works: Iterable[Work]) -> None:
        self.all: list[Work] = list(works)
        self.by_key: dict[Key, Work] = {work.log.directory.key: work for work in self.all}
        self.done: list[tuple[Bundle, BundleResult]] = []

    def __iter__(self) -> Iterator[Work]:
        return iter(self.all)

    def add(self, bundle: Bundle, result: BundleResult) -> None:
        """Add the result of a bundle (a group of splits). Store in the splits which batches are valid."""
        self.done.append((bundle, result))
        for split, manifest in zip(bundle.splits, result.manifests, strict=True):
            confirmed = {plan.segment.name: plan for plan in manifest.plans}
            for piece in split.pieces:
                if piece.plan is None:
                    piece.plan = confirmed.get(piece.segment.name) or SegmentPlan(piece.segment, 0, [], [], [])

    @property
    def exported_offsets(self) -> dict[Key, list[int]]:
        """Maps a topic and a partition number to the sorted first offsets of the splits of all completed bundles."""
        found: dict[Key, list[int]] = {}
        for bundle, _ in self.done:
            for split in bundle.splits:
                found.setdefault((split.topic, split.partition), []).append(split.first_offset)
        return {key: sorted(offsets) for key, offsets in found.items()}

    def unconfirmed(self) -> list[tuple[Work, SegmentFile]]:
        """Return the segments for which a task could not confirm that all batches are valid."""
        names: dict[Key, set[str]] = {}
        for bundle, result in self.done:
            for split, manifest in zip(bundle.splits, result.manifests, strict=True):
                if manifest.unconfirmed:
                    names.setdefault((split.topic, split.partition), set()).update(manifest.unconfirmed)
        return [
            (work, segment)
            for work in self.all
            for segment in work.segments
            if segment.name in names.get(_key(work), ())
        ]

    def take_back(self, planned: Iterable[tuple[Work, SegmentFile]], size: int) -> list[Split]:
        """Discard the results of all tasks that exported one of these planned segments."""
        # Return splits to export again. The splits contain only the valid batches of each segment,
        # and have about `size` bytes.
        segments = {(*_key(work), segment.name): (work, segment) for work, segment in planned}

        def is_planned(piece: Piece) -> bool:
            return (*piece.directory.key, piece.segment.name) in segments

        taken = [b for b, _ in self.done if any(is_planned(p) for s in b.splits for p in s.pieces)]
        numbers = {bundle.number for bundle in taken}
        self.done = [(b, r) for b, r in self.done if b.number not in numbers]
        splits = [
            split
            for work, segment in segments.values()
            for split in make_splits(work.log, [work.planned[segment.name]], work.interval, size)
        ]
        for split in (split for bundle in taken for split in bundle.splits):
            for planned_now, pieces in itertools.groupby(split.pieces, is_planned):
                if not planned_now:
                    splits.append(
                        replace(split, pieces=[self.by_key[piece.directory.key].unread(piece) for piece in pieces])
                    )
        return sorted(splits, key=lambda s: (s.topic, s.partition, s.first_offset))

    def finish(self) -> None:
        """Assign the results and files of all bundles (groups of splits) to the partitions."""
        for bundle, result in self.done:
            for split, manifest in zip(bundle.splits, result.manifests, strict=True):
                self.by_key[split.topic, split.partition].exported.append((split, manifest))
            for file in result.files:
                rows = sum(file.rows.values())
                before = 0
                for partition, count in sorted(file.rows.items()):
                    share = file.bytes * (before + count) // rows - file.bytes * before // rows
                    self.by_key[file.topic, partition].files.append((count, share))
                    before += count


def _key(work: Work) -> Key:
    return work.log.directory.key
