"""Check `format_records`, which formats decoded columns, and `find_spans`."""

from __future__ import annotations

import csv
import io
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from golden_cases import GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import QUICK, HypothesisSettings
from text_rows import LIMITS_OF_TIMES, ODD, Row, columns_of_rows, plain_json_line, plain_text_line, rows

import kafkafmt
from kafkafmt import _pure
from kafkafmt.cli.record_lines import line_format, line_template
from kafkafmt.constants import BYTE_ENCODINGS, RECORD_FIELDS, TEXT_STYLES
from kafkafmt.types import RecordColumns

ON_CORES: HypothesisSettings = {
    "deadline": None,
    "suppress_health_check": [*QUICK["suppress_health_check"], HealthCheck.function_scoped_fixture],
}
"""Settings for tests that take a core from a fixture."""
EVERY_FIELD: list[bytes | str] = [part for name in RECORD_FIELDS for part in (b"|", name)] + [b"\n"]


def check_cores(native: ModuleType, records: list[Row]) -> None:
    source, columns = columns_of_rows(records)
    for style in TEXT_STYLES:
        for encoding in BYTE_ENCODINGS:
            arguments = (source, columns, EVERY_FIELD, style, encoding, b"; ")
            assert native.format_records(*arguments) == _pure.format_records(*arguments), (style, encoding)


@settings(max_examples=40, **ON_CORES)
@given(rows)
def test_cores_format_records_alike(native: ModuleType, records: list[Row]) -> None:
    check_cores(native, records)


@pytest.mark.full
@settings(max_examples=3000, **ON_CORES)
@given(rows)
def test_cores_format_records_alike_for_long(native: ModuleType, records: list[Row]) -> None:
    check_cores(native, records)


def test_cores_format_odd_values_alike(native: ModuleType) -> None:
    check_cores(
        native, [(i, time, i % 3 - 1, odd, odd, [(odd, odd)]) for i, odd in enumerate(ODD) for time in LIMITS_OF_TIMES]
    )


def test_cores_format_every_character_alike(native: ModuleType) -> None:
    texts = ["".join(map(chr, range(start, start + 512))) for start in range(0, 0x110000, 512)]
    values = [text.encode("utf-8", "surrogatepass") for text in texts]
    source, columns = columns_of_rows([(0, 0, 0, None, value, []) for value in values])
    for style in ("json", "text", "tsv"):
        written = [core.format_records(source, columns, ["value", b"\n"], style, "utf8") for core in (native, _pure)]
        assert written[0] == written[1]


def formatted(core: ModuleType, name: str, records: list[Row], encoding: str = "utf8") -> str:
    """Format records as `kafkafmt cat` does if stdout is not a terminal."""
    chosen = line_format(name, terminal=False)
    template, separator = line_template(chosen, "t", 3), chosen.separator.encode()
    done: bytes = core.format_records(*columns_of_rows(records), template, chosen.style, encoding, separator)
    return done.decode()


@settings(max_examples=30, **ON_CORES)
@given(rows, st.sampled_from(BYTE_ENCODINGS))
def test_json_and_text_are_those_of_a_plain_formatter(core: ModuleType, records: list[Row], encoding: str) -> None:
    found = core.make_records(*columns_of_rows(records))
    assert formatted(core, "json", records, encoding) == "".join(plain_json_line("t", 3, r, encoding) for r in found)
    assert formatted(core, "text", records, encoding) == "".join(plain_text_line("t", 3, r, encoding) for r in found)


@settings(max_examples=30, **ON_CORES)
@given(rows)
def test_csv_is_read_back_by_the_csv_module(core: ModuleType, records: list[Row]) -> None:
    found = core.make_records(*columns_of_rows(records))
    lines = list(csv.reader(io.StringIO(formatted(core, "csv", records), newline=""), strict=True))
    expected = [
        ["t", "3", str(r.offset), "" if r.timestamp_type < 0 else str(r.timestamp), str(r.timestamp_type)]
        + ["" if v is None else v.decode(errors="backslashreplace") for v in (r.key, r.value)]
        for r in found
    ]
    assert [line[:7] for line in lines] == expected


def test_null_differs_from_empty_text_in_csv_and_tsv(core: ModuleType) -> None:
    records: list[Row] = [(7, -1, -1, None, b"", []), (8, -1, 0, b'a "b"', b"c\td\\\n", [(b"h", b'"')])]
    assert formatted(core, "csv", records) == (
        't,3,7,,-1,,"",[]\nt,3,8,-1,0,"a ""b""","c\td\\\n","[[""h"", ""\\""""]]"\n'
    )
    assert (
        formatted(core, "tsv", records)
        == 't\t3\t7\t\\N\t-1\t\\N\t\t[]\nt\t3\t8\t-1\t0\ta "b"\tc\\td\\\\\\n\t[["h", "\\\\""]]\n'
    )


@settings(max_examples=30, **ON_CORES)
@given(rows)
def test_tsv_has_one_line_and_eight_fields_for_each_record(core: ModuleType, records: list[Row]) -> None:
    lines = formatted(core, "tsv", records).split("\n")
    assert lines.pop() == ""
    assert [line.count("\t") for line in lines] == [7] * len(records)


@settings(max_examples=30, **ON_CORES)
@given(rows)
def test_raw_style_writes_the_stored_bytes(core: ModuleType, records: list[Row]) -> None:
    template = ["keyLength", b":", "key", "valueSize", "value"]
    written = core.format_records(*columns_of_rows(records), template, "raw", "utf8")
    for _, _, _, key, value, _ in records:
        size = -1 if key is None else len(key)
        start = b"%d:" % size + (key or b"") + (-1 if value is None else len(value)).to_bytes(4, "big", signed=True)
        assert written.startswith(start + (value or b""))
        written = written[len(start) + len(value or b"") :]
    assert written == b""


def test_rows_are_selected_and_missing_columns_are_null(core: ModuleType) -> None:
    source, columns = columns_of_rows([(i, 0, 0, b"%d" % i, None, []) for i in range(5)])
    assert core.format_records(source, columns, ["key", b" "], "raw", "utf8", b"", 1, 4) == b"1 2 3 "
    assert core.format_records(source, columns, ["key"], "raw", "utf8", b"", 5) == b""
    empty = RecordColumns(2, ["offset"])
    empty.rows = 1
    template = ["timestamp", b" ", "timestampType", b" ", "key", b" ", "headers"]
    assert core.format_records(b"", empty, template, "json", "utf8") == b"-1 -1 null []"


def test_cores_format_all_golden_logs_alike(native: ModuleType) -> None:
    seen = 0
    folders = sorted({file.parent for file in GOLDEN.rglob("*.log")})
    for i, folder in enumerate(folders):
        (partition,) = kafkafmt.open(folder)
        style, encoding = TEXT_STYLES[i % len(TEXT_STYLES)], BYTE_ENCODINGS[i % 2]
        for chunk in partition.log.chunks(on_damage=lambda _: None):
            arguments: tuple[Any, ...] = (*chunk, EVERY_FIELD, style, encoding, b"; ")
            assert native.format_records(*arguments) == _pure.format_records(*arguments), partition
            seen += chunk.columns.rows
    assert seen > 30_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"template": ["no"]}, "there is no field 'no'; the values are offset, timestamp"),
        ({"style": "xml"}, "there is no style 'xml'; the values are json, text, csv"),
        ({"encoding": "utf16"}, "there is no encoding 'utf16'; the values are utf8, base64, hex"),
        ({"start": 2, "stop": 1}, "rows 2 to 1 are not among the 3 decoded rows"),
        ({"stop": 4}, "rows 0 to 4 are not among the 3 decoded rows"),
        ({"start": -1}, "-1"),
    ],
    ids=str,
)
def test_wrong_argument_is_a_value_error(core: ModuleType, changes: dict[str, Any], message: str) -> None:
    source, columns = columns_of_rows([(0, 0, 0, b"k", b"v", [])] * 3)
    arguments = {"template": ["key"], "style": "json", "encoding": "utf8"} | changes
    with pytest.raises(ValueError, match=message):
        core.format_records(source, columns, **arguments)


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("key_position", -1),
        ("value_position", 10**9),
        ("value_length", 2**31 - 1),
        ("header_start", 1),
        ("header_count", 2),
        ("header_key_length", -1),
        ("header_key_position", 10**9),
        ("header_value_length", 10**6),
    ],
)
def test_span_outside_the_buffer_is_a_value_error(core: ModuleType, array: str, value: int) -> None:
    source, columns = columns_of_rows([(0, 0, 0, b"k", b"v", [(b"h", b"i")])])
    getattr(columns, array)[0] = value
    with pytest.raises(ValueError, match=r"row 0|a span of"):
        core.format_records(source, columns, EVERY_FIELD, "json", "utf8")


def found(core: ModuleType, values: list[bytes | None], needle: bytes, whole: bool) -> list[int]:
    source = b"x".join(v or b"" for v in values)
    lengths = np.array([-1 if v is None else len(v) for v in values], np.int32)
    sizes = np.maximum(lengths, 0) + 1
    rows = np.full(len(values), -7)
    count = core.find_spans(source, np.cumsum(sizes) - sizes, lengths, len(values), needle, whole, rows)
    found_rows: list[int] = rows[:count].tolist()
    return found_rows


@settings(max_examples=200, **ON_CORES)
@given(st.data())
def test_find_spans_finds_what_python_finds(core: ModuleType, data: st.DataObject) -> None:
    few = st.binary(max_size=60).map(lambda b: bytes(c & 1 for c in b))
    values = data.draw(st.lists(st.one_of(st.none(), few, st.binary(max_size=80)), max_size=6))
    needle = data.draw(st.one_of(few.map(lambda b: b[:7]), st.sampled_from([b"", *(v[-20:] for v in values if v)])))
    contained = [i for i, v in enumerate(values) if v is not None and needle in v]
    assert found(core, values, needle, whole=False) == contained
    assert found(core, values, needle, whole=True) == [i for i, v in enumerate(values) if v == needle]


def test_find_spans_finds_a_needle_at_every_position(core: ModuleType) -> None:
    for size in (1, 2, 15, 16, 17, 33):
        values: list[bytes | None] = [b"." * at + b"a" + b"b" * (size - 1) + b"." * (70 - at) for at in range(71)]
        assert found(core, values, b"a" + b"b" * (size - 1), whole=False) == list(range(71))
        assert found(core, values, b"a" + b"b" * (size - 1) + b"c", whole=False) == []


@pytest.mark.parametrize("position", [-1, 11, 2**63 - 1])
def test_find_spans_checks_the_spans(core: ModuleType, position: int) -> None:
    arrays = np.array([0, position]), np.array([1, 1], np.int32)
    with pytest.raises(ValueError, match="span 1 is outside the buffer"):
        core.find_spans(b"0123456789", *arrays, 2, b"0", False, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="at least"):
        core.find_spans(b"0123456789", *arrays, 2, b"0", False, np.zeros(1, np.int64))
