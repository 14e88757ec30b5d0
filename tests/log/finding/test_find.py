"""Test that the conditions of `find` select the same records as a loop over all records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from building import batch, record
from golden_cases import GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafkafmt
from kafkafmt.log.finding.byte_pattern import BytePattern
from kafkafmt.log.finding.json_paths import JsonEquals, json_path, values_of_text

ON_CORES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
CASES = sorted({file.parent for file in GOLDEN.rglob("*.log")})


def spans(values: list[bytes | None]) -> tuple[bytes, Any, Any]:
    """Return the values as spans of a buffer. Between the values, the buffer contains text that patterns can match."""
    source, positions = b"ab{", []
    for value in values:
        positions.append(len(source))
        source += (value or b"") + b"ab1\n"
    return source, np.array(positions, np.int64), np.array([-1 if v is None else len(v) for v in values], np.int32)


ATOMS = [
    "a", "b", "ab", "abab", "1", ".", r"\d", r"\w", r"\.", r"\{", "{", "[ab]", "[^a]", r"[]\]a]", "(a|b)", "(?:ab)", "(?P<n>a1)", "|",
    "^", "$", r"\b", r"\A", r"\Z", "(?=b)", "(?!b)", "(?<=a)", "ä", "(?s:.)", "", r"\x61", r"(a)\1", "x",
]  # fmt: skip
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "??", "*?", "{2}", "{0}", "{1,2}", "{,2}", "{1,}", "{x}", "++"]
patterns = st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS)), max_size=5).map(
    lambda parts: "".join(atom + quantifier for atom, quantifier in parts)
)
texts = st.lists(st.sampled_from(["a", "b", "ab", "1", "ä", "\n", "{", ".", "x", "]"]), max_size=8).map(
    lambda parts: "".join(parts).encode()
)


@settings(ON_CORES, max_examples=400)
@given(
    st.one_of(patterns, patterns.map("(?i)".__add__)),
    st.lists(st.one_of(st.none(), texts, st.just(b"")), max_size=40),
)
def test_pattern_finds_what_re_finds_in_each_value(
    package: ModuleType, pattern: str, values: list[bytes | None]
) -> None:
    try:
        compiled = re.compile(re.sub("ä([*+?{])", r"(?:ä)\1", pattern).encode())
    except re.error:
        with pytest.raises(ValueError, match="is not a valid regular expression"):
            BytePattern(pattern)
        return
    expected = [i for i, value in enumerate(values) if value is not None and compiled.search(value)]
    assert BytePattern(pattern).find(*spans(values)).tolist() == expected
    assert BytePattern(compiled).find(*spans(values)).tolist() == expected


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("FAILED", ["FAILED"]),
        ("FAILED|ERROR", ["FAILED", "ERROR"]),
        (r"a\.b", ["a.b"]),
        (r'{"a": \d+}', ['"a": ']),
        ("ab?cdd{3}", ["cd"]),
        ("(x|y)z", ["z"]),
        ("^abc$", ["abc"]),
        ("abc.*|d", ["abc", "d"]),
        ("Müller", ["Müller"]),
        ("[(]ab", ["ab"]),
        ("abc|.", []),
        ("abc|", []),
        ("(?i)abc", []),
        ("(?#[)a|b(?#])c", []),
        (r"\x41bc", []),
        (r"(a)\1b", []),
        ("|".join("abcdefghijklmnopq"), []),
    ],
)
def test_literals_of_a_pattern_are_searched_first(pattern: str, literals: list[str]) -> None:
    assert BytePattern(pattern)._literals == tuple(text.encode() for text in literals)


def test_flags_of_compiled_patterns_are_respected() -> None:
    values: list[bytes | None] = [b"A", b"a", b"b\na"]
    for pattern, expected in (
        (re.compile(b"a", re.IGNORECASE), [0, 1, 2]),
        (re.compile(b"^a", re.MULTILINE), [1, 2]),
        (re.compile(b"a # text", re.VERBOSE), [1, 2]),
        (re.compile(b"b.a", re.DOTALL), [2]),
    ):
        assert BytePattern(pattern).find(*spans(values)).tolist() == expected


def test_wrong_patterns_are_rejected() -> None:
    with pytest.raises(ValueError, match="use alternatives"):
        BytePattern("[äö]")
    with pytest.raises(ValueError, match=r"'\(a' is not a valid regular expression: missing \)"):
        BytePattern("(a")
    with pytest.raises(TypeError, match="pattern of bytes"):
        BytePattern(re.compile("a"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not 5"):
        BytePattern(5)  # type: ignore[arg-type]


def filtered(partition: kafkafmt.Partition, test: Callable[[Any], bool], **options: Any) -> list[Any]:
    return [r for r in partition.records(on_error="skip", **options) if test(r)]


def found(partition: kafkafmt.Partition, **options: Any) -> list[Any]:
    return list(partition.find(on_error="skip", **options))


WORDS = [b"a", b"1", b"key", b"-1", b"value", b'"', b"\\", b"0", b"e", b"\x00", b"", b"ab", b"trace", b"h"]


@settings(ON_CORES, max_examples=80)
@given(st.data())
def test_find_equals_a_filter_over_all_records_of_golden_logs(package: ModuleType, data: st.DataObject) -> None:
    (partition,) = kafkafmt.open(data.draw(st.sampled_from(CASES)))
    control = data.draw(st.booleans())
    some = filtered(partition, lambda _: True, control=control)[:200]
    keys = [r.key for r in some if r.key is not None] or [b""]
    values = [r.value for r in some if r.value is not None] or [b""]
    headers = [h for r in some for h in r.headers] or [("h", b"")]
    key = data.draw(st.one_of(st.none(), st.sampled_from(keys)))
    pieces = st.builds(
        lambda v, a, n: v[a : a + n], st.sampled_from(keys + values), st.integers(0, 9), st.integers(0, 5)
    )
    literals = st.one_of(st.sampled_from(WORDS), pieces).map(re.escape)
    regexes = st.one_of(
        st.none(), literals, literals.map(lambda b: b + b".*$"), st.tuples(literals, literals).map(b"|".join)
    )
    key_regex, value_regex = data.draw(regexes), data.draw(regexes)
    chosen = data.draw(
        st.lists(st.one_of(st.sampled_from(headers), st.sampled_from(headers).map(lambda h: h[0])), max_size=2)
    )
    conditions = {"key": key, "key_regex": key_regex, "value_regex": value_regex, "headers": chosen}

    def test(r: Any) -> bool:
        return (
            (key is None or r.key == key)
            and (key_regex is None or (r.key is not None and re.search(key_regex, r.key) is not None))
            and (value_regex is None or (r.value is not None and re.search(value_regex, r.value) is not None))
            and all(h in ([k for k, _ in r.headers] if isinstance(h, str) else r.headers) for h in chosen)
        )

    expected = filtered(partition, test, control=control)
    damaged = partition.damaged
    assert found(partition, control=control, **conditions) == expected
    assert partition.damaged == damaged
    limit = data.draw(st.integers(0, 5))
    assert found(partition, control=control, limit=limit, **conditions) == expected[:limit]


def write_log(folder: Path, *batches: bytes) -> kafkafmt.Partition:
    (folder / "t-0").mkdir()
    (folder / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    return kafkafmt.open(folder)["t", 0]


def test_records_before_damage_are_found_before_the_error(tmp_path: Path) -> None:
    parts = [batch([record(0, value=b"x" * 90)], base_offset=i) for i in range(4)]
    parts[2] = parts[2][:-1] + b"?"
    partition = write_log(tmp_path, *parts)
    records = partition.find(value_regex="x{90}")
    assert [next(records).offset, next(records).offset] == [0, 1]
    with pytest.raises(kafkafmt.DamagedLogError):
        next(records)
    assert [r.offset for r in partition.find(value_regex="x", on_error="skip")] == [0, 1, 3]
    assert len(partition.damaged) == 1
    assert [r.offset for r in partition.find(value_regex="x", limit=2)] == [0, 1]


def test_headers_are_compared_by_key_and_value(tmp_path: Path) -> None:
    headers: list[list[tuple[bytes, bytes | None]]] = [
        [(b"a", b"1"), (b"a", b"2")], [(b"a", None)], [], [(b"b", b"1")], [(b"\xff", b"")], [("\ufffd".encode(), b"x")],
    ]  # fmt: skip
    partition = write_log(tmp_path, batch([record(i, 0, None, None, h) for i, h in enumerate(headers)]))

    def offsets(wanted: Any) -> list[int]:
        return [r.offset for r in partition.find(headers=wanted)]

    assert offsets("a") == [0, 1]
    assert offsets({"a": "2"}) == [0]
    assert offsets([("a", None)]) == [1]
    assert offsets([("a", b"1"), ("a", b"2")]) == [0]
    assert offsets(["a", "b"]) == []
    assert offsets("\ufffd") == [4, 5]
    assert offsets({"\ufffd": "x"}) == [5]
    assert offsets([]) == [0, 1, 2, 3, 4, 5]


VALUES = [
    '{"a": {"b": [1, {"c": "DE"}]}, "n": 5, "t": true, "z": null}', '{"n": 5.0}', '{"n": "5"}', '{"n": 50e-1}', '{"n": -0}',
    '{"\\u006e": 5}', '{"n": [5]}', '{"n": 55}', '[5, "x"]', '{"n": true}', '{"n": NaN}', '{"n": {"x": 1}}', "5", "", "no JSON",
    '{"x": {"n": 5}}', '{"n": 5, "n": 6}', '{"n"\n:\t5}', '{"n": ' + "9" * 5000 + "}", "[" * 100_000, '{"ä": "ö"}', '{"1": {"n": 5}}',
    '{"n": "D\\u0045"}', '{"n": 1.5}', '{"n":"a b"}', '{"n":"\\\\"}',
]  # fmt: skip
EXPECTED: list[Any] = [
    5,
    0,
    6,
    "5",
    "DE",
    True,
    False,
    None,
    [5],
    {"x": 1},
    {"x": True},
    1.5,
    "ö",
    "a b",
    "\\",
    1,
    9 * 10**15,
]
PATHS = ["n", "a.b.1.c", "a.b.0", "t", "z", "0", "1", "x.n", "ä", "1.n", "a", "missing"]


def test_json_members_are_found_by_path_and_value(package: ModuleType) -> None:
    def member(value: str, path: str) -> Any:
        try:
            node = json.loads(value, parse_constant=lambda _: 1 / 0)
            for name in path.split("."):
                node = node[int(name) if isinstance(node, list) else name]
            return node
        except (ValueError, LookupError, TypeError, ZeroDivisionError, RecursionError):
            return ...

    values: list[bytes | None] = [*(v.encode() for v in VALUES), None, b'{"n": "\xff"}', VALUES[0].encode("utf-16")]
    matches = 0
    for path in PATHS:
        for wanted in EXPECTED:
            expected = [
                i
                for i, value in enumerate(VALUES)
                if (node := member(value, path)) == wanted
                and json.dumps(node).replace("true", "T").replace(".0", "").replace("-0", "0")
                == json.dumps(wanted).replace("true", "T")
            ]
            assert JsonEquals(json_path(path), (wanted,)).find(*spans(values)).tolist() == expected, (path, wanted)
            matches += len(expected)
    assert matches > 20


def test_json_values_of_text_are_the_text_and_its_json() -> None:
    assert values_of_text("5") == ("5", 5)
    assert values_of_text("DE") == ("DE",)
    assert values_of_text('"5"') == ('"5"', "5")
    assert values_of_text("null") == ("null", None)
    assert json_path(r"a\.b.c\\.0") == ("a.b", "c\\", "0")
    for wrong in ("", ".", "a..b", "a."):
        with pytest.raises(ValueError, match="is not a path"):
            json_path(wrong)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"key": 5}, TypeError, "key must be str or bytes, not 5"),
        ({"key_regex": "("}, ValueError, "key_regex: '\\(' is not a valid regular expression"),
        ({"value_regex": 5}, TypeError, "value_regex: a pattern must be str, bytes"),
        ({"headers": [5]}, TypeError, "each item of headers must be a key, or a tuple"),
        ({"headers": {"a": 5}}, TypeError, "the value of a header must be str or bytes"),
        ({"value_json": "a=b"}, TypeError, "value_json must be a dict"),
        ({"value_json": {"a": b"b"}}, TypeError, "value_json: the value b'b' for 'a' is not JSON"),
        ({"value_json": {"a": float("nan")}}, ValueError, "value_json: the value nan"),
        ({"value_json": {"": 1}}, ValueError, "is not a path such as"),
        ({"limit": -1}, ValueError, "limit"),
        ({"limit": "1"}, TypeError, "limit"),
        ({"begin": 1}, TypeError, "unknown argument 'begin'"),
    ],
    ids=str,
)
def test_wrong_argument_is_an_error(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    partition = write_log(tmp_path, batch([record(0)]))
    with pytest.raises(error, match=message):
        partition.find(**arguments)


SETS = ["a", "[ab]", "[^a]", r"\d", r"\W", ".", "[]ä.]".encode().decode("latin-1"), "(b)", "(?:1)"]
REPEATED = [*QUANTIFIERS, "{2}", "{3}", "{2,}", "{2,4}?", "{1}+"]
sequences = st.lists(
    st.tuples(st.sampled_from([*SETS, "(a1)", "^", r"\b", "(?i:A)", "(a|1)"]), st.sampled_from(REPEATED)), max_size=6
)


@settings(ON_CORES, max_examples=400)
@given(
    sequences.map(lambda parts: "".join(atom + quantifier for atom, quantifier in parts)),
    st.sampled_from(["", "(?i)", "(?s)"]),
    st.lists(texts, max_size=30),
)
def test_compiled_pattern_with_flags_finds_what_re_finds(
    package: ModuleType, pattern: str, flags: str, values: list[bytes]
) -> None:
    try:
        compiled = re.compile((flags + pattern).encode("latin-1"))
    except re.error:
        return
    found = BytePattern(compiled).find(*spans([*values]))
    assert found.tolist() == [i for i, value in enumerate(values) if compiled.search(value)]
