"""Check the HTML tables of logs and partitions in notebooks."""

from __future__ import annotations

import struct
from html.parser import HTMLParser
from pathlib import Path

import pytest
from building import batch, record
from golden_cases import case

import kafkafmt
from kafkafmt.reports import RestoredPartition, RestoreReport
from kafkafmt.support.notebook import MOST_ROWS, html_table


def written(path: Path, name: str, *batches: bytes) -> Path:
    (path / name).mkdir()
    (path / name / f"{0:020}.log").write_bytes(b"".join(batches))
    return path / name


class Cells(HTMLParser):
    """Collects the tags and texts of an HTML document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs or (tag in ("td", "th") and [name for name, _ in attrs] == ["style"])
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_table_shows_its_cells_escaped() -> None:
    shown = Cells(html_table("<b>", ["a&b", "n"], [["<script>", 1], ["\x1b[0m\u202e", None]]))
    assert shown.tags == TAGS
    assert shown.texts == ["<b>", "a&b", "n", "<script>", "1", "\\x1b[0m\\u202e"]


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    table = html_table("c", ["name", "n", "bytes"], [["a", 1, "1,000"], ["2", None, "-2.5"]])
    mixed = html_table("c", ["n"], [["5"], ["unknown"]])
    assert '<td style="text-align: right">unknown<' in mixed
    left, right = '<t{} style="text-align: left">{}<', '<t{} style="text-align: right">{}<'
    assert [left.format("h", "name") in table, left.format("d", "2") in table] == [True, True]
    assert [right.format("h", "n") in table, right.format("d", "") in table] == [True, True]
    assert [right.format("d", "1,000") in table, right.format("d", "-2.5") in table] == [True, True]


def test_long_table_shows_how_many_rows_it_omits() -> None:
    assert "more" not in html_table("c", ["n"], [[n] for n in range(MOST_ROWS)])
    shown = Cells(html_table("c", ["n"], [[n] for n in range(MOST_ROWS + 3)]))
    assert shown.texts == ["c", "n", *map(str, range(MOST_ROWS)), "… and 3 more"]


def test_log_and_partition_have_tables(tmp_path: Path) -> None:
    for name in ("t-0", "<i>-1"):
        (tmp_path / name).mkdir()
        for base in (0, 5):
            (tmp_path / name / f"{base:020}.log").write_bytes(b"x" * 1000 * (base + 1))
    log = kafkafmt.open(tmp_path)
    shown = Cells(log._repr_html_())
    assert shown.tags == TAGS
    assert shown.texts[0] == "2 partitions of 2 topics"
    assert shown.texts[8:15] == ["<i>", "1", "live", "0", "5", "2", "7,000"]
    shown = Cells(log["t", 0]._repr_html_())
    assert shown.texts[0].startswith("Partition t-0 (live), log start offset 0, next offset 5, ")
    assert shown.texts[1:] == ["segment", "bytes", f"{0:020}.log", "1,000", f"{5:020}.log", "6,000"]


def test_log_table_shows_next_offsets_and_no_none(tmp_path: Path) -> None:
    path = written(tmp_path, "t-0", batch([record(0), record(1)], base_offset=7))
    written(tmp_path, "t-1")
    for table in (kafkafmt.open(tmp_path), kafkafmt.open(tmp_path)["t"]):
        shown = Cells(table._repr_html_()).texts
        start = shown.index("0", shown.index("bytes"))
        size = f"{(path / f'{0:020}.log').stat().st_size}"
        assert shown[start : start + 6] == ["0", "live", "0", "9", "1", size]
        assert shown[-6:-1] == ["1", "live", "0", "0", "1"]
        assert "None" not in shown


def test_log_table_marks_next_offsets_that_cannot_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, "t-0", batch([record(0)]))
    log = kafkafmt.open(tmp_path)
    (path / f"{0:020}.log").unlink()
    assert "unknown" in Cells(log._repr_html_()).texts


def test_log_table_reads_only_the_partitions_that_it_shows(tmp_path: Path) -> None:
    for number in range(MOST_ROWS + 5):
        written(tmp_path, f"t-{number}", batch([record(0)]))
    log = kafkafmt.open(tmp_path)
    assert Cells(log._repr_html_()).texts[-1] == "… and 5 more"
    assert sum(p.log.planned for p in log) == MOST_ROWS


def test_reports_of_changes_have_tables(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    made = kafkafmt.make(pa.table({"value": ["a", "b"]}), tmp_path / "made", topic="t")
    assert Cells(made._repr_html_()).texts[1:6] == ["partition", "records", "bytes", "t-0", "2"]
    rewritten = kafkafmt.rewrite(tmp_path / "made", tmp_path / "out", codec="zstd")
    assert Cells(rewritten._repr_html_()).texts[7:10] == ["t-0", "2", "2"]
    restored = RestoreReport(tmp_path, (RestoredPartition("t", 0, str(tmp_path / "t-0"), None, 5, 1007),))
    assert Cells(restored._repr_html_()).texts[5:] == ["t-0", "5", "1,007"]


def test_groups_have_a_table() -> None:
    groups = kafkafmt.open(*case("internal").roots).groups()
    shown = Cells(groups._repr_html_())
    assert shown.texts[0] == "2 groups with 3 committed offsets"
    assert repr(groups) == "<kafkafmt.reports.Groups: 2 groups with 3 committed offsets>"
    assert shown.texts[6:11] == ["classic-static", "source-0", "20", "30", "10"]


def test_table_of_groups_counts_groups_without_members(tmp_path: Path) -> None:
    commits = [
        (struct.pack(">hh1sh1si", 1, 1, group, 1, b"t", partition), struct.pack(">hqihq", 3, 5, -1, 0, 1000))
        for group, partition in [(b"a", 0), (b"a", 1), (b"b", 0)]
    ]
    with kafkafmt.LogDirectory(tmp_path) as directory:
        directory.writer("__consumer_offsets", 0).append(commits)
    groups = kafkafmt.open(tmp_path).groups()
    assert groups.groups == []
    assert Cells(groups._repr_html_()).texts[0] == "2 groups with 3 committed offsets"
    assert repr(groups) == "<kafkafmt.reports.Groups: 2 groups with 3 committed offsets>"
