"""Check that the page of benchmark results, its chart and README show the figures of results.json."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
LINK = re.compile(r"\]\(([^)\s]+)\)")
REPOSITORY = "https://github.com/kafkafmt/kafkafmt/blob/main/"
RAW = "https://raw.githubusercontent.com/kafkafmt/kafkafmt/main/"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "report.py"), run_name="report")


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    return found


def ratios(saved: dict[str, Any], report: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Return what is measured, the peer and the ratio of each headline, from results.json."""
    found = {(row["question"], row["case"], row["peer_name"]): row["ratio"] for row in saved["rows"]}
    return [(what, peer, found[key]) for (what, peer), key in report["HEADLINES"].items()]


def test_chart_contains_the_ratios_of_the_results(report: dict[str, Any], saved: dict[str, Any]) -> None:
    drawn = ElementTree.parse(report["CHART"])
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    expected = [text for what, peer, ratio in ratios(saved, report) for text in (what, peer, f"{ratio:.1f}×")]
    assert texts[: len(expected)] == expected


def test_bars_of_the_chart_are_as_long_as_the_ratios(report: dict[str, Any], saved: dict[str, Any]) -> None:
    drawn = ElementTree.parse(report["CHART"])
    lengths = []
    for i in range(len(report["HEADLINES"])):
        path = drawn.find(f".//{SVG}g[@id='bar{i}']/{SVG}path")
        assert path is not None
        across = [float(x) for x in re.findall(r"[ML] ([-0-9.]+)", path.attrib["d"])]
        lengths.append(max(across) - min(across))
    largest = max(ratio for _, _, ratio in ratios(saved, report))
    assert [length / max(lengths) for length in lengths] == pytest.approx(
        [ratio / largest for _, _, ratio in ratios(saved, report)], rel=1e-4
    )


def test_page_is_what_the_results_give(report: dict[str, Any], saved: dict[str, Any]) -> None:
    rows = [report["Row"](**row) for row in saved["rows"]]
    assert report["PAGE"].read_text(encoding="utf-8") == report["page"](saved["machine"], rows)


def test_links_of_readme_are_absolute_and_name_files_that_exist() -> None:
    # A package index shows README without the files of the repository.
    links = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert RAW + "benchmarks/ratios.svg" in links
    for link in links:
        assert link.startswith("https://")
        for base in (REPOSITORY, RAW):
            if link.startswith(base):
                assert (ROOT / link.removeprefix(base).partition("#")[0]).exists()
