"""Define reports on partitions: what was checked, what is damaged, and what could not be read.

All classes are frozen. Each `to_dict` returns the JSON object that the command prints. The keys of
these objects are stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...support.notebook import UNKNOWN, html_table
from ...support.report import Report
from ...support.text import counted
from ..findings import Damage, Finding

if TYPE_CHECKING:
    from ..groups import CommittedOffset

EXIT_DAMAGE = 1
EXIT_UNREADABLE = 3


def damage_dict(damage: Damage) -> dict[str, Any]:
    return {
        "file": damage.file,
        "position": damage.position,
        "length": damage.length,
        "first_offset": damage.first_offset,
        "last_offset": damage.last_offset,
        "error": damage.code,
        "message": damage.message,
    }


def remote_dict(remote: tuple[int, int] | None) -> dict[str, Any]:
    """Return the key `remote` of the JSON output, which is present only if offsets are in remote storage."""
    return {} if remote is None else {"remote": {"first_offset": remote[0], "last_offset": remote[1]}}


def finding_dict(finding: Finding) -> dict[str, Any]:
    return {"file": finding.file, "error": finding.code, "message": finding.message}


@dataclass(frozen=True)
class UnreadablePartition:
    """A partition, or a file of a log directory, that could not be read.

    Attributes
    ----------
    topic, partition : str and int, or None
        The topic and the partition number. None for a file that belongs to a whole log directory.
    path : str
        The partition directory, or the file.
    error : str
        The reason why the partition or file could not be read.
    """

    topic: str | None
    partition: int | None
    path: str
    error: str

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as it appears in the JSON output."""
        return asdict(self)


class LostRange(NamedTuple):
    """A range of offsets that cannot be read. It can contain offsets that had no record.

    Attributes
    ----------
    first_offset : int
        The first lost offset.
    last_offset : int or None
        The last lost offset. None if it is not known: then everything from `first_offset` on is lost.
    timestamp_before, timestamp_after : int or None
        Latest timestamp of the valid batch before the range, and timestamp of the first record after
        it, in ms since 1970-01-01 UTC. None if there is no such batch, if it has no timestamp, or if
        the check was shallow.
    """

    first_offset: int
    last_offset: int | None
    timestamp_before: int | None
    timestamp_after: int | None


@dataclass(frozen=True)
class PartitionReport:
    """Statistics and problems of one partition, as reported by `kafkafmt.verify`.

    Attributes
    ----------
    topic, partition : str, int
        The topic and the partition number.
    path : str
        The partition directory.
    segments, batches, bytes : int
        Number of segments, number of batches, and total size of the `.log` files. A wrapper message
        or an uncompressed message of magic 0 or 1 counts as one batch.
    records : int or None
        Sum of `records_recovered` and the number of lost data records. None if the number of lost
        records is unknown.
    records_recovered : int
        Number of data records that can be read, from the log start offset onwards. Control
        records are not counted.
    log_start_offset, next_offset, last_stable_offset : int
        The offsets that a broker would report. `next_offset` is the log end offset.
    damaged : sequence of Damage
        Byte ranges of `.log` files that cannot be read, sorted by file and position. Each `Damage`
        object is created when it is accessed.
    findings : sequence of Finding
        All other problems.
    remote : tuple of (int, int), or None
        First and last offset that are only in remote storage, which is not checked.
    lost : tuple of LostRange
        The ranges of offsets that may be lost, in offset order, and the times around them.
    unread_by : tuple of CommittedOffset
        The committed offsets of the consumer groups that had not read the last lost offset, as far as
        the paths contain ``__consumer_offsets``.
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
    damaged: Sequence[Damage]
    findings: Sequence[Finding]
    remote: tuple[int, int] | None = None
    lost: tuple[LostRange, ...] = ()
    unread_by: tuple[CommittedOffset, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the partition has no damage."""
        return not self.damaged

    @property
    def records_lost(self) -> int | None:
        """Number of data records that were lost. None if the number is unknown."""
        return None if self.records is None else self.records - self.records_recovered

    @property
    def most_records_lost(self) -> int | None:
        """Largest number of data records that can be lost. None if the last lost offset is unknown."""
        if self.records_lost is not None:
            return self.records_lost
        lengths = [None if r.last_offset is None else r.last_offset + 1 - r.first_offset for r in self.lost]
        return None if None in lengths else sum(filter(None, lengths))

    def to_dict(self) -> dict[str, Any]:
        """Return the object for this partition in the JSON output of ``kafkafmt verify``."""
        row = {f.name: getattr(self, f.name) for f in fields(PartitionReport)}
        row["damaged"] = [damage_dict(d) for d in self.damaged]
        row["findings"] = [finding_dict(f) for f in self.findings]
        for name in ("remote", "lost", "unread_by"):
            del row[name]
        if self.lost:
            row["lost"] = [r._asdict() for r in self.lost]
            row["most_records_lost"] = self.most_records_lost
            row["unread_by"] = [{"group": c.group, "offset": c.offset} for c in self.unread_by]
        return row

    def with_findings(self, findings: Sequence[Finding]) -> PartitionReport:
        """Return a copy of the report with additional findings."""
        return replace(self, findings=[*self.findings, *findings]) if findings else self

    def _repr_html_(self) -> str:
        problems = [("damage", d.file, d.code, f"{d.message}; {d.lost}") for d in self.damaged]
        problems += [("finding", f.file, f.code, f.message) for f in self.findings]
        caption = f"{counted(len(self.damaged), 'damaged span')}, {counted(len(self.findings), 'finding')}"
        return partitions_table([self], self.path) + html_table(caption, ("", "file", "error", "message"), problems)


def _lost(report: PartitionReport) -> str:
    most = report.most_records_lost
    return UNKNOWN if most is None else f"{'at most ' if report.records_lost is None else ''}{most:,}"


def partitions_table(partitions: Iterable[PartitionReport], caption: str) -> str:
    """Return an HTML table with one row for each partition."""
    names = ("partition", "records recovered", "records lost", "bytes", "offsets", "damaged spans", "findings")
    rows = [
        (
            f"{p.topic}-{p.partition}",
            f"{p.records_recovered:,}",
            _lost(p),
            f"{p.bytes:,}",
            f"{p.log_start_offset} to {p.next_offset}",
            len(p.damaged),
            len(p.findings),
        )
        for p in partitions
    ]
    return html_table(caption, names, rows)


@dataclass(frozen=True)
class VerifyReport(Report):
    """Reports on partitions, as returned by `kafkafmt.verify`.

    Attributes
    ----------
    partitions : tuple of PartitionReport
        The reports on the partitions, sorted by topic, partition and path.
    unreadable : tuple of UnreadablePartition
        Partitions that could not be read. `partitions` does not contain them.
    strict : bool
        Whether findings count as failures.
    shallow : bool
        Whether only batch headers and CRCs were checked.
    messages : tuple of str
        Other messages, such as messages about files that retention deleted during the run. They are
        not part of the JSON output.
    """

    command = "verify"

    partitions: tuple[PartitionReport, ...]
    unreadable: tuple[UnreadablePartition, ...] = ()
    strict: bool = False
    messages: tuple[str, ...] = ()
    shallow: bool = False

    @property
    def damaged(self) -> bool:
        """Whether any partition has damage. If `strict` is True, findings count as damage."""
        return any(p.damaged or (self.strict and p.findings) for p in self.partitions)

    @property
    def ok(self) -> bool:
        """Whether everything could be read and nothing is damaged.

        If `strict` is True, findings count as damage.
        """
        return not self.damaged and not self.unreadable

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt verify``: 0 if `ok`, 3 if something could not be read, else 1."""
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
    """Return a dict with the unreadable partitions for a report, or an empty dict if all were readable."""
    return {"unreadable": [u.to_dict() for u in unreadable]} if unreadable else {}


def report_html(partitions: Sequence[PartitionReport], unreadable: Sequence[UnreadablePartition]) -> str:
    """Return the HTML tables of a report. Partitions with damage come first."""
    damaged = sum(bool(p.damaged) for p in partitions)
    caption = f"{counted(len(partitions), 'partition')}, {damaged} of them damaged, {len(unreadable)} unreadable"
    tables = partitions_table(sorted(partitions, key=lambda p: -len(p.damaged)), caption)
    if unreadable:
        tables += html_table("unreadable", ("path", "error"), [(u.path, u.error) for u in unreadable])
    return tables
