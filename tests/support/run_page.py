"""Run some code blocks of a page without pytest, with the Python that runs this program.

    python run_page.py PAGE FOLDER LINE…

PAGE is a Markdown file, FOLDER an empty directory for the example data, and each LINE the line number
of a code block. The exit code is 1 if the output of a block differs from the output on the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from code_blocks import Runner, blocks_of, matches
from example_data import make_example_data

import kafkafmt


def spark() -> Any:
    from kafkafmt.spark.session import make_session

    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return make_session("local[2]", "kafkafmt", **local, **{"spark.sql.session.timeZone": "UTC"})


def main(page: Path, folder: Path, lines: list[int]) -> int:
    """Run the blocks at the given lines, and return the exit code."""
    folder.mkdir()
    runner = Runner(folder, make_example_data(folder), spark)
    for block in blocks_of(page):
        if block.line in lines:
            actual = runner.run(block)
            if actual is not None and not matches(block.content, actual):
                print(f"{block}: with kafkafmt in {kafkafmt.__file__}, the block prints\n{actual}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), [int(line) for line in sys.argv[3:]]))
