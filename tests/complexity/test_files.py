"""Check files next to segments (checkpoints, indexes, snapshots, properties), and large directories."""

from __future__ import annotations

import struct
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from kafkafmt.log import discover
from kafkafmt.log.formats import checkpoints, index_entries, leader_epochs
from kafkafmt.log.formats.snapshots import ProducerEntry, read_snapshot, snapshot_bytes

from .growth import grows_linearly, lines_of


def test_offset_checkpoints_are_read_in_linear_time() -> None:
    def work(n: int) -> Counter[str]:
        text = f"0\n{n}\n" + "".join(f"topic {i} {i}\n" for i in range(n))
        return lines_of(lambda: checkpoints.read_offset_checkpoint(text, "x"))

    grows_linearly(100, work)


def test_leader_epochs_are_read_in_linear_time() -> None:
    def work(n: int) -> Counter[str]:
        text = f"0\n{n}\n" + "".join(f"{i} {n - i}\n" for i in range(n))

        def read() -> None:
            found = checkpoints.read_leader_epochs(text)
            leader_epochs.believable_epochs(found)
            leader_epochs.believable_epochs([(e, o) for o, e in found])
            leader_epochs.within(found, 5, n)

        return lines_of(read)

    grows_linearly(100, work)


def test_properties_are_read_in_linear_time() -> None:
    """The texts contain continued lines, escapes and lines without an end."""

    def work(n: int) -> Counter[str]:
        texts = ["a=1\\\n" * n, "k\\u0041=\\t\n" * n, "\\" * n, "x " * n, "cluster.id" + "\\:" * n]

        def read() -> None:
            for text in texts:
                checkpoints._properties(text)

        return lines_of(read)

    grows_linearly(100, work)


def test_indexes_and_snapshots_are_read_in_linear_time() -> None:
    def work(n: int) -> Counter[str]:
        index = b"".join(struct.pack(">ii", i, i) for i in range(n))
        times = b"".join(struct.pack(">qi", i, i) for i in range(n))
        aborted = b"".join(struct.pack(">hqqqq", 0, i, i, i, i) for i in range(n))
        snapshot = snapshot_bytes(ProducerEntry(i) for i in range(n))

        def read() -> None:
            index_entries.read_offset_index(index, 0)
            index_entries.read_time_index(times, 0)
            index_entries.read_transaction_index(aborted)
            read_snapshot(snapshot)

        return lines_of(read)

    grows_linearly(100, work)


def test_discovery_grows_linearly_with_partitions_and_files(tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        root = tmp_path / str(n)
        for i in range(n):
            folder = root / f"t-{i}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{0:020}.log").write_bytes(b"")
        for i in range(n):
            (root / "t-0" / f"{i:020}.log").write_bytes(b"")
        (root / "log-start-offset-checkpoint").write_text(f"0\n{n}\n" + "".join(f"t {i} 0\n" for i in range(n)))
        return lines_of(lambda: discover([root]))

    grows_linearly(20, work)


def test_comparing_replicas_grows_linearly_with_partitions(tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        for side in "ab":
            for i in range(n):
                folder = tmp_path / f"{n}{side}" / f"t-{i}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{0:020}.log").write_bytes(b"")
        return lines_of(lambda: discover([tmp_path / f"{n}a", tmp_path / f"{n}b"], "longest"))

    grows_linearly(20, work)


def test_archives_are_listed_in_linear_time(tmp_path: Path) -> None:
    """The archive contains n partitions. Python's tarfile is not counted, so its calls are."""

    def work(n: int) -> Counter[str]:
        path = tmp_path / f"{n}.tar"
        with tarfile.open(path, "w") as tar:
            for i in range(n):
                for name in (f"{0:020}.log", f"{0:020}.index", "partition.metadata"):
                    tar.addfile(tarfile.TarInfo(f"topic-{i}/{name}"))
        reads: Counter[str] = Counter()
        with pytest.MonkeyPatch.context() as patch:
            real = tarfile.TarInfo.fromtarfile

            def counted(archive: tarfile.TarFile) -> tarfile.TarInfo:
                reads["tarfile"] += 1
                return real(archive)

            patch.setattr(tarfile.TarInfo, "fromtarfile", counted)
            lines = lines_of(lambda: discover([path]))
        return lines + reads

    grows_linearly(50, work)
