"""Test how a directory is read: partition names, states, replicas and checkpoints."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from building import batch, record
from golden_cases import case

from kafkafmt.cli.offset_range import parse_offsets
from kafkafmt.errors import StructureError
from kafkafmt.log import DuplicatePartitionError, NoLogError, discover
from kafkafmt.log.formats.checkpoints import read_leader_epochs, read_offset_checkpoint, read_partition_metadata
from kafkafmt.log.formats.names import PartitionName, base_offset_of, parse_partition_name
from kafkafmt.log.reading.record_selection import OffsetBound
from kafkafmt.support.times import parse_time


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-3", ("orders", 3, "live", True)),
        ("a-b.c_d-10", ("a-b.c_d", 10, "live", True)),
        ("ends-in-7-0", ("ends-in-7", 0, "live", True)),
        ("0-1", ("0", 1, "live", True)),
        ("...-0", ("...", 0, "live", True)),
        ("t-1.d96be11a8f1d44adb9bd26eacfa7667e-delete", ("t", 1, "delete", True)),
        ("a.b-1.d96be11a8f1d44adb9bd26eacfa7667e-future", ("a.b", 1, "future", True)),
        ("s-0.69ce55ec4a9c48038a95abb858b7250a-stray", ("s", 0, "stray", True)),
        ("noDash", ("noDash", 0, "live", False)),
        ("-5", ("-5", 0, "live", False)),
        ("topic-x", ("topic-x", 0, "live", False)),
        ("topic-", ("topic-", 0, "live", False)),
        ("topic-²", ("topic-²", 0, "live", False)),
    ],
)
def test_partition_directory_name_is_parsed(name: str, expected: tuple[str, int, str, bool]) -> None:
    assert parse_partition_name(name) == PartitionName(*expected)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("00000000000000000000.log", 0),
        ("00000000000000000547.log", 547),
        ("09223372036854775807.log", 2**63 - 1),
        ("09223372036854775808.log", None),
        ("547.log", None),
        ("00000000000000000000.log.deleted", None),
        ("00000000000000000000.index", None),
    ],
)
def test_segment_file_name_is_parsed(name: str, base: int | None) -> None:
    assert base_offset_of(name) == base


def test_offset_checkpoint_is_parsed_or_raises() -> None:
    assert read_offset_checkpoint("0\n2\na-b 0 5\nc 11 7\n", "f") == {("a-b", 0): 5, ("c", 11): 7}
    assert read_offset_checkpoint("", "f") == {}
    assert read_offset_checkpoint("0\n0\n", "f") == {}
    for text in ("1\n0\n", "0\n", "0\nx\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na b 1\n", "junk"):
        with pytest.raises(StructureError):
            read_offset_checkpoint(text, "f")


def test_leader_epochs_and_partition_metadata_are_parsed_or_raise() -> None:
    assert read_leader_epochs("0\n2\n0 0\n3 17\n") == [(0, 0), (3, 17)]
    with pytest.raises(StructureError, match="negative"):
        read_leader_epochs("0\n1\n-1 0\n")
    assert read_partition_metadata("version: 0\ntopic_id: abcdefghijklmnopqrstuv") == {
        "version": "0",
        "topic_id": "abcdefghijklmnopqrstuv",
    }
    zeros = "A" * 22
    for text in ("version 0", "version: 0", "topic_id: x", "version: 0\ntopic_id: x", f"version: 0\ntopic_id: {zeros}"):
        with pytest.raises(StructureError):
            read_partition_metadata(text)


def make(path: Path, n: int = 1) -> Path:
    path.mkdir(parents=True)
    (path / f"{0:020}.log").write_bytes(batch([record(i) for i in range(n)]))
    return path


def test_partitions_of_two_roots_have_their_states() -> None:
    found = discover(case("jbod").roots).partitions
    assert {p.state for p in found} == {"live", "delete", "future", "stray"}
    assert len({p.key for p in found if p.state == "live"}) == sum(p.state == "live" for p in found)


def test_log_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    make(tmp_path / "data-1" / "t-0")
    (partition,) = discover([tmp_path / "data-1"]).partitions
    assert (partition.topic, partition.partition, partition.named) == ("t", 0, False)


def test_files_with_other_suffixes_are_not_segments(tmp_path: Path) -> None:
    path = make(tmp_path / "t-0")
    for suffix in (".log.deleted", ".log.cleaned", ".log.swap", ".snapshot", ".index"):
        (path / f"{100:020}{suffix}").write_bytes(b"x" * 100)
    (partition,) = discover([tmp_path]).partitions
    assert [s.name for s in partition.segments] == [f"{0:020}.log"]
    assert partition.segments[0].last


def test_other_directories_are_not_partitions(tmp_path: Path) -> None:
    make(tmp_path / "t-0")
    for name in ("lost+found", "remote-log-index-cache", "empty-0"):
        (tmp_path / name).mkdir()
    assert [p.key for p in discover([tmp_path]).partitions] == [("t", 0)]


def test_replicas_raise_unless_the_longest_is_chosen(tmp_path: Path) -> None:
    short, long = make(tmp_path / "a" / "t-0", 3), make(tmp_path / "b" / "t-0", 9)
    with pytest.raises(
        DuplicatePartitionError,
        match=r"t-0 is in both .*; open only one of the two directories, pass replicas=\"longest\", or merge both",
    ):
        discover([tmp_path / "a", tmp_path / "b"])
    for order in ([short.parent, long.parent], [long.parent, short.parent]):
        assert [p.path for p in discover(order, "longest").partitions] == [long]
    assert len(discover([short.parent, short.parent]).partitions) == 1


def test_duplicate_partition_error_carries_facts_and_names_no_option(tmp_path: Path) -> None:
    one, two = make(tmp_path / "a" / "t-0"), make(tmp_path / "b" / "t-0")
    with pytest.raises(DuplicatePartitionError) as caught:
        discover([one.parent, two.parent])
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.topic, error.partition, error.paths) == ("t", 0, (one, two))
        assert error.problem == f"t-0 is in both {one} and {two}"
        assert str(error) == (
            f'{error.problem}; open only one of the two directories, pass replicas="longest", or merge both with '
            'kafkafmt.salvage(..., replicas="merge")'
        )


def test_partition_is_readable_if_it_is_live_or_a_path(tmp_path: Path) -> None:
    stray = make(tmp_path / "t-1.d96be11a8f1d44adb9bd26eacfa7667e-stray")
    make(tmp_path / "t-0")
    assert [(p.state, p.readable) for p in discover([tmp_path]).partitions] == [("live", True), ("stray", False)]
    assert [(p.state, p.readable) for p in discover([stray]).partitions] == [("stray", True)]


def test_missing_path_or_path_without_a_log_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        discover([tmp_path / "nothing"])
    (tmp_path / "f.txt").write_text("")
    for path in (tmp_path, tmp_path / "f.txt"):
        with pytest.raises(NoLogError):
            discover([path])


def test_log_start_offset_is_read_from_the_checkpoint(tmp_path: Path) -> None:
    make(tmp_path / "t-0")
    make(tmp_path / "u-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 17\n")
    assert [p.log_start_offset for p in discover([tmp_path]).partitions] == [17, 0]


def test_single_file_is_the_last_segment_unless_a_higher_one_exists(tmp_path: Path) -> None:
    path = make(tmp_path / "t-0")
    assert discover([path / f"{0:020}.log"]).partitions[0].segments[0].last
    (path / f"{5:020}.log").write_bytes(b"")
    (only,) = discover([path / f"{0:020}.log"]).partitions[0].segments
    assert (only.last, only.next_base) == (False, 5)


@pytest.mark.parametrize(
    ("text", "ms"), [("0", 0), ("-1", -1), ("2026-01-01", 1767225600000), ("2026-01-01T00:00:00.5Z", 1767225600500)]
)
def test_time_is_parsed_as_milliseconds(text: str, ms: int) -> None:
    assert parse_time(text) == ms


def test_offset_range_is_parsed() -> None:
    assert parse_offsets("5:-3") == (OffsetBound("offset", 5), OffsetBound("before_end", 3))
    assert parse_offsets(":") == (None, None)
    assert parse_offsets("5") == parse_offsets("5:") == (OffsetBound("offset", 5), None)
    assert parse_offsets("@5:@6") == (OffsetBound("time", 5), OffsetBound("time", 6))
