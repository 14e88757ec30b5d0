"""Fuzz the functions that change batches: offset assignment, validation, conversion and recompression."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import kafkafmt

from . import batches, seeds
from .case import Case
from .mutate_batches import mutate_stream, renumbered
from .outcome import Failed, attempt, check, drained, plain, same
from .target import target
from .targets_records import LIMIT, stream_case

ARGUMENTS = (ValueError,)
"""Errors that are raised for offsets that do not fit into 64 bits."""


def assign_case(chance: Random) -> Case:
    params = {
        "next_offset": chance.choice((0, 1, 1000, 2**40, 2**63 - 1, 2**63 - 5, 2**63 - 50)),
        "leader_epoch": chance.choice((None, 0, 9, -1, 2**31 - 1)),
        "check_crc": chance.random() < 0.8,
    }
    return stream_case(chance, **params)


@target("assign-offsets", assign_case, quick=150)
def assign_offsets(case: Case) -> Any:
    """Check that only offsets and leader epochs change, and that a rejected buffer does not change."""
    p, buffer = case.params, bytearray(case.data)
    epoch = p["leader_epoch"]
    end = attempt(
        kafkafmt.records.assign_offsets,
        buffer,
        p["next_offset"],
        epoch,
        check_crc=p["check_crc"],
        max_batch_bytes=LIMIT,
        also=ARGUMENTS,
    )
    if isinstance(end, Failed):
        same(bytes(buffer), case.data, "a rejected buffer")
        return end
    expected = p["next_offset"]
    for before, after in zip(batches.split(case.data), batches.split(bytes(buffer)), strict=True):
        keep = slice(8, 12), slice(16, None)
        same([after[k] for k in keep], [before[k] for k in keep], "bytes that are neither offset nor epoch")
        if before[16] >= 2:
            same(batches.get(after, "base_offset"), expected, "base offset")
            same(
                batches.get(after, "leader_epoch"),
                batches.get(before, "leader_epoch") if epoch is None else epoch,
                "leader epoch",
            )
            expected += batches.get(after, "last_offset_delta") + 1
        else:
            last = batches.get(after, "offset")
            check(last >= expected, f"offset {last} of a message is below {expected}")
            expected = last + 1
    same(end, expected, "the next offset")
    return [end, bytes(buffer)]


NOW = 1_700_000_100_000


def validate_case(chance: Random) -> Case:
    params: dict[str, Any] = {
        "next_offset": chance.choice((0, 7, 2**40, 2**63 - 1, 2**63 - 9)),
        "codec": chance.choice(("producer", "producer", "none", "gzip", "snappy", "lz4", "zstd")),
        "magic": chance.choice((2, 2, 2, 1, 0)),
        "timestamp_type": chance.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        "compacted": chance.random() < 0.3,
        "leader_epoch": chance.choice((-1, 0, 5)),
        "origin": chance.choice(("client", "client", "coordinator", "raft_leader")),
        "check_records": chance.random() < 0.8,
        "before_max_ms": chance.choice((None, None, 10**12, 5)),
        "max_message_bytes": chance.choice((None, None, 1000)),
    }
    if chance.random() < 0.6:  # a client sends one batch, whose base offset is 0
        part = seeds.batch(chance)
        part = renumbered([part])[0] if part[16] >= 2 else part
        return Case(params, {"data": mutate_stream(chance, [part]) if chance.random() < 0.8 else part})
    return stream_case(chance, **params)


@target("validate", validate_case, quick=100)
def validate(case: Case) -> Any:
    """Check that the result is valid, or that a rejected buffer is unchanged."""
    settings = {k: v for k, v in case.params.items() if k != "next_offset" and v is not None}
    start, buffer = case.params["next_offset"], bytearray(case.data)
    found = attempt(
        kafkafmt.records.validate_and_assign_offsets,
        buffer,
        start,
        max_batch_bytes=LIMIT,
        now_ms=NOW,
        also=ARGUMENTS,
        **settings,
    )
    if isinstance(found, Failed):
        same(bytes(buffer), case.data, "a rejected buffer")
        check("no " not in str(found.error) or "settings" not in str(found.error), str(found.error))
        return found
    records, rebuilt, count, first, following, max_timestamp, offset_of_max = found
    if rebuilt:
        same(bytes(buffer), case.data, "a buffer whose records were rebuilt")
    same(first, start, "first offset")
    check(following >= first, f"offsets go from {first} to {following}")
    read, failure = drained(kafkafmt.read_records(records, control=True, max_batch_bytes=LIMIT))
    if case.params["check_records"]:
        same(failure, None, "the result can be read")
        same(len(read), count, "records")
        offsets = [] if has_odd_offsets(records) else [r[0] for r in read]
        check(all(first <= o < following for o in offsets), f"offsets {offsets[:5]} are not in {first} to {following}")
        check(all(a < b for a, b in itertools.pairwise(offsets)), "offsets increase")
        stamped = any(
            batches.get(b, "attributes") & 8 for b in batches.split(case.data) if len(b) > 22
        )  # Kafka accepts batches in which a client has set LogAppendTime
        if offset_of_max >= 0 and offsets and case.params["timestamp_type"] == "CreateTime" and not stamped:
            stamps = {r[0]: r[1] for r in read}
            same(stamps.get(offset_of_max), max_timestamp, f"the timestamp at offset {offset_of_max}")
    return [*map(plain, found)]


def has_odd_offsets(records: Any) -> bool:
    """Return whether a broker would append batches whose offset deltas do not increase, or are outside their headers."""
    for batch in kafkafmt.iter_batches(records):
        offsets = [batch.base_offset - 1, *(r.offset for r in batch.records(max_batch_bytes=LIMIT))]
        if batch.magic == 2 and any(not a < b <= batch.last_offset for a, b in itertools.pairwise(offsets)):
            return True
    return False


def convert_case(chance: Random) -> Case:
    params = {
        "magic": chance.choice((0, 1, 2)),
        "down": chance.random() < 0.9,
        "up": chance.random() < 0.9,
        "codec": chance.choice((None, None, "none", "gzip", "snappy", "lz4", "zstd")),
        "start": chance.choice((None, None, 0, 3)),
        "max_bytes": chance.choice((16384, 200, 1)),
    }
    return stream_case(chance, **params)


@target("convert", convert_case, quick=60)
def convert(case: Case) -> Any:
    """Check that records keep their offsets, keys and values, unless they are reported as lost."""
    made = attempt(kafkafmt.records.convert, case.data, max_batch_bytes=LIMIT, also=ARGUMENTS, **case.params)
    if isinstance(made, Failed):
        return made
    data, converted, kept, lost = made
    before, failure = drained(kafkafmt.read_records(case.data, control=True, max_batch_bytes=LIMIT))
    after, wrong = drained(kafkafmt.read_records(data, control=True, max_batch_bytes=LIMIT))
    if failure is None:
        same(wrong, None, "the converted records can be read")
        gone = {"control_batches", "below_start"} & {name for name, _ in lost}
        if not gone:
            same([_kept(r) for r in after], [_kept(r) for r in before], "offsets, keys and values")
    return [data, converted, kept, lost]


def _kept(record: list[Any]) -> Any:
    return record[0], record[3], record[4]


def recompress_case(chance: Random) -> Case:
    codec = chance.choice(("none", "gzip", "snappy", "lz4", "zstd"))
    return stream_case(chance, codec=codec)


@target("recompress", recompress_case, quick=60)
def recompress(case: Case) -> Any:
    """Check that no record changes."""
    made = attempt(kafkafmt.records.recompress, case.data, case.params["codec"], max_batch_bytes=LIMIT, also=ARGUMENTS)
    if isinstance(made, Failed):
        return made
    before, failure = drained(kafkafmt.read_records(case.data, control=True, max_batch_bytes=LIMIT))
    after, wrong = drained(kafkafmt.read_records(made[0], control=True, max_batch_bytes=LIMIT))
    if failure is None:
        same(wrong, None, "the recompressed records can be read")
        same(after, before, "records")
    same([len(made[0]), len(case.data)], [made[2], made[1]], "sizes")
    return made
