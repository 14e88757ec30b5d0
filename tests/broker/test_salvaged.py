"""A broker's log directory is damaged and salvaged, and a broker starts on the result: it serves exactly what was intact.

One broker writes transactions, codecs and many segments and is killed. Into its directory come the damaged files of the golden `torn`;
its own files are hurt in every way that the tests of damage know. What `kafkafmt salvage` makes of all that, Kafka's own metadata log
included, is the data directory of a second broker.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "broker")]

import java_tools  # noqa: E402
from command import kafkafmt, report  # noqa: E402
from golden_cases import Rows, case, rows, same_rows  # noqa: E402
from kafka_broker import Broker  # noqa: E402

pytestmark = [pytest.mark.broker, pytest.mark.skipif(bool(java_tools.missing()), reason=java_tools.missing() or "java and mvn are there")]

TORN = sorted(p.name.rpartition("-")[0] for p in case("torn").roots[0].iterdir() if p.is_dir())
OWN = [
    "topic=own partitions=2 count=3000 codec=zstd value=900 batch=4000 content=random topic.segment.bytes=1048576",
    "topic=own count=3000 codec=none value=900 batch=4000",
    "topic=tx count=30 id=first end=abort flush=5",
    "topic=tx count=20 id=second end=commit flush=5",
    "topic=tx count=10 flush=5",
    "topic=tx count=7 id=first end=open flush=5",
]


@dataclass
class Mounted:
    """What was read from the damaged directory, and what the second broker gave to its consumers."""

    wanted: Rows
    wanted_committed: Rows
    served: Rows
    served_committed: Rows
    written: Rows
    after: Path


def cat(path: Path, *flags: str) -> Rows:
    done = kafkafmt("cat", path, "--format", "json", "--bytes", "base64", "--on-error", "skip", *flags)
    return rows(done.stdout.splitlines())


def complaints(path: Path) -> set[str]:
    found = report(path)
    assert found["ok"]
    return {f["error"] for p in found["partitions"] for f in p["findings"]}


def hurt(log_dir: Path) -> None:
    """Flip, zero, cut and stuff: two kinds in a partition of many segments, one in the last batches of transactions."""
    first, *_, last = sorted((log_dir / "own-0").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[20_000] ^= 4
    data[60_000:64_096] = bytes(4096)
    first.write_bytes(data[:90_000] + b"not a batch" * 50 + data[90_000:])
    last.write_bytes(last.read_bytes()[:-700])
    second = sorted((log_dir / "own-1").glob("*.log"))[1]
    second.write_bytes(second.read_bytes()[:50_000])
    for index in (log_dir / "own-1").glob("*.index"):
        index.write_bytes(bytes(range(256)) * 4)


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    scratch = tmp_path_factory.mktemp("salvaged")
    broken = Broker(scratch / "broken")
    mended = Broker(scratch / "mended")
    try:
        broken.start()
        broken.produce(*OWN, *(f"topic={name} count=0" for name in TORN))
        broken.kill()
        source = broken.log_dirs[0]
        written = cat(source)
        for name in TORN:
            for file in case("torn").partition_dir(name, 0).iterdir():
                if file.name != "partition.metadata":  # whose topic this broker does not know
                    shutil.copy(file, source / f"{name}-0")
        hurt(source)
        done = kafkafmt("salvage", source, "--output", mended.log_dirs[0])
        assert done.returncode == 1, done.stderr
        assert complaints(mended.log_dirs[0]) == {"segment_gap"}  # the end of a segment is lost
        wanted, wanted_committed = cat(source), cat(source, "--isolation", "read_committed")
        mended.start()
        topics = ("own", "tx", *TORN)
        served, committed = rows(mended.consume(*topics)), rows(mended.consume(*topics, committed=True))
        mended.produce("topic=own count=100", *(f"topic={name} count=5" for name in TORN))
        mended.stop()
        yield Mounted(wanted, wanted_committed, served, committed, written, mended.log_dirs[0])
    finally:
        broken.close()
        mended.close()


def test_the_damage_was_real_and_most_is_left(mounted: Mounted) -> None:
    assert 4500 < sum(at[0] == "own" for at in mounted.wanted) < 4990 < 6000 == sum(at[0] == "own" for at in mounted.written)
    assert mounted.wanted.keys() & mounted.written.keys() == mounted.wanted.keys() - case("torn").expected().keys()
    assert len(case("torn").expected().keys() - mounted.wanted.keys()) == 27


def test_a_broker_serves_exactly_what_is_intact(mounted: Mounted) -> None:
    same_rows(mounted.served, mounted.wanted)


def test_a_broker_serves_at_read_committed_what_we_read(mounted: Mounted) -> None:
    same_rows(mounted.served_committed, mounted.wanted_committed)


def test_the_broker_went_on_writing_and_we_read_it_all(mounted: Mounted) -> None:
    after = cat(mounted.after)
    assert mounted.served.items() <= after.items()
    assert len(after) == len(mounted.served) + 100 + 5 * len(TORN)
    assert complaints(mounted.after) == {"segment_gap"}
