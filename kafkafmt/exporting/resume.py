"""Read the reports of earlier runs of an export. A run with `resume` then adds only new records.

Each run stores a report in the output directory. The latest report is `report.json`, and earlier
reports are in the directory `reports`. A report contains the offset at which the next run
continues, for each partition.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..log import PartitionLog
from ..log.reading import OffsetInterval
from ..support.text import offset_range, plain, shown
from .errors import REMEDY, ResumeError
from .layout import OutputLayout
from .options import ExportOptions

Key = tuple[str, int]
"""A topic and a partition number."""

SAME_OPTIONS = ("isolation", "columns", "partition_by", "join_small")
"""Options that must have the same values in all runs of an export, because they affect the content of the files."""
DECODE_OPTIONS = ("decode", "schema", "framing", "layout")
"""Further such options. A report contains them only if keys or values were decoded."""


@dataclass(frozen=True)
class EarlierRuns:
    """The earlier runs of an export. The keys of its dicts are topic and partition number."""

    runs: int = 0
    next_offsets: dict[Key, int] = field(default_factory=dict)  # where the next run continues
    # messages about transactions that earlier runs omitted in doubt
    omitted: dict[Key, list[str]] = field(default_factory=dict)
    topic_ids: dict[Key, str] = field(default_factory=dict)  # the latest known ids

    def after(
        self,
        log: PartitionLog,
        topic_id: str | None,
        interval: OffsetInterval,
        below_log_start: bool,
        on_message: Callable[[str], None],
    ) -> OffsetInterval:
        """Return the part of `interval` that no earlier run has exported. It starts where the earlier run ended."""
        # If the log now starts at a higher offset, and `below_log_start` is False, the result
        # starts there, and `on_message` is called; it also gets the messages in `omitted`.
        # ResumeError: the log ends before the earlier run's end, or has another topic id.
        known = self.next_offsets.get(log.directory.key)
        if known is None:
            return interval
        name = f"{log.topic}-{log.partition}"
        earlier_id = self.topic_ids.get(log.directory.key)
        if None not in (topic_id, earlier_id) and topic_id != earlier_id:
            raise ResumeError(
                f"the topic of {name} was deleted and created again: its topic id is {topic_id}, but the output contains "
                f"records of the topic with the id {earlier_id}; {REMEDY}"
            )
        if log.next_offset < known:
            raise ResumeError(
                f"{name} ends at offset {log.next_offset}, but the output contains offsets up to {known}: the log was "
                f"truncated, or it is another log; {REMEDY}"
            )
        for message in self.omitted.get(log.directory.key, ()):
            on_message(f"{name}: {message}")
        low = known if below_log_start else max(known, log.log_start_offset)
        if low > known:
            on_message(f"{name}: retention removed {offset_range(known, low - 1)}, which no earlier run has exported")
        return replace(interval, low=low, high=max(interval.high, low))


def read_earlier_runs(output: Path, options: ExportOptions) -> EarlierRuns:
    # ResumeError: a report is missing, unreadable or has other `SAME_OPTIONS`.
    layout = OutputLayout(output)
    if not Path(layout.success).is_file():
        raise ResumeError(f"{plain(str(output))} contains no complete export, so it cannot be resumed; {REMEDY}")
    latest = _read(Path(layout.report))
    given = options.to_dict()
    for name in SAME_OPTIONS + DECODE_OPTIONS:
        before, now = latest["options"].get(name), given.get(name)
        if before != now:
            raise ResumeError(
                f"the earlier runs had {name} = {shown(before)}, not {shown(now)}; use the same value, or another output"
            )
    runs = int(latest["run"]) + 1
    offsets: dict[Key, int] = {}
    omitted: dict[Key, list[str]] = {}
    topic_ids: dict[Key, str] = {}
    for report in (*(_read(Path(layout.earlier_report(n))) for n in range(runs - 1)), latest):
        offsets |= {(p["topic"], p["partition"]): p["next_offset"] for p in report["partitions"]}
        for p in report["partitions"]:
            if p.get("topic_id") is not None:
                topic_ids[p["topic"], p["partition"]] = p["topic_id"]
            omitted.setdefault((p["topic"], p["partition"]), []).extend(map(_omitted, p["in_doubt"]))
    return EarlierRuns(runs, offsets, omitted, topic_ids)


def _omitted(doubt: dict[str, Any]) -> str:
    offsets = offset_range(doubt["first_offset"], doubt["last_offset"])
    return (
        f"an earlier run omitted the records of producer {doubt['producer_id']} at {offsets}, because the outcome of their "
        "transaction was not known; a resumed export never adds them; to add them, export everything to another output"
    )


def _read(path: Path) -> dict[str, Any]:
    """Read the report of an export. Raise ResumeError if the file is not such a report."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        _ = report["run"], [(p["topic"], p["partition"], p["next_offset"]) for p in report["partitions"]]
        _ = [list(map(_omitted, p["in_doubt"])) for p in report["partitions"]]
        _ = [report["options"][name] for name in SAME_OPTIONS]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(
            f"{plain(str(path))} is not the report of an export that can be resumed ({shown(error)}); {REMEDY}"
        ) from error
    return report  # type: ignore[no-any-return]
