"""Check the charts of statistics: their panels, their legend and the names of topics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafkafmt.log.inspecting.stats_plot import LONGEST_NAME, ChartTopic, picture, plot

HOUR = 3_600_000
START = 1_767_225_600_000
OLD = ChartTopic("old", 1000, 3000, HOUR, {START - 1000 * HOUR: 1, START - 998 * HOUR: 2})
NEW = ChartTopic("new", 5000, 9000, HOUR, {START + i * HOUR: i for i in range(48)})


def html_figure(topics: list[ChartTopic], path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Write a chart in HTML, and return the traces and the layout that it contains."""
    plot(topics, path)
    text = path.read_text(encoding="utf-8")
    start = re.compile(r"Plotly\.newPlot\(\s*\"[^\"]*\",\s*").search(text)
    assert start is not None
    traces, end = json.JSONDecoder().raw_decode(text, start.end())
    layout, _ = json.JSONDecoder().raw_decode(text, text.index("{", end))
    return traces, layout


def test_each_topic_has_a_panel_with_its_own_times() -> None:
    pytest.importorskip("matplotlib")
    panels = picture([NEW, OLD]).axes[:2]
    assert [panel.get_title("left") for panel in panels] == ["new", "old"]
    # matplotlib counts days since 1970-01-01.
    spans = [[limit * 24 * HOUR for limit in panel.get_xlim()] for panel in panels]
    assert START - 10 * HOUR < spans[0][0] < spans[0][1] < START + 60 * HOUR
    assert START - 1001 * HOUR < spans[1][0] < spans[1][1] < START - 990 * HOUR


def test_panel_counts_every_record_once() -> None:
    pytest.importorskip("matplotlib")
    dense = ChartTopic("dense", 1, None, 1000, {START + i * 7000: 3 for i in range(5000)})
    (drawn,) = picture([dense]).axes[0].patches
    values = drawn.get_data().values  # type: ignore[attr-defined]
    assert (sum(values), len(values) <= 402) == (15_000, True)


@pytest.mark.parametrize("topics", [1, 3, 10])
def test_legend_is_outside_of_the_bars(topics: int) -> None:
    pytest.importorskip("matplotlib")
    figure = picture([NEW._replace(name=f"topic{i}") for i in range(topics)])
    figure.draw_without_rendering()
    bars = figure.axes[-1]
    legend = bars.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= bars.get_window_extent().y1


def test_topics_without_times_are_marked(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    none = ChartTopic("none", 1, None, HOUR, {})
    assert [text.get_text() for text in picture([none]).axes[0].texts] == ["no timestamps"]
    pytest.importorskip("plotly")
    _, layout = html_figure([none], tmp_path / "chart.html")
    assert layout["annotations"][0]["text"] == "<b>none</b>: no timestamps"


def test_bars_of_html_are_laid_over_each_other_as_in_pictures(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    traces, layout = html_figure([NEW, OLD], tmp_path / "chart.html")
    assert [(t["name"], t["width"], t["x"]) for t in traces if t["type"] == "bar"] == [
        ("after decompression", 0.8, [9000, 3000]),
        ("on disk", 0.5, [5000, 1000]),
    ]
    assert layout["barmode"] == "overlay"
    assert len({t["xaxis"] for t in traces if t["type"] == "scatter"}) == 2


def test_height_of_html_grows_with_the_number_of_topics(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    _, few = html_figure([NEW], tmp_path / "few.html")
    assert "height" not in few
    assert "height:96vh" in (tmp_path / "few.html").read_text(encoding="utf-8")
    _, many = html_figure([NEW] * 10, tmp_path / "many.html")
    assert many["height"] > 1200


def test_long_names_keep_both_ends(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    names = [f"first.{'x' * 60}.{end}" for end in ("one", "two")]
    _, layout = html_figure([NEW._replace(name=name) for name in names], tmp_path / "chart.html")
    shown = next(axis["ticktext"] for axis in layout.values() if isinstance(axis, dict) and "ticktext" in axis)
    assert [(name[:6], name[-4:], len(name)) for name in shown] == [
        ("first.", ".one", LONGEST_NAME),
        ("first.", ".two", LONGEST_NAME),
    ]
