"""Reports on partitions: what was checked, what is damaged, and what could not be read.

All classes are frozen. `to_dict` gives the stable JSON of the command, key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ...notebook import html_table
from ..reading.models import Damage, Finding

REPORTED = tuple(f.name for f in fields(Damage) if f.name != "records")
"""Fields of a damaged span in the JSON."""
EXIT_DAMAGE = 1
EXIT_UNREADABLE = 3


def damage_dict(damage: Damage) -> dict[str, Any]:
    """Return a damaged span as the JSON has it."""
    return {name: getattr(damage, name) for name in REPORTED}


@dataclass(frozen=True)
class UnreadablePartition:
    """A partition, or a file of a log directory, that could not be read.

    Attributes
    ----------
    topic, partition : str and int, or None
        None if the file belongs to a whole log directory.
    path : str
        The partition's directory, or the file.
    error : str
        The reason.
    """

    topic: str | None
    partition: int | None
    path: str
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class PartitionReport:
    """What `kafkafmt.verify` found in one partition.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    path : str
        Its directory.
    segments, batches, bytes : int
        Counts of the `.log` files as stored. A wrapper message counts as one batch. So does a plain
        message of magic 0 or 1.
    records : int or None
        `records_recovered` plus the records known to be lost. None if a damaged span leaves the
        number unknown.
    records_recovered : int
        Data records (no control records) from the log start offset on that can be delivered.
    log_start_offset, next_offset, last_stable_offset : int
        The offsets that a broker would report. `next_offset` is the log end offset.
    damaged : tuple of Damage
        Spans of `.log` files that cannot be delivered, by file and position.
    findings : tuple of Finding
        All other problems.
    """

    topic: str
    partition: int
    path: str
    segments: int
    batches: int
    records: int | None
    records_recovered: int
    bytes: int
    log_start_offset: int
    next_offset: int
    last_stable_offset: int
    damaged: tuple[Damage, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether the partition has no damage."""
        return not self.damaged

    @property
    def records_lost(self) -> int | None:
        """Number of data records known to be lost; None if it is unknown."""
        return None if self.records is None else self.records - self.records_recovered

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of one partition in the verify report."""
        row = {f.name: getattr(self, f.name) for f in fields(PartitionReport)}
        row["damaged"] = [damage_dict(d) for d in self.damaged]
        row["findings"] = [asdict(f) for f in self.findings]
        return row

    def with_damage(self, damaged: Iterable[Damage], records: int) -> PartitionReport:
        """Return this report with more damaged spans, in which `records` data records were counted as recovered."""
        spans = sorted([*self.damaged, *damaged], key=lambda d: (d.file, d.position))
        return replace(self, damaged=tuple(spans), records_recovered=self.records_recovered - records)

    def _repr_html_(self) -> str:
        problems = [("damage", d.file, d.error, f"{d.message}; {d.lost}") for d in self.damaged]
        problems += [("finding", f.file, f.error, f.message) for f in self.findings]
        caption = f"{len(self.damaged)} damaged spans, {len(self.findings)} findings"
        return partitions_table([self], self.path) + html_table(caption, ("", "file", "error", "message"), problems)


def partitions_table(partitions: Iterable[PartitionReport], caption: str) -> str:
    """Return an HTML table with one row for each partition."""
    names = ("partition", "records recovered", "records lost", "bytes", "offsets", "damaged spans", "findings")
    rows = [
        (
            f"{p.topic}-{p.partition}",
            f"{p.records_recovered:,}",
            "unknown" if p.records_lost is None else f"{p.records_lost:,}",
            f"{p.bytes:,}",
            f"{p.log_start_offset} to {p.next_offset}",
            len(p.damaged),
            len(p.findings),
        )
        for p in partitions
    ]
    return html_table(caption, names, rows)


@dataclass(frozen=True)
class VerifyReport:
    """The result of `kafkafmt.verify`.

    Attributes
    ----------
    partitions : tuple of PartitionReport
        By topic, partition and path.
    unreadable : tuple of UnreadablePartition
        Partitions that could not be read. They are not among `partitions`.
    strict : bool
        Whether findings count as failures.
    messages : tuple of str
        Other messages, such as about a file that retention removed during the run. The JSON does
        not have them.
    """

    partitions: tuple[PartitionReport, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    strict: bool = False
    messages: tuple[str, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether a partition has damage, or, if `strict`, a finding."""
        return any(p.damaged or (self.strict and p.findings) for p in self.partitions)

    @property
    def ok(self) -> bool:
        """Whether all was read and nothing is damaged. If `strict`, there is no finding either."""
        return not self.damaged and not self.unreadable

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 if `ok`, 3 if something could not be read, else 1."""
        if self.unreadable:
            return EXIT_UNREADABLE
        return EXIT_DAMAGE if self.damaged else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt verify --format json`` prints."""
        report: dict[str, Any] = {"ok": self.ok, "partitions": [p.to_dict() for p in self.partitions]}
        return report | unreadable_dict(self.unreadable)

    def _repr_html_(self) -> str:
        return report_html(self.partitions, self.unreadable)


def unreadable_dict(unreadable: Sequence[UnreadablePartition]) -> dict[str, Any]:
    """Return the key `unreadable` of a report. The JSON has it only if there is an entry."""
    return {"unreadable": [u.to_dict() for u in unreadable]} if unreadable else {}


def report_html(partitions: Sequence[PartitionReport], unreadable: Sequence[UnreadablePartition]) -> str:
    """Return the tables of a report, partitions with damage first."""
    damaged = sum(bool(p.damaged) for p in partitions)
    caption = f"{len(partitions)} partitions, {damaged} of them damaged, {len(unreadable)} unreadable"
    tables = partitions_table(sorted(partitions, key=lambda p: -len(p.damaged)), caption)
    if unreadable:
        tables += html_table("unreadable", ("path", "error"), [(u.path, u.error) for u in unreadable])
    return tables
