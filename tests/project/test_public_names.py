"""Check that the public functions use one vocabulary for their parameters."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafkafmt
import kafkafmt.protocol
import kafkafmt.records
import kafkafmt.reports
import kafkafmt.server
import kafkafmt.spark
from kafkafmt.cli.main import COMMANDS
from kafkafmt.reports import Report

MODULES = (kafkafmt, kafkafmt.records, kafkafmt.reports, kafkafmt.server)
PUBLIC = {name: getattr(module, name) for module in MODULES for name in module.__all__}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
OTHER_WORDS = {
    "compression_codec": "codec",
    "destination": "output",
    "jobs": "threads",
    "source_format": "input_format",
    "callback": "on_message",
    "verbose": "on_message",
    "since": "start_time",
    "until": "until_time",
    "before": "before_time",
}
"""For each name that parameters do not have, the name of this project."""


def parameters() -> Iterator[tuple[str, inspect.Parameter]]:
    callables: dict[str, Callable[..., Any]] = dict(FUNCTIONS)
    for name, value in CLASSES.items():
        callables |= {
            f"{name}.{method}": function
            for method, function in vars(value).items()
            if inspect.isfunction(function) and not method.startswith("_")
        }
    for name, function in callables.items():
        for parameter in inspect.signature(function).parameters.values():
            yield f"{name}({parameter.name})", parameter


def test_arguments_that_take_a_time_end_with_time() -> None:
    times = [(where, p) for where, p in parameters() if p.annotation in ("Time", "Time | None")]
    assert len(times) > 5
    assert [where for where, p in times if not p.name.endswith("_time")] == []
    assert [where for where, p in parameters() if "datetime" in str(p.annotation)] == []


def test_parameters_have_the_names_of_this_project() -> None:
    assert [f"{where}: {OTHER_WORDS[p.name]}" for where, p in parameters() if p.name in OTHER_WORDS] == []


@pytest.mark.parametrize("name", ["on_message", "progress", "topics", "replicas", "threads", "limit"])
def test_optional_arguments_are_none_by_default(name: str) -> None:
    found = [p for _, p in parameters() if p.name == name and p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert found
    assert [p for p in found if p.default is not None] == []


def test_functions_have_the_names_of_their_commands() -> None:
    other = {
        "cat",
        "completion",
        "decode",
        "groups",
        "help",
        "ls",
        "seek",
    }  # methods of Log and Partition, or no function
    assert set(COMMANDS) - other <= set(kafkafmt.__all__)
    assert len(kafkafmt.__all__) <= 55


def test_reports_have_a_dict_and_a_table() -> None:
    reports = [name for name in CLASSES if name.endswith("Report") or name in ("Summary", "Groups", "Installation")]
    reports.remove("Report")
    assert len(reports) >= 10
    assert [name for name in reports if not hasattr(CLASSES[name], "_repr_html_")] == []
    assert [name for name in reports if getattr(CLASSES[name], "to_dict", Report.to_dict) is Report.to_dict] == []
    assert [name for name in reports if not issubclass(CLASSES[name], Report)] == ["PartitionReport"]


def documented(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of a function; or of a class, its public methods and its properties."""
    yield value.__qualname__, value
    if inspect.isclass(value) and not issubclass(value, enum.Enum):
        classes = [c for c in value.__mro__ if c.__module__.startswith("kafkafmt")]
        for name, member in (item for c in classes for item in vars(c).items()):
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                yield f"{value.__qualname__}.{name}", member


@pytest.mark.parametrize("module", [*MODULES, kafkafmt.protocol, kafkafmt.spark])
def test_public_names_have_docstrings(module: Any) -> None:
    if module is kafkafmt.spark:
        pytest.importorskip("pyspark")
    values = [value for name in module.__all__ if callable(value := getattr(module, name))]
    found = [(name, member) for value in values for name, member in documented(value)]
    assert len(found) > 5
    assert [name for name, member in found if not member.__doc__] == []
