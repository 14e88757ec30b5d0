"""Test recovery after a crash. The log ends with the last complete batch, and no flushed data is lost."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from building import batch, mutate, record, split
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from selecting import interval
from writing import FIRST, offsets, problems, some

from kafkafmt.log import DamagedLogError, LogDirectory, LogWriter, PartitionLog, discover
from kafkafmt.log.formats.checkpoints import read_offset_checkpoint
from kafkafmt.records.signatures import BuilderOptions
from kafkafmt.typing import Codec

SETTINGS: dict[str, Any] = {"segment_bytes": 900, "index_interval_bytes": 150}


def crashed(folder: Path, to: Path) -> Path:
    """Copy the files as a killed process leaves them: all writes, but no clean shutdown file."""
    return shutil.copytree(folder, to, ignore=shutil.ignore_patterns(".lock", ".kafka_cleanshutdown"))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a killed process. It contains seven batches of five records in three segments."""
    folder = tmp_path_factory.mktemp("image")
    with LogDirectory(folder / "live", **SETTINGS) as directory:
        writer = directory.writer("t")
        for i in range(7):
            ids: BuilderOptions = {}
            if i % 3:
                ids = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 5 * i, "transactional": True}
            writer.append(some(5, FIRST + i), **ids)
        assert len(writer.segments) == 3
        return crashed(folder / "live", folder / "killed")


def check_opens(folder: Path, wanted: int) -> None:
    """Check that the log has the records `wanted`, has no findings, and can be appended to."""
    with LogDirectory(folder, **SETTINGS) as directory:
        writer = directory.writer("t")
        assert writer.next_offset == wanted
        writer.append(some(1))
    assert offsets(folder) == list(range(wanted + 1))
    assert problems(folder) == []


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.full, id="every"), pytest.param(4, id="every fourth")]
)
def test_segment_truncated_at_any_byte_is_recovered(image: Path, tmp_path: Path, step: int) -> None:
    last = max((image / "t-0").glob("*.log"))
    whole, base = last.read_bytes(), int(last.stem)
    sizes = [len(one) for one in split(whole)]
    ends = {sum(sizes[:k]): base + 5 * k for k in range(len(sizes) + 1)}
    for size in range(0, len(whole) + 1, step):
        folder = crashed(image, tmp_path / str(size))
        os.truncate(folder / "t-0" / last.name, size)
        check_opens(folder, max(offset for end, offset in ends.items() if end <= size))
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "tail", [b"\0" * 500, b"\0" * 3, random.Random(5).randbytes(200), b"\xff" * 61, "half", "flipped"]
)
def test_invalid_data_at_the_end_is_truncated(image: Path, tmp_path: Path, tail: bytes | str) -> None:
    folder = crashed(image, tmp_path / "t")
    last = max((folder / "t-0").glob("*.log"))
    following = batch([record(i, value=b"lost") for i in range(5)], base_offset=35)
    if tail == "half":
        tail = following[:70]
    elif tail == "flipped":
        tail = mutate(following, 80, b"\xaa\xbb")
    with last.open("ab") as file:
        file.write(tail)  # type: ignore[arg-type]
    with LogDirectory(folder, **SETTINGS) as directory:
        writer = directory.writer("t")
        assert [(d.file, d.length) for d in writer.cut] == [(last.name, len(tail))]
    check_opens(folder, 35)


@pytest.mark.parametrize(
    "name", ["*.index", "*.timeindex", "*.txnindex", "*.snapshot", "*checkpoint", "../*checkpoint"]
)
@pytest.mark.parametrize("state", ["lost", "empty", "garbage", "zeros appended"])
def test_recovery_rebuilds_any_garbage_next_to_the_batches(image: Path, tmp_path: Path, name: str, state: str) -> None:
    folder = crashed(image, tmp_path / "t")
    found = sorted(folder.glob(name[3:]) if name.startswith("..") else (folder / "t-0").glob(name))
    # Recovery does not read the content of older indexes, so only the last index is changed.
    for path in found[-1:] if name.endswith("index") and state != "lost" else found:
        if state == "lost":
            path.unlink()
        else:
            path.write_bytes(
                {"empty": b"", "garbage": bytes(range(99)), "zeros appended": path.read_bytes() + bytes(50)}[state]
            )
    check_opens(folder, 35)


def test_unfinished_roll_is_recovered(image: Path, tmp_path: Path) -> None:
    """A crash can leave any of these files of a new segment. The `.log` file is created last."""
    subsets = (
        ["35.index"],
        ["35.timeindex", "35.index"],
        ["35.timeindex", "35.index", "35.log"],
        ["35.log"],
        ["35.snapshot.tmp"],
    )
    for n, names in enumerate(subsets):
        folder = crashed(image, tmp_path / str(n))
        for name in names:
            stem, _, suffix = name.partition(".")
            (folder / "t-0" / f"{int(stem):020}.{suffix}").touch()
        check_opens(folder, 35)


def test_damage_before_valid_batches_is_not_truncated(image: Path, tmp_path: Path) -> None:
    """A broker would truncate the log at the damage. The writer does so only with `truncate_at_damage`."""
    for n, log in enumerate(sorted((image / "t-0").glob("*.log"))):
        folder = crashed(image, tmp_path / str(n))
        (folder / "recovery-point-offset-checkpoint").unlink()
        path = folder / "t-0" / log.name
        path.write_bytes(mutate(path.read_bytes(), 90, b"\xaa\xbb\xcc"))
        before = {p.name: p.read_bytes() for p in (folder / "t-0").glob("*.log")}
        with LogDirectory(folder, **SETTINGS) as directory:
            if n < 2:
                with pytest.raises(DamagedLogError, match="cannot be read"):
                    directory.writer("t")
                assert {p.name: p.read_bytes() for p in (folder / "t-0").glob("*.log")} == before
            assert directory.writer("t", truncate_at_damage=True).next_offset == int(log.stem)
        assert problems(folder) == []
        assert offsets(folder) == list(range(int(log.stem)))


def test_segments_below_the_recovery_point_are_not_read(image: Path, tmp_path: Path) -> None:
    folder = crashed(image, tmp_path / "t")
    points = read_offset_checkpoint((folder / "recovery-point-offset-checkpoint").read_text(), "")
    last = max((folder / "t-0").glob("*.log"))
    assert points == {("t", 0): int(last.stem)}  # rolling has flushed all segments except the last
    first = min((folder / "t-0").glob("*.log"))
    first.write_bytes(mutate(first.read_bytes(), 90, b"\xaa\xbb\xcc"))
    with LogDirectory(folder, **SETTINGS) as directory:
        assert directory.writer("t").next_offset == 35


CHILD = """
import sys, kafkafmt
directory = kafkafmt.LogDirectory(sys.argv[1], segment_bytes=20000, index_interval_bytes=500, flush_messages=50)
writer = directory.writer("t")
print("opened", writer.next_offset, flush=True)
n = 0
while True:
    n += 1
    records = [(b"%d" % (writer.next_offset + i), b"v" * (n * 37 % 900)) for i in range(n % 7 + 1)]
    writer.append(records, codec=("none", "zstd", "lz4")[n % 3])
    print(writer.recovery_point, writer.next_offset, flush=True)
    if n % 97 == 0:
        writer.truncate_to(writer.next_offset - 3)
        print(writer.next_offset, writer.next_offset, flush=True)
    if n % 61 == 0:
        writer.delete_before(max(writer.log_start_offset, writer.next_offset - 800))
"""


@pytest.mark.slow
def test_flushed_records_survive_a_kill_at_any_moment(tmp_path: Path) -> None:
    """A process that appends, rolls, truncates and deletes is killed several times. No flushed record is lost."""
    folder, lines = tmp_path / "log", random.Random(11)
    for life in range(6):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(folder)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline().startswith("opened")
        printed = [child.stdout.readline() for _ in range(lines.randrange(20, 300))]
        child.send_signal(signal.SIGKILL)
        printed += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        child.wait()
        flushed = int(printed[-1].split()[0])
        copy = crashed(folder, tmp_path / f"copy{life}")
        with LogDirectory(copy) as directory:
            writer = directory.writer("t")
            assert writer.next_offset >= flushed - 10  # a truncation may have been interrupted
            start, end = writer.log_start_offset, writer.next_offset
        assert problems(copy) == []
        found = list(PartitionLog(discover([copy]).partitions[0]).records())
        assert [r.offset for r in found] == list(range(start, end))
        assert all(r.key == b"%d" % r.offset for r in found)
    assert end > 100


class Machine(RuleBasedStateMachine):
    """Run the same operations on a writer and on a list, with restarts and crashes."""

    @initialize()
    def create(self) -> None:
        self.root = Path(os.environ["KAFKAFMT_MACHINE"]) / str(random.randrange(10**12))
        self.lives = 0
        self.path = self.root / "0"
        self.records: list[tuple[int, bytes]] = []
        self.batch_ends: list[int] = []
        self.start = self.end = 0
        self.open()

    def open(self) -> None:
        self.directory = LogDirectory(self.path, **SETTINGS)
        self.writer: LogWriter = self.directory.writer("t")

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.close()
            shutil.rmtree(self.root)

    @rule(
        values=st.lists(st.binary(max_size=60), min_size=1, max_size=8), codec=st.sampled_from(["none", "zstd", "gzip"])
    )
    def append(self, values: list[bytes], codec: Codec) -> None:
        first = self.end
        records = [(None, v, FIRST + first + i) for i, v in enumerate(values)]
        assert self.writer.append(records, codec=codec) == (first, first + len(values) - 1)
        self.records += [(first + i, v) for i, v in enumerate(values)]
        self.end += len(values)
        self.batch_ends.append(self.end)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        left = self.writer.truncate_to(offset)
        if offset < self.end:
            base = self.writer.segments[0]
            wanted = offset if offset <= base else max([e for e in self.batch_ends if e <= offset], default=base)
            assert left == max(wanted, min(base, offset))
            self.end = left
            self.records = [r for r in self.records if r[0] < left]
            self.batch_ends = [e for e in self.batch_ends if e <= left]
            self.start = min(self.start, left)
        assert left == self.end

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        self.writer.delete_before(offset)
        self.start = max(self.start, offset)

    @rule()
    def flush(self) -> None:
        self.writer.flush()
        assert self.writer.recovery_point == self.end

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.lives += 1
        following = self.root / str(self.lives)
        if clean:
            self.directory.close()
            shutil.copytree(self.path, following)
        else:
            crashed(self.path, following)
            self.directory.close()
        self.path = following
        self.open()
        assert self.directory.clean == clean

    @rule(garbage=st.binary(min_size=1, max_size=80))
    def crash_with_a_torn_tail(self, garbage: bytes) -> None:
        self.lives += 1
        following = crashed(self.path, self.root / str(self.lives))
        with max((following / "t-0").glob("*.log")).open("ab") as file:
            file.write(garbage)
        self.directory.close()
        self.path = following
        self.open()

    @invariant()
    def reader_finds_the_records_of_the_list(self) -> None:
        if not hasattr(self, "writer"):
            return
        assert self.writer.next_offset == self.end
        assert self.writer.log_start_offset == self.start
        log = PartitionLog(discover([self.path / "t-0"]).partitions[0])
        assert [(r.offset, r.value) for r in log.records(interval(log, start=self.start))] == [
            r for r in self.records if r[0] >= self.start
        ]

    @invariant()
    def partition_has_no_findings(self) -> None:
        if hasattr(self, "path"):
            assert problems(self.path / "t-0") == []


def test_writer_behaves_like_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFMT_MACHINE", str(tmp_path))
    run_machine(25)


@pytest.mark.full
def test_writer_behaves_like_a_list_in_long_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFMT_MACHINE", str(tmp_path))
    run_machine(500)


def run_machine(examples: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=checks),
    )


@pytest.mark.parametrize("text", [None, "", "nonsense", "0\n1\n-5 0\n", "0\n2\n5 0\n3 5\n", "0\n2\n0 5\n4 0\n"])
def test_wrong_leader_epochs_are_rebuilt_from_the_batches(text: str | None, tmp_path: Path) -> None:
    """The leader epochs are those of the batches in all segments, also after a clean shutdown."""
    with LogDirectory(tmp_path, segment_bytes=150) as directory:
        for epoch in (0, 2, 3):
            writer = directory.writer("t", leader_epoch=epoch)
            for _ in range(3):
                writer.append([(b"k", b"v" * 30, FIRST)])
            writer.close()
    checkpoint = tmp_path / "t-0" / "leader-epoch-checkpoint"
    checkpoint.unlink()
    if text is not None:
        checkpoint.write_text(text)
    with LogDirectory(tmp_path) as directory:
        assert directory.writer("t").leader_epochs == [(0, 0), (2, 3), (3, 6)]
    assert problems(tmp_path) == []


def test_files_with_almost_valid_segment_names_are_handled(tmp_path: Path) -> None:
    with LogDirectory(tmp_path) as directory:
        directory.writer("t").append([(b"k", b"v", FIRST)])
    odd = ("²³.index", "9.timeindex", "9" * 30 + ".index", f"{2**63:020}.txnindex", f"{5:020}.index")
    for name in odd:
        (tmp_path / "t-0" / name).touch()
    (tmp_path / "t-0" / f"{9:020}.log").mkdir()
    with LogDirectory(tmp_path) as directory:
        assert directory.writer("t").next_offset == 1
    assert [(tmp_path / "t-0" / name).exists() for name in odd] == [True, True, True, False, False]


def not_openable(monkeypatch: pytest.MonkeyPatch, path: Path, code: int = errno.EACCES) -> None:
    """Make `os.open` fail for one file. By default, it fails as for a file that the process may not read."""
    opened = os.open

    def fail(given: Any, *arguments: Any, **options: Any) -> int:
        if str(given) == str(path):
            raise OSError(code, os.strerror(code), str(path))
        return opened(given, *arguments, **options)

    monkeypatch.setattr(os, "open", fail)


@pytest.mark.parametrize("suffix", ["leader-epoch-checkpoint", ".txnindex"])
def test_file_without_read_permission_is_rebuilt(
    image: Path, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = crashed(image, tmp_path / "copy")
    last = max((folder / "t-0").glob("*.log"))
    path = last.with_suffix(suffix) if suffix.startswith(".") else last.with_name(suffix)
    path.write_bytes(b"garbage")
    with monkeypatch.context() as patch:
        not_openable(patch, path)
        with LogDirectory(folder, **SETTINGS) as directory:
            assert directory.writer("t").next_offset == 35
    assert not path.exists() or path.read_bytes() != b"garbage"
    assert problems(folder) == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE])
def test_checkpoint_that_may_be_intact_is_not_replaced(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    folder = crashed(image, tmp_path / "copy")
    path = folder / "log-start-offset-checkpoint"
    path.write_text("0\n1\nt 0 7\n")
    with monkeypatch.context() as patch:
        not_openable(patch, path, code)
        with pytest.raises(OSError, match=path.name):
            LogDirectory(folder, **SETTINGS)
    assert path.read_text() == "0\n1\nt 0 7\n"


def test_checkpoints_stay_unchanged_if_no_partition_is_opened(tmp_path: Path) -> None:
    """The recovery points of the partitions are not known, and the shutdown stays unclean."""
    with LogDirectory(tmp_path) as directory:
        directory.writer("t")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_text("corrupted")
    LogDirectory(tmp_path).close()
    assert checkpoint.read_text() == "corrupted"
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
