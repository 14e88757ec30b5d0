"""Test that the text of each report is what its command prints."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import inside
from example_data import make_example_data

import kafkafmt


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = make_example_data(tmp_path_factory.mktemp("example"))
    return {
        "data": made["/var/lib/kafka/data"],
        "broken": made["/mnt/broken-disk"],
        "metadata": made["/var/lib/kafka/metadata"],
        "backup": made["/mnt/backup/metadata"],
    }


REPORTS: dict[str, tuple[list[str], Callable[[dict[str, Path]], Any]]] = {
    "verify": (["verify", "{broken}"], lambda p: kafkafmt.verify(p["broken"])),
    "verify --shallow": (["verify", "{broken}", "--shallow"], lambda p: kafkafmt.verify(p["broken"], shallow=True)),
    "ls": (["ls", "{data}"], lambda p: kafkafmt.describe(p["data"])),
    "stats": (["stats", "{data}", "--deep"], lambda p: kafkafmt.stats(p["data"], deep=True)),
    "groups": (["groups", "{data}"], lambda p: kafkafmt.open(p["data"]).groups()),
    "diff": (["diff", "{data}", "{broken}"], lambda p: kafkafmt.diff(p["data"], p["broken"])),
    "doctor": (["doctor"], lambda p: kafkafmt.doctor()),
    "metadata": (["metadata", "{metadata}"], lambda p: kafkafmt.metadata(p["metadata"])),
    "metadata diff": (
        ["metadata", "diff", "{backup}", "{metadata}"],
        lambda p: kafkafmt.metadata(p["backup"]).diff(kafkafmt.metadata(p["metadata"])),
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_text_is_that_of_the_command(name: str, paths: dict[str, Path]) -> None:
    words, function = REPORTS[name]
    printed = inside(*(word.format(**paths) for word in words)).stdout
    assert printed
    assert str(function(paths)) + "\n" == printed


WRITERS: dict[str, tuple[list[str], Callable[[dict[str, Path], Path], Any]]] = {
    "salvage": (
        ["salvage", "{broken}", "--stop-at-first", "--output", "{out}"],
        lambda p, out: kafkafmt.salvage(p["broken"], out, stop_at_first=True),
    ),
    "rewrite": (
        ["rewrite", "{data}", "-t", "payments", "--codec", "zstd", "--output", "{out}"],
        lambda p, out: kafkafmt.rewrite(p["data"], out, topics="payments", codec="zstd"),
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_text_of_what_was_written(name: str, paths: dict[str, Path], tmp_path: Path) -> None:
    words, function = WRITERS[name]
    printed = inside(*(word.format(**paths, out=tmp_path / "command") for word in words)).stdout
    text = str(function(paths, tmp_path / "python"))
    assert text.replace(str(tmp_path / "python"), str(tmp_path / "command")) + "\n" == printed


def test_text_of_an_export(paths: dict[str, Path], tmp_path: Path) -> None:
    report = kafkafmt.export(paths["data"], tmp_path / "out.parquet", topics="payments", engine="local")
    text = str(report)
    assert "payments-0" in text
    assert str(tmp_path / "out.parquet") in text


def test_texts_of_two_threads_do_not_mix(paths: dict[str, Path]) -> None:
    report = kafkafmt.verify(paths["broken"])
    expected, texts = str(report), []
    threads = [threading.Thread(target=lambda: texts.append(str(report))) for _ in range(4)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == [expected] * 4
    assert printed.getvalue() == ""


def test_text_without_click_is_the_repr(paths: dict[str, Path]) -> None:
    program = (
        "import sys; sys.modules['click'] = None\n"
        "import kafkafmt\n"
        f"report = kafkafmt.verify({str(paths['broken'])!r})\n"
        "assert str(report) == repr(report), str(report)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
