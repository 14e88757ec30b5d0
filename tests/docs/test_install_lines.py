"""Install kafkafmt as each page says, in a new environment, and run the code blocks of the page there.

The other tests of the documentation run in the development environment, which has every extra. These
tests find a missing package, and a new release of a package with which an example fails. They need
access to a package index.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from code_blocks import ROOT, blocks_of, is_run_elsewhere

SUPPORT = ROOT / "tests" / "support"
ENVIRONMENTS = {
    "kafkafmt[cli,arrow,spark]": ["README.md", "docs/guides/spark.md"],
    "kafkafmt[cli,polars] pandas duckdb": ["docs/tutorial.md", "docs/guides/find-records.md"],
    "kafkafmt[polars] duckdb": ["docs/guides/polars-duckdb.md"],
    "kafkafmt[arrow] pandas duckdb deltalake": ["docs/guides/recipes.md"],
    "kafkafmt[cli,stats,plot]": ["docs/guides/statistics.md"],
}
"""What is installed together, and the pages that are run with it."""
INSTALLED = "import importlib.metadata as m; print(*sorted(f'{d.name}=={d.version}' for d in m.distributions()))"

pytestmark = pytest.mark.full


def run(command: Sequence[object], where: Path) -> str:
    """Run a command with none of this environment's packages, and return its output."""
    ours = ("VIRTUAL_ENV", "JAVA_HOME")
    kept = {
        k: v for k, v in os.environ.items() if k not in ours and not k.startswith(("KAFKAFMT", "PYTHON", "PYSPARK"))
    }
    done = subprocess.run([str(part) for part in command], env=kept, cwd=where, capture_output=True, text=True)
    assert done.returncode == 0, f"{command[:4]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheelhouse")
    run([sys.executable, ROOT / "scripts" / "build_wheel.py", folder], ROOT)
    return folder


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(
    request: pytest.FixtureRequest, wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """Return the path of Python in a new environment, and the pages whose code blocks this Python runs."""
    home = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", home / "venv"], home)
    python = home / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--find-links", wheelhouse]
    run([*install, *request.param.split()], home)
    print(run([python, "-c", INSTALLED], home))
    return python, ENVIRONMENTS[request.param]


def test_examples_run_after_the_install_line(environment: tuple[Path, list[str]], tmp_path: Path) -> None:
    python, pages = environment
    for name in pages:
        page = ROOT / name
        lines = [block.line for block in blocks_of(page) if not is_run_elsewhere(block)]
        run([python, SUPPORT / "run_page.py", page, tmp_path / page.stem, *lines], tmp_path)


@pytest.mark.parametrize(
    "page", ["README.md", "docs/guides/polars-duckdb.md", "docs/guides/recipes.md", "docs/tutorial.md"]
)
def test_pages_name_what_is_installed(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    requirements = next(line for line, pages in ENVIRONMENTS.items() if page in pages)
    if requirements in text:
        return
    for name in re.findall(r"\w+", requirements):
        assert re.search(rf"\b{name}\b", text, re.IGNORECASE), name
