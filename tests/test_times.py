"""Check how texts are converted to times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafkafmt.cli.offset_range import parse_offsets
from kafkafmt.log.reading.record_selection import OffsetBound
from kafkafmt.support import arguments, times
from kafkafmt.support.times import parse_time

NOW = 1_767_225_600_000


@pytest.fixture(autouse=True)
def fixed_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "now_millis", lambda: NOW)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("-1", -1),
        ("2026-01-01", NOW),
        ("2026-01-01T00:00:00.5Z", NOW + 500),
        ("2026-01-01T02:00+02:00", NOW),
        ("-7d", NOW - 7 * 86_400_000),
        ("-36h", NOW - 36 * 3_600_000),
        ("-15m", NOW - 15 * 60_000),
        ("-0s", NOW),
        ("-2w", NOW - 14 * 86_400_000),
    ],
)
def test_text_is_converted_to_milliseconds(text: str, ms: int) -> None:
    assert parse_time(text) == ms
    assert arguments.millis("start_time", text) == ms


FORMS = "valid forms are a number of milliseconds, an ISO date or time, and -N followed by w, d, h, m or s, such as -7d"


@pytest.mark.parametrize("text", ["", "yesterday", "7d", "-7y", "-d", "-1.5h", "-7d ", "--7d", "--7"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_time(text)
    assert str(error.value) == f"{text!r} is not a time; {FORMS}"
    with pytest.raises(ValueError, match=r"^start_time: "):
        arguments.millis("start_time", text)


def test_error_for_an_impossible_date_says_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"^'2026-13-01' is not a time: month must be in 1..12(, not 13)?$"):
        parse_time("2026-13-01")
    with pytest.raises(ValueError, match=r"^'2026-01-01T00:00\+99:00' is not a time; valid forms"):
        parse_time("2026-01-01T00:00+99:00")


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="must be a time"):
        arguments.millis("start_time", 1.5)
    assert arguments.millis("start_time", datetime(2026, 1, 1, tzinfo=UTC)) == NOW


def test_relative_times_bound_a_range_of_offsets() -> None:
    day = 86_400_000
    assert parse_offsets("@-7d:@-36h") == (OffsetBound("time", NOW - 7 * day), OffsetBound("time", NOW - day * 3 // 2))
    assert parse_offsets("@-1d:") == (OffsetBound("time", NOW - day), None)
    with pytest.raises(ValueError, match="such as @-7d"):
        parse_offsets("@-7y")
