"""Compare the output for every golden log with the Java consumer and the broker's offsets, on both cores."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command import inside, kafkafmt, report
from golden_cases import CASES, LEGACY, Case, rows, same_rows

KEYS = [
    "topic", "partition", "path", "segments", "batches", "records", "records_recovered", "bytes", "log_start_offset", "next_offset",
    "last_stable_offset", "damaged", "findings",
]  # fmt: skip
KEYS_OF_LOSS = ["lost", "most_records_lost", "unread_by"]


@pytest.mark.parametrize("backend", ["native", "pure"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cat_prints_what_the_consumer_returned(case: Case, backend: str) -> None:
    internal = ["--internal"] if case.internal else []
    done = kafkafmt(
        "cat", *case.roots, "--format", "json", "--bytes", "base64", "--on-error", "skip", *internal, backend=backend
    )
    assert done.returncode == (1 if case.torn else 0), done.stderr
    # No consumer can read the metadata log.
    actual = {at: row for at, row in rows(done.stdout.splitlines()).items() if at[0] != "__cluster_metadata"}
    expected = case.expected()
    if case.torn:
        entries = {(p["topic"], p["partition"]): p for p in report(*case.roots, backend=backend)["partitions"]}
        lost = {at for at in expected.keys() - actual.keys() if case.may_be_missing(at, entries.get(at[:2]))}
        assert len(lost) == 27  # 3 batches of 3 records, followed by unfinished tails
        expected = {at: row for at, row in expected.items() if at not in lost}
    same_rows(actual, expected)


@pytest.mark.parametrize("backend", ["native", "pure"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_verify_agrees_with_the_broker(case: Case, backend: str) -> None:
    entries = {(p["topic"], p["partition"]): p for p in report(*case.roots, backend=backend)["partitions"]}
    counted: dict[tuple[str, int], int] = {}
    for topic, partition, _ in case.expected():
        counted[topic, partition] = counted.get((topic, partition), 0) + 1
    for at, offsets in case.offsets().items():
        entry = entries.get(at)
        if entry is None:  # this partition is too large to copy
            assert not any((root / f"{at[0]}-{at[1]}").exists() for root in case.roots)
            continue
        assert list(entry) == (KEYS + KEYS_OF_LOSS if "lost" in entry else KEYS)
        if case.torn:
            continue
        assert (entry["log_start_offset"], entry["next_offset"]) == (offsets["localLogStart"], offsets["highWatermark"])
        assert entry["last_stable_offset"] == offsets.get("lastStableOffset", entry["last_stable_offset"])
        assert entry["damaged"] == []
        assert entry["records"] == entry["records_recovered"]
        if not at[0].startswith("__"):
            assert entry["records"] == counted.get(at, 0)


@pytest.mark.parametrize("backend", ["native", "pure"])
@pytest.mark.parametrize("case", LEGACY, ids=str)
def test_cat_prints_formats_0_and_1_as_their_consumers_did(case: Case, backend: str) -> None:
    nested = case.name == "0.9.0.1-nested"
    internal = ["--internal"] if case.internal else []
    done = kafkafmt(
        "cat", *case.roots, "--format", "json", "--bytes", "base64", "--on-error", "skip", *internal, backend=backend
    )
    actual, expected = rows(done.stdout.splitlines()), case.expected()
    assert done.returncode == (1 if nested else 0), done.stderr
    if nested:  # a wrapper inside a wrapper is reported as damage, and everything around it is delivered
        assert "itself compressed" in done.stderr
        expected = {at: row for at, row in expected.items() if at in actual}
        assert len(expected) == 1
    same_rows(actual, expected)


def verified(*arguments: Any) -> Any:
    """Return the report of `kafkafmt verify`, which is run in this process."""
    return json.loads(inside("verify", *arguments, "--format", "json").stdout)


def test_verify_counts_formats_0_and_1() -> None:
    for case in LEGACY:
        if case.name == "0.9.0.1-nested":
            continue
        for flag in ([], ["--shallow"]):
            found = verified(*case.roots, *flag)
            assert found["ok"]
            counted = sum(p["records"] for p in found["partitions"] if case.internal or not p["topic"].startswith("__"))
            assert counted == len(case.expected()) or "transactions" in case.name, (case, flag)


def test_shallow_verify_counts_the_same_records() -> None:
    for case in CASES:
        deep, shallow = verified(*case.roots)["partitions"], verified(*case.roots, "--shallow")["partitions"]
        assert [p["records"] for p in deep] == [p["records"] for p in shallow], case


@pytest.mark.parametrize("backend", ["native", "pure"])
@pytest.mark.parametrize("case", [c for c in [*CASES, *LEGACY] if c.transactional], ids=str)
def test_read_committed_prints_what_the_consumer_returned(case: Case, backend: str) -> None:
    flags = [
        "--format",
        "json",
        "--bytes",
        "base64",
        "--isolation",
        "read_committed",
        *(["--internal"] if case.internal else []),
    ]
    done = kafkafmt("cat", *case.roots, *flags, backend=backend)
    assert done.returncode == 0, done.stderr
    actual = {at: row for at, row in rows(done.stdout.splitlines()).items() if at[0] != "__cluster_metadata"}
    same_rows(actual, case.expected(committed=True))
