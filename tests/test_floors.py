"""The house stands: each module imports only from the floors below it, and each third-party package has one address.

The imports are read, not run: those of Python files with `ast`, wherever they stand, so that an import inside a function or under
TYPE_CHECKING counts as well; of the native core, the lines that say `import` or `cimport`. One exception: an import under
TYPE_CHECKING may name any third-party package, since it is for reading only. And one rule more: what `import kafkafmt` loads, the
front and `view`, imports `arrow` inside functions only, because it works without pyarrow.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

FRONT = "kafkafmt/__init__.py"
WITHOUT_ARROW = (FRONT, "kafkafmt/view.py")
FLOORS = {
    "errors": 0, "constants": 0, "text": 0, "arguments": 0, "paths": 0, "sharing": 0, "extras": 0, "_interrupt": 0,
    "types": 0.5,  # values that may speak of errors
    "_core": 1, "_corelib": 1, "_pure": 1,
    "_backend": 2,
    "codecs": 3, "messages": 3,
    "records": 4, "internal_topics": 4,
    "log": 5, "protocol": 5,
    "arrow": 6,
    "view": 7,
    "": 7.5,  # the front: the public names of the floors below
    "spark": 8,
    "cli": 9, "pyspark_kafkafmt": 9,
    "__main__": 9.5,
}  # fmt: skip

EVERYWHERE = {"numpy"}
ADDRESSES = {
    "crc32c": ("kafkafmt/_pure/crc.py",),
    "cramjam": ("kafkafmt/codecs.py",),
    "isal": ("kafkafmt/codecs.py",),
    "lz4": ("kafkafmt/codecs.py",),
    "snappy": ("kafkafmt/codecs.py",),
    "zstandard": ("kafkafmt/codecs.py",),
    "pyarrow": ("kafkafmt/arrow.py", "kafkafmt/spark/"),
    "pyspark": ("kafkafmt/spark/", "pyspark_kafkafmt/"),
    "py4j": ("kafkafmt/spark/",),
    "pandas": ("kafkafmt/spark/",),
    "click": ("kafkafmt/cli/",),
    "rich": ("kafkafmt/cli/",),
}
C_LEVEL = {"cython", "cpython", "libc"}


class Import(NamedTuple):
    line: int
    target: str  # dotted and absolute; of `from a import b` both `a` and `a.b` are seen as `a.b`
    in_function: bool = False
    for_types: bool = False


def imports_of_python(path: str, source: str) -> Iterator[Import]:
    package = Path(path).with_suffix("").parts[:-1]

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        def found(target: str) -> Import:
            return Import(node.lineno, target, in_function, for_types)

        match node:
            case ast.Import(names):
                yield from (found(alias.name) for alias in names)
            case ast.ImportFrom(module, names, level):
                base = package[: len(package) + 1 - level] if level else ()
                base = [*base, *([module] if module else [])]
                yield from (found(".".join([*base, alias.name])) for alias in names)
            case ast.Call(
                ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                [ast.Constant(str(name)), *_],
            ):
                yield found(name if not name.startswith(".") else ".".join([*package, name.lstrip(".")]))
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from walk(child, in_function, True)
            for child in node.orelse:
                yield from walk(child, in_function, for_types)
        else:
            for child in ast.iter_child_nodes(node):
                yield from walk(child, in_function, for_types)

    yield from walk(ast.parse(source, path), False, False)


def imports_of_cython(path: str, source: str) -> Iterator[Import]:
    for number, line in enumerate(source.splitlines(), 1):
        if found := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(\w+)?", line):
            package = "kafkafmt" if found[1].startswith(".") else ""
            yield Import(number, ".".join(filter(None, [package, found[1].strip("."), found[2]])))
        elif found := re.match(r"\s*c?import\s+([\w.]+)", line):
            yield Import(number, found[1])


def home(target: str) -> str:
    """The module or package of ours that stands on a floor and that this import reaches: `kafkafmt.log.x` → `log`."""
    first, *rest = target.split(".")
    if first != "kafkafmt":
        return first
    return rest[0] if rest and rest[0] in FLOORS else ""  # any other name is one of the front's public names


def owner(path: str) -> str | None:
    """The same for a file; None if it has no floor."""
    if path == FRONT:
        return ""
    first, *rest = Path(path).parts
    name = Path(rest[0]).name.split(".")[0] if first == "kafkafmt" else first
    if name == "_corelib":
        name = "_core"  # what the native core includes is part of it
    return name if name in FLOORS else None


def violations(path: str, source: str) -> list[str]:
    """What this file imports and may not; `path` is relative to the repository."""
    me = owner(path)
    if me is None:
        return [f"{path}: has no floor: give it one in FLOORS, and in DESIGN.md"]
    python = path.endswith(".py")
    found = []
    for imported in (imports_of_python if python else imports_of_cython)(path, source):
        top = imported.target.split(".")[0]
        where = f"{path}:{imported.line}"
        if top in ("kafkafmt", "pyspark_kafkafmt"):
            target = home(imported.target)
            if target != me and FLOORS[target] >= FLOORS[me]:
                floors = f"floor {FLOORS[me]:g} may not import {target or 'the front'} of floor {FLOORS[target]:g}"
                found.append(f"{where}: {imported.target}: {floors}")
            elif path in WITHOUT_ARROW and target == "arrow" and not (imported.in_function or imported.for_types):
                found.append(f"{where}: arrow may be imported only inside a function here, since it needs pyarrow")
        elif (
            top in sys.stdlib_module_names or top in EVERYWHERE or imported.for_types or (not python and top in C_LEVEL)
        ):
            pass
        elif top not in ADDRESSES:
            found.append(f"{where}: {top} has no address: give it one in ADDRESSES, and in DESIGN.md")
        elif not path.startswith(ADDRESSES[top]):
            found.append(f"{where}: {top} may be imported only in {' and '.join(ADDRESSES[top])}")
    return found


def sources() -> list[str]:
    files = [
        p
        for top in ("kafkafmt", "pyspark_kafkafmt")
        for p in (ROOT / top).rglob("*")
        if p.suffix in (".py", ".pyx", ".pxi", ".pxd")
    ]
    return sorted(p.relative_to(ROOT).as_posix() for p in files)


@pytest.mark.parametrize("path", sources())
def test_imports_only_from_lower_floors(path):
    assert violations(path, (ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kafkafmt/errors.py", "from kafkafmt.types import Record"),
        ("kafkafmt/_pure/varint.py", "from kafkafmt._backend import core"),
        ("kafkafmt/_pure/varint.py", "from kafkafmt import _core"),
        ("kafkafmt/_pure/varint.py", "def f():\n    from .. import codecs"),
        ("kafkafmt/_core.pyx", "from kafkafmt._pure import varint"),
        ("kafkafmt/_corelib/batch.pxi", "    from kafkafmt.codecs import decompress"),
        ("kafkafmt/codecs.py", "import kafkafmt.records.read"),
        ("kafkafmt/log/reader.py", "from ..protocol import frames"),
        ("kafkafmt/protocol/frames.py", "import kafkafmt.log"),
        ("kafkafmt/log/reader.py", "import importlib\nimportlib.import_module('kafkafmt.arrow')"),
        ("kafkafmt/log/reader.py", "from kafkafmt import open"),
        ("kafkafmt/records/read.py", "if TYPE_CHECKING:\n    from kafkafmt.log import Segment"),
        ("kafkafmt/arrow.py", "from kafkafmt.spark import source"),
        ("kafkafmt/__init__.py", "from kafkafmt.arrow import to_table"),
        ("kafkafmt/__init__.py", "def f():\n    from kafkafmt import spark"),
        ("kafkafmt/view.py", "from . import arrow"),
        ("kafkafmt/view.py", "def f():\n    from kafkafmt.spark import source"),
        ("kafkafmt/view.py", "def f():\n    import pyarrow"),
        ("kafkafmt/arrow.py", "import kafkafmt"),
        ("kafkafmt/_pure/batch.py", "import crc32c"),
        ("kafkafmt/records/read.py", "from lz4 import frame"),
        ("kafkafmt/records/read.py", "import zstandard as z"),
        ("kafkafmt/log/reader.py", "def f():\n    import pyarrow as pa"),
        ("kafkafmt/arrow.py", "import pyspark.sql"),
        ("kafkafmt/spark/export.py", "from rich.progress import Progress"),
        ("kafkafmt/log/reader.py", "import fsspec"),
        ("kafkafmt/shed.py", ""),
    ],
)
def test_a_planted_violation_is_caught(path, source):
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kafkafmt/_pure/crc.py", "import crc32c\nfrom . import varint\nfrom ..errors import KafkaFormatError"),
        (
            "kafkafmt/_core.pyx",
            "from libc.stdint cimport int64_t\nfrom kafkafmt.errors import KafkaFormatError\nimport numpy as np",
        ),
        (
            "kafkafmt/_corelib/batch.pxi",
            'cdef extern from "_corelib/crc.h":\n    int crc()\n# from here on, import nothing',
        ),
        ("kafkafmt/_backend.py", "import os\nfrom kafkafmt import _core, _pure"),
        (
            "kafkafmt/log/__init__.py",
            "from .reader import Reader\nfrom kafkafmt.log import partition\nfrom kafkafmt.records import read",
        ),
        ("kafkafmt/log/reader.py", "if TYPE_CHECKING:\n    import pyarrow"),
        ("kafkafmt/__init__.py", "from .view import open_log\ndef f():\n    from . import arrow"),
        ("kafkafmt/view.py", "from .log import discover\ndef f():\n    from . import arrow"),
        ("kafkafmt/arrow.py", "import pyarrow as pa\nfrom .records import Chunk"),
        ("kafkafmt/spark/source.py", "import pyarrow as pa\nfrom pyspark.sql import Row\nfrom ..view import open_log"),
        ("kafkafmt/cli/export.py", "import click\nfrom kafkafmt.spark import export\nfrom kafkafmt import __version__"),
        ("pyspark_kafkafmt/__init__.py", "from kafkafmt.spark import DefaultSource"),
    ],
)
def test_what_is_allowed_passes(path, source):
    assert violations(path, source) == []
