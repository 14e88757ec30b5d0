"""The golden logs under tests/golden: which there are, and what a Java consumer read from them.

    for case in CASES:
        got = rows(lines printed by `kafkafmt cat … --format json --bytes base64`)
        assert got == case.expected()

Rows are a dict: (topic, partition, offset) → [timestamp, timestampType, key, value, headers], bytes in base64.
See tests/golden/README.md for what each case holds.
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

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FIELDS = ("timestamp", "timestampType", "key", "value", "headers")

RowKey = tuple[str, int, int]
Rows = dict[RowKey, list[Any]]


def rows(lines: Iterable[str]) -> Rows:
    """Index JSON lines of records by topic, partition and offset; an offset that comes twice is an error."""
    found: Rows = {}
    for line in lines:
        if line.strip():
            row = json.loads(line)
            at = (row["topic"], row["partition"], row["offset"])
            if at in found:
                raise ValueError(f"{at} comes twice")
            found[at] = [row[name] for name in FIELDS]
    return found


@dataclass(frozen=True)
class Case:
    """One golden log directory (or two of them, in jbod) and its answers."""

    version: str
    name: str

    def __str__(self) -> str:
        return f"{self.version}/{self.name}"

    @property
    def folder(self) -> Path:
        return GOLDEN / self.version / self.name

    @property
    def roots(self) -> list[Path]:
        """The log directories to read together."""
        log = self.folder / "log"
        return sorted(p for p in log.iterdir() if p.is_dir()) if self.name == "jbod" else [log]

    @property
    def torn(self) -> bool:
        """Was it damaged on purpose?"""
        return self.name == "torn"

    @property
    def transactional(self) -> bool:
        return (self.folder / "expected-committed.jsonl.gz").exists()

    @property
    def internal(self) -> bool:
        """Are records of Kafka's own topics expected? (`cat` shows those with --internal only.)"""
        return self.name == "internal" or any(topic.startswith("__") for topic, _, _ in self.expected())

    def partition_dir(self, topic: str, partition: int) -> Path:
        """Where a live partition lies, whichever log directory holds it."""
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
        """What must be read from `log/`: of torn, all that was written; of tiered, what has not moved away."""
        name = "expected-committed.jsonl" if committed else "written-expected.jsonl" if self.torn else "expected.jsonl"
        found: Rows = self._load(name)
        if self.name != "tiered" or below_local_start:
            return found
        starts = {at: o["localLogStart"] for at, o in self.offsets().items()}
        return {at: row for at, row in found.items() if at[2] >= starts[at[:2]]}

    def recovered(self) -> Rows:
        """Of torn: what a broker kept of it. Of the others: the same as expected()."""
        found: Rows = self._load("expected.jsonl")
        return found

    def offsets(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The broker's offsets by topic and partition, before any damage, and `localLogStart`: the first one in `log/`."""
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
        """Was this record hurt on purpose, and does the partition's verify report (one entry of `partitions`) own up to it?"""
        if not self.torn or report is None:
            return False
        if at[2] >= report["next_offset"] and report["findings"]:  # an unfinished tail
            return True
        return any(
            (span["first_offset"] is None or span["first_offset"] <= at[2])
            and (span["last_offset"] is None or at[2] <= span["last_offset"])
            for span in report["damaged"]
        )


def dumped(file: Path) -> dict[str, list[str]]:
    """What kafka-dump-log printed (`dump.txt.xz`, `decoded-*.txt.xz`): by the path of a dumped file, `log/…`, its lines.

    What the tool wrote to stderr is under `stderr`.
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
    """The same of an internal topic of the case `internal`, by the tool's decoder for it."""
    return dumped(GOLDEN / version / "internal" / f"decoded-{topic}.txt.xz")


def same_rows(got: Rows, want: Rows) -> None:
    """Assert that two sets of rows are equal, with a message that names the first few differences."""
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
"""Logs of formats 0 and 1 (some with 2 among them), by brokers 0.8 to 2.8; they have no offsets()."""

CASES = [Case(log.parent.parent.name, log.parent.name) for log in sorted(GOLDEN.glob("kafka-*/*/log"))]
BY_NAME = {str(case): case for case in CASES}


def case(name: str) -> Case:
    """A case by its name, `kafka-4.3.1/codecs`, or without the version: the newest that has it."""
    return BY_NAME[name] if name in BY_NAME else max((c for c in CASES if c.name == name), key=lambda c: c.version)
