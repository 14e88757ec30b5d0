"""Fuzz `Partitioner` and the functions that build batches from records."""

from __future__ import annotations

from random import Random
from typing import Any

import kafkafmt

from .case import Case
from .mutate_bytes import NUMBERS
from .outcome import Failed, attempt, attempt_raw, check, drained, same
from .target import target

WRONG_ARGUMENTS = (TypeError, ValueError, OverflowError)
DATA = (None, b"", b"a", b"\xff" * 63, b"b" * 64, b"c" * 127, b"d" * 128, b"e" * 9000)
WRONG: tuple[Any, ...] = (7, "text", 1.5, [], True, [1], {"a": 1}, ["x", "y"])


def as_json(value: Any) -> Any:
    """Convert a value to JSON for the parameters of a case. Bytes become {"hex": …}."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    return [as_json(v) for v in value] if isinstance(value, list | tuple) else value


def from_json(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return [from_json(v) for v in value] if isinstance(value, list) else value


def _record(chance: Random, number: int) -> list[Any]:
    timestamp = chance.choice((-1, 0, 5, number, 1_700_000_000_000 + number, chance.choice(NUMBERS)))
    count = chance.choice((0, 0, 0, 1, 2, 70))
    headers: Any = [[chance.choice(("h", "", "größe", b"\xff\xfe")), chance.choice(DATA)] for _ in range(count)]
    record = [chance.choice(DATA), chance.choice(DATA), timestamp, headers]
    if chance.random() < 0.03:
        record[chance.randrange(4)] = chance.choice(WRONG)
    return record


def build_case(chance: Random) -> Case:
    records = [_record(chance, i) for i in range(chance.choice((0, 1, 2, 5, 30)))]
    if chance.random() < 0.3:
        offset = chance.choice((0, 7, 2**40))
        for record in records:
            record.append(offset)
            offset += chance.choice((1, 1, 1, 2, 100, 2**31, 0, -1)) if chance.random() < 0.2 else 1
    options: dict[str, Any] = {
        "magic": chance.choice((2, 2, 2, 1, 0)),
        "codec": chance.choice(("none", "gzip", "snappy", "lz4", "zstd")),
    }
    for name, values in (
        ("base_offset", (0, 5, 2**63 - 1, 2**63 - 3, -1)), ("producer_id", (7, -1, -2)), ("producer_epoch", (0, 5)),
        ("base_sequence", (0, 2**31 - 1)), ("transactional", (True,)), ("control", (True,)), ("leader_epoch", (0, 2**31)),
        ("log_append_time", (0, 1_700_000_000_000, -5)), ("delete_horizon", (0, 1_700_000_000_000)), ("max_bytes", (1, 100, 5000)),
        ("level", (1, 9, 99)),
    ):  # fmt: skip
        if chance.random() < 0.12:
            options[name] = chance.choice(values)
    return Case({"records": as_json(records), "options": options, "one": chance.random() < 0.5})


@target("build", build_case, quick=100)
def build(case: Case) -> Any:
    """Check that a built batch has a correct CRC and contains the records."""
    records = [tuple(r) for r in from_json(case.params["records"])]
    options = case.params["options"]

    def make() -> bytes:
        if case.params["one"]:
            return kafkafmt.build_batch(records, **options)
        return b"".join(kafkafmt.build_batches(records, **options))

    data = attempt(make, also=WRONG_ARGUMENTS)
    if isinstance(data, Failed):
        return data
    found, failure = drained(kafkafmt.read_records(data, control=True))
    same(failure, None, "the batches can be read")
    same([r[3:5] for r in found], [[r[0], r[1]] for r in records], "keys and values")
    if options["magic"] and "log_append_time" not in options:
        same([r[1] for r in found], [r[2] for r in records], "timestamps")
    if options["magic"] == 2:
        same([len(r[5]) for r in found], [len(r[3] or ()) for r in records], "numbers of headers")
    if records and len(records[0]) == 5:
        same([r[0] for r in found], [r[4] for r in records], "offsets")
    check(kafkafmt.check_batches(data, sequences=False).ok or "base_offset" in options, "the batches have no problem")
    return data


def builder_case(chance: Random) -> Case:
    """Return random options of a BatchBuilder, and random calls of its methods."""
    calls: list[Any] = []
    for i in range(chance.randrange(12)):
        way = chance.choice(("append", "append", "append", "extend", "has_room_for", "finish", "append_columns"))
        calls.append(
            [way, as_json([_record(chance, i) for _ in range(3 if way in ("extend", "append_columns") else 1)])]
        )
    case = build_case(chance)
    case.params["calls"] = calls
    return case


@target("builder", builder_case, quick=60)
def builder(case: Case) -> Any:
    """Check that finished batches contain the accepted records, even if other calls failed."""
    made = attempt_raw(kafkafmt.records.BatchBuilder, also=WRONG_ARGUMENTS, **case.params["options"])
    if isinstance(made, Failed):
        return made
    taken: list[Any] = []
    data, outcomes = b"", []
    for way, given in case.params["calls"]:
        records = [tuple(r) for r in from_json(given)]
        before = made.count
        if way == "finish":
            found = attempt(made.finish, also=WRONG_ARGUMENTS)
            data += b"" if isinstance(found, Failed) else found
        elif way in ("append", "has_room_for"):
            found = attempt(getattr(made, way), *records[0], also=WRONG_ARGUMENTS)
            taken += [records[0]] if way == "append" and found is True else []
        elif way == "extend":
            found = attempt(made.extend, records, also=WRONG_ARGUMENTS)
            taken += records[: made.count - before]
        else:
            keys, values = [r[0] for r in records], [r[1] for r in records]
            columns = attempt_raw(kafkafmt.records.columns_of, keys, values, also=WRONG_ARGUMENTS)
            found = columns
            if not isinstance(columns, Failed):
                found = attempt(made.append_columns, columns, also=WRONG_ARGUMENTS)
                taken += [(*r[:2], -1, ()) for r in records[: made.count - before]]
        outcomes.append(found)
        check(made.count >= 0 and made.size >= 0, f"{made.count} records, {made.size} bytes")
    data += made.finish()
    found, failure = drained(kafkafmt.read_records(data, control=True))
    same(failure, None, "the batches can be read")
    same([r[3:5] for r in found], [[r[0], r[1]] for r in taken], "keys and values of the accepted records")
    return [outcomes, data]


def partitioner_case(chance: Random) -> Case:
    params = {"partitions": chance.choice((1, 2, 7, 1000, 2**31 - 1, 0, -1)), "first": chance.choice((0, 5, -1))}
    return Case(params | {"keys": as_json([chance.choice((*DATA[:-1], chance.randbytes(9))) for _ in range(20)])})


@target("partitioner", partitioner_case, quick=60)
def partitioner(case: Case) -> Any:
    """Check that a column of keys is assigned to the same partitions as the single keys."""
    p, keys = case.params, from_json(case.params["keys"])
    one = attempt_raw(kafkafmt.records.Partitioner, p["partitions"], p["first"], also=WRONG_ARGUMENTS)
    if isinstance(one, Failed):
        return one
    alone = [one.partition(k) for k in keys]
    same(kafkafmt.records.Partitioner(p["partitions"], p["first"]).column(keys).tolist(), alone, "partitions")
    check(all(0 <= n < p["partitions"] for n in alone), f"partitions {alone[:5]}")
    return alone


def marker_case(chance: Random) -> Case:
    names = ("producer_id", "producer_epoch", "coordinator_epoch", "base_offset", "timestamp", "leader_epoch")
    return Case({n: chance.choice((0, 1, 7, *NUMBERS)) for n in names} | {"commit": chance.random() < 0.5})


@target("build-marker", marker_case, quick=60)
def build_marker(case: Case) -> Any:
    options = dict(case.params)
    data = attempt(
        kafkafmt.records.build_marker,
        options.pop("producer_id"),
        options.pop("producer_epoch"),
        also=WRONG_ARGUMENTS,
        **options,
    )
    if isinstance(data, Failed):
        return data
    (batch,) = kafkafmt.iter_batches(data)
    same(
        (batch.is_control, batch.is_transactional, batch.producer_id),
        (True, True, case.params["producer_id"]),
        "the type of the marker",
    )
    if 0 <= case.params["base_offset"] < 2**63 - 1:
        (record,) = kafkafmt.read_records(data, control=True)
        same(
            kafkafmt.records.decode_control_record(record.key, record.value).name,
            "COMMIT" if case.params["commit"] else "ABORT",
            "the marker",
        )
    return data
