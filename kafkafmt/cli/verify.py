"""`kafkafmt verify`: what is damaged, what is safe."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import Any

import click

from ..log import PartitionLog
from ..log.verify import verify_partition, verify_report
from .common import (
    EXIT_DAMAGE,
    choose,
    find,
    format_option,
    limit_batch_option,
    may_be_lost,
    options,
    partition_option,
    paths_argument,
    plain,
    progress_bar,
    replicas_option,
    tell,
    topic_option,
)


@click.command(epilog="Example: kafkafmt verify /var/lib/kafka/data --format json > report.json")
@paths_argument
@options(topic_option, partition_option)
@click.option("--shallow", is_flag=True, help="Batches and CRCs only: nothing is decompressed, no record is read.")
@click.option("--strict", is_flag=True, help="Findings fail too.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=cpu_count() or 1, help="Partitions at a time.  [default: one a core]")
@replicas_option
@limit_batch_option
@format_option
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
    """Check every batch, every CRC and every record; report the exact offsets that are lost."""
    chosen = choose(find(paths, replicas), topics, numbers, internal=True)
    logs = [PartitionLog(d, max_batch_bytes=max_batch_bytes, tell=tell) for d in chosen]
    with progress_bar(sum(s.size for log in logs for s in log.segments), "verifying") as bar:

        def check(log: PartitionLog) -> dict[str, Any]:
            return verify_partition(log, shallow, lambda n: bar.update(bar.task_ids[0], advance=n))

        with ThreadPoolExecutor(jobs) as pool:
            report = verify_report(list(pool.map(check, logs)), strict)
    if output_format == "json":
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        _show(report, shallow)
    return 0 if report["ok"] else EXIT_DAMAGE


def _show(report: dict[str, Any], shallow: bool) -> None:
    total = recovered = damage = findings = 0
    for p in report["partitions"]:
        name = f"{p['topic']}-{p['partition']}"
        total += p["bytes"]
        recovered += p["records_recovered"]
        damage += len(p["damaged"])
        findings += len(p["findings"])
        for d in p["damaged"]:
            where = f"{name} {d['file']} at {d['position']}, {d['length']} bytes"
            click.echo(plain(f"DAMAGE   {where}: {d['message']}; {may_be_lost(d)}"))
        for f in p["findings"]:
            click.echo(plain(f"finding  {name} {f['file']}: {f['message']} [{f['error']}]"))
    checked = "batches and CRCs" if shallow else "every batch and record"
    click.echo(f"{len(report['partitions'])} partitions, {total:,} bytes: {checked} checked; {recovered:,} records can be read")
    if damage:
        click.echo(f"{damage} damaged spans; all else is intact: `kafkafmt cat --on-error skip` and `kafkafmt export` read it")
    elif findings:
        click.echo(f"no damage; {findings} findings, which keep nothing from being read")
    else:
        click.echo("no damage")
