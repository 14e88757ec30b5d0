"""Check the keyword arguments that select records of a partition, such as `start` and `isolation`."""

from __future__ import annotations

from typing import TypedDict

from ..constants import ON_ERROR, READ_UNCOMMITTED, Isolation, OnError
from ..log.reading import Selection, Time, offset_bound
from ..support import arguments
from ..support.text import shown


class SelectionArguments(TypedDict, total=False):
    """Keyword arguments that select records of a partition. `Partition.records` describes them."""

    start: int | None
    end: int | None
    start_time: Time | None
    end_time: Time | None
    on_error: OnError
    control: bool
    below_log_start: bool
    isolation: Isolation
    partial: bool


def parse_selection(given: SelectionArguments, *named: str) -> tuple[Selection, bool]:
    """Return a `Selection` for the given arguments, and whether `on_error` is "skip"."""
    # `named` are the other arguments of the public method, which the error message lists too.
    for name in given:
        if name not in SelectionArguments.__annotations__:
            valid = ", ".join([*named, *SelectionArguments.__annotations__])
            raise TypeError(f"unknown argument {shown(name)}; the valid arguments are {valid}")
    on_error = arguments.one_of("on_error", given.get("on_error", "fail"), ON_ERROR)
    if given.get("partial") and on_error == "fail":
        raise ValueError('partial is True, but on_error is "fail"; pass on_error="skip" too')
    selection = Selection(
        offset_bound("start", given.get("start"), given.get("start_time")),
        offset_bound("end", given.get("end"), given.get("end_time")),
        isolation=given.get("isolation", READ_UNCOMMITTED),
        control=given.get("control", False),
        below_log_start=given.get("below_log_start", False),
        partial=given.get("partial", False),
    )
    return selection, on_error == "skip"
