"""Test that offsets are parsed from the names of files."""

from __future__ import annotations

from kafkafmt.log.formats import bases_in, segment_name_of
from kafkafmt.log.formats.names import offsets_in

ONE, TWO = f"{1:020}", f"{2:020}"
OTHERS = [
    "x.log",
    "1.log",
    f"{1:021}.log",
    f"{2**63:020}.log",
    f"{ONE}.log.bz2",
    f"-{1:019}.log",
    f"{ONE}.logx",
    ".log",
]


def test_offsets_are_parsed_only_from_names_with_20_digits_and_the_suffix() -> None:
    names = [*OTHERS, f"{ONE}.log", f"{ONE}.snapshot", f"{TWO}.log", f"{TWO}.log.gz"]
    assert offsets_in(names, ".log") == {1: f"{ONE}.log", 2: f"{TWO}.log"}
    assert offsets_in(names, ".snapshot") == {1: f"{ONE}.snapshot"}
    assert offsets_in(names, ".txnindex") == {}


def test_base_offsets_of_plain_and_compressed_segments_are_parsed() -> None:
    names = [f"{ONE}.log", f"{ONE}.log.zst", f"{TWO}.log.gz", f"{ONE}.index.gz", "x.log.gz"]
    assert bases_in([*OTHERS, *names]) == [(1, names[0]), (1, names[1]), (2, names[2])]


def test_compressed_segment_is_recognized_by_its_name_or_path() -> None:
    for folder in ("", "/", "t-0/", "/x.log.gz/"):
        assert segment_name_of(f"{folder}{ONE}.log.gz") == f"{ONE}.log"
        assert segment_name_of(f"{folder}x{ONE}.log.gz") is None
        assert segment_name_of(f"{folder}{ONE}.log") is None
    assert segment_name_of(f"{ONE}.log.gz/{ONE}.log") is None
