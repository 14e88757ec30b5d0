"""Fuzz partition directories. Verifying, reading, following, dumping and salvaging must agree."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

from reports import verify_partition

import kafkafmt
from kafkafmt.log.catalog.discovery import NoLogError
from kafkafmt.log.damage.plan import ReadLimits
from kafkafmt.log.formats.names import base_offset_of
from kafkafmt.log.inspecting import dump_indexes
from kafkafmt.log.inspecting.dump_batches import LogDump
from kafkafmt.log.reading.follow import Follower
from kafkafmt.log.reading.record_selection import Selection

from . import directories
from .case import Case
from .commands import command
from .outcome import Failed, attempt, attempt_raw, check, drained, plain, same
from .target import target
from .work import counted

LIMIT = 1 << 22
WORK_PER_BYTE = 60
"""Bytes of work that are allowed per byte of input. Small inputs are searched several times."""
NO_LOG = (NoLogError, kafkafmt.DuplicatePartitionError)


def directory_case(chance: Random) -> Case:
    files = directories.mutated(chance)
    return Case({"bounds": [chance.randrange(300) for _ in range(4)]}, files)


def opened(root: Path) -> Any:
    """Return the open log, or a Failed if it cannot be opened."""
    return attempt_raw(kafkafmt.open, root, max_batch_bytes=LIMIT, also=NO_LOG)


def fresh(partition: Any) -> Any:
    """Return a new object for the same partition, without cached plans."""
    return type(partition)(partition.log.directory, LIMIT)


def skipping(partition: Any, **selection: Any) -> tuple[list[Any], list[Any]]:
    """Read a partition with on_error="skip", and return the records and the damage."""
    reader = fresh(partition)
    records, failure = drained(reader.records(on_error="skip", **selection))
    same(failure, None, "reading with skip raises no error")
    return records, [(d.file, d.position, d.length) for d in reader.damaged]


@target("directories", directory_case, quick=50)
def reading(case: Case) -> Any:
    """Check that verification, reading, ranges and isolation levels agree about the delivered records."""
    found = []
    with directories.written(case.blobs) as root:
        log = opened(root)
        if isinstance(log, Failed):
            return log
        for partition in [*log.partitions, *log.not_live]:
            size = sum(s.size for s in partition.log.segments)
            with counted() as work:
                report = plain(verify_partition(fresh(partition).log))
            found.append([report_without_path(report), *_agreeing(partition, dict(report), case.params["bounds"])])
            allowed = WORK_PER_BYTE * (size + case.size) + (1 << 20)
            check(
                work.total <= allowed, f"{work} was counted for {size} bytes of segments, which is more than {allowed}"
            )
    return found


def report_without_path(report: list[Any]) -> list[Any]:
    return [pair for pair in report if pair[0] != "path"]


def _agreeing(partition: Any, report: dict[str, Any], bounds: list[int]) -> list[Any]:
    """Read a partition in all ways, and compare the records with its verify report."""
    every, met = skipping(partition)
    offsets = [r[0] for r in every]
    odd = has_odd_offsets(report)
    check(odd or all(a < b for a, b in itertools.pairwise(offsets)), "offsets increase")
    check(odd or all(o >= report["log_start_offset"] for o in offsets), "no record below the log start is delivered")
    same(len(every), report["records_recovered"], "number of records that are delivered, and that verify reports")
    spans = [(dict(d)["file"], dict(d)["position"], dict(d)["length"]) for d in report["damaged"]]
    check(set(met) <= set(spans), f"reading reports damage {met} that verify does not report: {spans}")
    if partition.log_start_offset == (partition.log.segments[0].base_offset or 0 if partition.log.segments else 0):
        same(sorted(met), sorted(spans), "damage that reading and verify report")
    check(
        odd or not offsets or offsets[-1] < report["next_offset"],
        f"offset {offsets[-1:]} is not below {report['next_offset']}",
    )
    _failing(partition, every, spans)
    shallow = dict(plain(verify_partition(fresh(partition).log, shallow=True)))
    check({_span(d) for d in shallow["damaged"]} <= set(spans), "a shallow check reports no additional damage")
    if not spans:
        same(report["records_recovered"], shallow["records_recovered"], "records by decoding and by headers")
    committed, _ = skipping(partition, isolation="read_committed")
    check(_contains(every, committed), "read_committed delivers a subset of all records")
    if odd:  # the offsets of records do not show which batches a range contains
        return [every, committed]
    same(
        [r[0] for r in committed if r[0] >= report["last_stable_offset"]],
        [],
        "committed records from the last stable offset on",
    )
    control, _ = skipping(partition, control=True)
    check(_contains(control, every), "reading with control records delivers all other records")
    for start, end in itertools.pairwise(_borders(offsets, report["next_offset"], bounds)):
        within, damage = skipping(partition, start=start, end=end)
        same([r[0] for r in within], [o for o in offsets if start <= o < end], f"offsets in {start} to {end}")
        same(within, [r for r in every if start <= r[0] < end], f"records in {start} to {end}")
        check(set(damage) <= set(spans), f"damage in {start} to {end}")
    return [every, committed, _lookups(partition, every)]


def has_odd_offsets(report: dict[str, Any]) -> bool:
    return any(dict(finding)["error"] == "odd_record_offsets" for finding in report["findings"])


def _span(damage: list[Any]) -> tuple[str, int, int]:
    named = dict(damage)
    return named["file"], named["position"], named["length"]


def _contains(whole: list[Any], part: list[Any]) -> bool:
    rows = iter(whole)
    return all(any(row == r for r in rows) for row in part)


def _borders(offsets: list[int], next_offset: int, bounds: list[int]) -> list[int]:
    """Return increasing offsets at which ranges begin and end."""
    picked = {offsets[b % len(offsets)] + (b % 3 == 0) for b in bounds} if offsets else set()
    return sorted({0, *picked, max(next_offset, 0)})


def _failing(partition: Any, every: list[Any], spans: list[Any]) -> None:
    """Check that reading with on_error="fail" delivers the records before the first damage."""
    records, failure = drained(fresh(partition).records())
    same(records, every[: len(records)], "records before the first damage")
    if failure is None:
        same(len(records), len(every), "number of records if reading does not fail")
    else:
        check(bool(spans), f"reading fails with {failure}, verify reports no damage")


def _lookups(partition: Any, every: list[Any]) -> list[Any]:
    """Check lookups of times and epochs. A time leads to the offset of a record, or to the log end offset."""
    times = sorted({r[1] for r in every})[:: max(1, len(every) // 3)]
    answers = [attempt(fresh(partition).offset_at, max(t, 0)) for t in [*times[:4], 0, 2**62]]
    answers.append(attempt(lambda: fresh(partition).max_timestamp))
    answers += [attempt(fresh(partition).end_offset_for_epoch, epoch) for epoch in (0, 1, 2**31 - 1)]
    return answers


@target("tables", directory_case, quick=15)
def tables(case: Case) -> Any:
    """Check that Arrow tables contain the records of a partition and are valid for Arrow."""
    found = []
    with directories.written(case.blobs) as root:
        log = opened(root)
        for partition in [] if isinstance(log, Failed) else log.partitions:
            every, _ = skipping(partition)
            table = fresh(partition).to_arrow(on_error="skip")
            table.validate(full=True)
            same(table["offset"].to_pylist(), [r[0] for r in every], "offsets")
            same(table["value"].to_pylist(), [r[4] for r in every], "values")
            found.append(table.num_rows)
    return found


@target("dumps", directory_case, quick=25)
def dumps(case: Case) -> Any:
    """Check that each file is dumped completely, with all valid batches."""
    found = []
    with directories.written(case.blobs) as root:
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            items = _dump(path)
            if items is not None:
                found.append(drained(items))
    return found


def _dump(path: Path) -> Any:
    base = (
        int(path.stem)
        if path.stem.isascii() and path.stem.isdigit() and len(path.stem) == 20 and int(path.stem) < 2**63
        else 0
    )
    if path.suffix == ".log":
        return LogDump(path, base, deep=True, max_batch_bytes=LIMIT).items()
    if path.suffix in (".index", ".timeindex"):
        return itertools.chain(dump_indexes.index_items(path, base), dump_indexes.index_sanity(path, base))
    if path.suffix == ".txnindex":
        return dump_indexes.transaction_items(path)
    return dump_indexes.snapshot_items(path) if path.suffix == ".snapshot" else None


@target("salvage", directory_case, quick=25)
def salvage(case: Case) -> Any:
    """Check that a copy is undamaged and contains exactly the records that on_error="skip" delivers.

    A partition that cannot be indexed is not copied.
    """
    with directories.written(case.blobs) as root:
        log = opened(root)
        target_directory = root.with_name("copy")
        done = command("salvage", root, "-O", target_directory, "-j", 1, "--format", "json", "--max-batch-bytes", LIMIT)
        if isinstance(log, Failed):
            check(done.code in (2, 3), f"salvage without a log exits with {done.code}: {done.err}")
            return done.code
        if done.code == 3 and "the batches cannot be indexed" in done.err:
            return done.code
        check(done.code in (0, 1), f"salvage exits with {done.code}: {done.err}")
        copy = opened(target_directory)
        found = []
        sources = {p.log.directory.key: p for p in log.partitions}
        if isinstance(copy, Failed):
            same(len(sources), 0, "partitions that were not copied")
            return done.code
        for partition in copy.partitions:
            source = sources.pop(partition.log.directory.key)
            found.append(_compare_copy(source, partition))
        same(list(sources), [], "partitions that were not copied")
        return [done.code, found]


def _compare_copy(source: Any, copy: Any) -> Any:
    every, _ = skipping(source)
    copied, damage = skipping(copy)
    same(damage, [], "damage that reading the copy reports")
    same([r[0] for r in copied], [r[0] for r in every], "offsets of the copy")
    same(copied, every, "records of the copy")
    report = dict(plain(verify_partition(fresh(copy).log)))
    same(report["damaged"], [], "damage of the copy")
    wrong = {dict(f)["error"] for f in report["findings"]} - ALLOWED_FINDINGS
    same(sorted(wrong), [], f"findings of the copy: {report['findings']}")
    return [len(copied), report["next_offset"]]


@target("rewrite", directory_case, quick=25)
def rewrite(case: Case) -> Any:
    """Check that a copy contains exactly the records whose keys do not match a pattern."""
    with directories.written(case.blobs) as root:
        log, out = opened(root), root.with_name("copy")
        words = ["--on-error", "skip", "--drop-key-regex", "[13579]", "-j", 1, "--max-batch-bytes", LIMIT]
        done = command("rewrite", root, "-O", out, *words, "--format", "json")
        check(
            done.code in ((2, 3) if isinstance(log, Failed) else (0, 1)), f"rewrite exits with {done.code}: {done.err}"
        )
        if not out.exists():  # damage that cannot be skipped
            check(done.code != 0, "rewrite without a copy exits with 0")
            return done.code
        copy, found = opened(out), []
        for partition in [] if isinstance(copy, Failed) else copy.partitions:
            source = next(p for p in log.partitions if p.log.directory.key == partition.log.directory.key)
            every, _ = skipping(source)
            copied, damage = skipping(partition)
            same(damage, [], "damage that reading the copy reports")
            stays = [r for r in every if r[3] is None or not re.search(rb"[13579]", r[3])]
            same(copied, every if source.topic.startswith("__") else stays, "records of the copy")
            found.append(len(copied))
    return [done.code, found]


ALLOWED_FINDINGS = {
    "transaction_in_doubt",
    "read_committed_differs",
    "max_timestamp_mismatch",
    "odd_record_offsets",
    "odd_codec_end",
    "refused_by_kafka",
}
"""Findings that salvage cannot prevent: missing offsets, and missing ends of transactions."""


def follow_case(chance: Random) -> Case:
    """Return a log that grows in steps, sometimes with damage."""
    files = directories.generated(chance)
    logs = sorted(name for name in files if name.endswith(".log"))
    if chance.random() < 0.5:
        name = chance.choice(logs)
        files[name] = directories._change_log(chance, files[name])
    return Case(
        {"pieces": [chance.random() for _ in range(6)], "committed": chance.random() < 0.3}, {n: files[n] for n in logs}
    )


@target("follow", follow_case, quick=25)
def follow(case: Case) -> Any:
    """Check that following a growing log delivers the records that are read at the end, or reports them."""
    whole = b"".join(case.blobs.values())
    stops = sorted({int(p * len(whole)) for p in case.params["pieces"]} | {len(whole)})
    with directories.written({f"{directories.TOPIC}/{0:020}.log": b""}) as root:
        shutil.rmtree(root / directories.TOPIC)
        _grow(root, case.blobs, stops[0])
        log = opened(root)
        if isinstance(log, Failed):
            return log
        messages: list[str] = []
        isolation = "read_committed" if case.params["committed"] else "read_uncommitted"
        directory = log.partitions[0].log.directory
        follower = Follower(directory, [root], Selection(isolation=isolation), ReadLimits(LIMIT), tell=messages.append)
        damage: list[Any] = []
        delivered = drained(follower.records(damage.append))[0]
        for stop in [*stops[1:], stops[-1], stops[-1]]:
            _grow(root, case.blobs, stop)
            follower.check(always=True)
            more, failure = drained(follower.records(damage.append))
            same(failure, None, "following raises no error")
            delivered += more
        whole_log = opened(root).partitions[0]
        every, _ = skipping(whole_log, isolation=isolation)
        offsets = [r[0] for r in delivered]
        odd = has_odd_offsets(verify_partition(fresh(whole_log).log))
        check(odd or all(a < b for a, b in itertools.pairwise(offsets)), "offsets increase")
        # an incomplete batch at the end of a live file may be completed later, so following waits
        if not damage and not messages and not verify_partition(fresh(whole_log).log)["damaged"]:
            in_doubt = case.params["committed"] and whole_log.log.transactions.doubts
            check(
                not in_doubt or offsets == [r[0] for r in every],
                "a followed log delivers transactions with unknown outcomes",
            )
            same(offsets, [r[0] for r in every], "offsets of the followed log, and of the complete log")
        return [delivered, len(damage)]


def _grow(root: Path, files: dict[str, bytes], size: int) -> None:
    """Write the first `size` bytes of a log to its segments."""
    names = sorted(files, key=lambda n: base_offset_of(Path(n).name) or 0)
    for name in names:
        path = root / name
        path.parent.mkdir(exist_ok=True)
        data = files[name][: max(size, 0)]
        if path.exists() and path.stat().st_size > len(data):
            continue
        with path.open("ab") as file:
            file.write(data[path.stat().st_size :])
        size -= len(files[name])
        if size <= 0:
            break
