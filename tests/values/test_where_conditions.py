"""Test conditions on decoded keys and values."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from avro_schemas import encode
from decoded_logs import write_log
from decoding_values import framed, using, version

import kafkafmt
from kafkafmt.values.where import parse_where

RECORD: dict[str, Any] = {
    "key": "k1",
    "value": {
        "amount": "12.50",
        "count": 7,
        "big": 9_007_199_254_740_993,
        "ratio": 0.1,
        "nan": "NaN",
        "text": 'it\'s "x"',
        "ok": True,
        "no": False,
        "nothing": None,
        "customer": {"country": "DE", "tags": ["a"]},
        "at": "2026-01-02T03:04:05.678Z",
        "a-b": 1,
        "größe": 2,
        "and": 3,
    },
}
NULLS: dict[str, Any] = {"key": None, "value": None}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("value.amount > 12.4", True),
        ("value.amount > 100", False),
        ("value.amount = 12.5", True),
        ("value.amount = 12.500", True),
        ('value.amount = "12.50"', True),
        ("value.amount != 12.5", False),
        ("value.count >= 7", True),
        ("value.count<=7", True),
        ("value.count < 7", False),
        ("value.count == 7.0", True),
        ("value.count = 7e0", True),
        ("value.count > -1", True),
        ("value.big = 9007199254740993", True),
        ("value.big = 9007199254740992", False),
        ("value.ratio = 0.1", True),
        ('value.count = "7"', False),
        ('value.count != "7"', True),
        ("value.text = 5", False),
        ("value.text != 5", True),
        ("value.text > 5", False),
        ("value.nan > 5", False),
        ("value.nan < 5", False),
        ("value.nan != 5", True),
        ("value.nan = 5", False),
        ('value.text = "it\'s \\"x\\""', True),
        ("value.customer.country = 'DE'", True),
        ('value.customer.country > "DA"', True),
        ('value.customer.city = "x"', False),
        ('value.customer.city != "x"', True),
        ("value.customer.city = null", True),
        ('value.customer = "x"', False),
        ('value.customer.tags != "a"', True),
        ("value.customer = null", False),
        ("value.customer != null", True),
        ('value.at >= "2026-01-02"', True),
        ("value.nothing = null", True),
        ("value.nothing != null", False),
        ("value.nothing < 5", False),
        ("value.nothing != 5", True),
        ("value.count = null", False),
        ("value.count < null", False),
        ("value.ok = true", True),
        ("value.ok != false", True),
        ("value.ok = 1", False),
        ("value.ok > false", False),
        ("value.count = true", False),
        ('key = "k1"', True),
        ("key = null", False),
        ("value = null", False),
        ("value.a-b = 1", True),
        ("value.größe = 2", True),
        ("value.and = 3", True),
        ('value.count = 7 and key = "k1"', True),
        ('value.count = 8 and key = "k1"', False),
        ('value.count = 8 or key = "k1"', True),
        ("value.count = 7 or value.count = 8 and value.count = 9", True),
        ("(value.count = 7 or value.count = 8) and value.count = 9", False),
        ("not value.count = 7", False),
        ("not not value.count = 7", True),
        ("not (value.count = 7 and value.ok = false)", True),
        ("not value.count = 8 and value.ok = true", True),
        ("  (( value.count=7 ))  ", True),
    ],
)
def test_condition(condition: str, expected: bool) -> None:
    assert parse_where(condition)(RECORD) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("value = null", True),
        ("key = null", True),
        ("value.x.y = null", True),
        ("value.x > 5", False),
        ("value.x != 5", True),
        ("not value.x = 5", True),
    ],
)
def test_condition_on_null(condition: str, expected: bool) -> None:
    assert parse_where(condition)(NULLS) is expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("", "it ends where a field is expected"),
        ("  ", "it ends where a field is expected"),
        ("value.a", "it ends where an operator"),
        ("value.a =", "it ends where a number"),
        ("value.a = 5 and", "it ends where a field is expected"),
        ("value.a = 5 value.b = 6", r"'value\.b' is not expected; join conditions with and, or"),
        ("value.a = 5)", r"'\)' is not expected"),
        ("(value.a = 5", "a closing parenthesis is missing"),
        ("()", r"'\)' is not a field"),
        ("amount > 5", "'amount' is not a field such as value.amount"),
        ("5 > value.a", "'5' is not a field"),
        ('"value.a" = 5', "is not a field"),
        ("valu.a = 5", "is not a field"),
        ("value.a ~ 5", "'~' is not one of"),
        ("value.a in 5", "'in' is not one of"),
        ("value.a = b", "'b' is not a number, a text in quotes"),
        ("value.a = value.b", "is not a number, a text in quotes"),
        ('value.a = "x', "cannot be read"),
        ("value.a = 'x", "cannot be read"),
        ('value.a = "\\q"', "cannot be read"),
        ("value.a = =", "is not a number"),
        ("value.a > > 5", "is not a number"),
        ("not", "it ends where a field"),
        ("and value.a = 5", "'and' is not a field"),
        ("value.a = 1.2.3", "is not"),
        ("value..a = 1", "is not a field"),
        ("value. = 1", "is not a field"),
        ("value.a > 1e99999999999999999999", "cannot be read"),
        ("(" * 5000 + "value.a = 5" + ")" * 5000, "too many"),
        ("not " * 5000 + "value.a = 5", "too many"),
    ],
)
def test_wrong_condition_says_what_is_wrong(condition: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_where(condition)


def test_find(core: ModuleType, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "O", "fields": [{"name": "id", "type": "int"}]}
    records = [(b"k%d" % i, framed(encode(schema, {"id": i}))) for i in range(300)] + [(b"x", b"bad"), (b"y", None)]
    path = write_log(tmp_path / "log", records, [version(schema)], per_batch=50)
    partition = kafkafmt.open(path)["t", 0]
    with using(core):
        found = [r.key for r in partition.find(where="value.id >= 298 or key = 'k7'")]
        assert found == [b"k7", b"k298", b"k299"]
        assert [r.key for r in partition.find(where="value = null and key != 'x'")] == [b"y"]
        assert [r.key for r in partition.find(where="value.id > 10", key_regex="k1", limit=1, threads=2)] == [b"k11"]
    with pytest.raises(ValueError, match="decode, registry and framing need where"):
        partition.find(key="a", registry=path)
    with pytest.raises(ValueError, match="it ends where an operator"):
        partition.find(where="value.id")
