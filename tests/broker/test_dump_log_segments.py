"""`kafkafmt dump` beside Kafka's own DumpLogSegments of 4.3.1, on logs of old formats and with flags that the golden dumps lack."""

import shutil
import sys
from pathlib import Path

import pytest
from command import kafkafmt
from golden_cases import GOLDEN

sys.path.insert(0, str(Path(__file__).parent))

import java_tools

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there"),
]

OLD = ["0.8.2.2-codecs", "0.10.2.2-append-time", "1.1.1-mixed", "2.8.2-compacted"]


def beside_java(files: list[Path], *flags: str) -> None:
    path = java_tools.classpath("org.apache.kafka:kafka-tools:4.3.1", "org.apache.kafka:kafka_2.13:4.3.1")
    names = ",".join(map(str, files))
    want = java_tools.run("org.apache.kafka.tools.DumpLogSegments", *flags, "--files", names, path=path)
    done = kafkafmt("dump", *flags, "--files", names)
    assert len(want) > 1000
    assert done.stdout.split("\n") == want.split("\n")


def copied(tmp_path: Path, *cases: Path) -> list[Path]:
    """The `.log` files, since the tool makes index files where there are none."""
    for i, case in enumerate(cases):
        shutil.copytree(case, tmp_path / str(i))
    return sorted(tmp_path.rglob("*.log"))


def test_messages_of_formats_0_and_1(tmp_path: Path) -> None:
    beside_java(copied(tmp_path, *(GOLDEN / "legacy" / name / "log" for name in OLD)), "--print-data-log")


@pytest.mark.parametrize(
    "flags", [("--print-data-log", "--skip-record-metadata"), ("--deep-iteration", "--max-bytes", "3000")], ids=str
)
def test_flags(tmp_path: Path, flags: tuple[str, ...]) -> None:
    beside_java(
        copied(tmp_path, *(GOLDEN / "kafka-4.3.1" / name / "log" for name in ("transactions", "compacted"))), *flags
    )
