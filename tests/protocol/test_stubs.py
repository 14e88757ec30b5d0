"""Check that the stub file of the message classes matches the classes at run time."""

from __future__ import annotations

import ast
import dataclasses
from typing import Any

import make_stubs
import pytest

from kafkafmt import protocol
from kafkafmt.protocol import apis
from kafkafmt.protocol.message_classes import class_names, find_class

TEXT = make_stubs.STUBS.read_text(encoding="utf-8")
CLASSES = {node.name: node for node in ast.parse(TEXT).body if isinstance(node, ast.ClassDef)}


def fields_of_stub(node: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    return {f.target.id: f for f in node.body if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)}


def assert_same_fields(node: ast.ClassDef, made: Any) -> None:
    fields = dataclasses.fields(made)
    stub = fields_of_stub(node)
    assert list(stub) == [f.name for f in fields]
    for f in fields:
        assert f.kw_only
        shown, default = stub[f.name].value, getattr(made(), f.name)
        if isinstance(shown, ast.Constant) and shown.value is ...:
            assert not isinstance(default, int | str | bytes | float | None)
        else:
            assert ast.literal_eval(shown or ast.Constant(...)) == default
        assert ("None" in ast.unparse(stub[f.name].annotation)) == (type(None) in getattr(f.type, "__args__", ()))
    properties = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    assert properties == {f.second_name for f in made.SCHEMA.fields if f.second_name}


def test_stub_file_is_up_to_date() -> None:
    assert make_stubs.stubs() == TEXT, "run `make stubs`"


def test_stub_file_has_all_message_classes() -> None:
    assert list(CLASSES) == class_names()
    assert {
        f"{api.name}{kind}"
        for key in apis.keys().values()
        if (api := apis.api(key))
        for kind in ("Request", "Response")
    } | {
        "RequestHeader",
        "ResponseHeader",
    } == set(CLASSES)
    assert set(class_names()) <= set(dir(protocol))


@pytest.mark.parametrize("name", class_names())
def test_stub_has_the_fields_of_the_class(name: str) -> None:
    made: Any = find_class(name)
    inner = {node.name: node for node in CLASSES[name].body if isinstance(node, ast.ClassDef)}
    assert list(inner) == list(made.STRUCTS)
    assert_same_fields(CLASSES[name], made)
    for struct, node in inner.items():
        assert getattr(made, struct) is made.STRUCTS[struct]
        assert_same_fields(node, made.STRUCTS[struct])


def test_api_constants_equal_the_keys_of_the_files() -> None:
    constants = {name.lower(): value for name, value in vars(apis).items() if name.isupper()}
    assert constants == {name: apis.keys()[name] for name in constants}
    assert "produce" in constants
