"""Check that both cores match `_core.pyi`, and that the right core is chosen."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any

import pytest

import kafkafmt

STUB = ast.parse(Path(kafkafmt.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
REQUIRED = inspect.Parameter.empty


def parameters_of_stub(function: ast.FunctionDef) -> list[tuple[str, Any]]:
    arguments = function.args
    assert [arguments.posonlyargs, arguments.kwonlyargs, arguments.vararg, arguments.kwarg] == [[], [], None, None]
    defaults = [REQUIRED] * (len(arguments.args) - len(arguments.defaults)) + [
        ast.literal_eval(d) for d in arguments.defaults
    ]
    return [(a.arg, d) for a, d in zip(arguments.args, defaults, strict=True) if a.arg != "self"]


def parameters_of(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


def test_names_are_those_of_the_stub(core: ModuleType) -> None:
    offered = {n for n, v in vars(core).items() if not n.startswith("_") and callable(v)}
    own = {n for n in offered if getattr(core, n).__module__.startswith(core.__name__)}
    assert own == {*FUNCTIONS, *CLASSES}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_are_those_of_the_stub(core: ModuleType, name: str) -> None:
    assert parameters_of(getattr(core, name)) == parameters_of_stub(FUNCTIONS[name])


def test_record_is_that_of_the_stub(core: ModuleType) -> None:
    functions = {node.name: node for node in CLASSES["Record"].body if isinstance(node, ast.FunctionDef)}
    assert parameters_of(core.Record) == parameters_of_stub(functions.pop("__init__"))
    for name in functions:
        assert hasattr(core.Record, name)


@pytest.mark.parametrize("name", ["ProducerTable", "RecordBuffer"])
def test_methods_are_those_of_the_stub(core: ModuleType, name: str) -> None:
    members, offered_class = CLASSES[name].body, getattr(core, name)
    functions = {node.name: node for node in members if isinstance(node, ast.FunctionDef)}
    instance = offered_class(**dict(parameters_of_stub(functions.pop("__init__"))))
    for method, node in functions.items():
        assert ast.get_docstring(node) or method == "__len__"
        if not node.decorator_list:  # a property has no parameters
            offered = parameters_of(getattr(offered_class, method))
            assert [p for p in offered if p[0] != "self"] == parameters_of_stub(node)
    fields = [method for method, node in functions.items() if node.decorator_list]
    fields += [ast.unparse(node.target) for node in members if isinstance(node, ast.AnnAssign)]
    assert all(isinstance(getattr(instance, field), int) for field in fields)
    public = {member for member in dir(offered_class) if not member.startswith("_")}
    assert public <= {*functions, *fields}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_a_docstring(name: str) -> None:
    assert ast.get_docstring(FUNCTIONS[name])


def run(choice: str, code: str = "", **environment: Any) -> CompletedProcess[str]:
    program = f"{code}\nfrom kafkafmt import _backend as b; print(b.backend, b.core.__name__, b.backend_reason)"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(kafkafmt.__file__).parents[1]),
        "KAFKAFMT_BACKEND": choice,
        **environment,
    }
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)


WITHOUT_NATIVE = "import sys; sys.modules['kafkafmt._core'] = None"


@pytest.mark.parametrize(
    ("choice", "chosen"), [("auto", "native"), ("", "native"), ("native", "native"), ("pure", "pure")]
)
def test_backend_variable_chooses_the_core(native: ModuleType, choice: str, chosen: str) -> None:
    result = run(choice)
    module = {"native": "kafkafmt._core", "pure": "kafkafmt._pure"}[chosen]
    assert result.stdout.split()[:2] == [chosen, module]
    assert result.stderr == ""


def test_fallback_to_the_pure_core_warns_once() -> None:
    result = run("auto", WITHOUT_NATIVE + "; import kafkafmt._backend")
    assert result.stdout.startswith("pure kafkafmt._pure the native core cannot be imported")
    assert result.stderr.count("RuntimeWarning") == 1


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            [],
            "the native core was not compiled; install a C compiler and the headers of Python, and reinstall kafkafmt",
        ),
        (["_core.cpython-27-linux.so"], "the native core was compiled for another Python (_core.cpython-27-linux.so)"),
        (["_core.abi3.so"], "the native core cannot be imported: "),
        (["native_core.txt"], "recorded while it was built"),
    ],
)
def test_reason_for_the_pure_core_is_reported(tmp_path: Path, files: list[str], reason: str) -> None:
    shutil.copytree(
        Path(kafkafmt.__file__).parent,
        tmp_path / "kafkafmt",
        ignore=shutil.ignore_patterns("_core.*.so", "__pycache__"),
    )
    for name in files:
        (tmp_path / "kafkafmt" / name).write_text("recorded while it was built")
    program = "import kafkafmt; print(kafkafmt.backend); from kafkafmt.cli.main import group; group(['--version'])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.stdout.splitlines()[0] == "pure"
    assert f"many times slower: {reason}" in done.stderr
    assert f"core: pure ({reason}" in done.stdout
    assert "circular" not in done.stdout + done.stderr
    command = [sys.executable, "-m", "kafkafmt", "ls"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment | {"KAFKAFMT_BACKEND": "native"}, cwd=tmp_path
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert reason in done.stderr


def test_choice_of_the_native_core_never_falls_back() -> None:
    result = run("native", WITHOUT_NATIVE)
    assert result.returncode != 0
    assert "ImportError" in result.stderr or "ModuleNotFoundError" in result.stderr


def test_unknown_choice_of_core_is_rejected() -> None:
    assert "ValueError: KAFKAFMT_BACKEND is 'fast'" in run("fast").stderr
