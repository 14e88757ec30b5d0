"""Unpack and list the golden logs in tests/golden, and load the records that a Java consumer read from them.

    for case in CASES:
        got = rows(lines printed by `kafkafmt cat … --format json --bytes base64`)
        assert got == case.expected()

Rows are a dict from (topic, partition, offset) to [timestamp, timestampType, key, value, headers].
Bytes are in base64. tests/golden/README.md describes the cases.
"""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from golden_archives import unpack

GOLDEN = unpack()
FIELDS = ("timestamp", "timestampType", "key", "value", "headers")

RowKey = tuple[str, int, int]
Rows = dict[RowKey, list[Any]]


def rows(lines: Iterable[str]) -> Rows:
    """Index records in JSON lines by topic, partition and offset. Raise an error if an offset occurs twice."""
    found: Rows = {}
    for line in lines:
        if line.strip():
            row = json.loads(line)
            at = (row["topic"], row["partition"], row["offset"])
            if at in found:
                raise ValueError(f"the record {at} occurs twice")
            found[at] = [row[name] for name in FIELDS]
    return found


@dataclass(frozen=True)
class Case:
    """A golden log directory, or the two of the case `jbod`, and the expected results."""

    version: str
    name: str

    def __str__(self) -> str:
        return f"{self.version}/{self.name}"

    @property
    def folder(self) -> Path:
        return GOLDEN / self.version / self.name

    @property
    def roots(self) -> list[Path]:
        """The log directories that are read together."""
        log = self.folder / "log"
        return sorted(p for p in log.iterdir() if p.is_dir()) if self.name == "jbod" else [log]

    @property
    def torn(self) -> bool:
        """Whether the log was damaged on purpose."""
        return self.name == "torn"

    @property
    def transactional(self) -> bool:
        return (self.folder / "expected-committed.jsonl.gz").exists()

    @property
    def internal(self) -> bool:
        """Whether records of Kafka's internal topics are expected. `cat` prints them only with --internal."""
        return self.name == "internal" or any(topic.startswith("__") for topic, _, _ in self.expected())

    def partition_dir(self, topic: str, partition: int) -> Path:
        """Return the directory of a live partition, in any of the log directories."""
        for root in self.roots:
            if (root / f"{topic}-{partition}").is_dir():
                return root / f"{topic}-{partition}"
        raise KeyError((topic, partition))

    @cached_property
    def _loaded(self) -> dict[str, Any]:
        return {}

    def _load(self, name: str) -> Any:
        if name not in self._loaded:
            with gzip.open(self.folder / f"{name}.gz", "rt", encoding="utf-8", newline="\n") as file:
                self._loaded[name] = rows(file) if name.endswith(".jsonl") else json.load(file)
        return self._loaded[name]

    def expected(self, committed: bool = False, below_local_start: bool = False) -> Rows:
        """Return the rows that `log/` should contain: all written rows if damaged, only local rows if tiered."""
        name = "expected-committed.jsonl" if committed else "written-expected.jsonl" if self.torn else "expected.jsonl"
        found: Rows = self._load(name)
        if self.name != "tiered" or below_local_start:
            return found
        starts = {at: o["localLogStart"] for at, o in self.offsets().items()}
        return {at: row for at, row in found.items() if at[2] >= starts[at[:2]]}

    def recovered(self) -> Rows:
        """Return the rows that a broker kept. They differ from expected() only if the log was damaged."""
        found: Rows = self._load("expected.jsonl")
        return found

    def offsets(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return the broker's offsets before any damage, and `localLogStart`, the first offset in `log/`."""
        name = next(
            n
            for n in ("written-offsets.json", "offsets.json", "recovered-offsets.json")
            if (self.folder / f"{n}.gz").exists()
        )
        answers: dict[tuple[str, int], dict[str, Any]] = {}
        for directory, answer in self._load(name).items():
            topic, _, partition = directory.rpartition("-")
            logs = sorted(f.name for root in self.roots for f in (root / directory).glob("[0-9]*.log"))
            first = int(logs[0][:20]) if logs else 0
            answers[topic, int(partition)] = answer | {"localLogStart": max(answer["logStartOffset"], first)}
        return answers

    def may_be_missing(self, at: RowKey, report: Mapping[str, Any] | None) -> bool:
        """Return whether the log was damaged and the verify report contains the offset of a missing record.

        `report` is the part of the report for one partition.
        """
        if not self.torn or report is None:
            return False
        if at[2] >= report["next_offset"] and report["findings"]:  # an incomplete last batch
            return True
        return any(
            (span["first_offset"] is None or span["first_offset"] <= at[2])
            and (span["last_offset"] is None or at[2] <= span["last_offset"])
            for span in report["damaged"]
        )


def dumped(file: Path) -> dict[str, list[str]]:
    """Return the lines that kafka-dump-log printed for each file, by the path of the file.

    `file` is a `dump.txt.xz` or a `decoded-*.txt.xz`.

    The key `stderr` contains the lines that the tool wrote to stderr.
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    with lzma.open(file, "rt", encoding="utf-8", newline="\n") as dump:
        for line in dump.read().split("\n"):
            if line.startswith("Dumping "):
                lines = found.setdefault(line.removeprefix("Dumping "), [])
            elif line.startswith("--- stderr"):
                lines = found.setdefault("stderr", [])
            else:
                lines.append(line)
    return found


def decoded(version: str, topic: str) -> dict[str, list[str]]:
    """Return the lines that a decoder of the tool printed for an internal topic of the case `internal`."""
    return dumped(GOLDEN / version / "internal" / f"decoded-{topic}.txt.xz")


def same_rows(got: Rows, want: Rows) -> None:
    """Assert that two sets of rows are equal. The message contains the first few differences."""
    if got == want:
        return
    wrong = [f"{at} is missing" for at in want.keys() - got.keys()] + [
        f"{at} is not expected" for at in got.keys() - want.keys()
    ]
    wrong += [
        f"{at}: expected {str(want[at])[:150]}, got {str(got[at])[:150]}"
        for at in want.keys() & got.keys()
        if want[at] != got[at]
    ]
    raise AssertionError(f"{len(wrong)} rows differ: " + "; ".join(sorted(wrong)[:5]))


LEGACY = [Case("legacy", log.parent.name) for log in sorted(GOLDEN.glob("legacy/*/log"))]
"""Logs of brokers 0.8 to 2.8 in formats 0 and 1. Some also contain format 2. They have no offsets()."""

CASES = [Case(log.parent.parent.name, log.parent.name) for log in sorted(GOLDEN.glob("kafka-*/*/log"))]
BY_NAME = {str(case): case for case in CASES}


def case(name: str) -> Case:
    """Return a case by name, such as `kafka-4.3.1/codecs`. Without a version, return the newest case."""
    return BY_NAME[name] if name in BY_NAME else max((c for c in CASES if c.name == name), key=lambda c: c.version)
