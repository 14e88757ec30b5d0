"""Run each code block of README and docs, and compare its output with the page.

With KAFKAFMT_UPDATE_DOCS=1 in the environment, outputs that differ are replaced in the pages. Check
the changes with git.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_blocks import (
    NOT_CODE,
    OUTPUT,
    PAGES_RUN_ELSEWHERE,
    ROOT,
    Runner,
    blocks_of,
    different_outputs,
    is_run_elsewhere,
    require_no_differences,
)
from example_data import make_example_data

pytestmark = pytest.mark.slow  # most pages start Spark

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
        *(ROOT / ".github").rglob("*.md"),
    ]
)
LANGUAGES = ("python", "console", "sh", "sql", "json", *NOT_CODE)


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """Yield a list for the Spark session. The first page that needs a session starts it."""
    sessions: list[Any] = []
    yield sessions
    for spark in sessions:
        spark.stop()


@pytest.fixture
def runner(session: list[Any], tmp_path: Path) -> Runner:
    def spark() -> Any:
        if not session:
            from kafkafmt.spark.session import make_session

            options = {
                "spark.driver.memory": "1g",
                "spark.sql.shuffle.partitions": "1",
                "spark.sql.session.timeZone": "UTC",
            }
            local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            session.append(make_session("local[2]", "kafkafmt documentation", **options, **local))
        return session[0]

    return Runner(tmp_path, make_example_data(tmp_path), spark)


@pytest.fixture
def _bucket(page: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Copy the example data into a bucket of an S3 server, if the page reads one."""
    if "s3://backup/" not in page.read_text(encoding="utf-8"):
        yield
        return
    from object_server import environment, s3_server, upload
    from obstore.store import S3Store

    with s3_server("backup") as port:
        for name, value in environment(f"http://127.0.0.1:{port}").items():
            monkeypatch.setenv(name, value)
        upload(
            S3Store("backup", client_options={"allow_http": True}), runner.folder / "kafka" / "data", "kafka/broker-1"
        )
        yield


@pytest.mark.usefixtures("_bucket")
@pytest.mark.filterwarnings("ignore::kafkafmt.StrayPartitionWarning")
@pytest.mark.parametrize("page", [p for p in PAGES if blocks_of(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_code_block_prints_the_output_on_the_page(page: Path, runner: Runner) -> None:
    blocks = blocks_of(page)
    for previous, block in zip([None, *blocks], blocks, strict=False):
        assert block.language in LANGUAGES, (
            f"{block}: the language of a code block must be one of: {', '.join(LANGUAGES)}"
        )
        if block.is_output:
            assert previous, f"{block}: no code block precedes this output"
            assert previous.language in ("python", "sh"), (
                f"{block}: the block before this output is {previous.language}"
            )
    run_here = [block for block in blocks if not is_run_elsewhere(block)]
    require_no_differences(page, different_outputs(runner, run_here))


def test_pages_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/tutorial.md", *PAGES_RUN_ELSEWHERE} <= names
    assert sum(len(blocks_of(page)) for page in PAGES) > 50


def test_blocks_that_are_not_run_contain_no_code() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            if block.language in NOT_CODE and not block.is_output:
                code = re.search(r"^(\$|>>>|import|from|python|kafkafmt|make|pip) ", block.content, re.MULTILINE)
                assert code is None, f"{block}: {code[0] if code else None}"
            assert block.attributes.strip() in ("", OUTPUT) or block.attributes.strip().startswith("title="), str(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_names_and_files_in_the_text_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in set(re.findall(r"`(kafkafmt\.[\w.]+)", text)):
        pkgutil.resolve_name(name)
    for file in set(re.findall(r"`((?:examples|tests|benchmarks|scripts|docs|kafkafmt)/[\w/.-]*)`", text)):
        assert (ROOT / file).exists(), file
    if ROOT / "docs" not in page.parents:  # `make docs` checks the links of the documentation site
        for target in set(re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)):
            assert (page.parent / target).exists(), target


def test_function_for_map_partitions_is_that_of_the_example() -> None:
    """tests/project/test_wheel.py runs the example with both wheels, so it must be what the pages show."""
    example = (ROOT / "examples" / "map_partitions.py").read_text(encoding="utf-8")
    function = re.search(r"^def records_by_key.*?(?=\n\n\n)", example, re.MULTILINE | re.DOTALL)
    assert function
    for page in ("README.md", "docs/guides/spark.md"):
        assert f"\n{function[0]}\n\n\n" in (ROOT / page).read_text(encoding="utf-8"), page
