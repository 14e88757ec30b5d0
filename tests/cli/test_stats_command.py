"""Test `kafkafmt stats`: its text, its chart, its JSON and its plots."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from building import batch, record
from command import inside as kafkafmt
from golden_cases import GOLDEN

from kafkafmt.cli.chart import sparkline
from kafkafmt.log.inspecting.stats_report import Rate, RateBucket

CODECS = GOLDEN / "kafka-4.3.1" / "codecs" / "log"


def written(path: Path, name: str, *batches: bytes) -> Path:
    (path / name).mkdir()
    (path / name / f"{0:020}.log").write_bytes(b"".join(batches))
    return path


def test_stats_prints_a_table_and_one_block_for_each_topic() -> None:
    done = kafkafmt("stats", CODECS, "-t", "codec-zstd", "--deep")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["topic", "records", "batches", "bytes"]
    assert lines[1].split()[:6] == ["codec-zstd", "547", "28", "89,661", "327,349", "3.65"]
    labels = [line.split()[0] for line in lines[4:]]
    assert labels[:6] == ["codec", "records", "keys", "headers", "producers", "rate"]
    assert "34 distinct keys: falling-0 39" in done.stdout


def test_stats_without_most_frequent_values_prints_no_empty_list() -> None:
    log = GOLDEN / "kafka-4.3.1" / "transactions" / "log"
    for path in (CODECS, log):
        done = kafkafmt("stats", path, "--deep", "--top", "0")
        assert done.returncode == 0
        assert not re.search(": *$|: ;|:;", done.stdout, re.MULTILINE)
    assert "producer" in done.stdout


def test_stats_without_deep_prints_unknown_sizes() -> None:
    lines = kafkafmt("stats", CODECS, "-t", "codec-zstd").stdout.splitlines()
    assert lines[1].split()[:6] == ["codec-zstd", "547", "28", "89,661", "?", "?"]


def test_json_of_stats_has_the_keys_of_the_contract() -> None:
    found = json.loads(kafkafmt("stats", CODECS, "--format", "json", "--top", "1").stdout)
    assert list(found) == ["topics"]
    row = next(t for t in found["topics"] if t["topic"] == "codec-lz4")
    assert {name: row[name] for name in ("partitions", "records", "bytes", "bytes_uncompressed", "keys")} == {
        "partitions": 1,
        "records": 547,
        "bytes": 170637,
        "bytes_uncompressed": None,
        "keys": None,
    }
    assert (row["first_timestamp"], row["last_timestamp"]) == (0, 2**63 - 1)
    assert {name: row["codecs"]["lz4"][name] for name in ("batches", "records", "bytes")} == {
        "batches": 28,
        "records": 547,
        "bytes": 170637,
    }
    assert [p["partition"] for p in row["by_partition"]] == [0]
    deep = json.loads(kafkafmt("stats", CODECS, "--deep", "--format", "json", "--top", "1").stdout)
    row = next(t for t in deep["topics"] if t["topic"] == "codec-lz4")
    assert row["keys"] == {"distinct": 34, "exact": True, "top": [{"key": "falling-0", "records": 39}]}


def test_names_and_keys_are_escaped(tmp_path: Path) -> None:
    path = written(tmp_path, "esc\x1b]0;x-0", batch([record(0, 0, b"\x1b[31mred\xff", b"v", [(b"h\x07", b"")])]))
    for options in ((), ("--format", "json")):
        done = kafkafmt("stats", path, "--deep", *options)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout
        assert "[31mred" in done.stdout


def test_damage_and_missing_topics_set_the_exit_code(tmp_path: Path) -> None:
    broken = bytearray(batch([record(0)]))
    broken[-1] ^= 1
    path = written(tmp_path, "t-0", bytes(broken), batch([record(0)], base_offset=1))
    done = kafkafmt("stats", path)
    assert (done.returncode, done.stdout.splitlines()[0].split()[-3:]) == (1, ["damaged", "times", "(UTC)"])
    assert kafkafmt("stats", path, "-t", "other").returncode == 2
    assert kafkafmt("stats", tmp_path / "missing").returncode == 3


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<html>")])
def test_plot_writes_a_file_in_the_format_of_its_suffix(tmp_path: Path, suffix: str, start: bytes) -> None:
    pytest.importorskip("plotly" if suffix == "html" else "matplotlib")
    path = written(tmp_path, "$_\x1b<b>-0", batch([record(i, i * 1000, b"k") for i in range(10)]))
    written(tmp_path, "late-0", batch([record(0)], base_timestamp=2**62), batch([record(0)], base_offset=1))
    done = kafkafmt("stats", path, "--plot", tmp_path / f"chart.{suffix}")
    assert (done.returncode, done.stderr) == (0, f"kafkafmt: charts: {tmp_path}/chart.{suffix}\n")
    content = (tmp_path / f"chart.{suffix}").read_bytes()
    assert start in content[:100]
    assert b"\x1b" not in content or suffix == "png"
    assert b"<b>-" not in content


def test_plot_labels_numbers_of_records_with_integers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = written(tmp_path, "t-0", batch([record(i, i * 60_000, b"k") for i in range(5)]))
    assert kafkafmt("stats", path, "--plot", tmp_path / "chart.svg").returncode == 0
    labels = re.findall(r"<!-- (.*) -->", (tmp_path / "chart.svg").read_text())
    assert {"0", "1"} <= set(labels)
    assert [label for label in labels if label.endswith(" m")] == []


def names_in(chart: Path) -> set[str]:
    """Return the texts of an SVG file that matplotlib wrote."""
    return set(re.findall(r"<!-- (.*) -->", chart.read_text()))


def test_plot_omits_internal_topics_unless_they_are_selected(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    log, chart = tmp_path / "log", tmp_path / "chart.svg"
    log.mkdir()
    for name in ("__consumer_offsets-0", "_schemas-0", "orders-0", "_private-0"):
        written(log, name, batch([record(0, 0, b"k")]))
    internal = {"\u200b__consumer_offsets", "\u200b_schemas"}
    assert kafkafmt("stats", log, "--plot", chart).returncode == 0
    assert names_in(chart) >= {"orders", "\u200b_private", "Not shown: 2 topics, smaller or internal"}
    assert names_in(chart).isdisjoint(internal)
    assert kafkafmt("stats", log, "-t", "_*", "-t", "orders", "--plot", chart).returncode == 0
    assert names_in(chart) >= {"orders", "\u200b_private", *internal}
    for name in ("__consumer_offsets-0", "_schemas-0"):
        assert kafkafmt("stats", log / name, "--plot", chart).returncode == 0
        assert f"\u200b{name[:-2]}" in names_in(chart)


def test_plot_with_another_suffix_is_wrong_usage(tmp_path: Path) -> None:
    done = kafkafmt("stats", CODECS, "--plot", tmp_path / "chart.gif")
    assert (done.returncode, done.stdout) == (2, "")
    assert "must end with .png, .svg or .html" in done.stderr


def test_plot_that_cannot_be_written_exits_with_3(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = kafkafmt("stats", CODECS, "--plot", tmp_path / "missing" / "chart.svg")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"kafkafmt: {tmp_path / 'missing'}: No such file or directory\n"


def rate_of(bucket: int, *counts: int) -> Rate:
    return Rate(bucket, tuple(RateBucket(i * bucket, n) for i, n in enumerate(counts) if n))


def test_sparkline_shows_the_height_of_each_period() -> None:
    assert sparkline(rate_of(1000, 8, 0, 1, 4), 10) == ("█ ▁▄", 0, 4000, 0)
    assert sparkline(rate_of(1000, *([1] * 10)), 10) == ("██████████", 0, 10_000, 0)
    chart, start, end, _ = sparkline(rate_of(1000, *([3] * 25)), 10)
    assert (len(chart), start, end) == (5, 0, 25_000)


def test_sparkline_omits_records_far_from_all_others() -> None:
    near = rate_of(1000, *([1000] * 5)).buckets
    chart, start, end, outside = sparkline(Rate(1000, (*near, RateBucket(10**12, 1))), 40)
    assert (chart, start, end, outside) == ("█████", 0, 5000, 1)
    chart, *_, outside = sparkline(Rate(1000, (*near, RateBucket(10**12, 500))), 40)
    assert (len(chart) <= 40, chart[0], chart[-1], outside) == (True, "█", "▁", 0)


@pytest.mark.parametrize("times", [(0, 2**63 - 8000), (-(2**62), 2**62), (0,)])
def test_sparkline_fits_for_every_range_of_times(times: tuple[int, ...]) -> None:
    chart, *_ = sparkline(Rate(1000, tuple(RateBucket(t // 1000 * 1000, 5) for t in times)), 20)
    assert 1 <= len(chart) <= 20
