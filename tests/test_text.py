"""Check the functions that convert header keys, numbers, offset ranges and JSON to text.

Header keys are decoded as in Java 17. The expected keys were printed by Java's `new String(bytes, UTF_8)`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkafmt.support.text import counted, decode_header_key, encode_indented_json, offset_range, quantity

X = "\ufffd"

JAVA = [
    ("", ""),
    ("6b6579", "key"),
    ("c3a9", "é"),
    ("e282ac", "€"),
    ("f09f9880", "😀"),
    ("80", X),
    ("bf80", X * 2),
    ("c0af", X * 2),  # an overlong slash
    ("c141", X + "A"),
    ("c3", X),
    ("c341", X + "A"),
    ("e0809f", X * 3),
    ("e09fbf", X * 3),
    ("e0a0", X),
    ("e2", X),
    ("e282", X),
    ("e28241", X + "A"),
    ("e2c3a9", X + "é"),
    ("ed9fbf", "\ud7ff"),
    ("eda080", X),  # Java replaces a lone surrogate with one character, Python with three
    ("edbfbf", X),
    ("eda0", X),
    ("eda041", X + "A"),
    ("eda0c3a9", X + "é"),
    ("eda080edb080", X * 2),  # CESU-8
    ("eda0eda080", X * 2),
    ("eda08080", X * 2),
    ("edc080", X * 3),
    ("ee8080", "\ue000"),
    ("efbfbd", X),
    ("f0808080", X * 4),
    ("f08fbfbf", X * 4),
    ("f0909080", "\U00010400"),
    ("f09f", X),
    ("f09f98", X),
    ("f09f9841", X + "A"),
    ("f09f41", X + "A"),
    ("f09feda080", X * 2),
    ("f48fbfbf", "\U0010ffff"),
    ("f4908080", X * 4),
    ("f5808080", X * 4),
    ("f888808080", X * 5),
    ("fe", X),
    ("ffff", X * 2),
    ("61ff62", "a" + X + "b"),
]


@pytest.mark.parametrize(("raw", "text"), JAVA)
def test_invalid_utf8_is_decoded_as_in_java(raw: str, text: str) -> None:
    assert decode_header_key(bytes.fromhex(raw)) == text


def test_offset_range_with_one_offset_is_singular() -> None:
    assert [offset_range(5, 5), offset_range(5, 7), offset_range("unknown", "the end")] == [
        "offset 5",
        "offsets 5 to 7",
        "offsets unknown to the end",
    ]


def test_counted_things_are_singular_or_plural() -> None:
    found = [counted(n, thing) for thing in ("record", "batch") for n in (0, 1, 2000)]
    assert found == ["0 records", "1 record", "2,000 records", "0 batches", "1 batch", "2,000 batches"]
    assert [quantity(n, "entry") for n in (0, 1, 2000)] == ["0 entries", "1 entry", "2000 entries"]
    assert counted(34, "distinct key") == "34 distinct keys"


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.5,
        [],
        {},
        [{}, []],
        {"a": 1, "b": [1, 2, "x"], "c": {"d": None, "e": [{"f": '\n"ü', "g": True}, {}]}},
        [[1, [2, {"a": []}]], "text, with: separators", {"a b": {"c": [False]}}],
    ],
)
def test_indented_json_equals_that_of_the_json_module(value: Any) -> None:
    assert encode_indented_json(value) == json.dumps(value, indent=1, ensure_ascii=False)


def test_indented_json_escapes_invisible_characters() -> None:
    assert encode_indented_json({"\u202e": ["\x7f", []]}) == '{\n "\\u202e": [\n  "\\u007f",\n  []\n ]\n}'
