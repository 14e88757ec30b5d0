"""`kafkafmt verify`: what is damaged, what is safe."""

from __future__ import annotations

import shlex
from typing import Any

import click

from ..log import PartitionDir, PartitionLog
from ..log.auditing.verify import verify_partition, verify_report
from ..text import encode_json
from .common import (
    NOTHING_MISSING,
    Unreadable,
    choice_options,
    choose,
    counted,
    find,
    jobs_option,
    may_be_lost,
    paths_argument,
    progress_bar,
    reading_options,
    say,
    show,
    tell,
    workers,
)

SPANS_SHOWN = 10
"""Lost spans of a partition that the summary repeats."""


@click.command(epilog="Example: kafkafmt verify /var/lib/kafka/data --format json > report.json")
@paths_argument
@choice_options
@click.option("--shallow", is_flag=True, help="Batches and CRCs only: nothing is decompressed, no record is read.")
@click.option("--strict", is_flag=True, help="Findings fail too.")
@jobs_option
@reading_options
def verify(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: list[int],
    shallow: bool,
    strict: bool,
    jobs: int,
    replicas: str | None,
    max_batch_bytes: int,
    output_format: str,
) -> int:
    """Check every batch, record, index and checkpoint; report the exact offsets that are lost.

    Damage is what cannot be read (exit 1). Findings are all else worth a line: a lying index, an unfinished tail.
    """
    chosen, unreadable = choose(find(paths, replicas), topics, numbers), Unreadable()
    with progress_bar(sum(s.size for d in chosen for s in d.segments), "verifying") as bar:

        def check(directory: PartitionDir) -> dict[str, Any] | None:
            with unreadable.noting(directory):
                log = PartitionLog(directory, max_batch_bytes=max_batch_bytes, tell=tell)
                return verify_partition(log, shallow, lambda n: bar.update(bar.task_ids[0], advance=n))
            return None

        with workers(jobs) as pool:
            report = unreadable.add_to(verify_report([entry for entry in pool.map(check, chosen) if entry], strict))
    if output_format == "json":
        click.echo(encode_json(report))
    else:
        _show(report, shallow, paths)
    return unreadable.exit_code(report)


REBUILD = "with the broker stopped, delete that segment's .index: a broker then makes all of its indexes anew"
ANEW = "salvage makes it anew; a broker believes it as it is"
ADVICE = {
    "unfinished_tail": "a last batch was never written whole; a broker cuts it off at its start",
    "duplicate_batch": "nothing is lost, but a broker serves it twice; salvage leaves one",
    "batch_out_of_place": "nothing is lost to kafkafmt, but a broker may not find it; salvage puts it in its place",
    "segment_gap": "a segment file is missing: look for it where this copy was made",
    "index_missing": REBUILD,
    "index_length": REBUILD,
    "index_garbage": REBUILD,
    "index_mismatch": REBUILD,
    "index_beyond_end": REBUILD,
    "unreadable_snapshot": "a broker drops it and reads the segments from the snapshot before on",
    "snapshot_mismatch": ANEW,
    "snapshot_beyond_end": "the log has lost its end; a broker goes on without the snapshot",
    "leader_epoch_mismatch": ANEW,
    "checkpoint_beyond_end": "the log has lost its end: another replica, if there is one, knows more",
    "unreadable_checkpoint": ANEW,
    "read_committed_differs": "salvage writes an index and markers that agree; read_uncommitted shows all records",
    "transaction_in_doubt": "read_committed leaves its records out; read_uncommitted shows them",
}
"""What to do about a finding, in a line."""


def _show(report: dict[str, Any], shallow: bool, paths: tuple[str, ...]) -> None:
    show_spans(report)
    partitions = report["partitions"]
    damage, findings = (sum(len(p[kind]) for p in partitions) for kind in ("damaged", "findings"))
    total, recovered = (sum(p[kind] for p in partitions) for kind in ("bytes", "records_recovered"))
    checked = "batches and CRCs" if shallow else "every batch, record and index"
    say(
        f"{counted(len(partitions), 'partition')}, {total:,} bytes: {checked} checked; {recovered:,} records can be read"
    )
    show_lost(report)
    if damage:
        do = "Start no broker here before there is a copy: its recovery drops everything behind the first damage of a log."
        say(
            f"to do    {counted(damage, 'damaged span')}; all else is intact. {do} Where a replica is whole, let it replicate. Else:"
        )
        given = " ".join(shlex.quote(p) for p in paths)
        show(f"         kafkafmt salvage {given} --output NEW    what is intact, for a broker")
        show(f"         kafkafmt cat {given} --on-error skip     what is intact, as records")
    advice: dict[str, list[str]] = {}
    for error in dict.fromkeys(f["error"] for p in partitions for f in p["findings"]):
        if error in ADVICE:
            advice.setdefault(ADVICE[error], []).append(error)
    for text, errors in advice.items():
        say(f"advice   {', '.join(errors)}: {text}")
    if "unreadable" in report:
        say(
            f"unread   {counted(len(report['unreadable']), 'partition')}: what there is to say of them stands above, or in the JSON"
        )
    elif not damage:
        say(
            f"no damage; {counted(findings, 'finding')}, none of which keeps anything from being read"
            if findings
            else "no damage"
        )


def show_spans(report: dict[str, Any]) -> None:
    """Every damaged span and every finding, a line each."""
    for p in report["partitions"]:
        name = f"{p['topic']}-{p['partition']}"
        for d in p["damaged"]:
            where = f"{name} {d['file']} at {d['position']}, {d['length']} bytes"
            say(f"DAMAGE   {where}: {d['message']}; {may_be_lost(d)}")
        for f in p["findings"]:
            say(f"finding  {name} {f['file']}: {f['message']} [{f['error']}]")
    if any(p["damaged"] or p["findings"] for p in report["partitions"]):
        click.echo()


def show_lost(report: dict[str, Any]) -> None:
    """What is lost and what is safe, where there is damage."""
    hurt = [p for p in report["partitions"] if p["damaged"]]
    for p in hurt:
        lost = None if p["records"] is None else p["records"] - p["records_recovered"]
        spans = [
            span for span in dict.fromkeys(map(may_be_lost, p["damaged"])) if span != NOTHING_MISSING
        ]  # neighbours share one
        if spans:
            known = "their number is unknown" if lost is None else counted(lost, "record")
            firsts = "; ".join(span.removesuffix(" may be lost") for span in spans[:SPANS_SHOWN])
            more = f" and {len(spans) - SPANS_SHOWN} spans more" if len(spans) > SPANS_SHOWN else ""
            say(f"lost     {p['topic']}-{p['partition']}: {firsts}{more} ({known})")
    if hurt:
        safe, whole = sum(p["records_recovered"] for p in hurt), len(report["partitions"]) - len(hurt)
        partitions = counted(len(hurt), "damaged partition")
        say(f"safe     {safe:,} records of the {partitions}; {counted(whole, 'partition')} without damage")
