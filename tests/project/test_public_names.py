"""Check that the public functions use one vocabulary for their parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafkafmt

FUNCTIONS = {name: value for name in kafkafmt.__all__ if inspect.isfunction(value := getattr(kafkafmt, name))}
CLASSES = {name: value for name in kafkafmt.__all__ if inspect.isclass(value := getattr(kafkafmt, name))}
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


def test_reports_have_a_dict_and_a_table() -> None:
    reports = [name for name in CLASSES if name.endswith("Report") or name in ("Summary", "Groups", "Installation")]
    assert len(reports) >= 10
    assert [name for name in reports if not hasattr(CLASSES[name], "_repr_html_")] == []
    assert [name for name in reports if not hasattr(CLASSES[name], "to_dict")] == []
