"""Test directories that no broker writes: odd names, links, broken checkpoints, overlapping segments."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from building import GZIP, batch, compress, message, record, simple_batch
from command import inside
from golden_cases import case
from reports import verify_partition
from selecting import interval

import kafkafmt
from kafkafmt.cli.offset_range import parse_offsets
from kafkafmt.errors import StructureError
from kafkafmt.log import NoLogError, PartitionLog, discover
from kafkafmt.log.formats.checkpoints import read_offset_checkpoint
from kafkafmt.log.formats.names import PartitionName, base_offset_of, parse_partition_name
from kafkafmt.log.reading.lookups import find_timestamp
from kafkafmt.log.reading.record_selection import Selection
from kafkafmt.log.storage import file_view

LAST = 2**63 - 1


def five(first: int) -> bytes:
    return simple_batch([b"v%d" % (first + i) for i in range(5)], first)


def segment(path: Path, base: int, *batches: bytes) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    file = path / f"{base:020}.log"
    file.write_bytes(b"".join(batches))
    return file


def open_only(path: Path) -> PartitionLog:
    (directory,) = discover([path]).partitions
    return PartitionLog(directory)


def offsets(log: PartitionLog, **given: Any) -> list[int]:
    return [r.offset for r in log.records(interval(log, **given))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("backup-20260101000000", ("backup-20260101000000", 0, "live", False)),
        ("t-2147483647", ("t", 2147483647, "live", True)),
        ("t-2147483648", ("t-2147483648", 0, "live", False)),
        ("t-1-delete", ("t", 1, "delete", True)),
        ("a.b-1-stray", ("a.b", 1, "stray", True)),
        ("nothing.0123-future", ("nothing.0123-future", 0, "future", False)),
        ("orders-delete-0", ("orders-delete", 0, "live", True)),
        ("with space-1.ab-delete", ("with space", 1, "delete", True)),
        ("line\nbreak-4", ("line\nbreak", 4, "live", True)),
    ],
)
def test_partition_name_that_no_broker_writes_is_parsed(name: str, expected: tuple[str, int, str, bool]) -> None:
    assert parse_partition_name(name) == PartitionName(*expected)


def test_digits_of_a_segment_name_are_ascii() -> None:
    assert base_offset_of("٠" * 20 + ".log") is None
    assert base_offset_of("0" * 20 + ".log\n") is None


def test_directory_given_by_several_paths_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "data" / "__t-0"
    first, second = segment(path, 0, five(0)), segment(path, 5, five(5))
    (tmp_path / "link").symlink_to(tmp_path / "data")
    for paths in ([path.parent, path], [path.parent, tmp_path / "link"], [path, first], [second, first]):
        (directory,) = discover(paths).partitions
        assert [s.base_offset for s in directory.segments] == [0, 5]
        assert offsets(PartitionLog(directory)) == list(range(10))
    assert discover([path.parent, path]).partitions[0].named


def test_single_files_have_no_gap_between_them(tmp_path: Path) -> None:
    files = [segment(tmp_path / "t-0", base, five(base)) for base in (0, 5, 10)]
    (directory,) = discover([files[0], files[2]]).partitions
    assert verify_partition(PartitionLog(directory))["findings"] == []


def test_gap_after_an_empty_segment_is_reported(tmp_path: Path) -> None:
    for base, batches in ((0, [five(0)]), (5, []), (10, [five(10)])):
        segment(tmp_path / "t-0", base, *batches)
    (lost,) = verify_partition(open_only(tmp_path))["damaged"]
    assert (lost["error"], lost["first_offset"], lost["last_offset"]) == ("missing_segment", 5, 9)


def test_other_logs_make_no_partition_of_a_log_directory(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, five(0))
    (tmp_path / "server.log").write_text("started")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "server.log").write_text("started")
    assert [p.key for p in discover([tmp_path]).partitions] == [("t", 0)]


def test_log_file_that_is_not_a_segment_is_a_finding(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, five(0))
    (tmp_path / "t-0" / "copy.log").write_bytes(five(0))
    log = open_only(tmp_path)
    assert offsets(log) == list(range(5))
    assert [f["error"] for f in verify_partition(log)["findings"]] == ["not_a_segment"]
    assert offsets(open_only(tmp_path / "t-0" / "copy.log")) == list(range(5))


def wrapper(magic: int, offsets: list[int]) -> bytes:
    """Return a wrapper message. In format 1, the last inner message has the offset of the wrapper message."""
    inner = [message(magic, None, b"v", offset=o - offsets[0] if magic else o) for o in offsets]
    return message(magic, None, compress(GZIP, b"".join(inner)), offset=offsets[-1], attributes=GZIP)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compaction", [[], [12], [11, 12, 13]])
def test_gap_between_wrapper_messages_is_reported_unless_the_log_is_compacted(
    magic: int, compaction: list[int], tmp_path: Path
) -> None:
    """Compaction can remove a message inside a wrapper message, or a whole wrapper message."""
    folder = tmp_path / "t-0"
    segment(folder, 0, wrapper(magic, [0, 1, 2]), wrapper(magic, [3, 4]))
    last = [
        wrapper(magic, kept)
        for group in ([10], [11, 12, 13], [14])
        if (kept := [o for o in group if o not in compaction])
    ]
    segment(folder, 10, *last)
    found = [(d["first_offset"], d["last_offset"]) for d in verify_partition(open_only(tmp_path))["damaged"]]
    assert found == ([] if compaction else [(5, 9)])


def test_interrupted_swap_is_reported_as_a_message_and_a_finding(tmp_path: Path) -> None:
    first = segment(tmp_path / "t-0", 0, five(0))
    swap = segment(tmp_path / "t-0", 5, five(5)).rename(tmp_path / "t-0" / f"{5:020}.log.swap")
    segment(tmp_path / "t-0", 10, five(10))
    (first.parent / f"{10:020}.log.cleaned").write_bytes(five(10))
    found = discover([tmp_path])
    (message,) = found.messages
    assert message.startswith(f"{swap}: not read; a broker is replacing segments with this file, or was stopped")
    log = PartitionLog(found.partitions[0])
    assert offsets(log) == [*range(5), *range(10, 15)]
    report = verify_partition(log)
    assert {f["error"]: f["file"] for f in report["findings"]} == {"interrupted_swap": swap.name}
    assert not report["damaged"]  # the next start of a broker renames the file


def test_lost_and_found_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment(tmp_path / "t-0", 0, five(0))
    (tmp_path / "lost+found").mkdir()
    scandir = os.scandir

    def refusing(path: str | os.PathLike[str]) -> object:
        if str(path).endswith("lost+found"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert len(discover([tmp_path]).partitions) == 1


def test_empty_path_is_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment(tmp_path / "t-0", 0, five(0))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        discover([""])
    assert len(discover(["."]).partitions) == 1
    with pytest.raises(NoLogError):
        discover([segment(tmp_path / "x-0", 0).with_suffix(".log").rename(tmp_path / "x-0" / "a.txt")])


@pytest.mark.parametrize(
    "text",
    [
        "\0" * 20,
        "\n",
        "0\n²\n",
        "0\n" + "9" * 5000,
        f"0\n1\nt 0 {LAST + 1}\n",
        "0\n1\nt 0 1_0\n",
        "0\n1\nt ٠ 1\n",
        "0\n1\nt 0 x\n",
    ],
)
def test_broken_offset_checkpoint_is_reported_and_ignored(tmp_path: Path, text: str) -> None:
    with pytest.raises(StructureError):
        read_offset_checkpoint(text, "f")
    segment(tmp_path / "t-0", 0, five(0))
    (tmp_path / "log-start-offset-checkpoint").write_text(text)
    found = discover([tmp_path])
    assert found.partitions[0].log_start_offset == 0
    assert any("log-start-offset-checkpoint" in m for m in found.messages)


def test_checkpoint_that_is_huge_or_a_directory_is_a_finding(tmp_path: Path) -> None:
    path = segment(tmp_path / "t-0", 0, five(0)).parent
    (tmp_path / "log-start-offset-checkpoint").mkdir()
    (path / f"{0:020}.index").mkdir()
    for huge in (path / "leader-epoch-checkpoint", tmp_path / "cleaner-offset-checkpoint"):
        huge.write_bytes(b"")
        os.truncate(huge, 1 << 40)
    log = open_only(tmp_path)
    assert offsets(log, start=2, end=3) == [2]
    assert {f["error"] for f in verify_partition(log)["findings"]} == {"unreadable_checkpoint"}
    assert len(verify_partition(log)["findings"]) == 3


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x1d", "\x85", "\u2028"])
def test_checkpoint_with_too_many_lines_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """The number of lines is limited, because parsing a line of 5 bytes needs about 250 bytes of memory."""
    monkeypatch.setattr(file_view, "MAX_TEXT_LINES", 100)
    path = segment(tmp_path / "t-0", 0, five(0)).parent
    for name in (
        path / "leader-epoch-checkpoint",
        path / "partition.metadata",
        tmp_path / "log-start-offset-checkpoint",
    ):
        name.write_bytes((end * 101).encode())
    assert "log-start-offset-checkpoint" in " ".join(discover([tmp_path]).messages)
    log = open_only(tmp_path)
    assert offsets(log) == list(range(5))
    messages = [f["message"] for f in verify_partition(log)["findings"]]
    assert sum("has 101 lines; the limit is 100" in m for m in messages) >= 2


def test_checkpoint_line_of_many_parts_is_not_split_whole() -> None:
    with pytest.raises(StructureError, match="line 3 has more than 3 fields; it must have 3"):
        read_offset_checkpoint("0\n1\n" + "a " * 100_000, "f")
    with pytest.raises(StructureError, match="line 3 has 2 fields; it must have 3"):
        read_offset_checkpoint("0\n1\na 1", "f")


def test_batches_in_overlapping_segments_are_delivered_once(tmp_path: Path) -> None:
    """A batch that belongs to another segment is damage, and no offset is missing because of it."""
    segment(tmp_path / "t-0", 0, five(0), five(5), five(10))
    segment(tmp_path / "t-0", 10, five(5), five(10), five(15))
    log = open_only(tmp_path)
    report = verify_partition(log)
    assert [(d["file"], d["error"], d["first_offset"], d["last_offset"]) for d in report["damaged"]] == [
        (f"{0:020}.log", "contradicting_offsets", 10, 9),
        (f"{10:020}.log", "contradicting_offsets", 10, 9),
    ]
    assert [r.offset for r in log.records(on_damage=lambda _: None)] == list(range(20))


def test_batch_across_a_segment_boundary_is_the_only_damage(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, five(0), five(5))
    segment(tmp_path / "t-0", 7, five(7), five(12))
    report = verify_partition(open_only(tmp_path))
    assert [(d["position"], d["first_offset"], d["last_offset"]) for d in report["damaged"]] == [(len(five(0)), 5, 6)]
    assert report["records_recovered"] == 15


def test_batch_at_the_largest_possible_offset_is_damage(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, five(0), simple_batch([b"a"], LAST))
    log = open_only(tmp_path)
    report = verify_partition(log)
    assert [d["error"] for d in report["damaged"]] == ["contradicting_offsets"]
    assert (report["next_offset"], report["records_recovered"]) == (5, 5)


def test_time_lookup_works_with_a_truncated_time_index(tmp_path: Path) -> None:
    start, path = 1_700_000_000_000, tmp_path / "t-0"
    segment(
        path,
        0,
        *(
            batch([record(i, i) for i in range(5)], base_offset=5 * b, base_timestamp=start + b * 1000)
            for b in range(20)
        ),
    )
    segment(path, 100, batch([record(0)], base_offset=100, base_timestamp=start + 10**9))
    entries = [(start + b * 1000 + 4, b * 5 + 4) for b in range(20)]
    for kept in (entries, entries[:-1], entries[:5], entries[:1], [*entries[:5], (0, 0), (0, 0)], entries[::3]):
        (path / f"{0:020}.timeindex").write_bytes(b"".join(struct.pack(">qi", *e) for e in kept))
        found = [find_timestamp(open_only(tmp_path), start + ms) for ms in (0, 5, 5000, 15002, 19004, 19005)]
        assert [hit and hit.offset for hit in found] == [0, 5, 25, 77, 99, 100]


@pytest.mark.parametrize("spec", ["@2026-01-01:10", "@2026-01-01:1000"])
def test_offset_after_a_date_is_not_read_as_an_hour(spec: str) -> None:
    start, end = parse_offsets(spec)
    assert start is not None
    assert end is not None
    assert (start.n, end.kind, end.n) == (1767225600000, "offset", int(spec.rpartition(":")[2]))


def test_offset_beyond_64_bits_is_clamped(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, five(0))
    log = open_only(tmp_path)
    for spec, count in (
        (f":{10**30}", 5),
        (f"{10**30}:", 0),
        (f"-{10**30}:", 5),
        (f"@{10**30}:", 0),
        (f":@{10**30}", 5),
    ):
        selected = Selection(*parse_offsets(spec)).resolve(log)
        assert len(list(log.records(selected))) == count
    assert len(list(kafkafmt.open(tmp_path)["t", 0].records(end=10**30))) == 5


def test_read_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = segment(tmp_path / "t-0", 0, five(0))

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", failing)
    with pytest.raises(OSError, match="Input/output error") as caught:
        offsets(open_only(tmp_path))
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(file))


def test_file_removed_after_listing_is_reported(tmp_path: Path) -> None:
    first = segment(tmp_path / "t-0", 0, five(0))
    segment(tmp_path / "t-0", 5, five(5))
    log = kafkafmt.open(tmp_path)
    assert log.messages == []
    first.unlink()
    assert [r.offset for r in log["t", 0]] == list(range(5, 10))
    assert [m.rpartition(": ")[2] for m in log.messages] == ["deleted by retention before it was read"]


PLACES = [
    "00000000000000000000.index",
    "00000000000000000000.timeindex",
    "00000000000000000000.txnindex",
    "00000000000000000005.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "../log-start-offset-checkpoint",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("linked", [False, True])
def test_named_pipe_in_place_of_a_file_does_not_block(tmp_path: Path, place: str, linked: bool) -> None:
    path = tmp_path / "data" / "t-0"
    segment(path, 0, five(0), five(5))
    if linked:
        os.mkfifo(tmp_path / "pipe")
        (path / place).symlink_to(tmp_path / "pipe")
    else:
        os.mkfifo(path / place)
    log = open_only(path.parent)
    assert offsets(log) == list(range(10))
    assert offsets(log, start=7) == [7, 8, 9]
    assert find_timestamp(log, 0) is not None
    assert verify_partition(log)["damaged"] == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_named_pipe_under_a_file_name_does_not_block(suffix: str, tmp_path: Path) -> None:
    source = case("kafka-4.3.1/transactions").partition_dir("tx", 0)
    copy = shutil.copytree(source, tmp_path / source.name)
    path = sorted(copy.glob(f"*{suffix}"))[-1]
    path.unlink()
    os.mkfifo(path)
    report = verify_partition(PartitionLog(discover([copy]).partitions[0]))
    assert report["damaged"] == []
    assert report["next_offset"] == 107


def test_circular_links_are_reported_and_the_log_is_read(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, five(0), five(5))
    for name in ("t-1", "t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex"):
        (tmp_path / name).symlink_to(Path(name).name)
    found = discover([tmp_path])
    assert found.messages == [f"{tmp_path / 't-1'}: the target of the link does not exist"]
    (log,) = map(PartitionLog, found.partitions)
    assert offsets(log, start=7) == [7, 8, 9]
    assert find_timestamp(log, 0) is not None


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000005.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
def test_partition_with_a_circular_link_is_verified_and_salvaged(tmp_path: Path, name: str) -> None:
    segment(tmp_path / "log" / "t-0", 0, five(0), five(5))
    (tmp_path / "log" / "t-0" / name).symlink_to(name)
    assert not kafkafmt.verify(tmp_path / "log").unreadable
    report = kafkafmt.salvage(tmp_path / "log", tmp_path / "copy")
    assert [Path(entry.path).name for entry in report.unreadable] == [name]
    (log,) = map(PartitionLog, discover([tmp_path / "copy"]).partitions)
    assert offsets(log) == list(range(10))


def test_path_without_read_permission_is_not_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkafmt.cli.cat import cat

    monkeypatch.setattr(os, "access", lambda *_: False)
    assert cat.make_context("cat", [str(tmp_path)]).params["paths"] == (str(tmp_path),)


@pytest.mark.parametrize(("name", "first", "last"), [(7, 5, 6), (6, 5, 5), (3, 3, 4)])
def test_offsets_lost_by_a_wrong_segment_name_are_reported(tmp_path: Path, name: int, first: int, last: int) -> None:
    """The second of three segments has a wrong name.

    Offsets that are not part of the damage are lost.
    """
    path = tmp_path / "t-0"
    for base, batches in ((0, five(0)), (name, five(5)), (10, five(10))):
        segment(path, base, batches)
    report = verify_partition(open_only(path))
    (lost,) = (d for d in report["damaged"] if d["error"] == "missing_segment")
    (damage,) = (d for d in report["damaged"] if d is not lost)
    assert (lost["first_offset"], lost["last_offset"]) == (first, last)
    low, high = (0, 4) if name == 3 else (5, 9)
    missing = set(range(low, high + 1)) - set(range(damage["first_offset"], damage["last_offset"] + 1))
    assert missing == set(range(first, last + 1))


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_directory(path: Path) -> None:
    path.mkdir()


def as_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))  # The path of a socket has at most 107 bytes.


def as_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_link_to_a_directory(path: Path) -> None:
    path.symlink_to(path.parent.parent)


WRONG_SEGMENT = r"00010\.log|not a regular file|Is a directory|No such device"


@pytest.mark.parametrize("make", [as_pipe, as_directory, as_socket, as_link_to_a_device, as_link_to_a_directory])
def test_segment_that_is_not_a_file_makes_the_partition_unreadable(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    for base in (0, 5, 10):
        segment(data / "t-0", base, five(base))
    place = data / "t-0" / f"{10:020}.log"
    place.unlink()
    make(place)
    (partition,) = kafkafmt.open(data)
    with pytest.raises(OSError, match=WRONG_SEGMENT):
        list(partition)
    for command in (["cat", data], ["verify", data], ["export", data, "--engine", "local", "-O", "out"]):
        assert inside(*command).returncode == 3
    with kafkafmt.LogDirectory(data) as directory:
        if place.is_dir():  # Kafka ignores it, too
            assert directory.writer("t", 0).next_offset == 10
        else:
            with pytest.raises(OSError, match=WRONG_SEGMENT):
                directory.writer("t", 0)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_directory_named_like_a_compressed_segment_makes_the_partition_unreadable(tmp_path: Path, suffix: str) -> None:
    data = tmp_path / "data"
    for base in (0, 5):
        segment(data / "t-0", base, five(base))
    (data / "t-0" / f"{10:020}.log{suffix}").mkdir()
    (partition,) = kafkafmt.open(data)
    with pytest.raises(OSError, match=WRONG_SEGMENT):
        list(partition)
    assert inside("verify", data).returncode == 3
