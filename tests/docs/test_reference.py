"""Check that the reference pages list all codes, options, columns and JSON keys."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import kafkafmt
from example_data import make_example_data

import kafkafmt as k
import kafkafmt.spark as kafkafmt_spark
from kafkafmt import errors
from kafkafmt.cli.verify import ADVICE
from kafkafmt.constants import BUILD_FAULTS
from kafkafmt.records import KAFKA_ERRORS

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


def named_in(page: str) -> set[str]:
    """Return the words that a reference page has in code spans."""
    return {
        word for span in re.findall(r"`([^`]+)`", (REFERENCE / page).read_text()) for word in re.split(r"[\s=,]+", span)
    }


def test_error_codes_are_listed() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, k.KafkaFormatError)]
    codes = {c.code for c in classes} - {k.KafkaFormatError.code}
    rules = {rule for rule, _ in BUILD_FAULTS} - {""}
    assert codes | rules | set(ADVICE) | set(KAFKA_ERRORS) <= named_in("error-codes.md")


def test_codes_in_the_source_are_listed() -> None:
    pattern = re.compile(r'(?:\bcode(?:: str)? ?= ?|Problem\(\*at, |Finding\([^"\n]*, )"([a-z_]+)"')
    found = {code for file in (ROOT / "kafkafmt").rglob("*.py") for code in pattern.findall(file.read_text())}
    assert len(found) > 25
    assert found - {"format"} <= named_in("error-codes.md")


def test_broker_errors_of_rules_are_those_of_the_package() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| ([A-Z_]+) \|", (REFERENCE / "error-codes.md").read_text(), re.MULTILINE)
    assert dict(rows) == KAFKA_ERRORS


def test_spark_options_are_listed() -> None:
    options = pytest.importorskip("kafkafmt.spark.source.options")
    write_options = pytest.importorskip("kafkafmt.spark.sink.write_options")
    names = {*options.NAMES, *options.HINTS, *options.MODES, options.ISOLATION_OPTION}
    names |= {*write_options.NAMES, *write_options.SPARKS_OWN, *write_options.HINTS}
    names |= {write_options.CODEC, write_options.BATCH_BYTES}
    assert names <= named_in("spark-options.md")


def test_columns_are_listed_with_their_types() -> None:
    schema = pytest.importorskip("kafkafmt.spark.schema")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (REFERENCE / "record-schema.md").read_text(), re.MULTILINE))
    listed = {name: type_.replace("&lt;", "<").replace("&gt;", ">").replace(", ", ",") for name, type_ in rows.items()}
    assert listed == {name: type_.simpleString() for name, type_ in schema.TYPES.items()}


def keys_of(value: Any) -> set[str]:
    """Return all keys of a JSON value."""
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys_of(item)}
    return set()


def test_keys_of_the_verify_report_are_listed(tmp_path: Path) -> None:
    broken = make_example_data(tmp_path)["/mnt/broken-disk"]
    report = json.loads(kafkafmt("verify", broken, "--format", "json").stdout)
    text = (REFERENCE / "json-reports.md").read_text()
    assert {key for key in keys_of(report) if f'"{key}"' not in text and f"`{key}`" not in text} == set()


def test_public_names_have_an_entry_in_the_reference() -> None:
    listed = [name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)]
    entries = set(listed)
    assert len(listed) == len(entries), "an entry is repeated"
    entries |= {f"kafkafmt.spark.{name.rpartition('.')[2]}" for name in entries if name.startswith("kafkafmt.spark.")}
    modules = {"kafkafmt": k, "kafkafmt.protocol": k.protocol, "kafkafmt.spark": kafkafmt_spark}
    names = {f"{module}.{name}" for module, content in modules.items() for name in content.__all__}
    assert names - {"kafkafmt.Record", "kafkafmt.backend"} <= entries


def test_page_of_the_command_shows_preformatted_help_line_by_line() -> None:
    pytest.importorskip("mkdocs")
    page = importlib.import_module("docs_pages").command_page()
    assert "\b" not in page
    assert "```text\nExit codes:\n  0  no damage\n" in page
    assert "| `-t`, `--topic GLOB` | " in page


def test_modules_in_the_design_exist() -> None:
    package = ROOT / "kafkafmt"
    folders = [ROOT, package, *(folder for folder in package.rglob("*") if folder.is_dir())]
    files = set(re.findall(r"[\w/]+\.(?:py|pyx|pyi|pxi|h)\b", (ROOT / "DESIGN.md").read_text()))
    assert len(files) > 30
    assert {file for file in files if not any((folder / file).exists() for folder in folders)} == set()
