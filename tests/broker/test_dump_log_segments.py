"""Compare `kafkafmt dump` with Kafka's DumpLogSegments 4.3.1, for formats and flags without golden dumps."""

import shutil
from pathlib import Path

import java_tools
import pytest
from command import process
from golden_cases import GOLDEN

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

OLD_FORMATS = ["0.8.2.2-codecs", "0.10.2.2-append-time", "1.1.1-mixed", "2.8.2-compacted"]


def assert_same_lines_as_java(files: list[Path], *flags: str) -> None:
    path = java_tools.classpath("org.apache.kafka:kafka-tools:4.3.1", "org.apache.kafka:kafka_2.13:4.3.1")
    names = ",".join(map(str, files))
    expected = java_tools.run("org.apache.kafka.tools.DumpLogSegments", *flags, "--files", names, path=path)
    done = process("dump", *flags, "--files", names)
    assert len(expected) > 1000
    assert done.stdout.split("\n") == expected.split("\n")


def copied(tmp_path: Path, *cases: Path) -> list[Path]:
    """Copy logs, because the tool creates missing index files, and return the copied `.log` files."""
    for i, case in enumerate(cases):
        shutil.copytree(case, tmp_path / str(i))
    return sorted(tmp_path.rglob("*.log"))


def test_dump_of_formats_0_and_1_equals_kafkas(tmp_path: Path) -> None:
    assert_same_lines_as_java(
        copied(tmp_path, *(GOLDEN / "legacy" / name / "log" for name in OLD_FORMATS)), "--print-data-log"
    )


@pytest.mark.parametrize(
    "flags", [("--print-data-log", "--skip-record-metadata"), ("--deep-iteration", "--max-bytes", "3000")], ids=str
)
def test_dump_with_flags_equals_kafkas(tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert_same_lines_as_java(
        copied(tmp_path, *(GOLDEN / "kafka-4.3.1" / name / "log" for name in ("transactions", "compacted"))), *flags
    )
