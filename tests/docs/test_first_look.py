"""Run the cells of the example notebook, and check its stored outputs.

To store new outputs: jupyter nbconvert --execute --inplace examples/first_look.ipynb
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from code_blocks import ROOT

pytestmark = pytest.mark.slow  # imports pandas and matplotlib

NOTEBOOK = json.loads((ROOT / "examples" / "first_look.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
MACHINE = re.compile(r"/(?:home|root|tmp|Users|var|opt|usr)/|[A-Z]:\\|" + re.escape(str(ROOT)))


def printed(cell: dict[str, Any]) -> str:
    """Return the stored text that a cell has printed."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
def test_notebook_prints_its_stored_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the notebook also changes the working directory
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    shown: list[int] = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.gcf().axes)))
    namespace: dict[str, Any] = {}
    for number, cell in enumerate(CELLS):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
        assert out.getvalue() == printed(cell), f"cell {number}"
    pyplot.close("all")
    assert shown == [1]


def test_notebook_was_stored_after_a_complete_run() -> None:
    assert [cell["execution_count"] for cell in CELLS] == list(range(1, len(CELLS) + 1))
    kinds = [output["output_type"] for cell in CELLS for output in cell["outputs"]]
    assert "error" not in kinds
    data = [output["data"] for cell in CELLS for output in cell["outputs"] if "data" in output]
    assert sum("image/png" in formats for formats in data) == 1
    assert any("2 partitions of 1 topic" in "".join(formats.get("text/html", "")) for formats in data)


def test_notebook_contains_no_path_of_a_machine() -> None:
    for cell in NOTEBOOK["cells"]:
        texts = ["".join(cell["source"]), printed(cell) if "outputs" in cell else ""]
        for output in cell.get("outputs", ()):
            texts += ["".join(text) for kind, text in output.get("data", {}).items() if kind != "image/png"]
        for text in texts:
            assert not MACHINE.search(text), text
    assert MACHINE.search("saved in /tmp/x")
