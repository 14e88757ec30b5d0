"""Find and run the code blocks of Markdown pages.

The language of a code block determines how it is run:

- ``python``: run in the page's namespace, which all blocks of the page share.
- ``console``: bash runs the lines that start with ``$ ``. The lines after them are the expected
  output. A command may fail only if the next one is ``echo $?``.
- ``sh``: a script for bash, which must succeed.
- ``sql``: one statement for Spark.
- ``json``: must be valid JSON.
- ``text`` and ``mermaid``: not code. Directly after a ``python`` block, a ``text`` block with
  ``title="Output"`` is the expected output.

In expected output, ``...`` matches any text. Paths in the pages are replaced with paths of the
example data.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafkafmt

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<attributes>[^\n`]*)$")
NOT_CODE = ("text", "mermaid")
OUTPUT = 'title="Output"'


PAGES_RUN_ELSEWHERE = {
    "docs/from-a-damaged-directory-to-a-new-cluster.md": "tests/broker/test_guide.py, with real brokers",
    "docs/guides/serve.md": "tests/broker/test_serve_guide.py, with a real broker",
    "docs/guides/spark-cluster.md": "tests/spark/test_cluster_guide.py, with a standalone cluster",
}
"""Pages whose ``sh`` blocks are not run here, with the test that runs them."""
COMMANDS_RUN_ELSEWHERE = {
    r"make( [a-z-]+)?( [A-Z]+=.*)?": "CI, which calls the make targets; benchmarks and fuzzing run by hand",
    r"\.ci/run": "CI",
    r"pip install .*": "tests/project/test_wheel.py and tests/docs/test_install_lines.py, in new environments",
    r"pre-commit install": "developers",
    r"mvn dependency:copy .*|python scripts/compare_schemas.py .*": "tests/protocol/test_compare_schemas.py",
    r"python -m fuzz.minimise .*": "tests/fuzz/test_tools.py",
    r"python examples/record_proxy.py .*": "tests/protocol/test_examples.py, with a real broker",
    r"sudo tcpdump .*": "by hand, because it requires root; tests/protocol/captures/README.md describes one run",
    r"KAFKAFMT_UPDATE_DOCS=1 .*": "developers: it rewrites the pages",
}
"""Commands in ``sh`` blocks that are not run here, with the test that runs them."""


SECTIONS_RUN_ELSEWHERE = {
    ("docs/guides/recipes.md", "ClickHouse"): "tests/docs/test_databases.py, with chdb",
    ("docs/guides/recipes.md", "PostgreSQL"): "tests/docs/test_databases.py, with a server",
}
"""Sections whose blocks are not run with the other ones of the page, with the test that runs them."""


@dataclass
class Block:
    """A fenced code block of a page. `line` is the number of its first line of content, from 1."""

    page: Path
    line: int
    language: str
    attributes: str
    content: str
    indent: str = ""
    section: str = ""

    @property
    def is_output(self) -> bool:
        return self.language == "text" and OUTPUT in self.attributes

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def is_run_elsewhere(block: Block) -> bool:
    page = str(block.page.relative_to(ROOT))
    if block.language != "sh":
        return (page, block.section) in SECTIONS_RUN_ELSEWHERE
    commands = [line.partition("  #")[0].strip() for line in block.content.splitlines() if line.strip()]
    return page in PAGES_RUN_ELSEWHERE or all(
        any(re.fullmatch(pattern, command) for pattern in COMMANDS_RUN_ELSEWHERE) for command in commands
    )


def blocks_of(page: Path) -> list[Block]:
    """Return all fenced code blocks of a page, in order."""
    found: list[Block] = []
    current: Block | None = None
    section = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if current is None and fence:
            current = Block(page, number + 1, fence["language"], fence["attributes"], "", fence["indent"], section)
        elif current is not None and fence and not fence["language"]:
            found.append(current)
            current = None
        elif current is not None:
            current.content += line.removeprefix(current.indent) + "\n"
        elif line.startswith("## "):
            section = line.removeprefix("## ")
    if current is not None:
        raise ValueError(f"{current}: the block has no end")
    return found


def different_outputs(runner: Runner, blocks: Iterable[Block]) -> dict[int, str]:
    """Run the blocks. Return the outputs that differ from the page, by the line of their block."""
    found = {}
    for block in blocks:
        actual = runner.run(block)
        if actual is not None and not matches(block.content, actual):
            found[block.line] = actual
    return found


def require_no_differences(page: Path, outputs: dict[int, str]) -> None:
    """Raise AssertionError if outputs differ from the page, or update the page if KAFKAFMT_UPDATE_DOCS is set."""
    if outputs and os.environ.get("KAFKAFMT_UPDATE_DOCS"):
        rewrite(page, outputs)
    elif outputs:
        line, actual = next(iter(outputs.items()))
        raise AssertionError(f"{page.relative_to(ROOT)}:{line}: the block prints\n{actual}")


@dataclass
class Runner:
    """Runs the code blocks of one page, in order.

    `folder` is the working directory. `paths` maps the paths in the page to real paths. `spark`
    returns a Spark session.
    """

    folder: Path
    paths: dict[str, Path]
    spark: Callable[[], Any]
    namespace: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    def run(self, block: Block) -> str | None:
        """Run a code block. Return its content with the actual output, or None if its language has no output."""
        if block.is_output:
            return self.printed
        if block.language in NOT_CODE:
            return None
        return getattr(self, f"_run_{block.language}")(block)  # type: ignore[no-any-return]

    def _run_python(self, block: Block) -> None:
        if re.search(r"\bspark\b", block.content) and "spark" not in self.namespace:
            self.namespace["spark"] = self.spark()
        source = "\n" * (block.line - 1) + self._located(block.content)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(self.folder):
            exec(compile(source, str(block.page), "exec"), self.namespace)
        self.printed = self._as_in_page(out.getvalue())

    def _run_console(self, block: Block) -> str:
        lines: list[str] = []
        failed = 0
        for command in commands_of(block.content):
            script = f"(exit {failed})\n" + command
            if failed and command != "echo $?":
                raise AssertionError(f"{block}: the exit code is {failed}, and no `echo $?` follows")
            done = self._bash(script)
            failed = done.returncode
            first, *rest = command.split("\n")
            shown = self._as_in_page(done.stdout)
            if first.startswith("kafkafmt cat ") and not re.search(r"[|>]|--format| -f ", command):
                shown = shown.replace("\t", "  ")  # on a terminal, `cat` separates fields by spaces
            lines += [f"$ {first}", *rest, *shown.splitlines()]
        assert not failed, f"{block}: the exit code is {failed}, and no `echo $?` follows"
        return "\n".join(lines) + "\n"

    def _run_sh(self, block: Block) -> None:
        done = self._bash("set -euo pipefail\n" + block.content)
        assert done.returncode == 0, f"{block}: exit code {done.returncode}\n{done.stdout}"
        self.printed = self._as_in_page(done.stdout)

    def _run_sql(self, block: Block) -> None:
        for statement in filter(str.strip, self._located(block.content).split(";")):
            self.spark().sql(statement).collect()

    def _run_json(self, block: Block) -> None:
        json.loads(block.content)

    def _bash(self, script: str) -> subprocess.CompletedProcess[str]:
        tools = self.folder / ".bin"
        if not tools.exists():
            tools.mkdir()
            for name, module in (("kafkafmt", "-m kafkafmt"), ("python", ""), ("python3", "")):
                (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
                (tools / name).chmod(0o755)
        installed = Path(kafkafmt.__file__).resolve().parents[1]
        environment = os.environ | {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(installed),
            "COLUMNS": "110",
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            ["bash", "-c", self._located(script)],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )

    def _located(self, text: str) -> str:
        for name, place in self.paths.items():
            text = text.replace(name, f"{place}/" if name.endswith("/") else str(place))
        return text

    def _as_in_page(self, text: str) -> str:
        for name, place in self.paths.items():
            if place != self.folder:
                text = text.replace(str(place), name)
        return text.replace(f"{self.folder}/", "")


def commands_of(console: str) -> Iterator[str]:
    """Yield the commands of a console block. A backslash at the end of a line continues the command."""
    command: str | None = None
    for line in console.splitlines():
        if command is not None and command.endswith("\\"):
            command += "\n" + line
        elif line.startswith("$ "):
            if command is not None:
                yield command
            command = line.removeprefix("$ ")
    if command is not None:
        yield command


MEASURED = re.compile(r" *\d[\d.,]*( s\b| [kM]B)")
"""Durations and sizes of compressed files. They can differ in each run or with other library versions.
"""


def normalized(output: str) -> str:
    return "\n".join(MEASURED.sub(r" #\1", line).rstrip() for line in output.rstrip().splitlines())


def matches(expected: str, actual: str) -> bool:
    """Return whether an output matches the expected output.

    ``...`` in `expected` matches any text. Measured values, and spaces at the end of a line, are
    ignored.
    """
    expected, actual = normalized(expected), normalized(actual)
    pattern = ".*?".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, actual, re.DOTALL) is not None


def rewrite(page: Path, outputs: dict[int, str]) -> None:
    """Replace the contents of the code blocks that start at given lines."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in reversed(blocks_of(page)):
        if block.line in outputs:
            new = [f"{block.indent}{line}".rstrip() for line in outputs[block.line].rstrip().splitlines()]
            lines[block.line - 1 : block.line - 1 + len(block.content.splitlines())] = new
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
