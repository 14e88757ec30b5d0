"""Run the recipes that need a database, and compare their outputs with the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_blocks import ROOT, Runner, blocks_of, different_outputs, require_no_differences
from example_data import make_example_data
from postgres_server import postgres_server, programs

pytestmark = pytest.mark.slow  # starts a server

PAGE = ROOT / "docs" / "guides" / "recipes.md"


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    def spark() -> Any:
        raise AssertionError("the recipes need no Spark")

    return Runner(tmp_path, make_example_data(tmp_path), spark)


def run_section(runner: Runner, section: str) -> None:
    """Run the blocks before the first section, the function `new_records`, and then a section."""
    blocks = blocks_of(PAGE)
    for block in blocks:
        if block.section == "" or "def new_records" in block.content:
            runner.run(block)
    chosen = [block for block in blocks if block.section == section]
    assert chosen
    require_no_differences(PAGE, different_outputs(runner, chosen))


@pytest.fixture
def _postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not programs():
        pytest.skip("PostgreSQL is not installed")
    with postgres_server("shop") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.usefixtures("_postgres")
def test_recipes_for_postgresql_print_the_outputs_on_the_page(runner: Runner) -> None:
    run_section(runner, "PostgreSQL")


def test_recipes_for_clickhouse_print_the_outputs_on_the_page(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("chdb")
    clickhouse = pytest.importorskip("clickhouse_connect")
    with clickhouse.get_client(dsn="chdb://memory") as client:
        monkeypatch.setattr(clickhouse, "get_client", lambda host: client)
        run_section(runner, "ClickHouse")
