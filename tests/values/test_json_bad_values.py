"""Decode JSON that is invalid, or does not fit its column."""

from __future__ import annotations

import json
from types import ModuleType

import pytest
from json_texts import decode_json

from kafkafmt.values.errors import ValueFault
from kafkafmt.values.json.objects import json_to_object
from kafkafmt.values.types import Array, Field, Map, Record, Simple, ValueType

RECORD = Record(
    "",
    [
        Field("i", Simple("long")),
        Field("d", Simple("double")),
        Field("s", Simple("string")),
        Field("b", Simple("boolean")),
        Field("n", Simple("null")),
        Field("j", Simple("json")),
        Field("r", Record("/r", [Field("x", Simple("long"))])),
        Field("a", Array(Simple("string"))),
        Field("m", Map(Simple("long"))),
    ],
)


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        (b"", "truncated", 0),
        (b"  ", "truncated", 2),
        (b"{", "truncated", 1),
        (b'{"i', "truncated", 1),
        (b'{"i"', "truncated", 4),
        (b'{"i":', "truncated", 5),
        (b'{"i":1', "truncated", 6),
        (b'{"i":-', "truncated", 5),
        (b'{"i":1.', "truncated", 5),
        (b'{"d":1e+', "truncated", 5),
        (b'{"b":tr', "truncated", 5),
        (b'{"i":nul', "truncated", 5),
        (b'{"s":"a\\', "truncated", 5),
        (b'{"u":{"v":[1,', "truncated", 13),
        (b"{} x", "trailing_bytes", 3),
        (b"{}{}", "trailing_bytes", 2),
        (b"{]", "bad_json", 1),
        (b"{,}", "bad_json", 1),
        (b'{"i" 1}', "bad_json", 5),
        (b'{"i":1 "d":2}', "bad_json", 7),
        (b'{"i":1,}', "bad_json", 7),
        (b'{"i":01}', "bad_json", 6),
        (b'{"i":+1}', "bad_json", 5),
        (b'{"d":.5}', "bad_json", 5),
        (b'{"d":1.}', "bad_json", 5),
        (b'{"d":1e}', "bad_json", 5),
        (b'{"d":NaN}', "bad_json", 5),
        (b'{"d":-Infinity}', "bad_json", 5),
        (b'{"b":tru}', "bad_json", 5),
        (b'{"i":nil}', "bad_json", 5),
        (b'{"s":"a\nb"}', "bad_json", 5),
        (b'{"s":"\\x"}', "bad_json", 5),
        (b'{"s":"\\u12g4"}', "bad_json", 5),
        (b"{'s':1}", "bad_json", 1),
        (b'{"a":["a",]}', "bad_json", 10),
        (b'{"a":["a" "b"]}', "bad_json", 10),
        (b'{"m":{"k":1,}}', "bad_json", 12),
        (b'{"u":[1 2]}', "bad_json", 8),
        (b'{"u":{"v" 1}}', "bad_json", 10),
        (b'{"u":{1:1}}', "bad_json", 6),
        (b'\xef\xbb\xbf{}', "bad_json", 0),
        (b'{"s":"\xff"}', "bad_utf8", 5),
        (b'{"s":"' + b"x" * 30 + b'\xc3"}', "bad_utf8", 5),
        (b'{"s":"\\ud800"}', "bad_utf8", 5),
        (b'{"s":"\\ud800\\n"}', "bad_utf8", 5),
        (b'{"s":"\\udc00\\ud800"}', "bad_utf8", 5),
        (b'{"\xff":1}', "bad_utf8", 1),
        (b'{"u":"\\ud800"}', "bad_utf8", 5),
        (b'{"m":{"\xff":1}}', "bad_utf8", 6),
        (b'{"j":["\xff"]}', "bad_utf8", 6),
        (b'{"i":1.5}', "bad_number", 5),
        (b'{"i":9223372036854775808}', "bad_number", 5),
        (b'{"i":-9223372036854775809}', "bad_number", 5),
        (b'{"i":1e19}', "bad_number", 5),
        (b'{"i":1e-1}', "bad_number", 5),
        (b'{"i":1e99999999999999999999}', "bad_number", 5),
        (b'{"d":1e999}', "bad_number", 5),
        (b'{"d":-1.7976931348623159e308}', "bad_number", 5),
        (b'{"i":"1"}', "no_branch", 5),
        (b'{"i":true}', "no_branch", 5),
        (b'{"d":[1]}', "no_branch", 5),
        (b'{"s":1}', "no_branch", 5),
        (b'{"b":0}', "no_branch", 5),
        (b'{"n":0}', "no_branch", 5),
        (b'{"r":[]}', "no_branch", 5),
        (b'{"a":{}}', "no_branch", 5),
        (b'{"a":[1]}', "no_branch", 6),
        (b'{"m":[]}', "no_branch", 5),
        (b'{"m":{"k":"v"}}', "no_branch", 10),
        (b"[]", "no_branch", 0),
        (b'{"r":{"x":false}}', "no_branch", 10),
        (b'{"i":1,"i":"a"}', "no_branch", 11),
        (b'{"i":"a","i":1}', "no_branch", 5),
    ],
)  # fmt: skip
def test_error_has_code_and_position(core: ModuleType, text: bytes, code: str, position: int) -> None:
    result = decode_json(core, RECORD, [b'{"i":1}', text, b'{"i":2}'])
    assert result.errors == [None, (code, position), None]
    assert [value and value["i"] for value in result.values] == [1, None, 2]


@pytest.mark.parametrize("text", ["5", "5.0", "500e-2", "0.5e1", "0.05E+2", "50.00e-1", "5.000000000000000000000000"])
def test_double_without_a_fraction_is_an_integer(core: ModuleType, text: str) -> None:
    assert decode_json(core, Simple("long"), [text.encode(), f"-{text}".encode()]).values == [5, -5]


@pytest.mark.parametrize("number", [10, 9223372036854775807, -9223372036854775808])
def test_integers_at_the_limits(core: ModuleType, number: int) -> None:
    texts = [str(number), f"{number}.0", f"{number}e0", f"{number}0e-1", f"{number}00.00e-2"]
    assert decode_json(core, Simple("long"), [text.encode() for text in texts]).values == [number] * 5


def test_text_is_invalid_if_it_is_cut_at_any_byte(core: ModuleType) -> None:
    text = rb'{"i": 12, "d": -1.5e3, "s": "a\u00e9\ud83d\ude00", "b": true, "n": null, "j": [{"k": false}], '
    text += rb'"r": {"x": 1, "y": {}}, "a": ["b", null], "m": {"k": 2}, "u": [1, {"v": "w"}]}'
    result = decode_json(core, RECORD, [text[:cut] for cut in range(len(text))] + [text])
    assert [error and error[0] for error in result.errors] == ["truncated"] * len(text) + [None]
    assert all(value is None for value in result.values[:-1])
    assert result.rest[-1] == '{"r":{"y":{}},"u":[1, {"v": "w"}]}'


def nested(levels: int, of: bytes) -> bytes:
    opening, closing = (b"[", b"]") if of == b"[" else (b'{"a":', b"}")
    return opening * levels + b"1" + closing * levels


@pytest.mark.parametrize("of", [b"[", b"{"])
def test_value_is_too_deep_at_its_65th_level(core: ModuleType, of: bytes) -> None:
    step = 1 if of == b"[" else 5
    for type_, around in ((Simple("json"), 0), (Record("", [Field("j", Simple("json"))]), 1), (RECORD, 1)):
        prefix = b'{"j":' if around else b""
        bodies = [prefix + nested(levels, of) + b"}" * around for levels in (64 - around, 65 - around, 10_000)]
        result = decode_json(core, type_, bodies)
        error = "too_deep", len(prefix) + step * (64 - around)
        assert result.errors == [None, error, error]
        if not around:
            json_to_object(memoryview(bodies[0]))
            with pytest.raises(ValueFault) as found:
                json_to_object(memoryview(bodies[2]))
            assert (found.value.code, found.value.position) == error


def test_type_that_is_deeper_than_values_can_be(core: ModuleType) -> None:
    type_: ValueType = Simple("long")
    for _ in range(65):
        type_ = Array(type_)
    result = decode_json(core, type_, [nested(64, b"[").replace(b"1", b"null"), nested(65, b"[")])
    assert result.errors == [None, ("too_deep", 64)]


@pytest.mark.parametrize(
    "text",
    [
        b"1" * 10_000_000,
        b"0." + b"0" * 10_000_000 + b"1",
        b"0." + b"123456789" * 1_111_111,
        b"1" + b"0" * 10_000_000 + b"e-10000000",
        b"1e" + b"1" * 10_000_000,
        b"1e-" + b"1" * 10_000_000,
    ],
    ids=["digits", "zeros", "fraction", "zeros and exponent", "exponent", "negative exponent"],
)
def test_numbers_of_ten_megabytes(core: ModuleType, text: bytes) -> None:
    result = decode_json(core, Simple("double"), [text])
    exponent = text.partition(b"e")[2]
    value = (
        1.0 if exponent == b"-10000000" else float(text) if len(exponent) < 20 else 0.0 if b"-" in exponent else None
    )
    assert result.values == [None if value is None or value == float("inf") else value]
    assert decode_json(core, Simple("json"), [text]).errors == [None]
    whole = decode_json(core, Simple("long"), [text])
    assert whole.errors == [None if value == 1.0 else ("bad_number", 0)]


def test_ten_thousand_members(core: ModuleType) -> None:
    many = json.dumps({f"k{i}": i for i in range(10_000)}).encode()
    result = decode_json(core, Record("", [Field("k9999", Simple("long"))]), [many])
    assert result.values == [{"k9999": 9999}]
    assert json.loads(result.rest[0] or "") == {f"k{i}": i for i in range(9_999)}
    same = b"{" + b",".join(b'"r":{"x":%d,"y":%d}' % (i, i) for i in range(10_000)) + b"}"
    result = decode_json(core, RECORD, [same])
    assert result.values[0]["r"] == {"x": 9999}
    assert result.rest == ['{"r":{"y":9999}}']


def test_numbers_beyond_int_and_float_are_text_in_objects() -> None:
    huge = "9" * 5000
    found = json_to_object(memoryview(f"[1e999, -1e400, {huge}, 1{'0' * 400}, 1e308]".encode()))
    assert found == ["1e999", "-1e400", huge, 10**400, 1e308]
    assert json.loads(json.dumps(found)) == found
