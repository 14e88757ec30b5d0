"""Check the layers of the package: the modules that each module may import.

- A module imports only from layers below its own (`LAYERS`). Within `log/` and `spark/`, it imports
  only from folders below its own (`FOLDERS`). DESIGN.md describes both.
- From another folder of `log/`, a module imports only names of its `__init__.py`. No such folder has
  more than `MOST_MODULES` modules.
- There are no circular imports.
- Each third-party package except NumPy is imported only in the places that `THIRD_PARTY` lists.

The imports are read from the source, not executed. Therefore, imports inside functions and under
``TYPE_CHECKING`` also count. There are two exceptions:

- An import under ``TYPE_CHECKING`` may name any third-party package.
- The modules that ``import kafkafmt`` loads may import `arrow` only inside functions, because
  pyarrow is optional.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

FRONT = "kafkafmt/__init__.py"
WITHOUT_ARROW = (FRONT, "kafkafmt/view/")
LAYERS = {
    "errors": 0, "constants": 0, "support": 0, "_interrupt": 0,
    "support.arguments": 0.3, "support.paths": 0.2, "support.times": 0.2,
    "types": 0.5, "support.notebook": 0.5,
    "_core": 1, "_corelib": 1, "_pure": 1,
    "_backend": 2, "support.installation": 3.5,
    "codecs": 3, "messages": 3,
    "records": 4, "internal_topics": 4,
    "log": 5, "protocol": 5,
    "kraft": 5.5,
    "registry": 5.5,
    "arrow": 6,
    "values": 6.5,
    "view": 7,
    "typing": 7.4,
    "making": 7.2,
    "server": 7.3,
    "": 7.5,  # kafkafmt/__init__.py
    "spark": 8,
    "exporting": 8.2,
    "reports": 8.6,
    "cli": 9, "pyspark_kafkafmt": 9,
    "__main__": 9.5,
}  # fmt: skip
FOLDERS = {
    "log": (
        "formats", "findings", "storage", "catalog", "scanning", "damage", "transactions", "reading", "finding",
        "groups", "verifying", "writing", "repairing", "inspecting", "rewriting",
    ),
    "spark": ("sink", "source"),
}  # fmt: skip
"""The folders, from the lowest to the highest. Modules outside these folders are below all of them,
except `__init__` and `ABOVE`.
"""
MOST_MODULES = 17
"""Largest number of modules in a folder of `log/`, not counting its `__init__.py`."""
ABOVE = {
    "kafkafmt.spark.functions",
    "kafkafmt.spark.inputs",
    "kafkafmt.spark.reader",
    "kafkafmt.spark.value_functions",
}

LAZY = ("kafkafmt.exporting.", "kafkafmt.reports.", "kafkafmt.cli.output.")
"""The only modules of a higher layer that `kafkafmt/__init__.py` may import, inside functions and for types."""
EVERYWHERE = {"numpy"}
THIRD_PARTY = {
    "crc32c": ("kafkafmt/_pure/crc.py",),
    "compression": ("kafkafmt/codecs/stdlib_zstd.py",),
    "cramjam": (
        "kafkafmt/codecs/cramjam_lz4.py",
        "kafkafmt/codecs/cramjam_zstd.py",
        "kafkafmt/codecs/decompressor.py",
    ),
    "isal": ("kafkafmt/codecs/functions.py", "kafkafmt/codecs/packages.py"),
    "lz4": ("kafkafmt/codecs/packages.py",),
    "snappy": ("kafkafmt/codecs/compressor.py",),
    "zstandard": ("kafkafmt/codecs/packages.py",),
    "_zstd": ("kafkafmt/codecs/functions.py",),
    "pyarrow": (
        "kafkafmt/arrow/builder.py",
        "kafkafmt/arrow/columns.py",
        "kafkafmt/making/encoded_text.py",
        "kafkafmt/making/table_files.py",
        "kafkafmt/registry/registry.py",
        "kafkafmt/spark/",
        "kafkafmt/exporting/",
        "kafkafmt/values/",
    ),
    "pyspark": ("kafkafmt/spark/", "kafkafmt/exporting/spark_jobs.py", "pyspark_kafkafmt/"),
    "py4j": ("kafkafmt/spark/", "kafkafmt/exporting/spark_jobs.py"),
    "pandas": ("kafkafmt/spark/",),
    "polars": ("kafkafmt/view/",),
    "google": ("kafkafmt/values/protobuf/parsing.py",),
    "datasketches": ("kafkafmt/log/inspecting/key_counts.py",),
    "dpkt": ("kafkafmt/protocol/packets.py",),
    "matplotlib": ("kafkafmt/log/inspecting/stats_plot.py",),
    "plotly": ("kafkafmt/log/inspecting/stats_plot.py",),
    "obstore": ("kafkafmt/log/storage/object_store.py",),
    "fsspec": ("kafkafmt/log/storage/stores.py",),
    "click": ("kafkafmt/cli/",),
    "rich": ("kafkafmt/cli/",),
}
C_LEVEL = {"cython", "cpython", "libc"}

TYPES_ONLY = "kafkafmt/protocol/_classes.pyi"
"""A stub file without a module. It is imported only under TYPE_CHECKING."""


class Import(NamedTuple):
    line: int
    target: str
    """Absolute name with dots. For `from a import b`, the name is `a.b`, even if `b` is not a module."""
    in_function: bool = False
    for_types: bool = False


@cache
def imports_of_python(path: str, source: str) -> list[Import]:
    package = Path(path).with_suffix("").parts[:-1]

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        def found(target: str) -> Import:
            return Import(getattr(node, "lineno", 0), target, in_function, for_types)

        match node:
            case ast.Import(names):
                yield from (found(alias.name) for alias in names)
            case ast.ImportFrom(module, names, level):
                parents = package[: len(package) + 1 - level] if level else ()
                base = [*parents, *([module] if module else [])]
                yield from (found(".".join([*base, alias.name])) for alias in names)
            case ast.Call(
                ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                [ast.Constant(str(name)), *_],
            ):
                yield found(name if not name.startswith(".") else ".".join([*package, name.lstrip(".")]))
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for statement in node.body:
                yield from walk(statement, in_function, True)
            for statement in node.orelse:
                yield from walk(statement, in_function, for_types)
        else:
            for child in ast.iter_child_nodes(node):
                yield from walk(child, in_function, for_types)

    return list(walk(ast.parse(source, path), False, False))


def imports_of_cython(path: str, source: str) -> Iterator[Import]:
    for number, line in enumerate(source.splitlines(), 1):
        if found := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(\w+)?", line):
            package = "kafkafmt" if found[1].startswith(".") else ""
            yield Import(number, ".".join(filter(None, [package, found[1].strip("."), found[2]])))
        elif found := re.match(r"\s*c?import\s+([\w.]+)", line):
            yield Import(number, found[1])


def layer_of_import(target: str) -> str:
    """Return the key in `LAYERS` for an imported name, such as `log` for `kafkafmt.log.x`."""
    first, *rest = target.split(".")
    if first != "kafkafmt":
        return first
    name = ".".join(rest[:2])
    if name in LAYERS:
        return name
    return rest[0] if rest and rest[0] in LAYERS else ""  # any other name is a public name


def layer_of_file(path: str) -> str | None:
    """Return the key in `LAYERS` for a source file, or None."""
    if path == FRONT:
        return ""
    first, *rest = Path(path).parts
    name = Path(rest[0]).name.split(".")[0] if first == "kafkafmt" else first
    if len(rest) > 1 and f"{rest[0]}.{rest[1].removesuffix('.py')}" in LAYERS:
        return f"{rest[0]}.{rest[1].removesuffix('.py')}"
    if name == "_corelib":
        name = "_core"  # _core.pyx includes these files
    return name if name in LAYERS else None


def folder_rank(dotted: str) -> tuple[str, int] | None:
    """Return the top folder of a module and the rank of its folder there, or None if it has no rank."""
    first, *rest = dotted.split(".")
    if first != "kafkafmt" or len(rest) < 2 or rest[0] not in FOLDERS or dotted in ABOVE:
        return None
    folders = FOLDERS[rest[0]]
    return rest[0], folders.index(rest[1]) + 1 if rest[1] in folders else 0


def module_name(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def passes_door(path: str, target: str) -> bool:
    """Return whether an import names a module of another folder of `log/`, instead of a name that the folder exports."""
    parts = target.split(".")
    if parts[:2] != ["kafkafmt", "log"] or len(parts) < 4 or parts[2] not in FOLDERS["log"]:
        return False
    if Path(path).parent == Path(*parts[:3]):
        return False
    return len(parts) > 4 or (ROOT / Path(*parts[:4])).with_suffix(".py").exists()


def violations(path: str, source: str) -> list[str]:
    """Return the forbidden imports of a file, whose path is relative to the repository."""
    me = layer_of_file(path)
    if me is None:
        return [f"{path}: add it to LAYERS, and to DESIGN.md"]
    python = path.endswith(".py")
    my_rank = folder_rank(module_name(path))
    found = []
    for imported in (imports_of_python if python else imports_of_cython)(path, source):
        top = imported.target.split(".")[0]
        where = f"{path}:{imported.line}"
        if top in ("kafkafmt", "pyspark_kafkafmt"):
            if (
                path == FRONT
                and f"{imported.target}.".startswith(LAZY)
                and (imported.in_function or imported.for_types)
            ):
                continue
            target = layer_of_import(imported.target)
            rank = folder_rank(imported.target)
            if target != me and LAYERS[target] >= LAYERS[me]:
                layers = f"layer {LAYERS[me]:g} may not import {target or FRONT} of layer {LAYERS[target]:g}"
                found.append(f"{where}: {imported.target}: {layers}")
            elif my_rank and rank and my_rank[0] == rank[0] and rank[1] > my_rank[1]:
                found.append(f"{where}: {imported.target}: is in a folder above")
            elif passes_door(path, imported.target):
                found.append(f"{where}: {imported.target}: import a name from the folder")
            elif (
                path.startswith(WITHOUT_ARROW)
                and target.partition(".")[0] == "arrow"
                and not (imported.in_function or imported.for_types)
            ):
                found.append(f"{where}: import arrow inside a function here, because pyarrow is optional")
        elif (
            top in sys.stdlib_module_names or top in EVERYWHERE or imported.for_types or (not python and top in C_LEVEL)
        ):
            pass
        elif top not in THIRD_PARTY:
            found.append(f"{where}: add {top} to THIRD_PARTY, and to DESIGN.md")
        elif not path.startswith(THIRD_PARTY[top]):
            found.append(f"{where}: {top} may be imported only in {' and '.join(THIRD_PARTY[top])}")
    return found


def sources() -> list[str]:
    suffixes = (".py", ".pyx", ".pxi", ".pxd")
    files = [p for top in ("kafkafmt", "pyspark_kafkafmt") for p in (ROOT / top).rglob("*") if p.suffix in suffixes]
    return sorted(p.relative_to(ROOT).as_posix() for p in files)


def import_graph() -> dict[str, set[str]]:
    """Return the modules that each Python module imports. `kafkafmt` itself is left out."""
    paths = {module_name(path): path for path in [*sources(), TYPES_ONLY] if path.endswith((".py", ".pyi"))}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        graph[name] = set()
        for imported in imports_of_python(path, (ROOT / path).read_text(encoding="utf-8")):
            target = imported.target
            while target and target not in paths:
                target = target.rpartition(".")[0]
            if target not in ("", "kafkafmt", name):
                graph[name].add(target)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one node, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in number:
            visit(node)
    return found


def test_modules_import_only_from_lower_layers() -> None:
    assert [line for path in sources() for line in violations(path, (ROOT / path).read_text(encoding="utf-8"))] == []


def test_folders_of_log_are_small() -> None:
    counts = {folder: len(list((ROOT / "kafkafmt/log" / folder).glob("*.py"))) - 1 for folder in FOLDERS["log"]}
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(import_graph()) == []


def test_circles_finds_a_circle() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert circles(graph) == [["b", "c"]]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("kafkafmt/errors.py", "from kafkafmt.types import Record"),
        ("kafkafmt/_pure/varint.py", "from kafkafmt._backend import core"),
        ("kafkafmt/_pure/varint.py", "from kafkafmt import _core"),
        ("kafkafmt/_pure/varint.py", "def f():\n    from .. import codecs"),
        ("kafkafmt/_core.pyx", "from kafkafmt._pure import varint"),
        ("kafkafmt/_corelib/batch.pxi", "    from kafkafmt.codecs.decompressor import decompress"),
        ("kafkafmt/codecs/decompressor.py", "import kafkafmt.records.read"),
        ("kafkafmt/log/reader.py", "from ..protocol import frames"),
        ("kafkafmt/protocol/frames.py", "import kafkafmt.log"),
        ("kafkafmt/log/reader.py", "import importlib\nimportlib.import_module('kafkafmt.arrow.builder')"),
        ("kafkafmt/log/reader.py", "from kafkafmt import open"),
        ("kafkafmt/log/storage/files.py", "from ..reading.plan import Damage"),
        ("kafkafmt/log/damage/plan.py", "def f():\n    from ..verifying import verify"),
        ("kafkafmt/log/helper.py", "from .formats import HIGH_WATERMARKS"),
        ("kafkafmt/spark/sink/sink.py", "from ..source.options import Key"),
        ("kafkafmt/records/read.py", "if TYPE_CHECKING:\n    from kafkafmt.log import Segment"),
        ("kafkafmt/arrow/builder.py", "from kafkafmt.spark import source"),
        ("kafkafmt/__init__.py", "from kafkafmt.arrow.builder import to_table"),
        ("kafkafmt/__init__.py", "def f():\n    from kafkafmt import spark"),
        ("kafkafmt/__init__.py", "from .exporting import export"),
        ("kafkafmt/view/log.py", "from .. import arrow"),
        ("kafkafmt/view/log.py", "def f():\n    from kafkafmt.spark import source"),
        ("kafkafmt/view/log.py", "def f():\n    import pyarrow"),
        ("kafkafmt/arrow/builder.py", "import kafkafmt"),
        ("kafkafmt/_pure/batch.py", "import crc32c"),
        ("kafkafmt/records/read.py", "from lz4 import frame"),
        ("kafkafmt/records/read.py", "import zstandard as z"),
        ("kafkafmt/log/reader.py", "def f():\n    import pyarrow as pa"),
        ("kafkafmt/arrow/builder.py", "import pyspark.sql"),
        ("kafkafmt/exporting/job.py", "from rich.progress import Progress"),
        ("kafkafmt/log/reader.py", "import fsspec"),
        ("kafkafmt/view/log.py", "from ..log.storage.file_view import FileView"),
        ("kafkafmt/log/verifying/audit.py", "from ..storage import file_view"),
        ("kafkafmt/shed.py", ""),
    ],
)
def test_violations_reports_a_planted_import(path: str, source: str) -> None:
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
        ("kafkafmt/log/__init__.py", "from .reading import PartitionLog\nfrom kafkafmt.records import read"),
        (
            "kafkafmt/log/verifying/verify_api.py",
            "from ..reading import PartitionLog\nfrom ..storage import FileView\nfrom .audit import f",
        ),
        ("kafkafmt/log/reader.py", "if TYPE_CHECKING:\n    import pyarrow"),
        ("kafkafmt/__init__.py", "from .view import open_log\ndef f():\n    from . import arrow"),
        ("kafkafmt/__init__.py", "def f():\n    import_module('kafkafmt.exporting')"),
        ("kafkafmt/view/log.py", "from ..log import discover\ndef f():\n    from .. import arrow"),
        ("kafkafmt/arrow/builder.py", "import pyarrow as pa\nfrom ..records import Chunk"),
        ("kafkafmt/spark/source.py", "import pyarrow as pa\nfrom pyspark.sql import Row\nfrom ..view import open_log"),
        ("kafkafmt/spark/functions.py", "from .source.reading import say"),
        ("kafkafmt/cli/export.py", "import click\nfrom kafkafmt.spark import export\nfrom kafkafmt import __version__"),
        ("pyspark_kafkafmt/__init__.py", "from kafkafmt.spark import DefaultSource"),
    ],
)
def test_violations_accepts_an_allowed_import(path: str, source: str) -> None:
    assert violations(path, source) == []
