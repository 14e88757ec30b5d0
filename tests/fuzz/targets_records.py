"""Fuzz the functions that read batches from buffers, such as `read_records`, `iter_batches` and `to_arrow`."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from decoding import decode_steps, fields, rows_of

import kafkafmt
from kafkafmt.constants import MAX_OFFSET
from kafkafmt.records import reader
from kafkafmt.records.reader import RecordReader, iter_tables
from kafkafmt.types import BATCH_DTYPE, COLUMNS, CopiedColumns, RecordColumns

from . import batches, cores, seeds
from .case import Case, of_bytes
from .mutate_batches import mutate_stream, renumbered
from .outcome import Failed, attempt, attempt_raw, check, drained, plain, same
from .target import target

LIMIT = 1 << 22
"""Largest size of one batch in this module, in bytes after decompression."""


def current_core() -> Any:
    return vars(reader)["core"]


def stream_case(chance: Random, **params: Any) -> Case:
    """Return a buffer of batches, most of them mutated."""
    parts = seeds.stream(chance)
    if chance.random() < 0.5:
        parts = renumbered(parts, chance.choice((0, 0, 5, 2**40, 2**63 - 20)))
    return of_bytes(mutate_stream(chance, parts), **params)


def bounds(chance: Random, size: int) -> tuple[int, int | None]:
    """Return the start and end of a random range in a buffer, usually of the whole buffer."""
    if chance.random() < 0.6:
        return 0, None
    start = chance.randint(0, size)
    return start, chance.choice((None, chance.randint(start, size)))


def scan_case(chance: Random) -> Case:
    case = stream_case(chance)
    start, end = bounds(chance, len(case.data))
    case.params = {"rows": chance.choice((0, 1, 2, 50)), "start": start, "end": end, "check_crc": chance.random() < 0.7}
    return case


@target("scan", scan_case, quick=250)
def scan(case: Case) -> Any:
    core, data, p = current_core(), case.data, case.params
    end = len(data) if p["end"] is None else p["end"]
    table = np.zeros(p["rows"], BATCH_DTYPE)
    found = core.scan_batches(data, table, p["start"], p["end"], p["check_crc"])
    check(p["start"] <= found.position <= end, f"stopped at {found.position}, outside {p['start']} to {end}")
    at = p["start"]
    for row in table[: found.count]:
        same(int(row["position"]), at, "start of a batch, and end of the previous batch")
        check(row["size"] > 0 and row["position"] + row["size"] <= end, f"a batch ends after {end}")
        at += int(row["size"])
    same(found.position, at, "the position after the last batch")
    place = core.find_batch(data, p["start"], p["end"], p["check_crc"])
    check(place is None or p["start"] <= place < end, f"found a batch at {place}, outside {p['start']} to {end}")
    return [table[: found.count].tolist(), found.count, found.position, plain(found.error), place]


def decode_case(chance: Random) -> Case:
    params = {
        "names": [n for n in COLUMNS if chance.random() < 0.8],
        "capacity": chance.choice((1, 2, 7, 100)),
        "header_capacity": chance.choice((0, 1, 3, 40)),
        "room": chance.choice((None, None, 1, 50, 5000)),
        "first": chance.choice((-(2**63), -(2**63), 0, 3, 2**63 - 1)),
        "end": chance.choice((2**63 - 1, 2**63 - 1, 5, 0)),
    }
    return stream_case(chance, **params)


@target("decode", decode_case, quick=150)
def decode(case: Case) -> Any:
    """Decode in random steps, and convert the rows to objects."""
    core, data, p = current_core(), case.data, case.params
    table = np.zeros(50, BATCH_DTYPE)
    found = core.scan_batches(data, table, check_crc=False)
    options = {n: p[n] for n in ("names", "capacity", "header_capacity", "room", "first", "end")}
    steps = [
        (rows, plain(error), cursor)
        for rows, error, cursor in decode_steps(core, data, table[: found.count], **options)
    ]
    columns = RecordColumns(500, p["names"])
    core.decode_records(data, table[: found.count], columns)
    return [steps, [plain(fields(r)) for r in core.make_records(data, columns)]]


def run_case(chance: Random) -> Case:
    case = decode_case(chance)
    case.params |= {"check_crc": chance.random() < 0.8}
    return case


@target("decode-run", run_case, quick=150, compared=False)
def decode_run(case: Case) -> Any:
    """Check that the fast path decodes the same rows as the slow path."""
    if "native" not in cores.available():
        return None
    core, data, p = current_core(), case.data, case.params
    kind = RecordColumns if p["room"] is None else CopiedColumns
    options = (
        p["capacity"] + 20,
        p["names"],
        p["header_capacity"],
        *([] if p["room"] is None else [max(p["room"], 5000)]),
    )
    columns, at = kind(*options), 0
    taken: list[Any] = []
    while True:
        end = core.decode_plain_batches(data, columns, at, None, p["first"], p["end"], p["check_crc"])
        check(at <= end <= len(data), f"decoding moved from {at} to {end} in {len(data)} bytes")
        taken += _without_spans(rows_of(columns), data)
        columns.clear()
        if end == at or not columns.full:
            at = end
            break
        at = end
    table = np.zeros(200, BATCH_DTYPE)
    found = core.scan_batches(data, table, 0, at, p["check_crc"])
    same((found.position, found.error), (at, None), "the fast path decodes complete valid batches")
    rows: list[Any] = []
    for part, error, _ in decode_steps(core, data, table[: found.count], p["names"], 100, 0, p["first"], p["end"]):
        same(error, None, "the fast path decodes valid records")
        rows += _without_spans(part, data)
    same(taken, rows, "the fast path's records")
    return None


def _without_spans(rows: list[Any], data: bytes) -> list[Any]:
    """Return rows in which spans are replaced with their bytes."""

    def inside(span: Any) -> Any:
        return (
            span
            if span is None or isinstance(span, bytes)
            else None
            if span[1] < 0
            else data[span[0] : span[0] + span[1]]
        )

    def headers(spans: Any) -> Any:
        return None if spans is None else [(inside(s[:2]), inside(s[2:])) for s in spans]

    return [(*row[:3], inside(row[3]), inside(row[4]), headers(row[5])) for row in rows]


def read_case(chance: Random) -> Case:
    params = {
        "start": chance.choice((None, None, 0, 1, 5, 2**63 - 1, 2**64)),
        "end": chance.choice((None, None, 0, 3, 2**63 - 1, 2**63)),
        "control": chance.random() < 0.5,
        "aborted": chance.choice((None, None, [], [[7, 0]], [[7, 2], [1, 0]], [[-1, 0]])),
        "check_crc": chance.random() < 0.8,
        "views": chance.random() < 0.5,
        "columns": [n for n in COLUMNS if chance.random() < 0.8],
        "max_batch_bytes": chance.choice((LIMIT, LIMIT, 100)),
    }
    return stream_case(chance, **params)


@target("read-records", read_case, quick=150)
def read_records(case: Case) -> Any:
    options = case.params | {"columns": tuple(case.params["columns"])}
    return drained(kafkafmt.read_records(case.data, **options))


@target("offsets-of-records", stream_case, quick=150)
def offsets_of_records(case: Case) -> Any:
    """Check that bounds around all offsets do not change the delivered records.

    A wrapper message whose own offset is below the bounds is skipped, even if that offset is wrong.
    Kafka's consumer also skips such a wrapper.
    """
    every = drained(kafkafmt.read_records(case.data, control=True, max_batch_bytes=LIMIT))
    within = drained(kafkafmt.read_records(case.data, control=True, start=0, max_batch_bytes=LIMIT))
    rows: list[Any] = []

    def decode_all() -> None:
        decoder = RecordReader(max_batch_bytes=LIMIT)
        for table in iter_tables(case.data):
            for source, columns in decoder.read(case.data, table):
                rows.extend(plain(current_core().make_records(source, columns)))

    failure = attempt(decode_all)
    same(every[0], rows, "records of the slow path and of the fast path")
    same(failure is None, every[1] is None, "absence of an error on the fast path and on the slow path")
    if any(len(b) > 17 and b[16] < 2 and b[17] & 7 for b in batches.split(case.data)):
        return every
    if every[1] is not None and (getattr(every[1].error, "base_offset", None) or -1) >= 0:
        check(within[1] is not None, f"reading from offset 0 on does not report {every[1]}")
    same([r for r in every[0] if r[0] >= 0], [r for r in within[0] if r[0] >= 0], "records from offset 0 on")
    single = [r[0] for r in every[0] if 0 <= r[0] < MAX_OFFSET]
    if every[1] is None:
        for offset in single[:3]:
            at = drained(
                kafkafmt.read_records(case.data, control=True, start=offset, end=offset + 1, max_batch_bytes=LIMIT)
            )
            same([r for r in every[0] if r[0] == offset], at[0], f"records at offset {offset}")
    return every


PROPERTIES = (
    "position", "size", "magic", "attributes", "codec", "is_compressed", "timestamp_type", "is_transactional", "is_control", "base_offset",
    "last_offset", "count", "base_timestamp", "max_timestamp", "delete_horizon", "leader_epoch", "producer_id", "producer_epoch",
    "base_sequence", "last_sequence", "crc", "computed_crc", "is_valid", "data", "payload", "key", "key_size", "payload_size",
)  # fmt: skip


def batches_case(chance: Random) -> Case:
    return stream_case(chance, check_crc=chance.random() < 0.7)


@target("iter-batches", batches_case, quick=100)
def iter_batches(case: Case) -> Any:
    """Read all properties and all records of each batch."""
    found: list[Any] = []

    def look() -> None:
        for batch in kafkafmt.iter_batches(case.data, check_crc=case.params["check_crc"]):
            found.append([attempt(getattr, batch, name) for name in PROPERTIES])
            check(isinstance(repr(batch), str), "a batch has a repr")
            found.append(drained(batch.records(max_batch_bytes=LIMIT)))
            check(batch.is_valid or not case.params["check_crc"], "a batch whose CRC was checked is valid")

    return [attempt(look), found]


@target("check-batches", stream_case, quick=100)
def check_batches(case: Case) -> Any:
    found = kafkafmt.check_batches(case.data, max_batch_bytes=LIMIT)
    check(0 <= found.end <= len(case.data), f"the end is {found.end} of {len(case.data)}")
    check(all(0 <= p.position <= len(case.data) for p in found.problems), "problems are in the buffer")
    records, failure = drained(kafkafmt.read_records(case.data, control=True, max_batch_bytes=LIMIT))
    if failure is not None:
        check(not found.ok, f"no problem is reported, but reading raises {failure}")
    elif found.ok:
        same(found.records, len(records), "records without a problem")
    return [found.problems, found.batches, found.records, found.end]


def arrow_case(chance: Random) -> Case:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers", "timestampMillis"]
    chosen = chance.choice((None, [n for n in names if chance.random() < 0.6] or ["key"]))
    return stream_case(chance, columns=chosen, control=chance.random() < 0.5)


@target("to-arrow", arrow_case, quick=60)
def to_arrow(case: Case) -> Any:
    """Check that the table is valid for Arrow, and contains the same records as `read_records`."""
    p = case.params
    table = attempt_raw(
        kafkafmt.to_arrow,
        case.data,
        p["columns"],
        control=p["control"],
        max_batch_bytes=LIMIT,
        topic="t",
        incomplete="ignore",  # as `read_records` does
    )
    records, failure = drained(kafkafmt.read_records(case.data, control=p["control"], max_batch_bytes=LIMIT))
    if isinstance(table, Failed):
        check(failure is not None, f"to_arrow fails with {table}, read_records does not")
        return table
    if failure is not None:
        check("headers" not in table.column_names, f"read_records fails with {failure}, to_arrow does not")
        return None  # errors after the last requested column are not detected
    table.validate(full=True)
    same(table.num_rows, len(records), "rows")
    for name, at in (("key", 3), ("value", 4), ("offset", 0)):
        if name in table.column_names:
            same(table[name].to_pylist(), [r[at] for r in records], name)
    if "headers" in table.column_names:
        found = [
            None if h is None else [[pair["key"], pair["value"]] for pair in h] for h in table["headers"].to_pylist()
        ]
        same(found, [r[5] or None for r in records], "headers")
    return [table.column_names, table.num_rows]
